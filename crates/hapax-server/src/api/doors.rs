//! What the process says about itself.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use hapax_core::{Id, Span, identity::Surface, policy::Treatment};
use hapax_store::{Durability, StoreError};
use http::StatusCode;
use serde_json::json;
use tokio::time::{Duration, Instant};

use crate::{
    app::{App, Asked, Caller, Door},
    auth::Auth,
    http::{Reply, answer, plain},
    log::Level,
    metrics::Page,
    openapi,
    problem::{Next, Problem, store_down},
};

pub(crate) fn health() -> Reply {
    answer(&json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// Whether the store answers, and what it promises right now.
pub(crate) async fn ready(app: &App) -> Result<Reply, Problem> {
    let asked = match app.engine.store().get(&Id([0; 32])).await {
        Ok(_) => promised(app).await,
        Err(error) => Err(error),
    };
    let promise = asked.map_err(|error| {
        app.say(Level::Warn, "not_ready", &[("error", &error.to_string())]);
        store_down(error)
    })?;
    if app.engine.demands_durable() && promise != Durability::Durable {
        app.say(Level::Warn, "not_ready", &[("promise", &promise.to_string())]);
        let detail = "the store no longer keeps what it acknowledges, as was demanded with `durability = \"durable\"`; its \
                      operator finds the reason in the log";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(Problem::new(status, "HX0009", "The store is not durable", detail, Next::AskOperator));
    }
    // The reason may name paths and hosts; the level of the promise is for everybody.
    let durability = match promise {
        Durability::Durable => "durable",
        Durability::DurableIf(_) => "durable_if",
        Durability::BestEffort(_) => "best_effort",
    };
    Ok(answer(&json!({ "ready": true, "durability": durability })))
}

/// Whoever asks here shows no key, so the store is asked about its settings once a second at most.
async fn promised(app: &App) -> Result<Durability, StoreError> {
    const FRESH: Duration = Duration::from_secs(1);
    {
        let mut asked = app.asked_promise.lock();
        if asked.is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(app.engine.store().durability());
        }
        *asked = Some(Instant::now());
    }
    app.engine.ask_promise().await
}

pub(crate) fn openapi(app: &App, door: Door) -> Reply {
    let (document, admin) = match door {
        Door::Public => (&app.document, false),
        Door::Admin | Door::Socket => (&app.admin_document, true),
    };
    let made = || Bytes::from(openapi::document(admin).to_string());
    plain("application/json", document.get_or_init(made).clone())
}

/// What this host promises, in the words of OpenWOP. One region is all there is.
pub(crate) fn openwop(app: &App) -> Reply {
    let policies = app.engine.policies();
    let seconds = |name: &str| {
        let policy = match Surface::new(name) {
            Ok(surface) => policies.of(&surface).clone(),
            Err(_) => policies.standard().clone(),
        };
        let shorter = match policy.final_failure {
            Treatment::Replay(Span::For(failure)) => Some(failure.0),
            Treatment::Replay(Span::Forever) | Treatment::Open | Treatment::Release => None,
        };
        match policy.success_retention() {
            Span::For(success) => json!(shorter.map_or(success.0, |failure| failure.min(success.0)) / 1000),
            Span::Forever => json!(null),
        }
    };
    let idempotency = json!({
        "supported": true,
        "layer1RetentionSeconds": seconds("http"),
        "layer2RetentionSeconds": seconds("activity"),
        "crossRegion": "single-region",
        "multiRegion": { "supported": false },
    });
    answer(&json!({ "idempotency": idempotency, "capabilities": { "idempotency": idempotency } }))
}

pub(crate) fn audit(app: &App, asked: &Asked) -> Result<Reply, Problem> {
    if asked.query.odd(&["limit"]) {
        return Err(Problem::bad_request("the only parameter is `limit`, and it is given once"));
    }
    let limit = match asked.query.get("limit").map(str::parse::<usize>) {
        None => 50,
        Some(Ok(limit)) if (1..=256).contains(&limit) => limit,
        Some(_) => return Err(Problem::bad_request("`limit` is from 1 to 256")),
    };
    Ok(answer(&json!({ "rows": app.audit.tail(limit), "count": app.audit.rows() })))
}

/// How long a scrape waits for numbers that only the store knows.
const STORE_COUNTS: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) async fn metrics(app: &App, caller: &Caller) -> Result<Reply, Problem> {
    let mut page = Page::default();
    let stats = app.engine.stats();
    page.begins(app.engine.tally());
    page.server(&app.metrics);
    page.gate(&stats, app.engine.gate().len(), app.engine.gate().bytes());
    // Left out while the store does not answer: the rest is what is needed then.
    if let Ok(Ok(counts)) = tokio::time::timeout(STORE_COUNTS, app.counted.now(&app.engine)).await {
        page.records(&counts);
    }
    page.engine(&stats, app.engine.waiting(), app.tickets.len());
    let readers = app.limits.readers.saturating_sub(app.readers.available_permits());
    page.one("hapax_event_readers", "gauge", "Readers of /v1/events now.", readers);
    page.one("hapax_log_lines_lost_total", "counter", "Log lines that did not fit.", app.log.lost());
    page.one("hapax_audit_rows", "gauge", "Rows of the audit log.", app.audit.rows());
    if let Some(tracer) = &app.tracer {
        page.one("hapax_spans_lost_total", "counter", "Spans that found no room, or no collector.", tracer.lost());
    }
    let durable = u8::from(app.engine.store().durability() == Durability::Durable);
    page.one("hapax_store_durable", "gauge", "Whether the store keeps what it acknowledged.", durable);
    if let Some(gauges) = &app.gauges {
        for gauge in gauges() {
            page.one(gauge.name, if gauge.counter { "counter" } else { "gauge" }, gauge.help, gauge.value);
        }
    }
    if caller.sees_all {
        tenants(app, &mut page).await;
    }
    Ok(plain("text/plain; version=0.0.4; charset=utf-8", page.finish()))
}

/// Tenants have names, which only administrators may see side by side. There are as many as have keys.
async fn tenants(app: &App, page: &mut Page) {
    let policies = app.engine.policies();
    let mut kept = Vec::new();
    for (surface, _) in policies.iter().take(256) {
        let tag = hapax_core::Tag::surface(surface);
        let asked = tokio::time::timeout(STORE_COUNTS, app.engine.store().usage(tag)).await;
        let Ok(Ok(usage)) = asked else { break };
        kept.push((surface, usage));
    }
    page.family("hapax_surface_records", "gauge", "Records kept, by surface with a policy of its own.");
    for (surface, usage) in &kept {
        page.value("hapax_surface_records", &[("surface", surface.as_str())], usage.records);
    }
    page.family("hapax_surface_bytes", "gauge", "What these records take, their bodies included.");
    for (surface, usage) in &kept {
        page.value("hapax_surface_bytes", &[("surface", surface.as_str())], usage.bytes);
    }
    let auth = std::sync::Arc::clone(&app.auth.read());
    let Auth::Keys(keys) = &*auth else { return };
    page.family("hapax_tenant_requests_total", "counter", "Requests by tenant.");
    for (tenant, state) in keys.tenants().take(1000) {
        page.value("hapax_tenant_requests_total", &[("tenant", tenant.as_str())], state.requests.load(Relaxed));
    }
    page.family("hapax_tenant_rate_refused_total", "counter", "Requests beyond a tenant's rate.");
    for (tenant, state) in keys.tenants().take(1000) {
        page.value("hapax_tenant_rate_refused_total", &[("tenant", tenant.as_str())], state.refused.load(Relaxed));
    }
}
