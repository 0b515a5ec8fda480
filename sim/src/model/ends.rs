//! Everything after *begin*.

use super::{Decided, Ended, Model, Place, Resolution, Said, Token};

impl Model {
    /// Ok while it holds the attempt; after the lapse fenced, unless the lapse left it Pending (`stale`).
    pub(super) fn start(&mut self, token: Token, now: i64) -> Said {
        let beyond_help = self.op.is_some_and(|op| op.beyond_help(now));
        match &mut self.op {
            Some(op) if op.token() == token => match &mut op.place {
                Place::Pending { started: true, .. } => Said::OkAlready,
                Place::Pending { .. } if beyond_help => Said::Fenced,
                Place::Pending { started, .. } => {
                    *started = true;
                    Said::Ok
                }
                Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone => {
                    Said::Fenced
                }
            },
            Some(_) | None => Said::Fenced,
        }
    }

    pub(super) fn renew(&mut self, token: Token, now: i64) -> Said {
        let next = now + self.knobs.lease;
        match &mut self.op {
            Some(op) if op.token() == token => match &mut op.place {
                Place::Pending { lease_end, .. } => {
                    *lease_end = next;
                    Said::Ok
                }
                Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone => {
                    Said::Fenced
                }
            },
            Some(_) | None => Said::Fenced,
        }
    }

    pub(super) fn finish(&mut self, token: Token, what: u8, rejected: bool, now: i64) -> Said {
        let kept = if rejected { self.knobs.failure } else { self.knobs.success };
        let Some(op) = &mut self.op else { return Said::Fenced };
        if op.token() != token {
            return Said::Fenced;
        }
        let late = match (op.place, op.ended) {
            // Its own end again: equal is fine, another is a conflict.
            (Place::Committed | Place::Rejected | Place::Tombstone, Ended::Completed | Ended::Rejected) => {
                let equal = op.decided.is_some_and(|d| d.what == what && d.rejected == rejected);
                return if equal { Said::OkAlready } else { Said::Conflict };
            }
            (Place::Pending { lease_end, .. }, _) => now >= lease_end,
            // Late, while nobody resolved and the attempt did not release.
            (
                Place::Open { .. } | Place::InDoubt { .. },
                Ended::Failed | Ended::SaidUnknown | Ended::LapsedBeforeStart | Ended::LapsedAfterStart,
            ) => true,
            (
                Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone,
                Ended::Released | Ended::Resolved | Ended::Not | Ended::Completed | Ended::Rejected,
            )
            | (Place::Committed | Place::Rejected | Place::Tombstone, _) => return Said::Fenced,
        };
        op.guard = Some(op.print);
        op.ended = if rejected { Ended::Rejected } else { Ended::Completed };
        op.place = if rejected { Place::Rejected } else { Place::Committed };
        op.decided = Some(Decided { what, rejected, at: now, kept });
        op.doubt_before = false;
        if late { Said::OkLate } else { Said::Ok }
    }

    pub(super) fn fail(&mut self, token: Token, what: u8, now: i64) -> Said {
        let Some(op) = &mut self.op else { return Said::Fenced };
        if op.token() != token {
            return Said::Fenced;
        }
        let late = match (op.place, op.ended) {
            (Place::Pending { lease_end, .. }, _) => now >= lease_end,
            (
                Place::Open { .. } | Place::InDoubt { .. },
                Ended::SaidUnknown | Ended::LapsedBeforeStart | Ended::LapsedAfterStart,
            ) => true,
            (Place::Open { failure, .. } | Place::InDoubt { failure, .. }, Ended::Failed) => {
                return if failure == Some(what) { Said::OkAlready } else { Said::Conflict };
            }
            (Place::Committed | Place::Rejected, Ended::Completed | Ended::Rejected) => return Said::Conflict,
            (Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone, _) => {
                return Said::Fenced;
            }
        };
        op.guard = Some(op.print);
        op.open(now, Some(what));
        op.ended = Ended::Failed;
        if late { Said::OkLate } else { Said::Ok }
    }

    pub(super) fn fail_unknown(&mut self, token: Token, now: i64) -> Said {
        let stale = self.knobs.stale;
        let Some(op) = &mut self.op else {
            // A first attempt that had not started leaves nothing: repeated, it is so already.
            return if token.0 == 1 { Said::OkAlready } else { Said::Fenced };
        };
        if op.token() != token {
            return Said::Fenced;
        }
        match (op.place, op.ended) {
            (Place::Pending { lease_end, .. }, _) if stale && now >= lease_end => Said::OkAlready,
            (Place::Pending { started, .. }, _) if stale => {
                op.place = Place::Pending { started, lease_end: now };
                Said::Ok
            }
            (Place::Pending { started, .. }, _) => {
                self.lapse(started, now);
                if let Some(op) = &mut self.op
                    && op.ended == Ended::LapsedAfterStart
                {
                    op.ended = Ended::SaidUnknown;
                }
                Said::Ok
            }
            (
                Place::Open { .. } | Place::InDoubt { .. },
                Ended::SaidUnknown | Ended::LapsedBeforeStart | Ended::LapsedAfterStart,
            ) => Said::OkAlready,
            (Place::Open { .. } | Place::InDoubt { .. }, Ended::Failed)
            | (Place::Committed | Place::Rejected, Ended::Completed | Ended::Rejected) => Said::Conflict,
            (Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone, _) => {
                Said::Fenced
            }
        }
    }

    pub(super) fn release(&mut self, token: Token, no_effect: bool, now: i64) -> Said {
        let Some(op) = &self.op else { return Said::OkAlready };
        if op.token() != token {
            return Said::Fenced;
        }
        let (started, late) = match (op.place, op.ended) {
            (Place::Pending { started, lease_end }, _) => (started, now >= lease_end),
            (Place::Open { .. } | Place::InDoubt { .. }, Ended::LapsedBeforeStart) => (false, true),
            (Place::Open { .. } | Place::InDoubt { .. }, Ended::LapsedAfterStart | Ended::SaidUnknown) => (true, true),
            (Place::Open { .. } | Place::InDoubt { .. }, Ended::Released) => return Said::OkAlready,
            (Place::Open { .. } | Place::InDoubt { .. }, Ended::Failed)
            | (Place::Committed | Place::Rejected, Ended::Completed | Ended::Rejected) => return Said::Conflict,
            (Place::Open { .. } | Place::InDoubt { .. } | Place::Committed | Place::Rejected | Place::Tombstone, _) => {
                return Said::Fenced;
            }
        };
        if started && !no_effect {
            return Said::NotAllowed;
        }
        self.leave_nothing(now, Ended::Released);
        if late { Said::OkLate } else { Said::Ok }
    }

    /// Nobody saw the answer to this begin: its record is taken back, if it is there.
    pub(super) fn disown(&mut self, nonce: u8, now: i64) -> Said {
        let Some(op) = &self.op else { return Said::Ok };
        let running = match op.place {
            Place::Pending { .. } => true,
            Place::Open { .. } | Place::InDoubt { .. } => {
                matches!(op.ended, Ended::LapsedBeforeStart | Ended::LapsedAfterStart)
            }
            Place::Committed | Place::Rejected | Place::Tombstone => false,
        };
        if op.nonce == nonce && running {
            self.leave_nothing(now, Ended::Released);
        }
        Said::Ok
    }

    pub(super) fn resolve(&mut self, resolution: Resolution, now: i64) -> Said {
        let knobs = self.knobs;
        let Some(op) = &mut self.op else { return Said::Conflict };
        if !matches!(op.place, Place::InDoubt { .. } | Place::Pending { .. }) {
            return Said::Conflict;
        }
        op.ended = Ended::Resolved;
        op.doubt_before = false;
        match resolution {
            Resolution::Committed(what) => {
                op.place = Place::Committed;
                op.decided = Some(Decided { what, rejected: false, at: now, kept: knobs.success });
            }
            Resolution::Rejected(what) => {
                op.place = Place::Rejected;
                op.decided = Some(Decided { what, rejected: true, at: now, kept: knobs.failure });
            }
            Resolution::Open => op.place = Place::Open { since: now, failure: None },
        }
        Said::Ok
    }

    pub(super) fn claim_probe(&mut self, until: i64, now: i64) -> Said {
        let Some(op) = &mut self.op else { return Said::Conflict };
        match &mut op.place {
            Place::InDoubt { probe_until, .. } if probe_until.is_none_or(|held| now >= held) => {
                *probe_until = Some(until);
                Said::Ok
            }
            Place::InDoubt { .. }
            | Place::Pending { .. }
            | Place::Open { .. }
            | Place::Committed
            | Place::Rejected
            | Place::Tombstone => Said::Conflict,
        }
    }

    /// Only what is final gives way; only work that may run twice goes to absent, and only if no tombstone may stay.
    pub(super) fn evict(&mut self, tombstones_full: bool) -> Said {
        let Some(op) = &mut self.op else { return Said::OkAlready };
        match op.place {
            Place::Committed | Place::Rejected if !tombstones_full => {
                op.place = Place::Tombstone;
                Said::Ok
            }
            Place::Committed | Place::Rejected if op.class.may_rerun() => {
                self.op = None;
                Said::Ok
            }
            Place::Tombstone => Said::OkAlready,
            Place::Committed | Place::Rejected | Place::Pending { .. } | Place::Open { .. } | Place::InDoubt { .. } => {
                Said::NotAllowed
            }
        }
    }
}
