use hapax_core::{
    Effect, Fingerprint, Id, Millis, NextAction, Nonce, Recorded, Verdict, group::WhyNot, identity::Scheme,
};
use hapax_engine::{Begun, Call, Engine, GroupError, Ticket, Told, Wait, downstream_key};
use http::StatusCode;
use serde_json::value::RawValue;

use super::resolve::note;
use crate::{
    a2a, agents,
    app::{App, Asked, Caller},
    audit::Action,
    http::{Reply, answer, json},
    log::Level,
    metrics::check_status,
    problem::{Next, Problem},
    trace,
    wire::{
        BeginRequest, CompensationWire, JoinedFailure, OutcomeWire, ReplayAnswer, ScopePart, TicketAnswer, Verdicts,
    },
};

/// The longest lease and the longest wait that a caller may ask for.
const LONGEST_LEASE_MS: u64 = 86_400_000;
const LONGEST_WAIT_MS: u64 = 60_000;
const MOST_COMPENSATION: usize = 255;

pub(crate) async fn begin(app: &App, asked: Box<Asked>) -> Result<Reply, Problem> {
    let wanted: BeginRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let nonce = wanted.nonce.as_deref().map(nonce_of).transpose()?;
    let surface = wanted.surface.clone();
    let begun = match prepared(app, &asked.caller, wanted).await {
        Ok(call) => ask(app, &asked.caller, &surface, call, nonce).await,
        Err(refused) => Err(refused),
    };
    said(app, &asked.caller, begun)
}

/// As [`begin`], with a call that was put together elsewhere.
pub(crate) async fn begin_call(
    app: &App,
    caller: &Caller,
    surface: &str,
    call: Call,
    nonce: Option<&str>,
) -> Result<Reply, Problem> {
    let nonce = nonce.map(nonce_of).transpose()?;
    let begun = ask(app, caller, surface, call, nonce).await;
    said(app, caller, begun)
}

/// Which operation it is, the hash of its key for the log, what was said, and how.
pub(crate) type Found = Result<(Id, [u8; 8], Told, Result<Reply, Problem>), Problem>;

/// A row in the audit log, where an administrator is about to begin something.
pub(crate) async fn noted(app: &App, caller: &Caller, surface: &str, id: Id) -> Result<(), Problem> {
    if !caller.is_administrator() {
        return Ok(());
    }
    let detail = serde_json::json!({ "step": "begin", "as_tenant": acting_for(caller), "surface": surface });
    note(app, &caller.identity.actor(), Action::Operate, &id.to_string(), detail).await
}

/// The same, where an administrator is about to take any other step.
pub(crate) async fn noted_step(app: &App, caller: &Caller, step: &str, subject: &str) -> Result<(), Problem> {
    if !caller.is_administrator() {
        return Ok(());
    }
    let detail = serde_json::json!({ "step": step, "as_tenant": acting_for(caller) });
    note(app, &caller.identity.actor(), Action::Operate, subject, detail).await
}

/// Logs what was found, and gives it. The engine has counted it.
pub(crate) fn said(app: &App, caller: &Caller, begun: Found) -> Result<Reply, Problem> {
    let (id, key_hash, told, reply) = begun?;
    trace::note("hapax.operation", id);
    trace::note("hapax.verdict", told.name());
    if app.log.is_on(Level::Debug) {
        let (operation, cached) = (id.to_string(), matches!(told, Told::Replay | Told::Joined));
        let key = data_encoding::HEXLOWER.encode(&key_hash);
        let fields = [
            ("operation", operation.as_str()),
            ("key_hash", key.as_str()),
            ("tenant", caller.tenant()),
            ("status", check_status(told)),
            ("cached", if cached { "true" } else { "false" }),
        ];
        app.say(Level::Debug, "idempotency_check", &fields);
        if cached {
            app.say(Level::Debug, "idempotent_cache_hit", &fields[..3]);
        }
    }
    reply
}

async fn ask(app: &App, caller: &Caller, surface: &str, call: Call, nonce: Option<Nonce>) -> Found {
    let (id, key_hash) = (call.id()?, call.key_hash()?);
    noted(app, caller, surface, id).await?;
    let under_way = caller.identity.state.begin();
    // With too many of them nobody waits any more: they are told at once that it is in flight.
    let call = if under_way.others >= app.limits.begins_per_tenant {
        call.wait(Wait::No)
    } else {
        call.wait_until(&app.until_stop)
    };
    let call = call.owner(&caller.identity.actor());
    let in_turn = call.is_in_turn().then(|| call.clone());
    let begun = match nonce {
        Some(nonce) => call.begin_with(nonce).await,
        None => call.begin().await,
    };
    drop(under_way);
    let (told, verdict) = match begun? {
        Begun::Execute(ticket) => (Told::Execute, Verdicts::Execute(given_out(app, caller, surface, ticket))),
        Begun::Replay(replayed) => {
            let replay = &replayed.replay;
            let outcome = match &replay.answer {
                Recorded::Whole(outcome) => OutcomeWire::of(outcome),
                Recorded::DigestOnly { status, digest } => OutcomeWire {
                    status: *status,
                    digest: Some(data_encoding::HEXLOWER.encode(digest)),
                    ..OutcomeWire::default()
                },
            };
            let given = ReplayAnswer {
                operation: id.to_string(),
                attempt: replay.attempt,
                rejected: replay.rejected,
                joined: replayed.joined,
                decided_at: replay.decided_wall.0,
                outcome,
            };
            (if replayed.joined { Told::Joined } else { Told::Replay }, Verdicts::Replay(given))
        }
        Begun::JoinedFailure(failure) => {
            let given = JoinedFailure { operation: id.to_string(), outcome: OutcomeWire::of(&failure) };
            (Told::JoinedFailure, Verdicts::JoinedFailure(given))
        }
        Begun::Told(verdict) => {
            let (told, problem) = refused_because(&app.engine, &verdict, in_turn.as_ref()).await;
            return Ok((id, key_hash, told, Err(problem.about(id))));
        }
    };
    Ok((id, key_hash, told, Ok(answer(&verdict))))
}

/// A ticket, as its owner gets it.
pub(crate) fn given_out(app: &App, caller: &Caller, surface: &str, ticket: Ticket) -> TicketAnswer {
    let id = ticket.id();
    let given = TicketAnswer {
        operation: id.to_string(),
        token: ticket.token().to_text(),
        attempt: ticket.attempt(),
        lease_ms: ticket.lease().0,
        fence: ticket.fence().0,
        downstream_key: downstream_key(&id),
    };
    app.tickets.keep(ticket, caller.tenant(), surface);
    given
}

async fn prepared(app: &App, caller: &Caller, wanted: BeginRequest) -> Result<Call, Problem> {
    a2a::decided_here(&wanted.surface)?;
    let call = call_of(app, caller, &wanted.surface, &wanted.scope, &wanted.key)?;
    let mut call = call.principal(&caller.identity.principal);
    call = match (&wanted.request, &wanted.fingerprint) {
        (Some(_), Some(_)) => return Err(Problem::bad_request("give `request` or `fingerprint`, not both")),
        (Some(request), None) => call.fingerprint(&**request),
        (None, Some(hex)) => {
            let digest = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok();
            let digest: Option<[u8; 32]> = digest.and_then(|digest| digest.try_into().ok());
            let digest =
                digest.ok_or_else(|| Problem::bad_request("`fingerprint` is a SHA-256 in 64 hexadecimal digits"))?;
            call.fingerprinted(Fingerprint::of(Scheme::RAW_V1, digest))
        }
        (None, None) => call,
    };
    call = wished(call, wanted.effect.as_deref(), wanted.lease_ms, wanted.wait_ms)?;
    if wanted.started == Some(false) {
        call = call.not_started();
    }
    if let Some(compensation) = &wanted.compensation {
        call = match undone(compensation)? {
            Undone::By(name, input) => call.compensated_by(name, &input),
            Undone::FromOutcome(name, pointer) => call.compensated_from_outcome(name, pointer),
        };
    }
    match (wanted.epoch, &wanted.turn) {
        (Some(_), Some(_)) => return Err(Problem::bad_request("give `turn` or `epoch`, not both")),
        (Some(epoch), None) => call = call.epoch(epoch.caller, epoch.current),
        (None, Some(turn)) => call = call.in_turn(&agents::turn_of(app, caller, turn).await?),
        (None, None) => {}
    }
    Ok(call)
}

/// The call with what its caller says of it; what is left out stays as it is.
pub(crate) fn wished(
    mut call: Call,
    effect: Option<&str>,
    lease_ms: Option<u64>,
    wait_ms: Option<u64>,
) -> Result<Call, Problem> {
    if let Some(effect) = effect_of(effect)? {
        call = call.effect(effect);
    }
    if let Some(lease) = lease_ms {
        call = call.lease(lease_of(lease)?);
    }
    if let Some(wait) = wait_of(wait_ms)? {
        call = call.wait(wait);
    }
    Ok(call)
}

/// What undoes an effect, as the engine takes it: with an input, or with where it stands in the outcome.
pub(crate) enum Undone<'a> {
    By(&'a str, Option<&'a RawValue>),
    FromOutcome(&'a str, &'a str),
}

pub(crate) fn undone(declared: &CompensationWire) -> Result<Undone<'_>, Problem> {
    let name = declared.name.as_str();
    if name.is_empty() || name.len() > MOST_COMPENSATION {
        return Err(Problem::bad_request("the name of a compensation has from 1 to 255 bytes"));
    }
    match (&declared.input, &declared.from_outcome) {
        (input, None) => Ok(Undone::By(name, input.as_deref())),
        (None, Some(pointer)) if pointer.len() <= MOST_COMPENSATION => Ok(Undone::FromOutcome(name, pointer)),
        (None, Some(_)) => Err(Problem::bad_request("`from_outcome` has at most 255 bytes")),
        (Some(_), Some(_)) => Err(Problem::bad_request("give `input` or `from_outcome` of a compensation, not both")),
    }
}

pub(crate) fn effect_of(name: Option<&str>) -> Result<Option<Effect>, Problem> {
    let wrong = || Problem::bad_request("`effect` is pure, idempotent, compensatable, irreversible or unsafe");
    name.map(|name| Effect::parse(name).ok_or_else(wrong)).transpose()
}

pub(crate) fn wait_of(wait_ms: Option<u64>) -> Result<Option<Wait>, Problem> {
    match wait_ms {
        None => Ok(None),
        Some(0) => Ok(Some(Wait::No)),
        Some(most) if most <= LONGEST_WAIT_MS => Ok(Some(Wait::AtMost(Millis(most)))),
        Some(_) => Err(Problem::bad_request("`wait_ms` may be at most 60000; ask again after that")),
    }
}

/// Whose operation an administrator is at; `None`: anybody's.
fn acting_for(caller: &Caller) -> Option<&str> {
    (!caller.sees_all).then(|| caller.tenant())
}

/// The call that a surface, a scope and a key stand for.
pub(super) fn call_of(
    app: &App,
    caller: &Caller,
    surface: &str,
    scope: &[ScopePart],
    key: &str,
) -> Result<Call, Problem> {
    if !caller.identity.may_use(surface) {
        return Err(Problem::forbidden("this key is bound to other surfaces"));
    }
    let mut scoped = app.engine.surface(surface).tenant(&caller.identity.tenant);
    for part in scope {
        scoped = scoped.within(&part.label, &part.value);
    }
    let call = scoped.key(key);
    // So that a name which cannot be used is said before anything else.
    call.id()?;
    Ok(call)
}

pub(crate) fn lease_of(lease_ms: u64) -> Result<Millis, Problem> {
    if lease_ms == 0 || lease_ms > LONGEST_LEASE_MS {
        return Err(Problem::bad_request("`lease_ms` is from 1 to 86400000, a day; renew it to keep it longer"));
    }
    Ok(Millis(lease_ms))
}

pub(crate) fn nonce_of(hex: &str) -> Result<Nonce, Problem> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok();
    let bytes: Option<[u8; 16]> = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(Nonce).ok_or_else(|| Problem::bad_request("`nonce` is 128 random bits in 32 hexadecimal digits"))
}

/// As [`refused`], with the reason of the group of the call where that is another than a newer turn.
pub(crate) async fn refused_because(engine: &Engine, verdict: &Verdict, in_turn: Option<&Call>) -> (Told, Problem) {
    let (told, problem) = refused(engine, verdict);
    let (Verdict::Fenced, Some(call)) = (verdict, in_turn) else { return (told, problem) };
    match call.why_fenced().await {
        Ok(Some(GroupError::Refused { why: WhyNot::Superseded { .. }, .. }) | None) | Err(_) => (told, problem),
        Ok(Some(refused)) => (told, refused.into()),
    }
}

fn refused(engine: &Engine, verdict: &Verdict) -> (Told, Problem) {
    let conflict =
        |code, title, detail: &'static str, next| Problem::new(StatusCode::CONFLICT, code, title, detail, next);
    match verdict {
        Verdict::InFlight { retry_after, .. } => {
            let detail = "another caller is at it; ask again with the same key";
            let problem = conflict("HX0004", "Another caller is at it", detail, Next::RetrySameKey);
            (Told::InFlight, problem.after(*retry_after).verdict("in_flight").new_key(false))
        }
        Verdict::Mismatch => {
            let detail = "this key was used for another request; use a new key for a new intent, or send it as it was";
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            let title = "The key was used for another request";
            (Told::Mismatch, Problem::new(status, "HX0005", title, detail, Next::NewKey).verdict("mismatch"))
        }
        Verdict::InDoubt { next, .. } => {
            let detail =
                "it may have happened, and nobody knows; a new key could do it twice. An operator or a probe decides";
            let problem = conflict("HX0006", "Whether it happened is unknown", detail, Next::AskOperator);
            let problem = problem.verdict("in_doubt").new_key(false);
            match next {
                NextAction::WaitForProbe { at } => {
                    (Told::InDoubt, Problem { next: Next::RetrySameKey, ..problem }.after(engine.until(*at)))
                }
                NextAction::AskOperator => (Told::InDoubt, problem),
            }
        }
        Verdict::Refused(refusal) => {
            let detail = match refusal.reason {
                hapax_core::RefusalReason::Quota => "as many records are kept as may be; nothing ran",
                hapax_core::RefusalReason::Bytes => {
                    "the tenant's records take as many bytes as they may; this attempt did not run"
                }
                hapax_core::RefusalReason::Admission => "as much is running as may; nothing ran",
                hapax_core::RefusalReason::Forgetful => {
                    let detail = "the store may forget what it acknowledged, and the policy does not allow that for this \
                                  effect; nothing ran";
                    let (status, title) = (StatusCode::SERVICE_UNAVAILABLE, "The store promises too little");
                    let problem = Problem::new(status, "HX0134", title, detail, Next::AskOperator);
                    return (Told::Refused, problem.after(refusal.retry_after).verdict("refused"));
                }
            };
            let status = StatusCode::TOO_MANY_REQUESTS;
            let problem = Problem::new(status, "HX0007", "There is no room for it now", detail, Next::RetrySameKey);
            (Told::Refused, problem.after(refusal.retry_after).verdict("refused"))
        }
        Verdict::Fenced => {
            let detail = "a newer turn has overtaken this call; do not retry it";
            (
                Told::Superseded,
                conflict("HX0012", "A newer turn has overtaken this call", detail, Next::Stop).verdict("superseded"),
            )
        }
        Verdict::WindowClosed { rejected, .. } => {
            let detail = if *rejected {
                "it was refused for good, and the retry came after its window; use a new key only for a new intent"
            } else {
                "it was done, and the retry came after its window; use a new key only for a new intent"
            };
            let problem = conflict("HX0013", "The retry came after its window", detail, Next::Stop);
            (Told::WindowClosed, problem.verdict("window_closed"))
        }
        // These two never come this way: the engine gives them as what they are.
        Verdict::Execute(_) | Verdict::Replay(_) => (Told::Error, crate::problem::store_down("a verdict that is none")),
    }
}
