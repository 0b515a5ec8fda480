//! What has to hold in every state, whatever led to it.

use hapax_core::{Policy, Record, Recorded, Reply, State, Verdict, Waiting, Write, judge_waiter};

use super::{
    config::Config,
    ghost::{NONCES, bit},
    world::{Broken, World},
};
use crate::{
    bridge,
    model::{Begin, Cmd, Resolution, Said, Token},
};

/// A nonce that no client ever brings.
const STRANGER: u8 = 14;

impl World {
    pub(super) fn check(&self, config: &Config, policy: &Policy) -> Result<(), Broken> {
        let read = self.read();
        let read = read.as_deref();
        self.unknown_is_not_failure(config, read)?;
        self.answers_do_not_change(config, policy, read)?;
        self.no_doubt_without_an_owner(read)?;
        self.stale_tokens_are_refused(policy, read)?;
        self.live_work_stays(policy, read)?;
        self.prints_of_nothing_are_gone(config, read)?;
        self.a_lost_reply_is_harmless(config, policy, read)?;
        self.a_newer_epoch_takes_over(config, policy, read)?;
        self.a_waiter_never_executes(config, policy)?;
        self.the_sweeper_is_not_seen(config, policy)?;
        if self.decide(policy, Cmd::ResolveMoved(Resolution::Open)).write != Write::Nothing {
            return Err("a resolution of another version was taken");
        }
        Ok(())
    }

    fn unknown_is_not_failure(&self, config: &Config, read: Option<&Record>) -> Result<(), Broken> {
        if self.ghost.doubt_before {
            match read.map(|record| &record.state) {
                Some(State::Pending(_) | State::InDoubt(_)) => {}
                Some(State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_)) | None => {
                    return Err("3: the doubt of an earlier attempt was forgotten by a later one");
                }
            }
        }
        let Some(holder) = self.ghost.holder.filter(|holder| holder.started && !config.class.may_rerun()) else {
            return Ok(());
        };
        match read {
            Some(record) if record.token() == bridge::token(holder.token) => match record.state {
                State::Pending(_) | State::InDoubt(_) => Ok(()),
                State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                    Err("3: a started attempt that nobody ended is no longer in doubt")
                }
            },
            Some(_) | None => Err("3: a started attempt that nobody ended is gone"),
        }
    }

    fn answers_do_not_change(&self, config: &Config, policy: &Policy, read: Option<&Record>) -> Result<(), Broken> {
        let Some(decided) = self.ghost.decided else { return Ok(()) };
        let ask = |print| self.decide(policy, Cmd::Begin(stranger(config, print)));
        if self.now >= decided.ends {
            if config.knobs.refuse && self.now < decided.ends + config.knobs.tombstone {
                let closed = bridge::said(&ask(1).reply) == Said::WindowClosed;
                return if closed { Ok(()) } else { Err("4: the window is closed and a begin is told otherwise") };
            }
            return if read.is_none() { Ok(()) } else { Err("4: an answer outlived its retention") };
        }
        let Some(record) = read else { return Err("4: an answer is gone inside its retention") };
        let guard = (1..=2).find(|print| record.guard() == Some(&bridge::print(*print))).unwrap_or(1);
        let step = ask(guard);
        let Reply::Verdict(verdict) = &step.reply else { return Err("4: a begin was given no verdict") };
        let Verdict::Replay(replay) = &**verdict else { return Err("4: a decided operation is not replayed") };
        let same = match &replay.answer {
            Recorded::Whole(outcome) => decided.whole && bridge::what_of(outcome) == decided.what,
            Recorded::DigestOnly { digest, .. } => !decided.whole && bridge::what_of_digest(digest) == decided.what,
        };
        if !same || replay.rejected != decided.rejected {
            return Err("4: the answer changed");
        }
        if replay.expires != Some(bridge::stamp(decided.ends)) {
            return Err("4: the end of the retention moved");
        }
        Ok(())
    }

    /// A record in doubt, or pending, always has somebody who was told, may yet be told, or crashed while asking.
    fn no_doubt_without_an_owner(&self, read: Option<&Record>) -> Result<(), Broken> {
        let Some(record) = read else { return Ok(()) };
        let nonce = record.attempt.nonce.0[0];
        let live = match record.state {
            State::Pending(_) | State::InDoubt(_) => true,
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
        };
        // What is left of an earlier attempt is in doubt by itself, whoever is through with the latest.
        let left_before = self.ghost.doubt_before && matches!(record.state, State::InDoubt(_));
        if live && !left_before && self.ghost.settled & bit(nonce) != 0 {
            return Err("C2-C4: doubt without an owner: everybody who ever asked for this attempt is through with it");
        }
        Ok(())
    }

    fn stale_tokens_are_refused(&self, policy: &Policy, read: Option<&Record>) -> Result<(), Broken> {
        for nonce in 0..NONCES as u8 {
            if self.ghost.dead & bit(nonce) == 0 || self.ghost.attempts[nonce as usize] == 0 {
                continue;
            }
            let token: Token = (u32::from(self.ghost.attempts[nonce as usize]), nonce);
            let complete = self.decide(policy, Cmd::Complete(token, 50));
            if complete.reply != Reply::Fenced {
                return Err("6: an outcome of a token that no longer counts would be accepted");
            }
            match (&complete.write, read) {
                (Write::Put(next), Some(_))
                    if next.evidence.iter().any(|kept| bridge::what_of(&kept.outcome) == 50) => {}
                (Write::Nothing, None) => {}
                (Write::Put(_) | Write::Nothing | Write::Remove, _) => return Err("6: a refused outcome was not kept"),
            }
            for cmd in [Cmd::Start(token), Cmd::Renew(token), Cmd::Fail(token, 50)] {
                let step = self.decide(policy, cmd);
                if step.reply != Reply::Fenced || step.write != Write::Nothing {
                    return Err("6: a token that no longer counts would be accepted");
                }
            }
            let given_back = bridge::said(&self.decide(policy, Cmd::ReleaseNoEffect(token)).reply);
            if !matches!(given_back, Said::Fenced | Said::OkAlready) {
                return Err("6: a token that no longer counts could still give back");
            }
        }
        Ok(())
    }

    fn live_work_stays(&self, policy: &Policy, read: Option<&Record>) -> Result<(), Broken> {
        let live = read.is_some_and(|record| match record.state {
            State::Pending(_) | State::InDoubt(_) => true,
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
        });
        if !live {
            return Ok(());
        }
        for tombstones_full in [false, true] {
            let step = self.decide(policy, Cmd::Evict { tombstones_full });
            if step.write != Write::Nothing || !matches!(step.reply, Reply::Refused(_)) {
                return Err("9: live work would be evicted");
            }
        }
        Ok(())
    }

    fn prints_of_nothing_are_gone(&self, config: &Config, read: Option<&Record>) -> Result<(), Broken> {
        let Some(guard) = read.and_then(Record::guard) else { return Ok(()) };
        let Some(print) = (1..=7_u8).find(|print| guard == &bridge::print(*print)) else {
            return Err("11: a print that nobody brought");
        };
        let left = self.ghost.left_prints & 1 << print != 0;
        let held = self.ghost.holder.is_some_and(|holder| {
            let vanished = !holder.started && holder.lease_end <= self.now && !config.knobs.stale;
            holder.print == print && !vanished
        });
        if left || held { Ok(()) } else { Err("11: an attempt that did nothing left its print behind") }
    }

    /// Whoever asks again with the nonce of an attempt that nothing ended gets its ticket, also from a lapse.
    fn a_lost_reply_is_harmless(&self, config: &Config, policy: &Policy, read: Option<&Record>) -> Result<(), Broken> {
        let Some(holder) = self.ghost.holder.filter(|holder| !holder.gave_up) else { return Ok(()) };
        if read.is_none_or(|record| record.token() != bridge::token(holder.token)) {
            return Ok(());
        }
        if self.ghost.beyond_help(self.now, config) {
            return Ok(());
        }
        let again = Begin { nonce: holder.token.1, ..stranger(config, holder.print) };
        let said = bridge::said(&self.decide(policy, Cmd::Begin(again)).reply);
        // Another print may stand where this one did nothing.
        let harmless = said == Said::Execute(holder.token) || (said == Said::Mismatch && !holder.started);
        if harmless { Ok(()) } else { Err("C5: the same nonce does not get its ticket again") }
    }

    fn a_newer_epoch_takes_over(&self, config: &Config, policy: &Policy, read: Option<&Record>) -> Result<(), Broken> {
        let Some(holder) = self.ghost.holder.filter(|holder| !holder.started) else { return Ok(()) };
        let held = read.is_some_and(|record| record.token() == bridge::token(holder.token));
        let (true, Some(epoch)) = (held, holder.epoch) else { return Ok(()) };
        if self.ghost.beyond_help(self.now, config) {
            return Ok(());
        }
        if read.is_some_and(|record| !matches!(record.state, State::Pending(_))) {
            return Ok(());
        }
        let newer = Begin { epoch: Some((epoch + 1, epoch + 1)), ..stranger(config, 3 - holder.print) };
        let said = bridge::said(&self.decide(policy, Cmd::Begin(newer)).reply);
        let taken = matches!(said, Said::Execute(_));
        if taken { Ok(()) } else { Err("C12: a newer epoch does not take over what has not started") }
    }

    fn a_waiter_never_executes(&self, config: &Config, policy: &Policy) -> Result<(), Broken> {
        for print in [1, 2] {
            let begun = self.decide(policy, Cmd::Begin(stranger(config, print)));
            let Reply::Verdict(verdict) = begun.reply else { return Err("7: a begin was given no verdict") };
            let woken = judge_waiter(policy, self.current(), Some(&bridge::print(print)), 1, bridge::moment(self.now));
            let fits = match (&*verdict, &woken) {
                (Verdict::Execute(_), Waiting::Answer(Verdict::InFlight { .. }) | Waiting::Joined(_)) => true,
                (Verdict::InFlight { retry_after: begin, .. }, Waiting::Wait { retry_after: waiter }) => {
                    begin == waiter
                }
                (Verdict::Execute(_) | Verdict::InFlight { .. }, _) => false,
                (verdict, Waiting::Answer(answer)) => verdict == answer,
                (_, Waiting::Wait { .. } | Waiting::Joined(_)) => false,
            };
            if !fits {
                return Err("7: a waiter is told something else than a begin that may not execute");
            }
        }
        Ok(())
    }

    /// Whatever is asked now is answered the same after the sweeper has passed.
    fn the_sweeper_is_not_seen(&self, config: &Config, policy: &Policy) -> Result<(), Broken> {
        let Some(record) = self.record.as_deref() else { return Ok(()) };
        let write = self.decide(policy, Cmd::Expire).write;
        if write == Write::Nothing {
            return Ok(());
        }
        let mut swept = Self { clients: Vec::new(), late: Vec::new(), ..self.clone() };
        swept.version.0 += 1;
        swept.record = match write {
            Write::Put(next) => Some(std::sync::Arc::new(
                std::sync::Arc::unwrap_or_clone(next).settled(swept.version, bridge::stamp(self.now)),
            )),
            Write::Remove | Write::Nothing => None,
        };
        let token = (record.attempt.number, record.attempt.nonce.0[0]);
        let again = Begin { nonce: token.1, started: false, ..stranger(config, 1) };
        let commands = [
            Cmd::Begin(stranger(config, 1)),
            Cmd::Begin(stranger(config, 2)),
            Cmd::Begin(again),
            Cmd::Start(token),
            Cmd::Renew(token),
            Cmd::Complete(token, 50),
            Cmd::Fail(token, 50),
            Cmd::FailUnknown(token),
            Cmd::Release(token),
            Cmd::ReleaseNoEffect(token),
            Cmd::Disown(token.1),
            Cmd::Evict { tombstones_full: false },
        ];
        for cmd in commands {
            let before = bridge::said(&self.decide(policy, cmd).reply);
            let after = bridge::said(&swept.decide(policy, cmd).reply);
            if before != after {
                return Err("8: the sweeper changed an answer");
            }
        }
        Ok(())
    }
}

fn stranger(config: &Config, print: u8) -> Begin {
    Begin {
        nonce: STRANGER,
        print,
        class: config.class,
        started: true,
        epoch: None,
        admitted: true,
        room: true,
        honoured: config.honoured,
    }
}
