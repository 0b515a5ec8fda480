use hapax_core::{
    Id, Millis,
    identity::{Surface, Tenant},
};
use hapax_engine::Engine;
use hapax_http::{Asked, Caller, Code, Dialect, Guard, NextStep, Problem, Rules};
use hapax_store::{MemoryStore, Seeded};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

use super::{Target, must};
use crate::{mutate, runner};

/// First byte: the dialect; second: the code; the rest: a detail, and a key header with a body behind it.
pub(super) const TARGET: Target = Target {
    name: "problem",
    about: "any detail, key and body in any dialect; what is answered is JSON of the right shape and says no secret",
    words: &[
        b"\"",
        b"\\",
        b"\0",
        b"\r\n",
        b"{\"idempotency_key\":",
        b"{}",
        b"\xff",
        b"\xe2\x82\xac",
        b"idempotency_key=k",
    ],
    seeds: || vec![b"\0\0a detail".to_vec(), b"\x04\x03{\"idempotency_key\":\"k\",\"a\":1}".to_vec()],
    make: |random: &mut Seeded| {
        let mut input = vec![random.next().to_le_bytes()[0], random.next().to_le_bytes()[0]];
        input.extend(mutate::noise(random));
        input
    },
    run,
};

fn guards() -> &'static Vec<Guard> {
    static GUARDS: OnceLock<Vec<Guard>> = OnceLock::new();
    GUARDS.get_or_init(|| {
        let made = Dialect::ALL.into_iter().map(|dialect| {
            let engine = Engine::builder(Arc::new(MemoryStore::default())).build().ok()?;
            Guard::new(engine, Rules::on(Surface::new("http").ok()?).dialect(dialect)).ok()
        });
        made.collect::<Option<Vec<_>>>().unwrap_or_default()
    })
}

fn run(input: &[u8]) -> Result<u64, String> {
    let [dialect, code, rest @ ..] = input else { return Ok(0) };
    let at = usize::from(*dialect) % Dialect::ALL.len();
    let (dialect, code) = (Dialect::ALL[at], Code::ALL[usize::from(*code) % Code::ALL.len()]);
    let problem = Problem::new(code, NextStep::Wait, String::from_utf8_lossy(rest).into_owned());
    let answer = dialect.answer(&problem.about(Id::derived("fuzz", &[rest])).retry_after(Millis(rest.len() as u64)));
    shaped(dialect, answer.body())?;

    let guard = guards().get(at).ok_or("there is no guard")?;
    let (value, body) = rest.split_at(rest.len() / 2);
    let mut request = http::Request::post("/orders").header("content-type", "application/json");
    if let Ok(value) = http::HeaderValue::from_bytes(value) {
        request = request.header("idempotency-key", value);
    }
    let head = request.body(()).map_err(|error| error.to_string())?.into_parts().0;
    let caller = Caller::of(Tenant::new("acme").map_err(|error| error.to_string())?);
    let sort = match guard.ask(&head, bytes::Bytes::copy_from_slice(body), &caller) {
        Asked::Pass(passed) => {
            must(passed == body, || "the body was changed on its way".to_owned())?;
            0
        }
        Asked::Answer(answer) => {
            must(answer.status() == 400, || format!("refused with {}", answer.status()))?;
            shaped(dialect, answer.body())?;
            // A key may be a secret of the caller: no message repeats it.
            let told = String::from_utf8_lossy(answer.body()).into_owned();
            let key = String::from_utf8_lossy(value);
            let key = key.trim();
            let repeated = key.len() > 30 && told.contains(key);
            must(!repeated, || format!("the key is told: {told}"))?;
            1
        }
        Asked::Ask(asking) => {
            must(asking.body() == body, || "the body was changed on its way".to_owned())?;
            2
        }
    };
    Ok(runner::hash((at, code.name(), sort)))
}

fn shaped(dialect: Dialect, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
    let names: Vec<&str> =
        value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default();
    let right = match dialect {
        Dialect::Ietf => ["type", "title", "status", "detail", "code"].iter().all(|name| names.contains(name)),
        Dialect::Stripe => names == ["error"] && value["error"]["message"].is_string(),
        Dialect::Openwop1 | Dialect::Openwop2 => names == ["details", "error", "message"],
        Dialect::Acf => names == ["detail"],
    };
    must(right, || format!("{}: {value}", dialect.name()))
}
