//! Traces at a collector: a real listener that decodes what arrives.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use crate::support::{Conn, Daemon, Dir, Reply, Upstream, request, until};
use serde_json::{Value, json};

/// All spans that have arrived.
fn spans(collector: &Upstream) -> Vec<Value> {
    let mut all = Vec::new();
    for asked in collector.asked().into_iter().filter(|asked| asked.path != "/v1/metrics") {
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(asked.header("content-type"), Some("application/json"));
        let batch: Value = serde_json::from_slice(&asked.body).unwrap();
        for resource in batch["resourceSpans"].as_array().unwrap() {
            let service = &resource["resource"]["attributes"][0];
            assert_eq!((&service["key"], &service["value"]["stringValue"]), (&json!("service.name"), &json!("hapax")));
            for scope in resource["scopeSpans"].as_array().unwrap() {
                all.extend(scope["spans"].as_array().unwrap().iter().cloned());
            }
        }
    }
    all
}

fn attribute<'s>(span: &'s Value, name: &str) -> &'s Value {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == name);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

fn begin(daemon: &Daemon, key: &str, more: &[(&str, &str)]) -> support::Answer {
    let address = daemon.url("hapax serve on").unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let body = json!({ "surface": "payments", "key": key, "request": { "card": "PLANTED-card" } }).to_string();
    let headers = [&[("Content-Type", "application/json"), ("X-Session", "PLANTED-session")], more].concat();
    let text = request("POST", "/v1/operations:begin", &headers, &body).replace("shop.example", "localhost");
    Conn::to(address).send(text).answer()
}

/// A caller's trace goes on through the daemon: request, decision, store, each inside the one before it. What is secret is
/// in none of them.
#[test]
fn a_request_its_decision_and_the_stores_part_of_it_are_one_trace() {
    let collector = Upstream::new(|_, _, _| Reply::json(200, "{}"));
    let dir = Dir::new();
    dir.write("hapax.toml", &format!("[server]\notlp = \"http://{}\"\n", collector.address));
    let daemon = Daemon::start(&dir, &[]);
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let answer = begin(&daemon, "PLANTED-key", &[("traceparent", &format!("00-{trace}-{parent}-01"))]);
    let ticket: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.status, 200, "{ticket}");
    // Whoever does not record its own trace is not recorded here either.
    begin(&daemon, "PLANTED-other", &[("traceparent", &format!("00-{}-{parent}-00", "ab".repeat(16)))]);
    let of_trace = || spans(&collector).into_iter().filter(|span| span["traceId"] == trace).collect::<Vec<_>>();
    until("the request's span", || of_trace().iter().any(|span| span["kind"] == 2));
    let found = of_trace();
    let one = |kind: u64, name: &str| {
        let fits = |span: &&Value| span["kind"] == kind && span["name"].as_str().unwrap().starts_with(name);
        found.iter().find(fits).unwrap_or_else(|| panic!("{name} in {found:?}"))
    };
    let (request, decision, store) =
        (one(2, "POST /v1/operations:begin"), one(1, "decide begin"), one(3, "store swap"));
    assert_eq!(request["parentSpanId"], parent);
    assert_eq!(decision["parentSpanId"], request["spanId"]);
    assert_eq!(store["parentSpanId"], decision["spanId"]);
    assert_eq!(attribute(request, "http.response.status_code")["intValue"], "200");
    assert_eq!(attribute(request, "http.route")["stringValue"], "/v1/operations:begin");
    assert_eq!(attribute(decision, "hapax.verdict")["stringValue"], "execute");
    assert_eq!(attribute(decision, "hapax.operation")["stringValue"], ticket["operation"]);
    for (inner, outer) in [(store, decision), (decision, request)] {
        let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time(inner, "startTimeUnixNano") >= time(outer, "startTimeUnixNano"));
        assert!(time(inner, "endTimeUnixNano") <= time(outer, "endTimeUnixNano"));
        assert!(time(inner, "startTimeUnixNano") > 1_600_000_000_000_000_000, "nanoseconds since 1970");
    }
    // The names of OpenWOP go along, with dots.
    let of_regions = || collector.asked().into_iter().find(|asked| asked.path == "/v1/metrics");
    until("the metrics", || of_regions().is_some());
    let told: Value = serde_json::from_slice(&of_regions().unwrap().body).unwrap();
    let metrics = &told["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics[0]["name"], "openwop.idempotency.cross_region_conflicts_total");
    assert_eq!(metrics[0]["sum"]["dataPoints"][0]["asInt"], "0");
    assert_eq!(metrics[1]["name"], "openwop.idempotency.partition_seconds");
    // What was still waiting goes out before the end.
    let before = collector.count();
    begin(&daemon, "PLANTED-last", &[]);
    daemon.signal("-TERM");
    until("the end", || daemon.said().iter().any(|line| line.contains("hapax: stopped")));
    assert!(collector.count() > before, "the last spans were sent");
    let all = serde_json::to_string(&spans(&collector)).unwrap();
    assert!(!all.contains("PLANTED"), "a span holds what is secret");
    assert!(!all.contains(&"ab".repeat(16)), "an unrecorded trace was recorded");
}

/// The collector is gone: nobody waits for it, and what was lost is counted.
#[test]
fn a_dead_collector_holds_nobody_up_and_its_loss_is_counted() {
    let dir = Dir::new();
    // A port on which nobody listens any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    dir.write("hapax.toml", &format!("[server]\notlp = \"http://{gone}\"\n"));
    let daemon = Daemon::start(&dir, &[]);
    for number in 0..50 {
        assert_eq!(begin(&daemon, &format!("key-{number}"), &[]).status, 200);
    }
    let address = daemon.url("hapax serve on").unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    until("the loss to be counted", || {
        let text = request("GET", "/metrics", &[], "").replace("shop.example", "localhost");
        let page = Conn::to(address).send(text).answer().text();
        let line = page.lines().find(|line| line.starts_with("hapax_spans_lost_total")).unwrap().to_owned();
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap() > 0
    });
    drop(daemon);
    dir.write("hapax.toml", "[server]\notlp = \"https://collector.example\"\n");
    let refused = Daemon::command(&dir, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("HX0143"), "{said}");
}
