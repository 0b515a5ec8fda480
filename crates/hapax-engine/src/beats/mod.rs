//! Beats: the messages of one session that make one turn, in whatever order and however often they arrive.

use std::{collections::HashMap, sync::Arc};

use hapax_core::{
    Id, Millis, State, as_read,
    beat::{Beat, BeatCommand, BeatReply, Beats, Judged, Message, NoBeat, apply_beat, beats_as_read},
    group_tag,
    identity::{Grammar, Key, Surface, Tenant, recipes::native},
    record::About,
};
use hapax_store::{Level, StoreError};

use crate::{
    call::{Call, IntoTenant},
    engine::{Engine, Inner},
    error::EngineError,
    group::{GroupError, GroupHandle, Turn},
    quota::NoRoom,
    told::KeyKind,
};

const SURFACE: &str = "beat";

/// Why there is no beat.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeatError {
    #[error("{0} [HX0096]")]
    Beat(#[from] NoBeat),
    #[error("the beat is not sealed; seal it before it is answered [HX0096]")]
    NotSealed,
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// One session of a tenant.
#[derive(Clone, Debug)]
pub struct BeatSession {
    engine: Engine,
    tenant: Tenant,
    session: Arc<str>,
    id: Id,
    about: Arc<About>,
    keep: Millis,
}

/// One beat of a session.
#[derive(Clone, Debug)]
pub struct SessionBeat(Beat);

/// By what it is, not by when it was last touched.
impl PartialEq for SessionBeat {
    fn eq(&self, other: &Self) -> bool {
        (self.0.number, &self.0.members, self.0.sealed) == (other.0.number, &other.0.members, other.0.sealed)
    }
}

impl Eq for SessionBeat {}

impl SessionBeat {
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.0.number
    }

    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.0.sealed
    }

    /// How many messages it has.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.0.members.len()
    }
}

/// What is known of messages that arrived together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Gathered {
    /// None was known: a new beat.
    New(SessionBeat),
    /// All belong to this beat: delivered again.
    Known(SessionBeat),
    /// Some belong to beats; the others are still unanswered.
    Overlap { found: Vec<(String, u64)>, beats: Vec<SessionBeat>, unanswered: Vec<String> },
}

impl Engine {
    /// The beats of a session.
    pub fn beats(&self, tenant: impl IntoTenant, session: &str) -> Result<BeatSession, EngineError> {
        let tenant = tenant.into_tenant()?;
        let key = Key::new(session, &Grammar::visible())?;
        let surface = Surface::new(SURFACE)?;
        let id = Id::derived("hapax.beats.v1", &[tenant.as_str().as_bytes(), session.as_bytes()]);
        let about = self.inner.about(&surface, &tenant, &key);
        let policy = self.inner.policy(&surface);
        // A message has to be found until its beat is begun, and then for as long as its answer is kept. While it is
        // answered its operation says that it lives.
        let kept = match policy.success_retention() {
            hapax_core::Span::For(kept) => kept,
            hapax_core::Span::Forever => Millis::from_days(36_500),
        };
        let keep = Millis(kept.0.saturating_add(policy.lease.0.saturating_mul(2)));
        Ok(BeatSession { engine: self.clone(), tenant, session: session.into(), id, about, keep })
    }
}

impl BeatSession {
    /// These messages arrived together, in any order.
    pub async fn gather(&self, messages: &[&str]) -> Result<Gathered, BeatError> {
        self.engine.sweep_from_now_on();
        let inner = &self.engine.inner;
        // A session is one record, however many beats it has.
        let _room = match inner.look_at::<Beats>(&self.id).await.map_err(EngineError::from)?.record {
            Some(_) => None,
            None => {
                let policy = inner.policy_of(&self.about);
                Some(inner.room_for(&policy, &self.about).await.map_err(EngineError::from)??)
            }
        };
        let (digests, names) = self.digests(messages);
        let command = BeatCommand::Gather { about: Arc::clone(&self.about), messages: digests, keep: self.keep };
        match self.ask(&command).await? {
            BeatReply::New(beat) => Ok(Gathered::New(SessionBeat(beat))),
            BeatReply::Known(beat) => Ok(Gathered::Known(SessionBeat(beat))),
            BeatReply::Overlap { found, beats, unanswered } => Ok(Gathered::Overlap {
                found: found.iter().map(|(message, beat)| (named(&names, message), *beat)).collect(),
                beats: beats.into_iter().map(SessionBeat).collect(),
                unanswered: unanswered.iter().map(|message| named(&names, message)).collect(),
            }),
            BeatReply::Refused(why) => Err(why.into()),
            BeatReply::Changed { .. } | BeatReply::Sealed { .. } | BeatReply::Judge(_) => Err(NoBeat::Unknown.into()),
        }
    }

    /// More messages belong to an open beat. Those that another beat has already are named with it, and stay there.
    pub async fn absorb(
        &self,
        beat: &SessionBeat,
        messages: &[&str],
    ) -> Result<(SessionBeat, Vec<(String, u64)>), BeatError> {
        let (digests, names) = self.digests(messages);
        match self.ask(&BeatCommand::Absorb { beat: beat.number(), messages: digests }).await? {
            BeatReply::Changed { beat, elsewhere } => {
                let elsewhere = elsewhere.iter().map(|(message, at)| (named(&names, message), *at)).collect();
                Ok((SessionBeat(beat), elsewhere))
            }
            BeatReply::Refused(why) => Err(why.into()),
            BeatReply::New(_)
            | BeatReply::Known(_)
            | BeatReply::Overlap { .. }
            | BeatReply::Sealed { .. }
            | BeatReply::Judge(_) => Err(NoBeat::Unknown.into()),
        }
    }

    /// ABSORB into a running turn: its group is asked first, since past its commit point nothing is absorbed.
    pub async fn absorb_into(
        &self,
        group: &GroupHandle,
        turn: &Turn,
        beat: &SessionBeat,
        messages: &[&str],
    ) -> Result<(SessionBeat, Vec<(String, u64)>), BeatError> {
        group.absorb(turn).await?;
        self.absorb(beat, messages).await
    }

    /// The beat is complete: nothing is absorbed any more.
    pub async fn seal(&self, beat: &SessionBeat) -> Result<SessionBeat, BeatError> {
        match self.ask(&BeatCommand::Seal { beat: beat.number() }).await? {
            BeatReply::Sealed { beat, already: _ } => Ok(SessionBeat(beat)),
            BeatReply::Refused(why) => Err(why.into()),
            BeatReply::New(_)
            | BeatReply::Known(_)
            | BeatReply::Overlap { .. }
            | BeatReply::Changed { .. }
            | BeatReply::Judge(_) => Err(NoBeat::Unknown.into()),
        }
    }

    /// A beat of this session by its number, while its time is not over.
    pub async fn beat(&self, number: u64) -> Result<Option<SessionBeat>, BeatError> {
        let looked = self.engine.inner.look_at::<Beats>(&self.id).await.map_err(EngineError::from)?;
        let Some(beats) = looked.record else { return Ok(None) };
        let mut judged = Judged::new();
        loop {
            match beats_as_read(&beats, &judged, looked.now) {
                Ok(live) => return Ok(live.into_iter().find(|beat| beat.number == number).cloned().map(SessionBeat)),
                Err(open) => self.judge(open, &mut judged).await?,
            }
        }
    }

    /// The call that answers a sealed beat, once, whichever of its messages is delivered again.
    pub fn call(&self, beat: &SessionBeat) -> Result<Call, BeatError> {
        if !beat.0.sealed {
            return Err(BeatError::NotSealed);
        }
        let members: Vec<u8> = beat.0.members.iter().flat_map(|message| message.0).collect();
        let key = native::named("beat", 1, &[("session", self.session.as_bytes()), ("members", &members)]);
        let print = beat.0.fingerprint(&self.engine.inner.printer);
        let call = self.engine.surface(SURFACE).tenant(&self.tenant).with_key(key).fingerprinted(print);
        let call = call.key_kind(KeyKind::Beat);
        if self.engine.inner.store.level() < Level::Full {
            return Ok(call);
        }
        // Listed with its session, so that the session is kept as long as one of its beats is answered.
        let session = group_tag(&self.id);
        Ok(call.set(|prepared| prepared.tied(|ties| ties.run = Some(session))))
    }

    async fn ask(&self, command: &BeatCommand) -> Result<BeatReply, BeatError> {
        let mut judged = Judged::new();
        loop {
            let asked = self.engine.inner.decide(&self.id, |beats: Option<&Beats>, moment| {
                let step = apply_beat(beats, command, &judged, moment);
                (step.write, step.reply)
            });
            match asked.await.map_err(EngineError::from)? {
                BeatReply::Judge(open) => self.judge(open, &mut judged).await?,
                reply @ (BeatReply::New(_)
                | BeatReply::Known(_)
                | BeatReply::Overlap { .. }
                | BeatReply::Changed { .. }
                | BeatReply::Sealed { .. }
                | BeatReply::Refused(_)) => return Ok(reply),
            }
        }
    }

    /// Looks at the operations of beats whose time is over.
    async fn judge(&self, open: Vec<Beat>, judged: &mut Judged) -> Result<(), BeatError> {
        for beat in open {
            let number = beat.number;
            let operation = self.call(&SessionBeat(beat))?.id()?;
            let lives = self.engine.inner.is_answered(&operation).await.map_err(EngineError::from)?;
            judged.insert(number, lives);
        }
        Ok(())
    }

    /// Ids of messages are as private as keys: only a digest is stored.
    fn digests(&self, messages: &[&str]) -> (Vec<Message>, HashMap<Message, String>) {
        let digest = |message: &str| {
            let parts = [self.tenant.as_str().as_bytes(), self.session.as_bytes(), message.as_bytes()];
            let mut short = [0; 16];
            short.copy_from_slice(&Id::derived("hapax.message.v1", &parts).0[..16]);
            Message(short)
        };
        let digests: Vec<Message> = messages.iter().map(|message| digest(message)).collect();
        let names = digests.iter().copied().zip(messages.iter().map(|message| (*message).to_owned())).collect();
        (digests, names)
    }
}

impl Inner {
    /// Whether the answer to a beat is under way, in doubt, or still given to whoever asks.
    async fn is_answered(&self, operation: &Id) -> Result<bool, StoreError> {
        let Some(seen) = self.operation(operation).await? else { return Ok(false) };
        let now = self.now(&seen);
        let read = seen.record.as_deref().and_then(|record| as_read(record, now));
        Ok(read.is_some_and(|record| match &record.state {
            State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) => true,
            State::Tombstone(_) => false,
        }))
    }

    /// Whether one of the beats of a session is being answered, or its answer is still given.
    pub(crate) async fn is_session_alive(&self, session: &Id) -> Result<bool, StoreError> {
        if self.store.level() < Level::Full {
            return Ok(false);
        }
        for operation in self.listed_under(group_tag(session)).await? {
            if self.is_answered(&operation).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn named(names: &HashMap<Message, String>, message: &Message) -> String {
    names.get(message).cloned().unwrap_or_default()
}
