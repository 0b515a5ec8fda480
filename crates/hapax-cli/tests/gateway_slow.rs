//! Whoever only holds a place loses it, and nobody else waits for that.
//!
//! Each test is strict in the one limit that it is about; all others are as they come, far beyond what a slow machine
//! takes.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::Read as _,
    sync::{Mutex, mpsc},
    time::{Duration, Instant},
};

use crate::support::{
    Conn, Dir, Gateway, Reply, Start, Upstream,
    http2::{self, HEADERS, Http2, RST_STREAM, ask, frame},
    post, request, until, within,
};

fn limited(dir: &Dir, upstream: &Upstream, limits: &str) -> Gateway {
    Start::at(dir).upstream(upstream.address).file(&format!("[limits]\n{limits}\n")).go()
}

#[test]
fn slow_heads_are_cut_off_however_they_drip() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "head_timeout = \"500ms\"");
    let mut silent = Conn::to(gateway.address);
    silent.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let mut dripping = Conn::to(gateway.address);
    dripping.send("GET / HTTP/1.1\r\nHost: a\r\n");
    within(Duration::from_secs(20), "the dripping head to be cut", || {
        std::thread::sleep(Duration::from_millis(50));
        dripping.try_send(b"X: y\r\n").is_err()
    });
    assert!(silent.closed_within(Duration::from_secs(20)));
    assert_eq!(upstream.count(), 0);
}

/// A connection on which nothing was ever sent, and one that was used and then lay idle.
#[test]
fn idle_connections_are_closed() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "idle_timeout = \"1s\"");
    assert!(Conn::to(gateway.address).closed_within(Duration::from_secs(20)));
    until("a request that comes before its connection is closed", || {
        let mut used = Conn::to(gateway.address);
        let sent = used.try_send(request("GET", "/", &[], "").as_bytes()).is_ok();
        sent && used.try_answer(false).is_ok() && used.closed_within(Duration::from_secs(20))
    });
}

/// A client that waits for a slow upstream is not idle. Another, which only waits, is: when that one was cut off, the first
/// has waited longer than anybody may idle.
#[test]
fn waiting_for_an_answer_is_not_idling() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::new(move |_, _, _| {
        let _ = wait.lock().unwrap().recv();
        Reply::json(200, "{}")
    });
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "idle_timeout = \"1s\"");
    for (at, headers) in [vec![("Idempotency-Key", "k1")], vec![]].into_iter().enumerate() {
        let mut conn = Conn::to(gateway.address);
        // Were it too late for its own connection, it would come again; the upstream counts those that got through.
        until("the upstream to be asked", || {
            if upstream.count() > at {
                return true;
            }
            if conn.try_send(request("POST", "/pay", &headers, "{}").as_bytes()).is_err() {
                conn = Conn::to(gateway.address);
            }
            let start = Instant::now();
            while upstream.count() == at && start.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(5));
            }
            upstream.count() > at
        });
        assert!(Conn::to(gateway.address).closed_within(Duration::from_secs(20)));
        go.send(()).unwrap();
        assert_eq!(conn.answer().status, 200);
    }
}

const UPLOAD: &str =
    "Host: a\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n";

/// One that falls silent, and one that is always in time for the next piece and never done.
#[test]
fn slow_bodies_are_cut_off_and_leave_the_key_free() {
    for (limit, drips) in [("body_pause = \"500ms\"", false), ("body_timeout = \"1s\"", true)] {
        let upstream = Upstream::counting();
        let dir = Dir::new();
        let gateway = limited(&dir, &upstream, limit);
        let mut slow = Conn::to(gateway.address);
        slow.send(format!("POST /pay HTTP/1.1\r\nIdempotency-Key: k1\r\n{UPLOAD}\r\n{{"));
        if drips {
            drip(&mut slow);
        }
        assert!(slow.closed_within(Duration::from_secs(20)), "{limit}");
        assert_eq!(upstream.count(), 0);
        assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    }
}

fn drip(conn: &mut Conn) {
    within(Duration::from_secs(20), "the dripping body to be cut", || {
        std::thread::sleep(Duration::from_millis(50));
        conn.try_send(b" ").is_err()
    });
}

/// An upload without a key is passed on as it comes. One that drips holds a connection to the upstream as well, and is not
/// let do so for ever.
#[test]
fn dripping_uploads_are_cut_off_though_nobody_reads_them_first() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "body_timeout = \"1s\"");
    let mut slow = Conn::to(gateway.address);
    slow.send(format!("POST /upload HTTP/1.1\r\n{UPLOAD}\r\n{{"));
    drip(&mut slow);
    // The same over HTTP/2, by a client that is alive and answers every ping.
    let mut slow = Http2::to(gateway.address, &[]);
    slow.send(&frame(HEADERS, 4, 1, &ask("POST", "/upload", &[]))).unwrap();
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < Duration::from_secs(20), "it goes on");
        if slow.send(&frame(0, 0, 1, b" ")).is_err() {
            break;
        }
        match slow.next() {
            Ok(Some(frame)) if frame.kind == RST_STREAM || frame.kind == HEADERS => break,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert_eq!(upstream.count(), 0, "none of it came to its end");
}

/// A reader that takes nothing of a large answer: its connection ends, and with it what it held.
#[test]
fn slow_readers_are_cut_off() {
    let upstream = Upstream::new(|_, _, _| Reply::with(200, &[], &"x".repeat(32 << 20)));
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "reader_timeout = \"500ms\"");
    let mut conn = Conn::to(gateway.address);
    conn.send(request("GET", "/large", &[], ""));
    // Nothing is read. That the connection was cut shows when nothing can be sent on it either.
    until("the reader to be cut off", || {
        std::thread::sleep(Duration::from_millis(50));
        conn.try_send(b"x").is_err()
    });
    // Over HTTP/2 a reader does so by opening no window, and answers pings all the while.
    let mut conn = Http2::to(gateway.address, &[(4, 0)]);
    conn.send(&frame(HEADERS, 5, 1, &ask("GET", "/large", &[]))).unwrap();
    assert_eq!(conn.until("the reader to be cut off", |_| false), None);
    // With a window for a little: as much as fits is sent, and then it is cut off just so.
    let mut conn = Http2::to(gateway.address, &[(4, 20_000)]);
    conn.send(&frame(HEADERS, 5, 1, &ask("GET", "/large", &[]))).unwrap();
    assert_eq!(conn.until("the reader to be cut off", |_| false), None);
}

/// A reader that takes its time, but takes, gets all of it, in several times the time that a stalled one has.
#[test]
fn leisurely_readers_get_all_of_it() {
    const LENGTH: usize = 24 << 20;
    let upstream = Upstream::new(|_, _, _| Reply::with(200, &[], &"x".repeat(LENGTH)));
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "reader_timeout = \"4s\"");
    let mut conn = Conn::to(gateway.address);
    conn.send(request("GET", "/large", &[], ""));
    let mut stream = conn.stream().try_clone().unwrap();
    let (mut count, mut piece) = (0, vec![0; 256 << 10]);
    while count < LENGTH {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0);
        count += read;
        std::thread::sleep(Duration::from_millis(70));
    }
}

#[test]
fn one_address_gets_its_share_of_connections_and_no_more() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "connections_per_peer = 3");
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
    let gateway = limited(&dir, &upstream, "connections = 2");
    let mut held: Vec<Conn> = (0..2).map(|_| Conn::to(gateway.address)).collect();
    for conn in &mut held {
        assert_eq!(conn.send(request("GET", "/", &[], "")).answer().status, 201);
    }
    let mut third = Conn::to(gateway.address);
    third.send(request("GET", "/", &[], ""));
    third.stream().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(third.try_answer(false).is_err(), "it waits");
    third.stream().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    drop(held);
    assert_eq!(third.answer().status, 201);
}

/// One answer of a megabyte, asked for again on many streams by somebody who takes nothing of it: what waits is bounded, the others are
/// told to come again, whoever reads is served meanwhile, and the room is given back with the connection.
#[test]
fn answers_that_nobody_takes_are_bounded_over_http2() {
    const STREAMS: u32 = 100;
    let upstream = Upstream::new(|_, _, _| Reply::json(200, &format!("\"{}\"", "z".repeat(1_000_000))));
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "buffered_bytes = \"8MiB\"");
    let ask_all = |window: u32, streams: u32| {
        let mut conn = Http2::to(gateway.address, &[(4, window)]);
        for number in 0..streams {
            conn.send(&http2::keyed(number * 2 + 1, "/pay", "k1")).unwrap();
        }
        let mut heads = Vec::new();
        while heads.len() < streams as usize {
            heads.push(conn.until("a head", |frame| frame.kind == HEADERS).expect("every stream is answered").payload);
        }
        // The first byte of a head names its status: 8 is 200.
        let given = heads.iter().filter(|head| head.first() == Some(&0x88)).count();
        (conn, given)
    };
    assert_eq!(ask_all(1 << 30, 1).1, 1);
    let (conn, given) = ask_all(0, STREAMS);
    assert!((1..=8).contains(&given), "{given} answers of a megabyte wait in eight");
    let headers = [("Idempotency-Key", "k1"), ("Authorization", "Bearer one")];
    let answer = Conn::to(gateway.address).send(request("POST", "/pay", &headers, "")).answer();
    assert!(answer.is_replay() && answer.text().len() > 1_000_000, "whoever reads is served");
    drop(conn);
    until("the room to be given back", || ask_all(1 << 30, 1).1 == 1);
    assert_eq!(upstream.count(), 1);
}
