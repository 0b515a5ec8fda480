//! Whoever only holds a place loses it, and nobody else waits for that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

mod support;

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use support::{Conn, Dir, Gateway, Reply, Start, Upstream, get, post, request, until, within};

const LIMITS: &str = "[limits]\nhead_timeout = \"500ms\"\nbody_pause = \"500ms\"\nbody_timeout = \"1500ms\"\n\
                      idle_timeout = \"700ms\"\nreader_timeout = \"500ms\"\n";

fn strict(dir: &Dir, upstream: &Upstream, more: &str) -> Gateway {
    Start::at(dir).upstream(upstream.address).file(&format!("{LIMITS}{more}")).go()
}

#[test]
fn slow_heads_are_cut_off_however_they_drip() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "");
    let mut silent = Conn::to(gateway.address);
    silent.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let mut dripping = Conn::to(gateway.address);
    dripping.send("GET / HTTP/1.1\r\nHost: a\r\n");
    within(Duration::from_secs(10), "the dripping head to be cut", || {
        std::thread::sleep(Duration::from_millis(50));
        dripping.try_send(b"X: y\r\n").is_err()
    });
    assert!(silent.closed_within(Duration::from_secs(10)));
    // A connection on which nothing was ever sent, and one that was used and then lay idle.
    let mut mute = Conn::to(gateway.address);
    let mut used = Conn::to(gateway.address);
    assert_eq!(used.send(request("GET", "/", &[], "")).answer().status, 201);
    assert!(mute.closed_within(Duration::from_secs(10)));
    assert!(used.closed_within(Duration::from_secs(10)));
}

/// A client that waits for a slow upstream is not idle.
#[test]
fn waiting_for_an_answer_is_not_idling() {
    let upstream = Upstream::new(|_, _, _| {
        std::thread::sleep(Duration::from_millis(2_000));
        Reply::json(200, "{}")
    });
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "");
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 200);
    assert_eq!(get(gateway.address, "/").status, 200);
}

#[test]
fn slow_bodies_are_cut_off_and_leave_the_key_free() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "");
    let head = "POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nAuthorization: Bearer one\r\n\
                Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    let mut silent = Conn::to(gateway.address);
    silent.send(head).send("{");
    assert!(silent.closed_within(Duration::from_secs(10)));
    let mut dripping = Conn::to(gateway.address);
    dripping.send(head);
    // Always in time for the next piece, and never done.
    within(Duration::from_secs(10), "the dripping body to be cut", || {
        std::thread::sleep(Duration::from_millis(100));
        dripping.try_send(b" ").is_err()
    });
    assert_eq!(upstream.count(), 0);
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
}

/// A reader that takes nothing of a large answer: its connection ends, and with it what it held.
#[test]
fn slow_readers_are_cut_off() {
    let upstream = Upstream::new(|_, _, _| Reply::with(200, &[], &"x".repeat(32 << 20)));
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "");
    let mut conn = Conn::to(gateway.address);
    conn.send(request("GET", "/large", &[], ""));
    // The system takes some megabytes on its own; then nobody takes anything.
    std::thread::sleep(Duration::from_millis(2_500));
    let mut all = Vec::new();
    let read = conn.stream().try_clone().unwrap().read_to_end(&mut all);
    assert!(read.is_err() || all.len() < 32 << 20, "the whole answer came: {}", all.len());
    // A reader that takes its time, but takes, gets all of it.
    let mut conn = Conn::to(gateway.address);
    conn.send(request("GET", "/large", &[], ""));
    let mut stream = conn.stream().try_clone().unwrap();
    let (mut count, mut piece) = (0, vec![0; 1 << 20]);
    while count < 32 << 20 {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0);
        count += read;
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_address_gets_its_share_of_connections_and_no_more() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "connections_per_peer = 3\n");
    let mut held: Vec<Conn> = (0..3).map(|_| Conn::to(gateway.address)).collect();
    for conn in &mut held {
        assert_eq!(conn.send(request("GET", "/", &[], "")).answer().status, 201);
    }
    let mut fourth = Conn::to(gateway.address);
    let _ = fourth.try_send(request("GET", "/", &[], "").as_bytes());
    assert!(fourth.try_answer(false).is_err());
    drop(held);
    until("a place to be free", || {
        let mut conn = Conn::to(gateway.address);
        conn.try_send(request("GET", "/", &[], "").as_bytes()).is_ok() && conn.try_answer(false).is_ok()
    });
}

/// Connections beyond the limit wait in line and are served when one ends.
#[test]
fn connections_beyond_the_limit_wait_in_line() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "connections = 2\n");
    let mut held: Vec<Conn> = (0..2).map(|_| Conn::to(gateway.address)).collect();
    for conn in &mut held {
        assert_eq!(conn.send(request("GET", "/", &[], "")).answer().status, 201);
    }
    let mut third = Conn::to(gateway.address);
    third.send(request("GET", "/", &[], ""));
    // The held ones idle, are cut off, and make room.
    assert_eq!(third.answer().status, 201);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Rapid reset (CVE-2023-44487): streams are opened and reset as fast as the wire takes them. The connection ends, and
/// others are served meanwhile.
#[test]
fn rapid_reset_starves_nobody() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = strict(&dir, &upstream, "");
    let address = gateway.address;
    let attackers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let conn = Conn::to(address);
                let mut stream = conn.stream().try_clone().unwrap();
                let mut sent = 0_u32;
                let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                let _ = stream.write_all(&frame(4, 0, 0, &[]));
                // :method GET, :scheme http, :path /, :authority a
                let head = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
                for number in 0..200_000_u32 {
                    let id = number * 2 + 1;
                    let both = [frame(1, 5, id, &head), frame(3, 0, id, &8_u32.to_be_bytes())].concat();
                    if stream.write_all(&both).is_err() {
                        return (sent, true);
                    }
                    sent += 1;
                }
                (sent, false)
            })
        })
        .collect();
    for round in 0..30 {
        let start = std::time::Instant::now();
        assert_eq!(post(address, "/pay", &format!("k{round}"), "{}").status, 201);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    for attacker in attackers {
        let (sent, cut) = attacker.join().unwrap();
        assert!(cut, "an attacker was let go on for {sent} streams");
    }
    // Hardly any of it became work for the upstream.
    assert!(upstream.count() < 2_000, "{}", upstream.count());
}
