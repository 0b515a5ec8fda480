//! A flood of keys from one tenant: what is kept of it is bounded, and others do not notice.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    ops::Range,
    time::{Duration, Instant},
};

use crate::support::{Conn, Dir, Reply, Start, Upstream, post, request};

/// As many keys as there may be of one tenant, here.
const SHARE: usize = 200;

/// How often each status was answered.
type Statuses = BTreeMap<u16, usize>;

/// Sends requests with keys that nobody has used, on one connection, and counts the answers by status.
fn flood(address: SocketAddr, path: &str, keys: Range<usize>) -> Statuses {
    let mut statuses = Statuses::new();
    let mut conn = Conn::to(address);
    for number in keys {
        let key = format!("{path}-{number}");
        let headers = [("Idempotency-Key", key.as_str()), ("Authorization", "Bearer flood")];
        let answer = conn.send(request("POST", path, &headers, "{}")).answer();
        *statuses.entry(answer.status).or_default() += 1;
    }
    statuses
}

/// The same on several connections, while a stranger goes about its business and finds room whenever it comes.
fn flood_beside_a_stranger(address: SocketAddr, path: &str, keys: Range<usize>) -> Statuses {
    const CONNECTIONS: usize = 4;
    let each = keys.len() / CONNECTIONS;
    std::thread::scope(|scope| {
        let flooding: Vec<_> = (0..CONNECTIONS)
            .map(|at| scope.spawn(move || flood(address, path, keys.start + at * each..keys.start + (at + 1) * each)))
            .collect();
        for number in 0.. {
            // As many keys as its own share has room for, and then the same again.
            let (key, start) = (format!("stranger-{}", number % (SHARE / 2)), Instant::now());
            let answer = post(address, "/pay", &key, "{}");
            assert_eq!(answer.status, 201, "{path}: {}", answer.text());
            assert!(start.elapsed() < Duration::from_secs(10), "{path}: {:?}", start.elapsed());
            if flooding.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        let mut statuses = Statuses::new();
        for (status, count) in flooding.into_iter().flat_map(|flooding| flooding.join().unwrap()) {
            *statuses.entry(status).or_default() += count;
        }
        statuses
    })
}

/// Distinct keys, and keys that the upstream answers with 503 and that stay open: neither takes more than the tenant's
/// share, in records and in memory, and another tenant finds room all the while. Where the oldest answers make room, those of
/// the flood do; what is open is nobody's to evict.
#[test]
fn a_flood_of_keys_takes_its_tenants_share_and_no_more() {
    let upstream = Upstream::new(|asked, _, _| match asked.path.as_str() {
        "/busy" => Reply::json(503, "{}"),
        _ => Reply::json(201, &format!("\"{}\"", "x".repeat(8 << 10))),
    });
    // Each evicted answer leaves a word that it was given; ten times as many of these may be as there are records.
    for (path, on_full, share) in [
        ("/pay", "reject_new", SHARE),
        ("/busy", "reject_new", SHARE),
        ("/pay", "evict_oldest_final", SHARE * 11),
        ("/busy", "evict_oldest_final", SHARE),
    ] {
        let dir = Dir::new();
        let room = SHARE * 10;
        let file = format!(
            "[default]\ncapacity = {{ max_records = {room}, per_tenant = {SHARE}, on_full = \"{on_full}\" }}\n"
        );
        let gateway = Start::at(&dir).file(&file).upstream(upstream.address).go();
        let first = flood(gateway.address, path, 0..SHARE * 5);
        let before = gateway.memory_kib();
        let then = flood_beside_a_stranger(gateway.address, path, SHARE * 5..SHARE * 25);
        let after = gateway.memory_kib();
        let refused = [&first, &then].map(|statuses| statuses.get(&429).copied().unwrap_or(0)).iter().sum::<usize>();
        // Shares are counted with some slack.
        let taken = SHARE * 25 - refused;
        assert!(
            (share - SHARE / 20..share + SHARE / 2).contains(&taken),
            "{path}, {on_full}: {taken} of {first:?}, {then:?}"
        );
        // Were they kept, 8 KiB each, it would be 32 MiB and more; an allocator's habits account for a few.
        assert!(after < before + 16 * 1024, "{path}, {on_full}: from {before} to {after} KiB");
        // What is known is known.
        assert!(post(gateway.address, "/pay", "stranger-0", "{}").is_replay(), "{path}, {on_full}");
    }
}

/// Large answers, inside their records and beside them, far fewer than there may be records: what is kept of them is bounded by
/// `bytes_per_tenant`, also after a restart, what was answered is answered again, and another tenant still finds room.
#[test]
fn large_answers_take_their_tenants_bytes_and_no_more() {
    const MOST: usize = 256 << 10;
    let file = format!("[default]\ncapacity = {{ bytes_per_tenant = \"{}KiB\" }}\n", MOST >> 10);
    for size in [8 << 10, 40 << 10] {
        let upstream = Upstream::new(move |_, _, _| Reply::json(201, &format!("\"{}\"", "x".repeat(size))));
        let dir = Dir::new();
        let start = || Start::at(&dir).file(&file).upstream(upstream.address).go();
        let gateway = start();
        let statuses = flood(gateway.address, "/pay", 0..60);
        let kept = statuses.get(&201).copied().unwrap_or(0);
        assert_eq!(kept + statuses.get(&429).copied().unwrap_or(0), 60, "{statuses:?}");
        assert!((MOST * 8 / 10..=MOST + size).contains(&(kept * size)), "{kept} answers of {size} bytes were kept");
        drop(gateway);
        let gateway = start();
        let ask = |key: &str| {
            let headers = [("Idempotency-Key", key), ("Authorization", "Bearer flood")];
            Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer()
        };
        let refused = ask("another");
        assert_eq!(refused.status, 429, "{}", refused.text());
        assert!(refused.says("\"code\":\"over_quota\"") && refused.says("bytes"), "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
        let again = ask("/pay-0");
        assert!(again.is_replay() && again.text().len() > size, "{}", again.text());
        assert_eq!(upstream.count(), kept, "nothing that was refused has been sent on");
        assert_eq!(post(gateway.address, "/pay", "stranger", "{}").status, 201);
    }
}
