//! The first bytes of a connection say what is spoken on it, and whoever drips them holds a place no longer than who drips a
//! head.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::time::{Duration, Instant};

use crate::support::{Conn, Dir, Gateway, Start, Upstream, within};

fn limited(dir: &Dir, upstream: &Upstream, limit: &str) -> Gateway {
    Start::at(dir).upstream(upstream.address).file(&format!("[limits]\nhead_timeout = \"{limit}\"\n")).go()
}

/// Each byte came in time for the next, and the whole took as long as its sender liked.
#[test]
fn a_dripped_preface_is_cut_off() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "500ms");
    let mut slow = Conn::to(gateway.address);
    let cut = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(1).any(|byte| {
        std::thread::sleep(Duration::from_millis(150));
        slow.try_send(byte).is_err()
    });
    assert!(cut, "it was let come to its end");
}

/// A head that begins as HTTP/2 does has no time of its own for that beginning.
#[test]
fn the_time_of_a_head_runs_from_its_first_byte() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = limited(&dir, &upstream, "4s");
    let start = Instant::now();
    let mut slow = Conn::to(gateway.address);
    slow.send("P");
    std::thread::sleep(Duration::from_millis(3_500));
    let _ = slow.try_send(b"OST / HTTP/1.1\r\nHost: a\r\n");
    within(Duration::from_secs(20), "the head to be cut", || {
        std::thread::sleep(Duration::from_millis(50));
        slow.try_send(b"X: y\r\n").is_err()
    });
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    assert_eq!(upstream.count(), 0);
}
