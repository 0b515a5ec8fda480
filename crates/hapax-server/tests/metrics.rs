//! Every name that the seeds and the operator's handbook promise is there, and moves when what it counts happens.

use std::collections::BTreeMap;

use crate::support::{Running, Setup, ask, begin, step};
use serde_json::{Value, json};

/// Each line of the page by its name and labels.
async fn scraped(daemon: &Running) -> BTreeMap<String, f64> {
    let (status, page) = ask(&daemon.client(), "GET", "/metrics", Value::Null).await;
    assert_eq!(status, 200, "{page}");
    let lines = page.as_str().unwrap().lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.into(), value.parse().unwrap()))
        .collect()
}

fn check(status: &str) -> String {
    format!("idempotency_check_total{{status=\"{status}\"}}")
}

fn keys(kind: &str) -> String {
    format!("idempotency_key_type_total{{type=\"{kind}\"}}")
}

/// A dashboard is built from names in a document. One that is misspelt, missing or stuck at zero is found out on the night on
/// which somebody needs it.
#[tokio::test]
async fn every_name_of_the_seeds_is_there_and_moves() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({})).await;
    assert_eq!(begin(&client, json!({})).await.0, 409, "in flight");
    assert_eq!(begin(&client, json!({ "request": { "amount": 1 } })).await.0, 422);
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "done" } })).await;
    assert_eq!(begin(&client, json!({})).await.1["verdict"], "replay");
    let (_, doubt) = begin(&client, json!({ "key": "lost" })).await;
    step(&client, &doubt, "fail", json!({ "outcome": { "class": "unknown" } })).await;
    let (status, told) = begin(&client, json!({ "key": "lost" })).await;
    assert_eq!((status, &told["verdict"]), (409, &json!("in_doubt")), "{told}");
    // A stale token, an activity whose key is made from its place, and a beat.
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "otherwise" } })).await;
    let (status, told) = ask(
        &client,
        "POST",
        "/v1/activities:claim",
        json!({ "run": "r1", "node": "n1", "ordinal": 0, "provider": "mail:send", "request": {} }),
    )
    .await;
    assert_eq!(status, 200, "{told}");
    let gathered = ask(&client, "POST", "/v1/beats:gather", json!({ "session": "s1", "messages": ["m1"] })).await.1;
    let beat = json!({ "session": "s1", "beat": gathered["beat"] });
    assert_eq!(ask(&client, "POST", "/v1/beats:seal", beat.clone()).await.0, 200);
    assert_eq!(ask(&client, "POST", "/v1/beats:begin", beat).await.0, 200);

    // All of them begin at nothing, so one look is enough.
    let after = scraped(&daemon).await;
    for (name, by) in [
        (check("processing_started"), 4.0),
        (check("duplicate_processing"), 1.0),
        (check("duplicate_completed"), 1.0),
        (check("fingerprint_mismatch"), 1.0),
        (check("in_doubt"), 1.0),
        ("idempotency_cache_hit_total".to_owned(), 1.0),
        (keys("client_provided"), 6.0),
        (keys("auto_generated"), 1.0),
        (keys("beat_based"), 1.0),
        ("hapax_begin_seconds_count{verdict=\"replay\"}".to_owned(), 1.0),
        ("hapax_begin_seconds_bucket{verdict=\"execute\",le=\"+Inf\"}".to_owned(), 4.0),
        ("hapax_gate_hit_ratio".to_owned(), 1.0),
        ("hapax_gate_records".to_owned(), 1.0),
        ("hapax_live_records{state=\"pending\"}".to_owned(), 2.0),
        ("hapax_live_records{state=\"in_doubt\"}".to_owned(), 1.0),
        // The activity, the beat and its session; and the two on `payments`, of which no policy speaks.
        ("hapax_unexpired_records".to_owned(), 5.0),
        ("hapax_in_doubt_total".to_owned(), 1.0),
    ] {
        let is = *after.get(&name).unwrap_or_else(|| panic!("no {name} in {after:?}"));
        assert!((is - by).abs() < 1e-9, "{name} is {is}, not {by}");
    }
    // Nothing was evicted, lapsed or fenced here, and there is one region: those names are there all the same.
    for name in [
        "hapax_evicted_total",
        "hapax_lapsed_total",
        "hapax_fenced_total",
        "openwop_idempotency_cross_region_conflicts_total",
        "openwop_idempotency_partition_seconds",
    ] {
        assert!(after.contains_key(name), "no {name}");
    }
}

/// An alarm hangs on lapses. One attempt that was lost is one of them, however often its caller asks what became of it.
#[tokio::test]
async fn a_lapse_is_counted_once_however_many_ask_about_it() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let lost = json!({ "effect": "irreversible", "lease_ms": 50 });
    assert_eq!(begin(&client, lost.clone()).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    for _ in 0..5 {
        let (status, told) = begin(&client, lost.clone()).await;
        assert_eq!((status, &told["verdict"]), (409, &json!("in_doubt")), "{told}");
    }
    let lapsed = |page: BTreeMap<String, f64>| page["hapax_lapsed_total"];
    assert!(lapsed(scraped(&daemon).await) <= 1.0);
    let _sweeper = daemon.engine.sweep_in_background();
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while lapsed(scraped(&daemon).await) < 1.0 {
        assert!(tokio::time::Instant::now() < until, "nobody has written it down");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    begin(&client, lost).await;
    assert!((lapsed(scraped(&daemon).await) - 1.0).abs() < 1e-9);
}
