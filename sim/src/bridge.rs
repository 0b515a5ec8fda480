//! Between the model's small numbers and the types of the rules.

use std::sync::{Arc, LazyLock};

use hapax_core::{
    Anchor, Body, Command, Fingerprint, Honoured, Millis, Moment, Nonce, Outcome, OutcomeClass, Policy, Preset, Record,
    Recorded, Refusal, RefusalReason, Reply, Span, Stamp, Tag, Ties, Token, Verdict, Version, WallMillis, Write,
    command::{Admit, Begin, Epochs, Posture, Release, Resolution, Resolve},
    identity::Scheme,
    policy::{AfterWindow, OnLapse, Treatment},
    record::About,
};

use crate::model::{self, Cmd, Knobs, Said};

#[must_use]
pub const fn nonce(number: u8) -> Nonce {
    Nonce([number; 16])
}

#[must_use]
pub const fn token((attempt, number): model::Token) -> Token {
    Token { attempt, nonce: nonce(number) }
}

#[must_use]
pub fn print(number: u8) -> Fingerprint {
    Fingerprint::of(Scheme::RAW_V1, [number; 32])
}

/// An outcome that is known by one byte.
#[must_use]
pub fn outcome(class: OutcomeClass, what: u8) -> Outcome {
    Outcome::new(class, Body::Inline(ALL_BYTES[what as usize..=what as usize].into()))
}

static ALL_BYTES: [u8; 256] = {
    let mut all = [0; 256];
    let mut next = 0;
    while next < 256 {
        all[next] = next as u8;
        next += 1;
    }
    all
};

/// The byte of an outcome made by [`outcome`].
#[must_use]
pub fn what_of(outcome: &Outcome) -> u8 {
    match &outcome.body {
        Body::Inline(bytes) => bytes.first().copied().unwrap_or(u8::MAX),
        Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => u8::MAX,
    }
}

static DIGESTS: LazyLock<Vec<([u8; 32], u8)>> = LazyLock::new(|| {
    let mut digests = Vec::new();
    for what in 0..64 {
        for class in [OutcomeClass::Success, OutcomeClass::FinalFailure] {
            digests.push((outcome(class, what).digest(), what));
        }
    }
    digests
});

/// The byte of an outcome of which only the digest is left.
#[must_use]
pub fn what_of_digest(digest: &[u8; 32]) -> u8 {
    DIGESTS.iter().find(|(known, _)| known == digest).map_or(u8::MAX, |(_, what)| *what)
}

static ABOUT: LazyLock<Arc<About>> = LazyLock::new(|| {
    Arc::new(About {
        surface: Arc::from("model"),
        tenant: Arc::from("tenant"),
        surface_tag: Tag([1; 16]),
        tenant_tag: Tag([2; 16]),
        principal: None,
        key_hash: [3; 8],
    })
});

static NAME: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("model"));

fn span(length: i64) -> Span {
    Span::For(millis(length))
}

fn millis(length: i64) -> Millis {
    Millis(length.unsigned_abs())
}

#[must_use]
pub fn stamp(now: i64) -> Stamp {
    Stamp(now.unsigned_abs())
}

#[must_use]
pub fn moment(now: i64) -> Moment {
    Moment { now: stamp(now), wall: WallMillis(0) }
}

/// The policy that says the same as the knobs.
#[must_use]
pub fn policy(knobs: Knobs) -> Policy {
    Policy {
        lease: millis(knobs.lease),
        success: span(knobs.success),
        final_failure: Treatment::Replay(span(knobs.failure)),
        open_retention: Some(span(knobs.open)),
        tombstone_retention: span(knobs.tombstone),
        on_lapse: if knobs.stale { [Some(OnLapse::Stale); 5] } else { [None; 5] },
        after_window: Some(if knobs.refuse { AfterWindow::Refuse } else { AfterWindow::New }),
        ..Preset::Standard.policy()
    }
}

/// Whose all of this is.
#[must_use]
pub fn about() -> Arc<About> {
    Arc::clone(&ABOUT)
}

fn admit(yes: bool, reason: RefusalReason) -> Admit {
    if yes { Admit::Yes } else { Admit::No(Refusal { reason, retry_after: Millis(1) }) }
}

fn resolution(resolution: model::Resolution) -> Resolution {
    match resolution {
        model::Resolution::Committed(what) => Resolution::Committed(outcome(OutcomeClass::Success, what)),
        model::Resolution::Rejected(what) => Resolution::Rejected(outcome(OutcomeClass::FinalFailure, what)),
        model::Resolution::Open => Resolution::Open(Posture::OperatorAccepted),
    }
}

fn resolve(version: Version, how: model::Resolution) -> Command {
    let (actor, reason) = (Arc::clone(&NAME), Arc::clone(&NAME));
    Command::Resolve(Resolve { version, resolution: resolution(how), actor, reason })
}

/// The real command. `version` is the record's current one.
#[must_use]
pub fn command(cmd: Cmd, version: Version) -> Command {
    match cmd {
        Cmd::Begin(begin) => Command::Begin(Begin {
            nonce: nonce(begin.nonce),
            fingerprint: Some(print(begin.print)),
            effect: begin.class,
            lease: None,
            owner: Arc::clone(&NAME),
            started: begin.started,
            epoch: begin.epoch.map(|(caller, current)| Epochs { caller, current }),
            admit: admit(begin.admitted, RefusalReason::Admission),
            room: admit(begin.room, RefusalReason::Quota),
            about: Arc::clone(&ABOUT),
            ties: begin.honoured.map(|window| {
                let window = Millis(window.unsigned_abs());
                Arc::new(Ties { honoured: Some(Honoured { from: Anchor::Write, window }), ..Ties::default() })
            }),
        }),
        Cmd::Start(held) => Command::Start { token: token(held) },
        Cmd::Renew(held) => Command::Renew { token: token(held), lease: Millis(LEASE.unsigned_abs()) },
        Cmd::Complete(held, what) => {
            Command::Complete { token: token(held), outcome: outcome(OutcomeClass::Success, what) }
        }
        Cmd::Reject(held, what) => {
            Command::Reject { token: token(held), outcome: outcome(OutcomeClass::FinalFailure, what) }
        }
        Cmd::Fail(held, what) => {
            Command::Fail { token: token(held), outcome: outcome(OutcomeClass::RetryableFailure, what) }
        }
        Cmd::FailUnknown(held) => Command::Fail { token: token(held), outcome: outcome(OutcomeClass::Unknown, 0) },
        Cmd::Release(held) => Command::Release { token: token(held), why: Release::BeforeStart },
        Cmd::ReleaseNoEffect(held) => Command::Release { token: token(held), why: Release::NoEffect },
        Cmd::Unstart(held) => Command::Unstart { token: token(held) },
        Cmd::Disown(number) => Command::Disown { nonce: nonce(number), expected: version },
        Cmd::Resolve(how) => resolve(version, how),
        Cmd::ResolveMoved(how) => resolve(Version(version.0 + 1), how),
        Cmd::ClaimProbe(until) => Command::ClaimProbe { version, next_at: stamp(until) },
        Cmd::Expire => Command::Expire,
        Cmd::Evict { tombstones_full } => Command::Evict { tombstones_full },
    }
}

/// The lease that every model uses, so that *renew* can name it too.
pub const LEASE: i64 = 10;

/// The real reply in the model's words.
#[must_use]
pub fn said(reply: &Reply) -> Said {
    match reply {
        Reply::Verdict(verdict) => match &**verdict {
            Verdict::WindowClosed { .. } => Said::WindowClosed,
            Verdict::Mismatch => Said::Mismatch,
            Verdict::Replay(replay) => {
                let (what, whole) = match &replay.answer {
                    Recorded::Whole(outcome) => (what_of(outcome), true),
                    Recorded::DigestOnly { digest, .. } => (what_of_digest(digest), false),
                };
                Said::Replay { what, whole, rejected: replay.rejected, attempt: replay.attempt }
            }
            Verdict::InFlight { .. } => Said::InFlight,
            Verdict::InDoubt { .. } => Said::InDoubt,
            Verdict::Refused(_) => Said::Refused,
            Verdict::Fenced => Said::Superseded,
            Verdict::Execute(grant) => Said::Execute((grant.token.attempt, grant.token.nonce.0[0])),
        },
        Reply::Done(done) if done.already => Said::OkAlready,
        Reply::Done(done) if done.late => Said::OkLate,
        Reply::Done(_) => Said::Ok,
        Reply::Fenced => Said::Fenced,
        Reply::Conflict(_) => Said::Conflict,
        Reply::Refused(_) => Said::NotAllowed,
    }
}

/// One record in a store, in the plainest form: what a compare-and-set does once its version has matched.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub record: Option<Record>,
    pub version: Version,
}

impl Cell {
    /// Stores what a step asks for, as a write at this moment.
    pub fn store(&mut self, write: Write, now: i64) {
        match write {
            Write::Nothing => {}
            Write::Put(record) => {
                self.version.0 += 1;
                self.record = Some(std::sync::Arc::unwrap_or_clone(record).settled(self.version, stamp(now)));
            }
            Write::Remove => {
                self.version.0 += 1;
                self.record = None;
            }
        }
    }

    /// The command, decided by the real rules on what is stored now.
    pub fn decide(&self, policy: &Policy, cmd: Cmd, now: i64) -> hapax_core::Step {
        let current = hapax_core::Current { record: self.record.as_ref(), version: self.version };
        hapax_core::apply(policy, current, command(cmd, self.version), moment(now))
    }
}
