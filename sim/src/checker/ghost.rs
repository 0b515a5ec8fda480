//! What really happened, kept beside the record by nobody in particular, so that the record can be held against it.

use hapax_core::Effect;

use super::config::Config;
use crate::model::{Cmd, Resolution, Said, Token};

/// The attempt that was begun last and has no recorded end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pub token: Token,
    pub print: u8,
    pub started: bool,
    pub lease_end: i64,
    pub epoch: Option<u64>,
    /// Its owner has said that it cannot say how it ended.
    pub gave_up: bool,
}

/// A final outcome, and until when it has to be given again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Final {
    pub what: u8,
    pub rejected: bool,
    pub ends: i64,
    pub whole: bool,
}

pub(super) const NONCES: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ghost {
    pub holder: Option<Holder>,
    pub decided: Option<Final>,
    /// By nonce: the attempt that it was last given in the record, 0 for none.
    pub attempts: [u8; NONCES],
    /// By nonce: attempts that ended so that nothing of theirs may be accepted any more.
    pub dead: u16,
    /// By nonce: begins whose caller is through with it and holds nothing.
    pub settled: u16,
    /// By nonce: attempts whose effect took place.
    pub took_effect: u16,
    /// By nonce: attempts whose effect was made impossible.
    pub prevented: u16,
    /// Prints of attempts that left something behind.
    pub left_prints: u8,
    pub effects: u8,
    /// When the first attempt of this record was begun: from then on its provider knows the key, for its window.
    pub first: Option<i64>,
    /// By nonce: attempts begun while the provider knew the key. All that they do there is one effect.
    pub known: u16,
    /// That effect has taken place.
    pub known_effect: bool,
    /// An attempt before the latest one has no known end.
    pub doubt_before: bool,
    /// How many effects are allowed beyond the first: a person accepted it, or the window of an answer ended.
    pub leaves: u8,
}

pub(super) const fn bit(nonce: u8) -> u16 {
    1 << nonce
}

impl Ghost {
    /// A write was stored. `Err` says which promise it broke.
    pub(super) fn stored(
        &mut self,
        cmd: Cmd,
        said: Said,
        decided: i64,
        now: i64,
        config: &Config,
    ) -> Result<(), &'static str> {
        let (class, knobs) = (config.class, config.knobs);
        match cmd {
            Cmd::Begin(begin) => {
                let Said::Execute(token) = said else { return Err("11: a refused begin was stored") };
                return self.begun(
                    token,
                    begin.print,
                    begin.started,
                    begin.epoch.map(|(mine, _)| mine),
                    decided,
                    now,
                    config,
                );
            }
            Cmd::Start(_) if self.beyond_help(decided, config) => {
                return Err("3: an attempt started beside a doubt that its provider can no longer settle");
            }
            Cmd::Start(token) => match &mut self.holder {
                Some(holder) if holder.token == token => holder.started = true,
                Some(_) | None => return Err("6: a start was stored for a token that holds nothing"),
            },
            Cmd::Renew(token) => match &mut self.holder {
                Some(holder) if holder.token == token => holder.lease_end = now + knobs.lease,
                Some(_) | None => return Err("6: a renewal was stored for a token that holds nothing"),
            },
            Cmd::Complete(token, what) | Cmd::Reject(token, what) => {
                if said == Said::Fenced {
                    return Ok(());
                }
                if self.dead & bit(token.1) != 0 {
                    return Err("6: an outcome of a token that no longer counts was accepted");
                }
                let rejected = matches!(cmd, Cmd::Reject(..));
                let kept = if rejected { knobs.failure } else { knobs.success };
                self.decide(what, rejected, now + kept, now)?;
            }
            Cmd::Fail(token, _) => {
                if self.dead & bit(token.1) != 0 {
                    return Err("6: a failure of a token that no longer counts was accepted");
                }
                if let Some(holder) = self.holder.take() {
                    self.left_prints |= 1 << holder.print;
                }
            }
            Cmd::FailUnknown(token) => {
                if self.dead & bit(token.1) != 0 {
                    return Err("6: a word of a token that no longer counts was accepted");
                }
                if let Some(holder) = &mut self.holder {
                    holder.lease_end = holder.lease_end.min(now);
                    holder.gave_up = true;
                }
            }
            Cmd::Release((_, nonce)) | Cmd::ReleaseNoEffect((_, nonce)) | Cmd::Unstart((_, nonce)) => {
                self.dead |= bit(nonce);
                self.holder = self.holder.filter(|holder| holder.token.1 != nonce);
            }
            Cmd::Disown(nonce) => {
                if self.attempts[nonce as usize] != 0 {
                    self.dead |= bit(nonce);
                }
                self.holder = self.holder.filter(|holder| holder.token.1 != nonce);
            }
            Cmd::Resolve(resolution) => {
                self.doubt_before = false;
                let holder = self.holder.take();
                if let Some(holder) = holder {
                    self.dead |= bit(holder.token.1);
                    self.left_prints |= 1 << holder.print;
                }
                match resolution {
                    Resolution::Committed(what) => self.decide(what, false, now + knobs.success, now)?,
                    Resolution::Rejected(what) => self.decide(what, true, now + knobs.failure, now)?,
                    Resolution::Open => {}
                }
            }
            Cmd::Evict { tombstones_full } => {
                if self.holder.is_some_and(|holder| holder.started) && !class.may_rerun() {
                    return Err("9: live work was evicted");
                }
                if tombstones_full {
                    if !class.may_rerun() {
                        return Err("4: work that may not run twice was forgotten");
                    }
                    self.decided = None;
                } else if let Some(decided) = &mut self.decided {
                    decided.whole = false;
                }
            }
            Cmd::ResolveMoved(_) => return Err("a resolution of another version was stored"),
            Cmd::ClaimProbe(_) | Cmd::Expire => {}
        }
        Ok(())
    }

    fn decide(&mut self, what: u8, rejected: bool, ends: i64, now: i64) -> Result<(), &'static str> {
        if self.decided.is_some_and(|decided| now < decided.ends) {
            return Err("1: a second final outcome was stored");
        }
        if let Some(holder) = self.holder.take() {
            self.left_prints |= 1 << holder.print;
        }
        self.doubt_before = false;
        self.decided = Some(Final { what, rejected, ends, whole: true });
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one begin")]
    fn begun(
        &mut self,
        token: Token,
        print: u8,
        started: bool,
        epoch: Option<u64>,
        decided: i64,
        now: i64,
        config: &Config,
    ) -> Result<(), &'static str> {
        let (class, knobs) = (config.class, config.knobs);
        let lease_end = now + knobs.lease;
        if self.beyond_help(decided, config) {
            return Err("3: an attempt began beside a doubt that its provider can no longer settle");
        }
        if let Some(holder) = &mut self.holder
            && holder.token == token
        {
            // A first attempt that lapsed before its start had left nothing: this one is the first again.
            if token.0 == 1 && !holder.started && holder.lease_end <= decided && !knobs.stale {
                self.first = config.honoured.map(|_| now);
            }
            holder.started |= started;
            holder.lease_end = lease_end;
            holder.print = print;
            return Ok(());
        }
        if token.0 == 1 {
            (self.first, self.known_effect) = (config.honoured.map(|_| now), false);
        }
        let known = self.is_known(decided, config);
        if known {
            self.known |= bit(token.1);
        }
        if let Some(holder) = self.holder {
            let lapsed = holder.lease_end <= now && !knobs.stale;
            let overtaken = !holder.started && holder.epoch.zip(epoch).is_some_and(|(old, new)| old < new);
            let allowed = overtaken || (lapsed && (!holder.started || class.may_rerun() || known));
            if !allowed {
                return Err("2: a new attempt began although the one before it has not ended");
            }
            if holder.started {
                self.left_prints |= 1 << holder.print;
                self.doubt_before |= !class.may_rerun();
            }
            self.dead |= bit(holder.token.1);
        }
        if let Some(decided) = self.decided {
            let ends = decided.ends + if knobs.refuse { knobs.tombstone } else { 0 };
            if now < ends {
                return Err("4: a new attempt began although the answer still has to be given");
            }
            self.leaves += 1;
            self.decided = None;
        }
        if token.0 == 1 {
            self.left_prints = 0;
        }
        // Whoever left an Open behind is superseded with it.
        for nonce in 0..NONCES {
            if self.attempts[nonce] != 0 {
                self.dead |= 1 << nonce;
            }
        }
        self.dead &= !bit(token.1);
        self.attempts[token.1 as usize] = u8::try_from(token.0).unwrap_or(u8::MAX);
        self.holder = Some(Holder { token, print, started, lease_end, epoch, gave_up: false });
        Ok(())
    }

    /// Whether the provider still knows the key.
    fn is_known(&self, now: i64, config: &Config) -> bool {
        self.first.zip(config.honoured).is_some_and(|(first, window)| now < first + window)
    }

    /// An earlier attempt is in doubt, and the provider has forgotten the key.
    pub(super) fn beyond_help(&self, now: i64, config: &Config) -> bool {
        self.doubt_before && !self.is_known(now, config)
    }

    /// The effect of this attempt takes place.
    pub(super) fn effect(&mut self, nonce: u8, class: Effect) -> Result<(), &'static str> {
        if class.may_rerun() || self.prevented & bit(nonce) != 0 {
            return Ok(());
        }
        self.took_effect |= bit(nonce);
        if self.known & bit(nonce) != 0 && std::mem::replace(&mut self.known_effect, true) {
            return Ok(());
        }
        self.effects += 1;
        if self.effects > 1 + self.leaves {
            return Err("2: the effect took place again without leave");
        }
        Ok(())
    }
}
