//! Rapid reset (CVE-2023-44487): streams are opened and reset as fast as the wire takes them.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::support::{
    Conn, Dir, Start, Upstream,
    http2::{self, END_HEADERS, END_STREAM, HEADERS, Http2, RST_STREAM, ask, frame},
    post, request, until,
};

/// What one connection may send at the very most before it is cut off; mostly it is what its buffers take.
const MOST: u32 = 200_000;

/// Opens streams and resets each at once, until the connection is cut off.
fn flood(address: SocketAddr, opened: impl Fn(u32) -> Vec<u8>) {
    let mut conn = Http2::to(address, &[]);
    for number in 0..MOST {
        let stream = number * 2 + 1;
        let both = [opened(stream), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat();
        if conn.send(&both).is_err() {
            return;
        }
    }
    panic!("it was let go on for {MOST} streams");
}

/// The same by somebody who knows where the bound is: a few at a time, reset when the first of them was answered, so that some
/// of them are under way.
fn flood_patiently(address: SocketAddr, opened: impl Fn(u32) -> Vec<u8>) {
    let mut conn = Http2::to(address, &[]);
    for first in (1..800_u32).step_by(16) {
        let streams = || (first..first + 16).step_by(2);
        let all: Vec<u8> = streams().flat_map(&opened).collect();
        let sent = conn.send(&all);
        if sent.is_err() || conn.until("an answer", |frame| frame.kind == HEADERS && frame.stream >= first).is_none() {
            return;
        }
        let resets: Vec<u8> = streams().flat_map(|stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())).collect();
        if conn.send(&resets).is_err() {
            return;
        }
    }
}

/// The connection ends, and others are served meanwhile.
#[test]
fn rapid_reset_starves_nobody() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let address = gateway.address;
    let attackers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let head = ask("GET", "/", &[]);
                flood(address, |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &head));
            })
        })
        .collect();
    for round in 0..30 {
        assert_eq!(post(address, "/pay", &format!("k{round}"), "{}").status, 201);
    }
    for attacker in attackers {
        attacker.join().unwrap();
    }
    // Hardly any of it became work for the upstream.
    assert!(upstream.count() < 2_000, "{}", upstream.count());
}

/// What is reset is a payment with a key, each under a key of its own or all under one. Whatever was begun goes on without
/// its client, so this is the way to make work that costs its sender nothing. It is bounded, others are served as ever, and
/// whoever comes back for one of these payments gets it once.
#[test]
fn rapid_reset_of_payments_starves_nobody_and_runs_none_twice() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let address = gateway.address;
    for round in 0..50 {
        assert_eq!(paid(address, &format!("warm-{round}"), "Bearer two"), 201);
    }
    let before = gateway.memory_kib();
    let attackers: Vec<_> = (0..4)
        .map(|attacker| {
            std::thread::spawn(move || {
                for round in 0..5 {
                    let pay = |stream| match attacker {
                        0 => http2::keyed(stream, "/pay", "same"),
                        _ => http2::keyed(stream, "/pay", &format!("{attacker}-{round}-{stream}")),
                    };
                    if round % 2 == 0 { flood(address, pay) } else { flood_patiently(address, pay) }
                }
            })
        })
        .collect();
    let mut served = 0;
    while served < 50 || !attackers.iter().all(std::thread::JoinHandle::is_finished) {
        let start = Instant::now();
        assert_eq!(paid(address, &format!("other-{served}"), "Bearer two"), 201);
        // It takes milliseconds; on a machine that others use too, more.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        served += 1;
    }
    for attacker in attackers {
        attacker.join().unwrap();
    }
    let after = gateway.memory_kib();
    assert!(after < before + 64 * 1024, "from {before} to {after} KiB");
    // Some were under way when they were reset, and not all of what was thrown at us.
    let begun: BTreeSet<String> = calls(&upstream).into_keys().collect();
    assert!((1..3_000).contains(&begun.len()), "{} were run", begun.len());
    // They come back for what they began, for what was refused, and for the one that all of them asked for.
    let back = begun.into_iter().take(100).chain(["same".to_owned(), "1-0-1".to_owned(), "2-4-399999".to_owned()]);
    for key in back {
        until("the payment to be answered", || paid(address, &key, "Bearer one") == 201);
        assert_eq!(calls(&upstream)[&key], 1, "{key}");
    }
    let twice: Vec<_> = calls(&upstream).into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// As the attackers ask, on a connection of its own: the status.
fn paid(address: SocketAddr, key: &str, credential: &str) -> u16 {
    let headers = [("Idempotency-Key", key), ("Authorization", credential)];
    Conn::to(address).send(request("POST", "/pay", &headers, "")).answer().status
}

/// How often the upstream was asked under each key of the attackers.
fn calls(upstream: &Upstream) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for asked in upstream.asked().iter().filter(|asked| asked.header("authorization") == Some("Bearer one")) {
        *calls.entry(asked.header("idempotency-key").unwrap().to_owned()).or_default() += 1;
    }
    calls
}
