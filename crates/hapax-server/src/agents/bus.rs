//! The bus guard for consumers in other languages: they talk to their broker, the daemon judges.

use std::time::Duration;

use hapax_core::{Effect, Millis, Token};
use hapax_engine::{Admitted, GuardConfig, GuardError, HandlerError, Judge, Judged, Message, Settle, Told, Why};
use http::StatusCode;

use super::may_use;
use crate::{
    api::{effect_of, given_out, nonce_of, noted, said},
    app::{App, Asked, Caller},
    http::{Reply, answer, json},
    problem::{Next, Problem, store_down},
    records,
    wire::{ConsumerWire, DeliverRequest, DeliveryTicket, DeliveryVerdicts, HandledWire, SettleRequest, SettleWire},
};

const SURFACE: &str = "bus";
const LONGEST_WAIT_MS: u64 = 86_400_000;
const LONGEST_KEPT_MS: u64 = 365 * 86_400_000;
const MOST_WHY: usize = 4_096;

fn judge(app: &App, caller: &Caller, consumer: &ConsumerWire) -> Result<Judge, Problem> {
    may_use(caller, SURFACE)?;
    if consumer.name.is_empty() || consumer.name.chars().count() > 255 || consumer.back_offs_ms.len() > 64 {
        return Err(Problem::bad_request("a consumer has a name of 1 to 255 characters and at most 64 back-offs"));
    }
    if consumer.max_deliveries == Some(0) || consumer.retention_ms.is_some_and(|kept| kept > LONGEST_KEPT_MS) {
        return Err(Problem::bad_request(
            "`max_deliveries` counts from 1, and `retention_ms` is at most 31536000000, a year",
        ));
    }
    if consumer.back_offs_ms.iter().chain([&consumer.ack_wait_ms]).any(|wait| *wait > LONGEST_WAIT_MS) {
        return Err(Problem::bad_request("`ack_wait_ms` and `back_offs_ms` are at most 86400000 each, a day"));
    }
    let config = GuardConfig {
        consumer: consumer.name.clone(),
        ack_wait: Duration::from_millis(consumer.ack_wait_ms),
        max_deliveries: consumer.max_deliveries,
        back_offs: consumer.back_offs_ms.iter().copied().map(Duration::from_millis).collect(),
        retention: consumer.retention_ms.map(Millis),
        effect: effect_of(consumer.effect.as_deref())?.unwrap_or(Effect::Unsafe),
    };
    Judge::new(&app.engine, &caller.identity.tenant, config).map_err(refused)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others speak of the consumer, and may grow")]
fn refused(error: GuardError) -> Problem {
    match error {
        GuardError::Engine(error) => error.into(),
        error => {
            let title = "The consumer cannot be guarded so";
            Problem::new(StatusCode::BAD_REQUEST, "HX0097", title, error.to_string(), Next::FixRequest)
        }
    }
}

fn told(judged: Judged) -> SettleWire {
    match judged {
        Judged::Tell(Settle::Ack) => SettleWire::Ack,
        Judged::Tell(Settle::NakAfter(after)) => SettleWire::Nak { after_ms: Millis::from_std(after).0 },
        // Only what was put aside is terminated.
        Judged::Tell(Settle::Terminate) => SettleWire::Terminate { dead_letter: String::new() },
        Judged::Bury(why) => SettleWire::Terminate { dead_letter: why.to_string() },
    }
}

pub(super) async fn deliver(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let wanted: DeliverRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let judge = judge(app, &asked.caller, &wanted.consumer)?;
    let nonce = wanted.nonce.as_deref().map(nonce_of).transpose()?;
    let payload = data_encoding::BASE64
        .decode(wanted.payload_base64.as_bytes())
        .map_err(|_| Problem::bad_request("`payload_base64` is not base64"))?;
    if wanted.stream.is_empty() || wanted.stream.chars().count() > 255 || wanted.delivery == 0 {
        return Err(Problem::bad_request("`stream` has from 1 to 255 characters, and `delivery` counts from 1"));
    }
    let message = Message {
        stream: wanted.stream,
        sequence: wanted.sequence,
        intent: wanted.intent,
        payload: payload.into(),
        delivery: wanted.delivery,
    };
    // What cannot be named is no operation: it is put aside.
    let Ok(call) = judge.call(&message) else {
        return Ok(answer(&DeliveryVerdicts::Settle(admitted_not(judge.admit(&message, None).await)?)));
    };
    let (id, key_hash) = (call.id()?, call.key_hash()?);
    noted(app, &asked.caller, SURFACE, id).await?;
    let (told, given) = match judge.admit(&message, nonce).await {
        Admitted::Run(ticket) => {
            let ticket = given_out(app, &asked.caller, SURFACE, *ticket);
            let in_progress_every_ms = Millis::from_std(judge.every()).0.max(1);
            (Told::Execute, DeliveryVerdicts::Execute(DeliveryTicket { ticket, in_progress_every_ms }))
        }
        Admitted::Judged(judged) => {
            let verdict = match judged {
                Judged::Tell(Settle::Ack) => Told::Replay,
                Judged::Tell(Settle::NakAfter(_) | Settle::Terminate) => Told::InFlight,
                Judged::Bury(_) => Told::Refused,
            };
            (verdict, DeliveryVerdicts::Settle(told(judged)))
        }
    };
    said(app, &asked.caller, Ok((id, key_hash, told, Ok(answer(&given)))))
}

fn admitted_not(admitted: Admitted) -> Result<SettleWire, Problem> {
    match admitted {
        Admitted::Judged(judged) => Ok(told(judged)),
        Admitted::Run(_) => Err(store_down("a delivery to run where one was judged")),
    }
}

pub(super) async fn settle(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let id = asked.id.ok_or_else(Problem::unknown_operation)?;
    let wanted: SettleRequest = json(&asked.headers, asked.body, &app.limits).await?;
    let judge = judge(app, &asked.caller, &wanted.consumer)?;
    let token = Token::parse(&wanted.token).ok_or_else(|| {
        Problem::bad_request("`token` is not one that a delivery was given: a number, a dot, 32 digits")
    })?;
    if wanted.delivery == 0 || wanted.why.chars().count() > MOST_WHY || wanted.delay_ms.unwrap_or(0) > LONGEST_WAIT_MS {
        let rule = "`delivery` counts from 1, `why` has at most 4096 characters, and `delay_ms` is at most a day";
        return Err(Problem::bad_request(rule));
    }
    let seen = records::read(&app.engine, &id).await?;
    let ours = |about: &hapax_core::record::About| {
        &*about.surface == SURFACE && asked.caller.sees(&about.tenant, &about.surface)
    };
    let handled = handled(wanted.handled, wanted.why, wanted.delay_ms);
    if !seen.is_some_and(|seen| ours(&seen.record.about)) {
        return said_before(handled);
    }
    let outcome = judge.outcome_of(&handled);
    let recorded = match app.tickets.get(&id, token, &asked.caller) {
        Some(ticket) => ticket.finish(&app.engine, outcome).await,
        None => judge.finish(&id, token, outcome).await,
    };
    if recorded.as_ref().is_ok_and(hapax_engine::Stepped::is_done) {
        app.tickets.drop(&id, token);
    }
    Ok(answer(&told(judge.close(wanted.delivery, token.attempt, handled, recorded))))
}

/// What cannot be read leaves no record, so its end may be said again where there is none. Of a stranger's record it is
/// said in the same way: whether there is one shows to nobody.
fn said_before(handled: Result<(), HandlerError>) -> Result<Reply, Problem> {
    match handled {
        Err(HandlerError::Undecodable(why)) => Ok(answer(&told(Judged::Bury(Why::Undecodable(why))))),
        Ok(()) | Err(HandlerError::Retryable { .. } | HandlerError::Final(_) | HandlerError::Unknown(_)) => {
            Err(Problem::unknown_operation())
        }
    }
}

fn handled(how: HandledWire, why: String, delay_ms: Option<u64>) -> Result<(), HandlerError> {
    match how {
        HandledWire::Done => Ok(()),
        HandledWire::Retryable => {
            Err(HandlerError::Retryable { delay: Duration::from_millis(delay_ms.unwrap_or(1_000)), why })
        }
        HandledWire::Failed => Err(HandlerError::Final(why)),
        HandledWire::Undecodable => Err(HandlerError::Undecodable(why)),
        HandledWire::Unknown => Err(HandlerError::Unknown(why)),
    }
}
