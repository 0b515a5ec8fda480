//! *Begin*, from the gate to the store, with waiting in between.

use std::{future::Future, sync::Arc};

use hapax_core::{
    Command, Id, Millis, NextAction, Nonce, Policy, Recorded, RefusalReason, Reply, Token, Verdict, Version,
    command::{Admit, Begin},
    policy::{OnFull, OnInFlight},
    record::About,
};
use tokio::time::Instant;

use crate::{
    call::{Call, Prepared, Wait},
    carry::Carried,
    disown::{Sent, Unanswered},
    engine::{Engine, Inner},
    error::EngineError,
    quota::{Place, Room, Running, refused},
    seen::Seen,
    ticket::{Held, Ticket},
};

/// What a call is told.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// Run it, then say how it ended.
    Execute(Ticket),
    /// It was decided: by an earlier call, or by the one that this one has waited for.
    Replay(Replayed),
    /// The attempt that was waited for failed retryably. This is no recorded answer.
    JoinedFailure(hapax_core::Outcome),
    /// Any other verdict.
    Told(Verdict),
}

#[derive(Debug, Clone)]
pub struct Replayed {
    pub replay: hapax_core::Replay,
    /// It was still running when this call came.
    pub joined: bool,
}

impl Call {
    /// Asks for the right to run it, waiting for another's attempt as long as the policy says.
    #[allow(clippy::manual_async_fn, reason = "an async function keeps its arguments twice, and a call is large")]
    pub fn begin(self) -> impl Future<Output = Result<Begun, EngineError>> + Send {
        async move { self.begin_or_unsure().await.map_err(|unsure| unsure.error) }
    }

    pub(crate) async fn begin_or_unsure(&self) -> Result<Begun, Unsure> {
        let nonce = self.engine.inner.entropy.nonce()?;
        let prepared = self.prepared.as_ref().map_err(Clone::clone)?;
        self.engine.sweep_from_now_on();
        let (since, unanswered) = (Instant::now(), Unanswered::new(&self.engine, prepared, nonce));
        let begun = self.engine.begin(prepared, nonce, Nonces::Ours, since, &unanswered.sent).await;
        unanswered.sent.clear();
        self.engine.inner.tally.begun(&begun, prepared.key_kind, since.elapsed());
        match begun {
            Err(unsure) => {
                if let Some(expected) = unsure.unsettled {
                    self.engine.disown_later(prepared, nonce, expected);
                }
                Err(unsure)
            }
            Ok(begun) => Ok(begun),
        }
    }

    /// As [`Call::begin`], with a nonce that the caller brings: repeating it after a lost answer gives the same
    /// ticket. Such a begin is never taken back behind its caller's back; if the caller does not come again, the
    /// lease lapses.
    pub async fn begin_with(self, nonce: Nonce) -> Result<Begun, EngineError> {
        let prepared = self.prepared?;
        self.engine.sweep_from_now_on();
        let since = Instant::now();
        let begun = self.engine.begin(&prepared, nonce, Nonces::Callers, since, &Sent::nothing()).await;
        self.engine.inner.tally.begun(&begun, prepared.key_kind, since.elapsed());
        begun.map_err(|unsure| unsure.error)
    }
}

/// Who can repeat a begin. What its caller can repeat must not be taken back meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonces {
    Ours,
    Callers,
}

/// No verdict, and perhaps a write that may still land.
#[derive(Debug)]
pub(crate) struct Unsure {
    pub(crate) error: EngineError,
    pub(crate) unsettled: Option<Version>,
    /// It had waited for another's attempt, so it must not run anything, whatever went wrong.
    pub(crate) waited: bool,
}

impl<E: Into<EngineError>> From<E> for Unsure {
    fn from(error: E) -> Self {
        Self { error: error.into(), unsettled: None, waited: false }
    }
}

/// What a begin was refused for want of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NoRoomFor {
    Record,
    Bytes,
}

fn no_room(verdict: &Verdict) -> Option<NoRoomFor> {
    let Verdict::Refused(refusal) = verdict else { return None };
    match refusal.reason {
        RefusalReason::Quota => Some(NoRoomFor::Record),
        RefusalReason::Bytes => Some(NoRoomFor::Bytes),
        RefusalReason::Admission | RefusalReason::Forgetful => None,
    }
}

/// What the store and the rules said to a begin.
struct Asked {
    verdict: Box<Verdict>,
    carried: Carried,
    running: Option<Running>,
    sent: Instant,
}

impl Engine {
    async fn begin(
        &self,
        prepared: &Prepared,
        nonce: Nonce,
        whose: Nonces,
        since: Instant,
        sent_at: &Sent,
    ) -> Result<Begun, Unsure> {
        let inner = &*self.inner;
        if let Some(replayed) = self.at_hand(prepared, prepared.fingerprint.as_ref()) {
            return Ok(Begun::Replay(replayed));
        }
        let in_group = self.with_epoch_of_now(prepared).await?;
        let prepared = in_group.as_deref().unwrap_or(prepared);
        // Where nothing was waited for, it is sent when it came: the clock is not asked twice.
        let sent = if in_group.is_some() { Instant::now() } else { since };
        let mut asked = self.ask(prepared, nonce, Room::AsItIs, sent, sent_at).await?;
        let full = no_room(&asked.verdict);
        // Only now is it certain that a record is needed and that there is no room for it.
        if let Some(full) = full {
            // It was not begun, so it holds no place among the running that it would stumble over itself.
            asked.running = None;
            // A write of unknown fate stays one, whatever is asked and answered after it.
            let unsettled = asked.carried.unsettled;
            let still = |unsure: Unsure| Unsure { unsettled: unsure.unsettled.or(unsettled), ..unsure };
            let made = Box::pin(inner.make_room(&prepared.policy, prepared.about(inner), full)).await;
            if made.map_err(|error| still(error.into()))? {
                let again = Box::pin(self.ask(prepared, nonce, Room::Made, Instant::now(), sent_at));
                asked = again.await.map_err(still)?;
                asked.carried.unsettled = asked.carried.unsettled.or(unsettled);
            }
        }
        // Set apart, as all that is rare.
        let before = match &*asked.verdict {
            Verdict::Fenced => Box::pin(self.let_through_before(prepared, nonce, &asked.carried)).await?,
            Verdict::WindowClosed { .. }
            | Verdict::Mismatch
            | Verdict::Replay(_)
            | Verdict::InFlight { .. }
            | Verdict::InDoubt { .. }
            | Verdict::Refused(_)
            | Verdict::Execute(_) => None,
        };
        let prepared = before.as_deref().unwrap_or(prepared);
        if before.is_some() {
            let unsettled = asked.carried.unsettled;
            let still = |unsure: Unsure| Unsure { unsettled: unsure.unsettled.or(unsettled), ..unsure };
            asked.running = None;
            asked = Box::pin(self.ask(prepared, nonce, Room::AsItIs, Instant::now(), sent_at)).await.map_err(still)?;
            asked.carried.unsettled = asked.carried.unsettled.or(unsettled);
        }
        let Asked { verdict, carried, running, sent } = asked;
        match *verdict {
            Verdict::Execute(grant) => {
                if self.refused_by_group(prepared, nonce, whose, &carried).await? {
                    return Ok(Begun::Told(Verdict::Fenced));
                }
                let fence = grant.fence.unwrap_or(carried.seen.version);
                let deadline = sent.checked_add(grant.lease.as_std()).unwrap_or(sent);
                Ok(Begun::Execute(Ticket {
                    id: prepared.id,
                    token: grant.token,
                    fence,
                    lease: grant.lease,
                    effect: prepared.effect,
                    about: Arc::clone(prepared.about(inner)),
                    policy: Arc::clone(&prepared.policy),
                    held: Arc::new(Held {
                        seen: carried.seen.into(),
                        deadline: deadline.into(),
                        running: running.into(),
                    }),
                }))
            }
            Verdict::WindowClosed { .. }
            | Verdict::Mismatch
            | Verdict::Replay(_)
            | Verdict::InFlight { .. }
            | Verdict::InDoubt { .. }
            | Verdict::Refused(_)
            | Verdict::Fenced => {
                // Whatever was sent on the way and not answered must not land behind this verdict.
                if let Some(expected) = carried.unsettled.filter(|_| whose == Nonces::Ours) {
                    self.disown_later(prepared, nonce, expected);
                }
                sent_at.clear();
                self.take_back_if_ours(prepared, nonce, &verdict, &carried).await;
                // Whoever does not run takes no place among the running, least of all while it waits.
                drop(running);
                // Set apart, as all that is rare: each call carries the room of its largest step with it while it waits.
                Box::pin(self.told(prepared, carried.seen, *verdict)).await
            }
        }
    }

    async fn ask(
        &self,
        prepared: &Prepared,
        nonce: Nonce,
        room: Room,
        sent: Instant,
        sent_at: &Sent,
    ) -> Result<Asked, Unsure> {
        let inner = &*self.inner;
        let (begin, running, room) = inner.admitted(prepared, nonce, room).await?;
        // Mostly the swap finds out what is there. A refusal writes nothing, so it looks: what was done, runs or is in
        // doubt needs no room, and says so.
        let (seen, begin) = (Seen::nothing(), Command::Begin(begin));
        let carried =
            inner.carry_begin(&prepared.policy, &prepared.id, seen, prepared.about(inner), &begin, sent_at).await;
        // Whatever became of it, the store counts it from here on.
        drop(room);
        let mut carried = carried.map_err(|failed| Unsure {
            error: failed.error.into(),
            unsettled: failed.unsettled,
            waited: false,
        })?;
        let verdict = match std::mem::replace(&mut carried.reply, Reply::Fenced) {
            Reply::Verdict(verdict) => verdict,
            // A begin is answered by a verdict; the other replies belong to other commands.
            Reply::Done(_) | Reply::Fenced | Reply::Conflict(_) | Reply::Refused(_) => Box::new(Verdict::Fenced),
        };
        Ok(Asked { verdict, carried, running, sent })
    }

    /// A verdict other than *run it*: waits for the attempt under way where that is wanted.
    pub(crate) async fn told(&self, prepared: &Prepared, seen: Seen, verdict: Verdict) -> Result<Begun, Unsure> {
        match verdict {
            Verdict::Replay(replay) => {
                let replay = self.inner.with_body(&prepared.id, replay, &seen).await?;
                Ok(Begun::Replay(Replayed { replay, joined: false }))
            }
            Verdict::InFlight { attempt, retry_after } => {
                let most = match (prepared.wait, prepared.policy.on_in_flight) {
                    (Wait::No, _) | (Wait::AsPolicy, OnInFlight::Reject) => None,
                    (Wait::AtMost(most), _) | (Wait::AsPolicy, OnInFlight::Wait { most }) => Some(most),
                };
                match most {
                    None => Ok(Begun::Told(Verdict::InFlight { attempt, retry_after })),
                    Some(most) => {
                        let joined = self.join(prepared, seen, attempt, retry_after, most).await;
                        joined.map_err(|error| Unsure { error, unsettled: None, waited: true })
                    }
                }
            }
            Verdict::InDoubt { since, attempt, next } => {
                let now = self.inner.now(&seen);
                let next = match next {
                    // Whoever asks before the next probe is due only hears when that is.
                    NextAction::WaitForProbe { at } if at > now => next,
                    NextAction::WaitForProbe { .. } | NextAction::AskOperator => {
                        let within = self.probe_soon(&prepared.id, &prepared.scope);
                        within
                            .map_or(NextAction::AskOperator, |within| NextAction::WaitForProbe { at: now.plus(within) })
                    }
                };
                Ok(Begun::Told(Verdict::InDoubt { since, attempt, next }))
            }
            Verdict::WindowClosed { .. }
            | Verdict::Mismatch
            | Verdict::Refused(_)
            | Verdict::Fenced
            | Verdict::Execute(_) => Ok(Begun::Told(verdict)),
        }
    }
}

impl Inner {
    /// The command of a begin, with what admission and capacity say about it.
    pub(crate) async fn admitted(
        &self,
        prepared: &Prepared,
        nonce: Nonce,
        room: Room,
    ) -> Result<(Begin, Option<Running>, Option<Place<'_>>), EngineError> {
        let (admit, running) = match self.quotas.run(prepared.policy.admission, &prepared.scope) {
            // What is recorded or under way is told all the same.
            Ok(_) if !prepared.policy.may_be_forgotten(prepared.effect) && self.is_forgetful().await => {
                (refused(RefusalReason::Forgetful), None)
            }
            Ok(running) => (Admit::Yes, running),
            Err(()) => (refused(RefusalReason::Admission), None),
        };
        let kept = match self.quotas.take(&prepared.policy, &prepared.scope) {
            Some(place) => Ok(place),
            None => Box::pin(self.quotas.keep(self, &prepared.policy, &prepared.scope, room)).await?,
        };
        let (room_for, room) = match kept {
            Ok(room) => (Admit::Yes, Some(room)),
            Err(full) => (full.refused(), None),
        };
        let begin = Begin {
            nonce,
            fingerprint: prepared.fingerprint.clone(),
            effect: prepared.effect,
            lease: self.lease_for(prepared),
            owner: Arc::clone(prepared.owner.as_ref().unwrap_or(&self.owner)),
            started: prepared.started,
            epoch: prepared.epoch,
            admit,
            room: room_for,
            about: Arc::clone(prepared.about(self)),
            ties: prepared.ties.clone(),
        };
        Ok((begin, running, room))
    }

    /// `None` leaves it to the policy, unless that is too short for this store.
    fn lease_for(&self, prepared: &Prepared) -> Option<Millis> {
        let shortest = self.shortest_lease();
        let wanted = prepared.lease.unwrap_or(prepared.policy.lease);
        if wanted < shortest { Some(shortest) } else { prepared.lease }
    }

    /// A store that estimates the time must not judge a lease by its error.
    pub(crate) fn shortest_lease(&self) -> Millis {
        Millis(self.store.clock_error().0.saturating_mul(10))
    }

    /// Makes room for one more record, where the policy says so.
    async fn make_room(&self, policy: &Policy, about: &Arc<About>, full: NoRoomFor) -> Result<bool, EngineError> {
        match (policy.capacity.on_full, full) {
            // What has expired reads as gone, so it must not stand in anybody's way until the sweeper passes.
            (OnFull::RejectNew, NoRoomFor::Record | NoRoomFor::Bytes) => self.expire_some().await,
            (OnFull::EvictOldestFinal, NoRoomFor::Record) => self.evict_one(policy, about).await,
            (OnFull::EvictOldestFinal, NoRoomFor::Bytes) => {
                let most = policy.capacity.bytes_per_tenant.unwrap_or(u64::MAX);
                let mut made = false;
                for _ in 0..EVICTED_FOR_ONE {
                    if !self.evict_one(policy, about).await? {
                        break;
                    }
                    made = true;
                    if self.usage(about.tenant_tag).await?.bytes < most {
                        break;
                    }
                }
                Ok(made)
            }
        }
    }

    /// Brings in a body that lies beside its record.
    pub(crate) async fn with_body(
        &self,
        id: &Id,
        mut replay: hapax_core::Replay,
        seen: &Seen,
    ) -> Result<hapax_core::Replay, EngineError> {
        let Recorded::Whole(outcome) = &mut replay.answer else { return Ok(replay) };
        let Some(body) = outcome.stored_body() else {
            self.warm(id, seen);
            return Ok(replay);
        };
        let found = self.get_body(body).await?;
        // Gone between the two reads: evicted or expired. What it was can still be said.
        replay.answer = match found {
            Some(bytes) => {
                outcome.body = hapax_core::Body::Inline(bytes.into());
                replay.answer
            }
            None => Recorded::DigestOnly { status: outcome.status, digest: outcome.digest() },
        };
        Ok(replay)
    }

    /// Keeps a final answer at hand: as long as it is recorded where nobody else writes, else only for a moment.
    pub(crate) fn warm(&self, id: &Id, seen: &Seen) {
        let Some(record) = &seen.record else { return self.gate.forget(id) };
        match (hapax_core::final_answer(record), seen.mark) {
            (Some(replay), Some(mark)) => {
                let most = (!self.store.single_writer()).then_some(GATE_ON_SHARED_STORES);
                self.gate.insert_seen(id, record.about.tenant_tag, record.guard(), &replay, most, mark);
            }
            (Some(_), None) => {}
            (None, _) => self.gate.forget(id),
        }
    }
}

impl Inner {
    /// A ticket that stands for no record: what runs under it is not protected, and its marks say so.
    pub(crate) fn ticket_for_nothing(&self, prepared: &Prepared) -> Ticket {
        Ticket {
            id: prepared.id,
            // No record is told from another by it, so without randomness any nonce will do.
            token: Token { attempt: 1, nonce: self.entropy.nonce().unwrap_or(Nonce([0; 16])) },
            fence: Version::NEVER,
            lease: prepared.lease.unwrap_or(prepared.policy.lease),
            effect: prepared.effect,
            about: Arc::clone(prepared.about(self)),
            policy: Arc::clone(&prepared.policy),
            held: Arc::new(Held {
                seen: Seen::nothing().into(),
                deadline: Instant::now().into(),
                running: None.into(),
            }),
        }
    }
}

/// How many records one begin lets go of where bytes are short: after a large answer was kept, many small ones may have to.
/// If that is not enough it is refused, and the next one goes on.
const EVICTED_FOR_ONE: usize = 64;
/// How long the gate is believed where other processes may write.
const GATE_ON_SHARED_STORES: Millis = Millis::from_secs(2);
