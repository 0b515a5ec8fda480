//! A flood of keys from one tenant: what is kept of it is bounded, and others do not notice.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use std::collections::BTreeMap;

use crate::support::{Conn, Dir, Reply, Start, Upstream, post, request};

/// As many keys as there may be of one tenant, here.
const SHARE: usize = 200;

/// Sends requests with keys that nobody has used, on one connection, and counts the answers by status.
fn flood(gateway: &support::Gateway, path: &str, from: usize, count: usize) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    let mut conn = Conn::to(gateway.address);
    for number in from..from + count {
        let key = format!("{path}-{number}");
        let headers = [("Idempotency-Key", key.as_str()), ("Authorization", "Bearer flood")];
        let answer = conn.send(request("POST", path, &headers, "{}")).answer();
        *statuses.entry(answer.status).or_default() += 1;
    }
    statuses
}

/// Distinct keys, and keys that the upstream answers with 503 and that stay open: neither takes more than the tenant's
/// share, in records and in memory, and another tenant still finds room.
#[test]
fn a_flood_of_keys_takes_its_tenants_share_and_no_more() {
    let upstream = Upstream::new(|asked, _, _| match asked.path.as_str() {
        "/busy" => Reply::json(503, "{}"),
        _ => Reply::json(201, &format!("\"{}\"", "x".repeat(8 << 10))),
    });
    let file = format!("[default]\ncapacity = {{ max_records = {}, per_tenant = {SHARE} }}\n", SHARE * 10);
    for path in ["/pay", "/busy"] {
        let dir = Dir::new();
        let gateway = Start::at(&dir).file(&file).upstream(upstream.address).go();
        let first = flood(&gateway, path, 0, SHARE * 5);
        let before = gateway.memory_kib();
        let then = flood(&gateway, path, SHARE * 5, SHARE * 20);
        let after = gateway.memory_kib();
        let refused = |statuses: &BTreeMap<u16, usize>| statuses.get(&429).copied().unwrap_or(0);
        // Shares are counted with some slack; beyond it all are refused.
        assert!(refused(&first) > 0, "{path}: {first:?}");
        assert_eq!(refused(&then), SHARE * 20, "{path}: {then:?}");
        // Were they kept, 8 KiB each, it would be 32 MiB and more; an allocator's habits account for a few.
        assert!(after < before + 16 * 1024, "{path}: from {before} to {after} KiB");
        // What is known is known, and strangers find room.
        assert_eq!(post(gateway.address, "/pay", "stranger", "{}").status, 201, "{path}");
        assert!(post(gateway.address, "/pay", "stranger", "{}").is_replay(), "{path}");
    }
}
