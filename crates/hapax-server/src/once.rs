//! Our own endpoints that change something, behind our own layer: said twice with one `Idempotency-Key`, they happen once,
//! and the second caller gets the first one's answer.
//!
//! The steps of an operation need no such thing: nonce, token and version say the same already.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Effect, Id, Millis, identity::KeySource, identity::Surface, policy::KeyRules};
use hapax_engine::Engine;
use hapax_http::{Asked as Looked, Begin, Caller, Guard, Rules, RulesError, Running};
use http::{HeaderMap, HeaderValue, Response, header, request};
use serde_json::Value;

use crate::{
    app::{App, Asked},
    endpoint::{Endpoint, Name},
    http::{Reply, Sent, bytes, collected, problem, whole},
    problem::{Next, Problem, store_down},
    trouble::Trouble,
};

/// Where these calls are recorded; a policy for it may be set like for any other surface.
const SURFACE: &str = "daemon";
const KEY: &str = "idempotency-key";

/// The guard of all such endpoints. Each of them can be run again after a crash: a resolution is bound to a version, and
/// policies and keys are put in force, not added up.
pub(crate) fn guard(engine: Engine, trouble: Arc<Trouble>) -> Result<Guard, RulesError> {
    let key = KeyRules { source: Some(vec![KeySource::Header(KEY.to_owned())]), ..KeyRules::default() };
    let rules = Rules::on(Surface::new(SURFACE)?).effect(Effect::Idempotent).key(key);
    Guard::new(engine, rules.on_trouble(move |error| trouble.met(error)))
}

/// Whether a request is one of those, and carries a key.
pub(crate) fn wanted(endpoint: &Endpoint, headers: &HeaderMap) -> bool {
    honoured(endpoint) && headers.contains_key(KEY)
}

/// Whether an endpoint changes something and is no step of an operation.
pub(crate) fn honoured(endpoint: &Endpoint) -> bool {
    // Nonce and token make the steps safe to repeat; and a look stays one, although it is asked for by POST.
    let step = matches!(
        endpoint.name,
        Name::Begin | Name::Start | Name::Renew | Name::Complete | Name::Reject | Name::Fail | Name::Release
    );
    let look = endpoint.method == "GET" || endpoint.name == Name::ExplainKey;
    let agents = matches!(endpoint.name, Name::Agents(name) if name.needs_no_key());
    !step && !look && !agents
}

pub(crate) async fn answer(
    app: &Arc<App>,
    endpoint: &'static Endpoint,
    head: &request::Parts,
    mut asked: Box<Asked>,
) -> Result<Reply, Problem> {
    let identity = &asked.caller.identity;
    let mut caller = Caller::of(identity.tenant.clone()).principal(&identity.name).endpoint(endpoint.path);
    if let Some(id) = asked.id {
        caller = caller.path_parameter("id", &id.to_string());
    }
    let body = bytes(asked.body, &app.limits).await?;
    asked.body = Sent::Whole(body.clone());
    let asking = match app.once.ask(head, body, &caller) {
        Looked::Pass(_) => return app.answer(endpoint.name, asked).await,
        Looked::Answer(answer) => return told(answer),
        Looked::Ask(asking) => asking,
    };
    match asking.begin(head).await {
        Begin::Answer(answer) => told(answer),
        Begin::Unprotected { .. } => app.answer(endpoint.name, asked).await,
        Begin::Run(running) => {
            // A task of its own: a caller that leaves does not stop what it began.
            let run = tokio::spawn(run(Arc::clone(app), running, endpoint.name, asked));
            run.await.unwrap_or_else(|stopped| Err(store_down(stopped)))
        }
    }
}

async fn run(app: Arc<App>, running: Running, name: Name, asked: Box<Asked>) -> Result<Reply, Problem> {
    let work = Box::pin(app.answer(name, asked));
    let Some(answered) = running.during(work).await else { return told(running.lease_lost()) };
    match collected(answered.unwrap_or_else(|refused| problem(&refused))) {
        Ok(answer) => told(running.finish(answer).await),
        // Nothing that changes something answers with a stream; if it did, nobody could be given it again.
        Err(stream) => {
            running.unknown().await;
            Ok(stream)
        }
    }
}

/// What the layer says, in the words of this API; what was recorded, as it was given.
fn told(answer: Response<Bytes>) -> Result<Reply, Problem> {
    let problem_of = |answer: &Response<Bytes>| {
        let said: Value = serde_json::from_slice(answer.body()).ok()?;
        let text = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
        let (code, title, next) = words(text("code")?.as_str())?;
        let mut refused = Problem::new(answer.status(), code, title, text("detail")?, next);
        refused.operation = text("operation").and_then(|id| Id::parse(&id));
        refused.retry_after = said.get("retry_after_ms").and_then(Value::as_u64).map(Millis);
        refused.new_key_is_safe = said.get("safe_new_key").and_then(Value::as_bool);
        Some(refused)
    };
    if answer.status().is_success() {
        return Ok(given(answer));
    }
    match problem_of(&answer) {
        Some(refused) => Err(refused),
        None => Ok(given(answer)),
    }
}

/// As recorded, and still for no cache.
fn given(answer: Response<Bytes>) -> Reply {
    let (head, body) = answer.into_parts();
    let mut reply = whole(head.status, "application/json", body);
    reply.headers_mut().extend(head.headers);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// The layer's own codes, and ours. `None`: it is an answer of ours already.
fn words(code: &str) -> Option<(&'static str, &'static str, Next)> {
    Some(match code {
        "key_missing" | "key_invalid" | "broken_request" => ("HX0001", "The key cannot be used", Next::FixRequest),
        "in_flight" => ("HX0004", "Another caller is at it", Next::RetrySameKey),
        "mismatch" => ("HX0005", "The key was used for another request", Next::NewKey),
        "in_doubt" => ("HX0006", "Whether it happened is unknown", Next::AskOperator),
        "over_quota" | "not_admitted" => ("HX0007", "There is no room for it now", Next::RetrySameKey),
        "unavailable" | "no_answer" => ("HX0008", "The store did not answer", Next::RetrySameKey),
        "fenced" => ("HX0076", "Somebody else decided it", Next::RetrySameKey),
        "already_completed" | "window_closed" => ("HX0013", "It was done before", Next::Stop),
        "not_authorized" | "no_credential" => ("HX0071", "Not allowed with this key", Next::NewKey),
        "too_large" => ("HX0074", "The request is too large", Next::FixRequest),
        "too_slow" => ("HX0074", "The request took too long to arrive", Next::RetrySameKey),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use hapax_http::Code;

    use super::*;

    /// What the layer can say of a request that never leaves this process has words here.
    #[test]
    fn no_code_of_the_layer_reaches_a_caller_untranslated() {
        for code in Code::ALL {
            let gateways = matches!(
                code,
                Code::BadGateway
                    | Code::GatewayTimeout
                    | Code::EgressRefused
                    | Code::UpgradeRefused
                    | Code::HostRefused
                    | Code::PathRefused
                    | Code::HeadRefused
                    | Code::HeadTooLarge
            );
            assert_eq!(words(code.name()).is_none(), gateways, "{}", code.name());
        }
        assert!(told(Response::builder().status(409).body(Bytes::new()).unwrap()).is_ok());
    }
}
