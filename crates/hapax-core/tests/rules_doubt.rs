//! A provider that recognises a key may be called again while an earlier call is in doubt. What the later call says of
//! itself does not say how the earlier one ended: once the provider has forgotten the key, the doubt has to be there still.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::sync::Arc;

use crate::rules_support::*;
use hapax_core::{
    Anchor, Command, Effect, Honoured, Millis, OutcomeClass, Stamp, StateName, Ties, Token, Verdict, Version, Waiting,
    command::{Begin, Resolution},
    judge_waiter,
    record::EarlierDoubt,
};

/// Longer than two leases.
const WINDOW: u64 = 35;

fn honoured(begin: Begin) -> Begin {
    let honoured = Honoured { from: Anchor::Write, window: Millis(WINDOW) };
    Begin { ties: Some(Arc::new(Ties { honoured: Some(honoured), ..Ties::default() })), ..begin }
}

fn charge(number: u8) -> Begin {
    honoured(begin(number, Effect::Irreversible))
}

fn charge_later(number: u8) -> Begin {
    honoured(not_started(number, Effect::Irreversible))
}

/// Attempt 1 was lost. Ten milliseconds later it is in doubt, and the provider knows the key for 25 more.
fn lost() -> Cell {
    let mut cell = Cell::new(policy());
    let _lost = cell.granted(charge(1));
    cell.wait(LEASE);
    assert_eq!(cell.state(), StateName::InDoubt);
    cell
}

fn beyond(cell: &mut Cell) {
    cell.now = 1_000 + WINDOW;
}

fn is_told_of_the_doubt(cell: &mut Cell, after: &str) {
    for swept in [false, true] {
        if swept {
            cell.sweep();
        }
        let told = cell.begin(charge(9));
        assert!(matches!(told, Verdict::InDoubt { .. }), "after {after}, swept: {swept}: {told:?}");
    }
}

/// A charge is lost. It is made again inside Stripe's window, and that call is never sent, or is turned away by a 401, 429 or
/// 503. A day later the same charge is made once more: Stripe has forgotten the key, and takes it for a new one.
#[test]
fn a_doubt_outlives_every_later_attempt_that_says_nothing_of_it() {
    type Ends = fn(&mut Cell, Token);
    let ends: [(&str, bool, Ends); 8] = [
        ("a release before the start", false, |cell, token| assert_eq!(cell.ask(release(token)), OK)),
        ("the word that nothing happened", true, |cell, token| assert_eq!(cell.ask(no_effect(token)), OK)),
        ("a retryable failure", true, |cell, token| assert_eq!(cell.ask(fail(token, 7)), OK)),
        ("an unstart", true, |cell, token| assert_eq!(cell.ask(Command::Unstart { token }), OK)),
        ("a disowning", true, |cell, token| {
            let expected = Version(cell.version.0 - 1);
            assert_eq!(cell.ask(Command::Disown { nonce: token.nonce, expected }), OK);
        }),
        ("a lapse before the start", false, |cell, _| cell.wait(LEASE)),
        ("a lapse, and then the word that nothing happened", true, |cell, token| {
            cell.wait(LEASE);
            assert_eq!(cell.ask(no_effect(token)), LATE);
        }),
        ("a lapse, and then a retryable failure", true, |cell, token| {
            cell.wait(LEASE);
            assert_eq!(cell.ask(fail(token, 7)), LATE);
        }),
    ];
    for (what, started, end) in ends {
        let mut cell = lost();
        let token = cell.granted(if started { charge(2) } else { charge_later(2) });
        assert_eq!(token.attempt, 2);
        end(&mut cell, token);
        assert_eq!(cell.state(), StateName::InDoubt, "{what}");
        let earlier = cell.read().unwrap().earlier_doubt.unwrap();
        assert_eq!((earlier.attempt, earlier.since), (1, Stamp(1_000 + LEASE)), "{what}");
        // Said again, it is so already, and changes nothing.
        if what.contains("word") {
            assert_eq!(cell.ask(no_effect(token)), ALREADY, "{what}");
        }
        if what.contains("failure") {
            assert_eq!(cell.ask(fail(token, 7)), ALREADY, "{what}");
            assert!(matches!(cell.ask(fail(token, 8)), hapax_core::Reply::Conflict(_)), "{what}");
        }
        // Inside the window it may be called again.
        let mut inside = cell.clone();
        assert_eq!(inside.granted(charge(3)).attempt, 3, "{what}");
        beyond(&mut cell);
        is_told_of_the_doubt(&mut cell, what);
        // Not in a year either: it waits for whoever finds out.
        cell.wait(1_000_000_000);
        is_told_of_the_doubt(&mut cell, what);
    }
}

/// The record remembers the last eight attempts; the doubt is older than that.
#[test]
fn a_doubt_is_not_pushed_out_by_many_later_attempts() {
    let mut cell = lost();
    for number in 2..30 {
        let token = cell.granted(charge(number));
        assert_eq!(cell.ask(fail(token, number)), OK);
    }
    beyond(&mut cell);
    is_told_of_the_doubt(&mut cell, "28 attempts");
    assert_eq!(cell.read().unwrap().earlier_doubt.unwrap().attempt, 1);
}

/// The class of a call is declared anew with each attempt: one that calls itself repeatable does not make the first so.
#[test]
fn a_later_attempt_of_a_milder_class_does_not_forget_the_doubt() {
    for effect in Effect::ALL {
        let mut cell = lost();
        let _vanishes = cell.granted(honoured(begin(2, effect)));
        cell.wait(LEASE);
        assert_eq!(cell.state(), StateName::InDoubt, "{effect}");
        beyond(&mut cell);
        is_told_of_the_doubt(&mut cell, effect.name());
    }
}

/// A final answer under the key is the provider's word about it, and a person's decision is a decision.
#[test]
fn a_final_answer_or_a_resolution_settles_it() {
    let mut cell = lost();
    let token = cell.granted(charge(2));
    assert_eq!(cell.ask(fail(token, 7)), OK);
    assert_eq!(cell.ask(complete(token, 8)), LATE, "the failed call was answered after all");
    assert_eq!((cell.state(), cell.read().unwrap().earlier_doubt), (StateName::Committed, None));

    let mut cell = lost();
    let token = cell.granted(charge(2));
    assert_eq!(cell.ask(reject(token, 8)), OK);
    assert_eq!((cell.state(), cell.read().unwrap().earlier_doubt), (StateName::Rejected, None));

    for end in [no_effect, |token| fail(token, 7)] {
        let mut cell = lost();
        let token = cell.granted(charge(2));
        assert_eq!(cell.ask(end(token)), OK);
        beyond(&mut cell);
        assert_eq!(cell.ask(run_again(cell.version)), OK);
        assert_eq!((cell.state(), cell.read().unwrap().earlier_doubt), (StateName::Open, None));
        let third = cell.granted(charge(3));
        assert_eq!(cell.ask(no_effect(third)), OK);
        assert_eq!(cell.state(), StateName::Open, "what was settled stays settled");
    }
    let mut cell = lost();
    let _running = cell.granted(charge(2));
    assert_eq!(cell.ask(resolve(cell.version, Resolution::Committed(success(9)))), OK);
    assert_eq!((cell.state(), cell.read().unwrap().earlier_doubt), (StateName::Committed, None));
}

/// An attempt is admitted inside the window and comes to its start only after it, in its own hands, in those of a newer
/// turn, or because its owner saw no answer to its begin and asks again.
#[test]
fn nobody_starts_beside_a_doubt_beyond_the_window() {
    let waiting = || {
        let mut cell = lost();
        cell.now = 1_000 + WINDOW - 1;
        let token = cell.granted(in_epoch(charge_later(2), 1, 1));
        (cell, token)
    };
    let (mut cell, token) = waiting();
    assert_eq!(cell.clone().ask(Command::Start { token }), OK, "inside it may");
    beyond(&mut cell);
    assert_eq!(cell.ask(Command::Start { token }), hapax_core::Reply::Fenced);
    assert_eq!(cell.ask(release(token)), OK, "an owner whose start was fenced releases");
    assert_eq!(cell.state(), StateName::InDoubt);

    let (mut cell, _) = waiting();
    assert!(matches!(cell.clone().begin(in_epoch(charge_later(3), 2, 2)), Verdict::Execute(_)), "inside it may");
    beyond(&mut cell);
    assert!(matches!(cell.begin(in_epoch(charge_later(3), 2, 2)), Verdict::InFlight { .. }));

    let (mut cell, token) = waiting();
    beyond(&mut cell);
    assert!(matches!(cell.begin(in_epoch(charge_later(2), 1, 1)), Verdict::InFlight { .. }), "not even its own");
    cell.wait(LEASE);
    assert!(matches!(cell.begin(in_epoch(charge_later(2), 1, 1)), Verdict::InDoubt { .. }));
    assert_eq!(token.attempt, 2);
}

/// Who waits for the second call gets its 503 inside the window; beyond it, the doubt is what there is to say.
#[test]
fn a_waiter_is_told_of_the_failure_or_of_the_doubt() {
    let mut cell = lost();
    let token = cell.granted(charge(2));
    assert_eq!(cell.ask(fail(token, 7)), OK);
    let woken = |cell: &Cell| judge_waiter(&cell.policy, cell.current(), Some(&print(1)), 2, cell.moment());
    assert_eq!(woken(&cell), Waiting::Joined(failure(OutcomeClass::RetryableFailure, 7)));
    beyond(&mut cell);
    assert!(matches!(woken(&cell), Waiting::Answer(Verdict::InDoubt { .. })));
}

/// A call that did nothing leaves no print behind, and the print of the call in doubt still guards the key.
#[test]
fn the_print_of_the_call_in_doubt_still_guards_its_key() {
    let mut cell = lost();
    let token = cell.granted(charge(2));
    assert_eq!(cell.ask(no_effect(token)), OK);
    let other = Begin { fingerprint: Some(print(2)), ..charge(3) };
    assert_eq!(cell.begin(other), Verdict::Mismatch);
}

/// Without a doubt before it a clean end is a clean end, whatever the provider knows.
#[test]
fn without_a_doubt_nothing_is_carried_along() {
    let mut cell = Cell::new(policy());
    let first = cell.granted(charge(1));
    assert_eq!(cell.ask(fail(first, 7)), OK);
    let second = cell.granted(charge(2));
    assert_eq!(cell.read().unwrap().earlier_doubt, None::<Arc<EarlierDoubt>>);
    assert_eq!(cell.ask(no_effect(second)), OK);
    assert_eq!(cell.state(), StateName::Open);
    beyond(&mut cell);
    assert!(matches!(cell.begin(charge(3)), Verdict::Execute(_)));
}
