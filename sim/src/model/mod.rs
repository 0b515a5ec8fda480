//! The naive model: one operation, plain integers, every sentence of the specification once.
//!
//! It is written from the words and shares nothing with the rules but the names of the effect classes. Time only moves
//! forward here, so a lapse is simply carried out when its moment has come; the rules, which judge it when they read,
//! have to come to the same answers.

mod begin;
mod ends;

use hapax_core::Effect;

/// What the policy says, in plain numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Knobs {
    pub lease: i64,
    pub success: i64,
    pub failure: i64,
    pub open: i64,
    pub tombstone: i64,
    /// `on_lapse = stale` for every class.
    pub stale: bool,
    /// `after_window = refuse` for every class.
    pub refuse: bool,
}

/// A token: attempt number and nonce.
pub type Token = (u32, u8);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Begin {
    pub nonce: u8,
    pub print: u8,
    pub class: Effect,
    pub started: bool,
    /// The caller's epoch and the group's.
    pub epoch: Option<(u64, u64)>,
    pub admitted: bool,
    pub room: bool,
    /// For how long, from the first attempt on, its provider answers the key as it did the first time.
    pub honoured: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resolution {
    Committed(u8),
    Rejected(u8),
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cmd {
    Begin(Begin),
    Start(Token),
    Renew(Token),
    Complete(Token, u8),
    Reject(Token, u8),
    Fail(Token, u8),
    FailUnknown(Token),
    Release(Token),
    ReleaseNoEffect(Token),
    Unstart(Token),
    Disown(u8),
    /// Named by the version that is current.
    Resolve(Resolution),
    /// Named by a version that has moved.
    ResolveMoved(Resolution),
    /// Claimed until this moment.
    ClaimProbe(i64),
    Expire,
    Evict {
        tombstones_full: bool,
    },
}

/// What a command is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Said {
    WindowClosed,
    Mismatch,
    Replay { what: u8, whole: bool, rejected: bool, attempt: u32 },
    InFlight,
    InDoubt,
    Refused,
    Superseded,
    Execute(Token),
    Ok,
    OkLate,
    OkAlready,
    Fenced,
    Conflict,
    NotAllowed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    Pending { started: bool, lease_end: i64 },
    Open { since: i64, failure: Option<u8> },
    InDoubt { probe_until: Option<i64>, failure: Option<u8> },
    Committed,
    Rejected,
    Tombstone,
}

/// How the latest attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    Not,
    Completed,
    Rejected,
    Failed,
    SaidUnknown,
    Released,
    LapsedBeforeStart,
    LapsedAfterStart,
    Resolved,
}

/// The final outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decided {
    pub what: u8,
    pub rejected: bool,
    pub at: i64,
    pub kept: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Op {
    pub attempt: u32,
    pub nonce: u8,
    pub class: Effect,
    pub epoch: Option<u64>,
    /// The print of the request that the latest attempt runs.
    pub print: u8,
    /// The print that guards the key, and the one to go back to if the attempt leaves nothing behind.
    pub guard: Option<u8>,
    pub guard_before: Option<u8>,
    pub ended: Ended,
    pub place: Place,
    pub decided: Option<Decided>,
    /// When the first attempt was begun, and for how long from then on its provider knows the key.
    pub first: i64,
    pub honoured: Option<i64>,
    /// An attempt before the latest one is in doubt. Nothing but a final outcome or a resolution ends that.
    pub doubt_before: bool,
}

impl Op {
    fn token(&self) -> Token {
        (self.attempt, self.nonce)
    }

    /// An attempt before this one is in doubt, and the provider has forgotten the key: nobody may call it any more.
    fn beyond_help(&self, now: i64) -> bool {
        self.doubt_before && self.honoured.is_none_or(|window| now >= self.first + window)
    }

    /// The next may run, unless an attempt before this one is in doubt.
    fn open(&mut self, since: i64, failure: Option<u8>) {
        self.place = if self.doubt_before {
            Place::InDoubt { probe_until: None, failure }
        } else {
            Place::Open { since, failure }
        };
    }
}

/// One operation; `None` is absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Model {
    pub knobs: Knobs,
    pub op: Option<Op>,
}

impl Model {
    #[must_use]
    pub fn new(knobs: Knobs) -> Self {
        Self { knobs, op: None }
    }

    /// One command at a moment: what it is told. The model is the next state.
    pub fn step(&mut self, cmd: Cmd, now: i64) -> Said {
        self.pass(now);
        match cmd {
            Cmd::Begin(begin) => self.begin(begin, now),
            Cmd::Start(token) => self.start(token, now),
            Cmd::Renew(token) => self.renew(token, now),
            Cmd::Complete(token, what) => self.finish(token, what, false, now),
            Cmd::Reject(token, what) => self.finish(token, what, true, now),
            Cmd::Fail(token, what) => self.fail(token, what, now),
            Cmd::FailUnknown(token) => self.fail_unknown(token, now),
            Cmd::Release(token) => self.release(token, false, now),
            Cmd::ReleaseNoEffect(token) | Cmd::Unstart(token) => self.release(token, true, now),
            Cmd::Disown(nonce) => self.disown(nonce, now),
            Cmd::Resolve(resolution) => self.resolve(resolution, now),
            Cmd::ResolveMoved(_) => Said::Conflict,
            Cmd::ClaimProbe(until) => self.claim_probe(until, now),
            // Time has passed already; whether anybody wrote it down cannot be seen.
            Cmd::Expire => Said::Ok,
            Cmd::Evict { tombstones_full } => self.evict(tombstones_full),
        }
    }

    /// Carries out what time does to the record.
    pub fn pass(&mut self, now: i64) {
        loop {
            let before = self.op;
            self.pass_once(now);
            if self.op == before {
                return;
            }
        }
    }

    fn pass_once(&mut self, now: i64) {
        let knobs = self.knobs;
        let Some(op) = &mut self.op else { return };
        match op.place {
            Place::Pending { started, lease_end } if now >= lease_end && !knobs.stale => {
                self.lapse(started, lease_end);
            }
            Place::Open { since, .. } if now >= since + knobs.open => self.op = None,
            Place::Committed | Place::Rejected if now >= op.decided.map_or(0, |d| d.at + d.kept) => {
                if knobs.refuse {
                    op.place = Place::Tombstone;
                } else {
                    self.op = None;
                }
            }
            Place::Tombstone => {
                let stands = if knobs.refuse { knobs.tombstone } else { 0 };
                if now >= op.decided.map_or(0, |d| d.at + d.kept + stands) {
                    self.op = None;
                }
            }
            Place::Pending { .. } | Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected => {
            }
        }
    }

    /// The lease ran out, or the owner said that it cannot say.
    fn lapse(&mut self, started: bool, at: i64) {
        let Some(op) = &mut self.op else { return };
        if !started {
            self.leave_nothing(at, Ended::LapsedBeforeStart);
        } else if op.class.may_rerun() {
            op.open(at, None);
            op.ended = Ended::LapsedAfterStart;
        } else {
            op.place = Place::InDoubt { probe_until: None, failure: None };
            op.ended = Ended::LapsedAfterStart;
        }
    }

    /// An attempt that did nothing: absent if it was the first, else Open or in doubt, as it was found.
    fn leave_nothing(&mut self, at: i64, ended: Ended) {
        let Some(op) = &mut self.op else { return };
        if op.attempt == 1 {
            self.op = None;
        } else {
            op.guard = op.guard_before;
            op.open(at, None);
            op.ended = ended;
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.op.map(|op| op.place) {
            None => "Absent",
            Some(Place::Pending { .. }) => "Pending",
            Some(Place::Open { .. }) => "Open",
            Some(Place::InDoubt { .. }) => "InDoubt",
            Some(Place::Committed) => "Committed",
            Some(Place::Rejected) => "Rejected",
            Some(Place::Tombstone) => "Tombstone",
        }
    }
}
