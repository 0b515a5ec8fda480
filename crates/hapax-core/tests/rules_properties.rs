//! What holds for any record that any history can lead to, at any moment, whatever is asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "tests")]

use crate::rules_support::*;
use hapax_core::{
    Command, Effect, Millis, OutcomeClass, Policy, Recorded, Reply, Stamp, State, StateName, Token, Verdict, Version,
    Write, as_read,
    command::{Begin, Release, Resolution},
    record::{End, Record},
};
use proptest::{collection::vec, prelude::*, sample::select};

/// A command, told by small numbers so that it often hits.
#[derive(Clone, Copy, Debug)]
struct Ask {
    verb: u8,
    nonce: u8,
    attempt: u32,
    what: u8,
    print: u8,
    flag: bool,
    epoch: u64,
}

const VERBS: u8 = 15;

fn asks() -> impl Strategy<Value = Ask> {
    (0..VERBS, 1..4_u8, 1..4_u32, 7..9_u8, 1..3_u8, any::<bool>(), 0..3_u64).prop_map(
        |(verb, nonce, attempt, what, print, flag, epoch)| Ask { verb, nonce, attempt, what, print, flag, epoch },
    )
}

/// The attempt number is often the right one.
fn token_of(ask: Ask, cell: &Cell) -> Token {
    match &cell.record {
        Some(record) if record.attempt.nonce == nonce(ask.nonce) && ask.flag => record.token(),
        Some(_) | None => token(ask.attempt, ask.nonce),
    }
}

fn command(ask: Ask, effect: Effect, cell: &Cell) -> Command {
    let token = token_of(ask, cell);
    match ask.verb {
        0..=2 => {
            let asked = Begin { started: ask.flag, fingerprint: Some(print(ask.print)), ..begin(ask.nonce, effect) };
            Command::Begin(if ask.epoch == 0 { asked } else { in_epoch(asked, ask.epoch, 2) })
        }
        3 => Command::Start { token },
        4 => Command::Renew { token, lease: Millis(LEASE) },
        5 => complete(token, ask.what),
        6 => reject(token, ask.what),
        7 => fail(token, ask.what),
        8 => fail_unknown(token),
        9 => Command::Release { token, why: if ask.flag { Release::NoEffect } else { Release::BeforeStart } },
        10 => Command::Unstart { token },
        11 => Command::Disown { nonce: nonce(ask.nonce), expected: cell.version },
        12 => match ask.what {
            7 if ask.flag => resolve(cell.version, Resolution::Committed(success(5))),
            7 => resolve(cell.version, Resolution::Rejected(refusal(5))),
            _ => run_again(cell.version),
        },
        13 => Command::ClaimProbe { version: cell.version, next_at: Stamp(cell.now + 5) },
        _ => Command::Evict { tombstones_full: false },
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    select(vec![policy(), stale(), refusing()])
}

fn effects() -> impl Strategy<Value = Effect> {
    select(Effect::ALL.to_vec())
}

/// A cell after some history in which time only moves on.
fn histories() -> impl Strategy<Value = (Cell, Effect)> {
    let waits = prop_oneof![4 => Just(0), 2 => 1..LEASE + 2, 1 => 20..150_u64];
    (policies(), effects(), vec((asks(), waits), 0..12)).prop_map(|(policy, effect, steps)| {
        let mut cell = Cell::new(policy);
        for (ask, wait) in steps {
            let asked = command(ask, effect, &cell);
            let _ = cell.ask(asked);
            cell.wait(wait);
        }
        (cell, effect)
    })
}

fn read_at(record: &Record, now: u64) -> Option<Record> {
    as_read(record, Stamp(now)).map(std::borrow::Cow::into_owned)
}

fn live(record: &Record) -> bool {
    matches!(record.state, State::Pending(_) | State::InDoubt(_))
}

/// A reply without the version numbers in it, which a sweep moves.
fn unversioned(reply: Reply) -> Reply {
    match reply {
        Reply::Verdict(mut verdict) => {
            if let Verdict::Execute(grant) = &mut *verdict {
                grant.fence = None;
            }
            Reply::Verdict(verdict)
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Reading twice is reading once, also when the first reading was written down a while ago.
    #[test]
    fn reading_is_idempotent((cell, _) in histories(), earlier in 0..400_u64, later in 0..400_u64) {
        let Some(record) = &cell.record else { return Ok(()) };
        let (first, second) = (cell.now + earlier, cell.now + earlier + later);
        let read = read_at(record, first);
        prop_assert_eq!(read.as_ref().and_then(|read| read_at(read, first)), read.clone());
        prop_assert_eq!(read.and_then(|read| read_at(&read, second)), read_at(record, second));
    }

    /// Settling fixes every window; doing it again, by a later write, moves none.
    #[test]
    fn settling_is_idempotent((cell, _) in histories(), version in any::<u64>(), stamp in any::<u64>()) {
        let Some(record) = &cell.record else { return Ok(()) };
        prop_assert_eq!(&record.clone().settled(Version(version), Stamp(stamp)), record);
    }

    /// A lapse or an expiry reads the same whether or not it was written down: for any record and any later moment at
    /// which the sweeper passed, any command is answered as if it had not, and leads to the same state.
    #[test]
    fn the_sweeper_is_not_seen(
        (cell, effect) in histories(),
        swept_after in 0..200_u64,
        asked_after in 0..200_u64,
        ask in asks(),
    ) {
        let mut left = cell.clone();
        left.wait(swept_after + asked_after);
        let mut swept = cell;
        swept.wait(swept_after);
        swept.sweep();
        swept.wait(asked_after);
        prop_assert_eq!(left.state(), swept.state());
        // The same words, except for the version that they name.
        let asked = command(ask, effect, &left);
        let asked_after_sweep = if matches!(ask.verb, 11..=13) { command(ask, effect, &swept) } else { asked.clone() };
        let told = left.ask(asked);
        let told_after_sweep = swept.ask(asked_after_sweep);
        prop_assert_eq!(unversioned(told), unversioned(told_after_sweep));
        prop_assert_eq!(left.state(), swept.state());
    }

    /// The clock may jump, in either direction by any amount. It may shorten or lengthen a window, and breaks nothing
    /// else: never two tokens that are accepted, and started work that nobody ended stays in doubt.
    #[test]
    fn jumps_of_the_clock_keep_one_owner(
        policy in policies(),
        effect in effects(),
        steps in vec((asks(), prop_oneof![Just(None), any::<u64>().prop_map(Some), (990..1_400_u64).prop_map(Some)]), 1..40),
    ) {
        let mut cell = Cell::new(policy);
        let mut granted: Vec<Token> = Vec::new();
        let mut running: Option<Token> = None;
        for (ask, jump) in steps {
            if let Some(now) = jump {
                cell.now = now;
            }
            let asked = command(ask, effect, &cell);
            let by = match &asked {
                Command::Complete { token, .. } | Command::Reject { token, .. } | Command::Release { token, .. }
                | Command::Unstart { token } => Some(*token),
                Command::Fail { token, outcome } if outcome.class != OutcomeClass::Unknown => Some(*token),
                _ => None,
            };
            let ends = by.is_some() || matches!(asked, Command::Resolve(_) | Command::Disown { .. });
            let starts = match &asked {
                Command::Begin(begin) => begin.started,
                Command::Start { .. } => true,
                _ => false,
            };
            let told = cell.ask(asked);
            let accepted = matches!(told, Reply::Done(_));
            if ends && accepted {
                running = running.filter(|held| by.is_some_and(|by| by != *held));
            }
            if let Reply::Verdict(verdict) = &told
                && let Verdict::Execute(grant) = &**verdict
            {
                granted.push(grant.token);
                prop_assert!(
                    effect.may_rerun() || running.is_none_or(|held| held == grant.token),
                    "{:?} began beside {running:?}", grant.token
                );
            }
            if starts && cell.record.as_ref().is_some_and(|record| {
                matches!(&record.state, State::Pending(pending) if pending.started)
            }) {
                running = cell.record.as_ref().map(Record::token);
            }
            let accepts = |token: &Token| match cell.decide(complete(*token, 99)).reply {
                Reply::Done(done) => !done.already,
                _ => false,
            };
            granted.sort_by_key(|token| (token.attempt, token.nonce.0));
            granted.dedup();
            prop_assert!(granted.iter().filter(|token| accepts(token)).count() <= 1);
            if let Some(held) = running.filter(|_| !effect.may_rerun()) {
                let read = cell.read();
                prop_assert!(read.is_some_and(|record| live(&record) && record.token() == held));
            }
        }
    }

    /// Once an outcome is final, every answer inside its retention is that outcome, and its end does not move, whatever
    /// is asked and refused meanwhile.
    #[test]
    fn answers_and_the_end_of_their_retention_do_not_move(
        policy in policies(),
        effect in effects(),
        rejected in any::<bool>(),
        steps in vec((asks(), 0..20_u64), 0..25),
    ) {
        let mut cell = Cell::new(policy);
        let owner = cell.granted(begin(1, effect));
        prop_assert_eq!(cell.ask(if rejected { reject(owner, 7) } else { complete(owner, 7) }), OK);
        let ends = cell.now + if rejected { FAILURE } else { SUCCESS };
        let replay = |cell: &Cell| match cell.decide(Command::Begin(begin(9, effect))).reply {
            Reply::Verdict(verdict) => match *verdict {
                Verdict::Replay(replay) => Some(replay),
                _ => None,
            },
            _ => None,
        };
        let first = replay(&cell).expect("just decided");
        prop_assert_eq!(first.expires, Some(Stamp(ends)));
        let Recorded::Whole(outcome) = &first.answer else { panic!("nothing was evicted") };
        for (ask, wait) in steps {
            let asked = command(ask, effect, &cell);
            let _ = cell.ask(asked);
            cell.wait(wait);
            if cell.now >= ends {
                prop_assert!(replay(&cell).is_none_or(|later| later.expires != Some(Stamp(ends))));
                break;
            }
            let later = replay(&cell).expect("inside its retention");
            prop_assert_eq!(later.expires, first.expires);
            prop_assert_eq!((later.rejected, later.attempt), (first.rejected, first.attempt));
            match &later.answer {
                Recorded::Whole(again) => prop_assert_eq!(again, outcome),
                Recorded::DigestOnly { digest, .. } => prop_assert_eq!(*digest, outcome.digest()),
            }
        }
    }

    /// Live work is never evicted, and nothing of it is written.
    #[test]
    fn live_work_is_never_evicted((cell, _) in histories(), after in 0..200_u64, tombstones_full in any::<bool>()) {
        let mut cell = cell;
        cell.wait(after);
        if !cell.read().is_some_and(|record| live(&record)) {
            return Ok(());
        }
        let step = cell.decide(Command::Evict { tombstones_full });
        prop_assert!(matches!(step.reply, Reply::Refused(_)));
        prop_assert_eq!(step.write, Write::Nothing);
    }

    /// Clean refusals leave nothing: whoever is not let through writes nothing, except the outcome that it brought.
    #[test]
    fn refusals_write_nothing((cell, effect) in histories(), ask in asks(), after in 0..200_u64) {
        let mut cell = cell;
        cell.wait(after);
        let step = cell.decide(command(ask, effect, &cell));
        match (&step.reply, &step.write) {
            (Reply::Verdict(verdict), write) if !matches!(**verdict, Verdict::Execute(_)) => {
                prop_assert_eq!(write, &Write::Nothing);
            }
            (Reply::Fenced, Write::Put(next)) => {
                let mut kept = cell.read().expect("evidence needs a record");
                kept.evidence.clone_from(&next.evidence);
                prop_assert_eq!(&**next, &kept);
                prop_assert!(next.evidence.len() <= hapax_core::record::EVIDENCE_KEPT);
            }
            (Reply::Fenced | Reply::Conflict(_) | Reply::Refused(_), write) => prop_assert_eq!(write, &Write::Nothing),
            (Reply::Verdict(_) | Reply::Done(_), _) => {}
        }
    }

    /// An attempt that ended before its effect leaves the print that stood before it, or no record at all.
    #[test]
    fn attempts_that_did_nothing_leave_no_print((cell, effect) in histories(), how in 0..4_u8) {
        let mut cell = cell;
        if cell.state() == StateName::Absent {
            cell.sweep();
        }
        let before = cell.read().and_then(|record| record.guard().cloned());
        let asked = Begin { fingerprint: before.clone().or(Some(print(6))), ..not_started(60, effect) };
        let Verdict::Execute(grant) = cell.begin(asked) else { return Ok(()) };
        match how {
            0 => { let _ = cell.ask(release(grant.token)); }
            1 => { let _ = cell.ask(fail_unknown(grant.token)); }
            2 => { let _ = cell.ask(Command::Disown { nonce: grant.token.nonce, expected: Version(0) }); }
            _ => cell.wait(LEASE),
        }
        if cell.policy == stale() && matches!(how, 1 | 3) {
            // It stays as it is until somebody decides.
            prop_assert_eq!(cell.state(), StateName::Pending);
            return Ok(());
        }
        match cell.read() {
            None => prop_assert_eq!(grant.token.attempt, 1),
            Some(record) => {
                prop_assert_eq!(record.guard().cloned(), before);
                let clean = matches!(record.attempt.end, End::Released | End::Lapsed { started: false });
                prop_assert!(clean, "ended {:?}", record.attempt.end);
            }
        }
    }
}
