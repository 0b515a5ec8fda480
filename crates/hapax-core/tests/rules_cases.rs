//! Accidents found on paper, each with what holds instead. The names are those of the list of cases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "tests")]

use crate::rules_support::*;
use hapax_core::{
    Command, Effect, Millis, Outcome, Recorded, Refusal, RefusalReason, Reply, StateName, Token, Verdict, Version,
    Waiting,
    command::{Admit, Begin, Conflict, Posture, Resolution},
    judge_waiter,
};

const TWICE: [bool; 2] = [false, true];

fn replayed(verdict: Verdict) -> (Recorded, bool) {
    match verdict {
        Verdict::Replay(replay) => (replay.answer, replay.rejected),
        other => panic!("expected a replay, was told {other:?}"),
    }
}

/// Complete is applied, its reply lost. The record is evicted for lack of room. Another begin finds nothing and runs
/// the payment a second time.
#[test]
fn c1_eviction_does_not_forget_that_it_was_done() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(complete(owner, 7)), OK);
    let done_at = cell.now;
    assert_eq!(cell.ask(Command::Evict { tombstones_full: false }), OK);

    let answer = Recorded::DigestOnly { status: 0, digest: success(7).digest() };
    assert_eq!(replayed(cell.begin(begin(2, Effect::Unsafe))), (answer.clone(), false));
    assert_eq!(cell.ask(complete(owner, 7)), ALREADY, "the owner that lost its reply asks again");
    assert!(matches!(cell.ask(complete(owner, 8)), Reply::Conflict(Conflict::OtherOutcome(None))));

    // Inside the original retention, to its last moment; eviction did not move its end.
    cell.now = done_at + SUCCESS - 1;
    assert_eq!(replayed(cell.begin(begin(2, Effect::Unsafe))), (answer, false));
    cell.now = done_at + SUCCESS;
    assert!(matches!(cell.begin(begin(2, Effect::Unsafe)), Verdict::Execute(_)));
}

/// With no room for tombstones either, only work that may run twice is forgotten.
#[test]
fn c1_without_room_for_tombstones_unsafe_work_stays() {
    for effect in Effect::ALL {
        let mut cell = Cell::new(policy());
        let owner = cell.granted(begin(1, effect));
        assert_eq!(cell.ask(complete(owner, 7)), OK);
        let told = cell.ask(Command::Evict { tombstones_full: true });
        if effect.may_rerun() {
            assert_eq!((told, cell.state()), (OK, StateName::Absent));
        } else {
            assert!(matches!(told, Reply::Refused(_)), "{effect}: {told:?}");
            assert_eq!(cell.state(), StateName::Committed);
        }
    }
}

/// A tenant fills its share with small failures and then lets each of them succeed. Another attempt needs no further record, so it
/// runs where only records are short; where bytes are, it is refused as a first one is. Whoever holds the attempt goes on.
#[test]
fn another_attempt_is_refused_for_want_of_bytes_and_not_of_records() {
    let full = |reason| Admit::No(Refusal { reason, retry_after: Millis(1) });
    for (reason, runs) in [(RefusalReason::Quota, true), (RefusalReason::Bytes, false)] {
        let mut cell = Cell::new(policy());
        let short = |nonce| Begin { room: full(reason), ..begin(nonce, Effect::Idempotent) };
        assert!(matches!(cell.begin(short(1)), Verdict::Refused(refusal) if refusal.reason == reason));
        let owner = cell.granted(begin(1, Effect::Idempotent));
        assert!(matches!(cell.begin(short(1)), Verdict::Execute(_)), "it has begun already");
        assert_eq!(cell.ask(fail(owner, 3)), OK);
        let told = cell.begin(short(2));
        assert_eq!(matches!(told, Verdict::Execute(_)), runs, "{reason:?}: {told:?}");
        assert_eq!(cell.state(), if runs { StateName::Pending } else { StateName::Open });
    }
}

/// A begin times out with its write in flight. The same nonce gets its ticket and releases. The old write lands in the
/// empty slot, and nobody owns it.
#[test]
fn c2_absence_has_a_version_so_the_late_write_conflicts() {
    let mut cell = Cell::new(policy());
    let late = cell.send(Command::Begin(begin(1, Effect::Unsafe)));
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(no_effect(owner)), OK);
    assert_eq!(cell.state(), StateName::Absent);
    assert!(!cell.land(late), "removed is not the same as never written");
    assert_eq!(cell.state(), StateName::Absent);
}

/// The engine reads absent and calls the unknown begin settled; then the write lands.
#[test]
fn c3_disowning_is_a_write() {
    let mut cell = Cell::new(policy());
    let late = cell.send(Command::Begin(begin(1, Effect::Unsafe)));
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(1), expected: Version::NEVER }), OK);
    assert!(!cell.land(late));
    assert_eq!(cell.state(), StateName::Absent);

    // The same where the begin had found something: an Open of somebody else.
    let other = cell.granted(begin(2, Effect::Unsafe));
    assert_eq!(cell.ask(fail(other, 3)), OK);
    let found = cell.version;
    let late = cell.send(Command::Begin(begin(3, Effect::Unsafe)));
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(3), expected: found }), OK);
    assert!(!cell.land(late));
    assert_eq!(cell.state(), StateName::Open);

    // And where it had landed: the record is taken back, started or not.
    let taken = cell.send(Command::Begin(begin(3, Effect::Unsafe)));
    let found = cell.version;
    assert!(cell.land(taken));
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(3), expected: found }), OK);
    assert_eq!(cell.state(), StateName::Open);
    assert_eq!(cell.ask(complete(Token { attempt: 2, nonce: nonce(3) }, 1)), Reply::Fenced);
}

/// Also after a Mismatch that followed a time-out: the answer says nothing about the write that is still on its way.
#[test]
fn c3_a_mismatch_after_a_time_out_leaves_the_disowning_due() {
    let mut cell = Cell::new(policy());
    let differing = || Command::Begin(Begin { fingerprint: Some(print(2)), ..begin(1, Effect::Unsafe) });
    let late = cell.send(differing());
    let sent_against = cell.version;
    let other = cell.granted(begin(2, Effect::Unsafe));
    assert_eq!(cell.ask(differing()), Reply::Verdict(Box::new(Verdict::Mismatch)));
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(1), expected: sent_against }), OK);
    assert!(!cell.land(late));
    assert_eq!(cell.ask(complete(other, 1)), OK, "the owner is not disturbed");
}

/// A begin is sent again against the Open that its own lapse had left, and times out. The window of that Open ends, so
/// the record reads as absent; the disowning finds its own nonce, takes it for settled and writes nothing; then the
/// write lands.
#[test]
fn c3_disowning_moves_the_version_of_what_its_own_nonce_left() {
    let mut cell = Cell::new(policy());
    let first = cell.granted(begin(1, Effect::Idempotent));
    assert_eq!(first.attempt, 1);
    cell.wait(LEASE);
    cell.sweep();
    assert_eq!(cell.state(), StateName::Open);
    let found = cell.version;
    let late = cell.send(Command::Begin(begin(1, Effect::Unsafe)));
    cell.wait(OPEN);
    assert_eq!(cell.state(), StateName::Absent);
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(1), expected: found }), OK);
    assert!(!cell.land(late));
}

/// The same without any window: the reply to a begin is lost, an operator opens the attempt, the begin is sent again and
/// times out on its way. The disowning finds its own nonce on an attempt that is over, and takes that for settled.
#[test]
fn c3_disowning_after_its_own_attempt_was_resolved() {
    let mut cell = Cell::new(policy());
    cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(run_again(cell.version)), OK);
    let found = cell.version;
    let late = cell.send(Command::Begin(begin(1, Effect::Unsafe)));
    assert_eq!(cell.ask(Command::Disown { nonce: nonce(1), expected: found }), OK);
    assert!(!cell.land(late));
    assert_eq!(cell.state(), StateName::Open);
}

/// Start times out in flight; the lease lapses; the release answers "already" without writing; the late start lands:
/// doubt without an owner.
#[test]
fn c4_a_release_by_the_token_still_named_always_writes() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(not_started(1, Effect::Unsafe));
    let late = cell.send(Command::Start { token: owner });
    cell.wait(LEASE);
    assert_eq!(cell.state(), StateName::Absent, "a lapse before the start");
    assert_eq!(cell.ask(Command::Start { token: owner }), Reply::Fenced);
    let before = cell.version;
    assert_eq!(cell.ask(release(owner)), ALREADY);
    assert!(cell.version > before);
    assert!(!cell.land(late));
    assert_eq!(cell.state(), StateName::Absent);
}

/// The same on a later attempt, whose lapse reads as Open.
#[test]
fn c4_on_a_later_attempt() {
    let mut cell = Cell::new(policy());
    let first = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail(first, 3)), OK);
    let owner = cell.granted(not_started(2, Effect::Unsafe));
    let late = cell.send(Command::Start { token: owner });
    cell.wait(LEASE);
    assert_eq!(cell.state(), StateName::Open);
    assert_eq!(cell.ask(release(owner)), LATE);
    assert!(!cell.land(late));
    assert_eq!(cell.state(), StateName::Open);
}

/// The sweeper is not to be seen in the answer either: with or without it, the release is told the same.
#[test]
fn c4_the_answer_does_not_tell_whether_the_sweeper_passed() {
    let answers = TWICE.map(|swept| {
        let mut cell = Cell::new(policy());
        let owner = cell.granted(not_started(1, Effect::Unsafe));
        cell.wait(LEASE);
        if swept {
            cell.sweep();
        }
        cell.ask(release(owner))
    });
    assert_eq!(answers[0], answers[1]);
}

/// Begin is applied, its reply lost, the lease lapses. The same caller comes back and is told InDoubt, though nothing
/// ran.
#[test]
fn c5_same_nonce_same_ticket_also_from_a_lapse() {
    for effect in Effect::ALL {
        for started in TWICE {
            for swept in TWICE {
                let mut cell = Cell::new(policy());
                let lost = cell.granted(Begin { started, ..begin(1, effect) });
                cell.wait(LEASE + 3);
                if swept {
                    cell.sweep();
                }
                let again = cell.granted(Begin { started, ..begin(1, effect) });
                assert_eq!(again, lost, "{effect} started={started} swept={swept}");
                cell.wait(LEASE - 1);
                assert_eq!(cell.state(), StateName::Pending, "its lease was renewed");
                assert_eq!(cell.ask(complete(again, 7)), OK);
            }
        }
    }
}

/// A ticket is returned only while no newer attempt began, nobody resolved and the attempt did not end by fail or
/// release.
#[test]
fn c5_not_after_the_attempt_has_ended() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail_unknown(owner)), OK);
    assert!(matches!(cell.begin(begin(1, Effect::Unsafe)), Verdict::InDoubt { .. }));

    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail(owner, 3)), OK);
    assert_eq!(cell.granted(begin(1, Effect::Unsafe)).attempt, 2);

    let mut cell = Cell::new(policy());
    cell.granted(begin(1, Effect::Unsafe));
    cell.wait(LEASE);
    assert_eq!(cell.ask(run_again(cell.version)), OK);
    assert_eq!(cell.granted(begin(1, Effect::Unsafe)).attempt, 2);

    let mut cell = Cell::new(policy());
    cell.granted(begin(1, Effect::Idempotent));
    cell.wait(LEASE);
    cell.granted(begin(2, Effect::Idempotent));
    assert!(matches!(cell.begin(begin(1, Effect::Idempotent)), Verdict::InFlight { .. }));
}

/// A restarted process reuses a stored nonce, gets the same ticket and runs again. The rules cannot tell it from a lost
/// reply: this is what they answer, and why a nonce is fresh, never stored, never derived.
#[test]
fn c5b_a_reused_nonce_gets_the_same_ticket() {
    let mut cell = Cell::new(policy());
    let before_restart = cell.granted(begin(1, Effect::Unsafe));
    let after_restart = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(before_restart, after_restart);
}

/// The lease lapses; the owner then says "no effect" or "retryable" and is refused; an operator is needed for nothing.
#[test]
fn c6_fail_release_and_unstart_are_accepted_late() {
    let ends: [fn(Token) -> Command; 3] = [|owner| fail(owner, 3), no_effect, |token| Command::Unstart { token }];
    for (number, end) in ends.into_iter().enumerate() {
        for swept in TWICE {
            let mut cell = Cell::new(policy());
            let owner = cell.granted(begin(1, Effect::Unsafe));
            cell.wait(LEASE);
            if swept {
                cell.sweep();
            }
            assert_eq!(cell.state(), StateName::InDoubt);
            assert_eq!(cell.ask(end(owner)), LATE);
            assert_eq!(cell.state(), if number == 0 { StateName::Open } else { StateName::Absent });
            assert!(matches!(cell.begin(begin(2, Effect::Unsafe)), Verdict::Execute(_)));
        }
    }
}

/// Before the start there is nothing to be unsure of: *unknown* then ends as a lapse before the start does, keeps no
/// print, and a release may follow it.
#[test]
fn c6_unknown_before_the_start_leaves_nothing_behind() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(not_started(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail_unknown(owner)), OK);
    assert_eq!(cell.state(), StateName::Absent);
    assert_eq!(cell.ask(fail_unknown(owner)), ALREADY, "its reply was lost");

    let first = cell.granted(begin(2, Effect::Unsafe));
    cell.wait(LEASE);
    assert_eq!(cell.ask(no_effect(first)), LATE);
    let base = cell.granted(in_epoch(not_started(3, Effect::Unsafe), 1, 1));
    let second = cell.granted(in_epoch(Begin { fingerprint: Some(print(2)), ..not_started(4, Effect::Unsafe) }, 2, 2));
    assert_eq!((base.attempt, second.attempt), (1, 2));
    assert_eq!(cell.ask(fail_unknown(second)), OK);
    assert_eq!(cell.ask(fail_unknown(second)), ALREADY);
    assert_eq!(cell.read().unwrap().guard(), None, "its print is gone with it");
    assert_eq!(cell.ask(release(second)), LATE);
}

/// Under `stale`, *unknown* said twice is one *unknown*.
#[test]
fn c6_unknown_twice_under_stale() {
    let mut cell = Cell::new(stale());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail_unknown(owner)), OK);
    assert_eq!(cell.ask(fail_unknown(owner)), ALREADY);
    assert_eq!(cell.state(), StateName::Pending);
    assert_eq!(cell.ask(complete(owner, 1)), LATE);
}

/// Release is applied, its reply lost, repeated: an error for something that is as wanted.
#[test]
fn c7_release_repeated_is_ok() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(no_effect(owner)), OK);
    assert_eq!(cell.ask(no_effect(owner)), ALREADY);
    assert_eq!(cell.ask(Command::Unstart { token: owner }), ALREADY);

    // On a later attempt the record stands and says so.
    let first = cell.granted(begin(2, Effect::Unsafe));
    assert_eq!(cell.ask(fail(first, 3)), OK);
    let second = cell.granted(begin(3, Effect::Unsafe));
    assert_eq!(cell.ask(no_effect(second)), OK);
    assert_eq!(cell.ask(no_effect(second)), ALREADY);
}

/// A waiter of request 1 wakes after a release and receives the answer of request 2 under the same key.
#[test]
fn c8_a_waking_waiter_is_judged_as_a_begin_that_may_not_execute() {
    let judge =
        |cell: &Cell, number: u8| judge_waiter(&cell.policy, cell.current(), Some(&print(number)), 1, cell.moment());
    let retry_now = |waiting: &Waiting| matches!(waiting, Waiting::Answer(Verdict::InFlight { retry_after, .. }) if retry_after.0 == 0);
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(judge(&cell, 1), Waiting::Wait { retry_after: hapax_core::Millis(LEASE) });

    // After a release: ask again, now. It does not execute by itself.
    assert_eq!(cell.ask(no_effect(owner)), OK);
    assert!(retry_now(&judge(&cell, 1)));
    // Request 2 under the same key is none of its business.
    let other = cell.granted(Begin { fingerprint: Some(print(2)), ..begin(2, Effect::Unsafe) });
    assert_eq!(judge(&cell, 1), Waiting::Answer(Verdict::Mismatch));
    assert_eq!(cell.ask(complete(other, 9)), OK);
    assert_eq!(judge(&cell, 1), Waiting::Answer(Verdict::Mismatch));
    assert!(matches!(judge(&cell, 2), Waiting::Answer(Verdict::Replay(_))));

    // A retryable failure is joined, never replayed.
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail(owner, 3)), OK);
    assert!(matches!(judge(&cell, 1), Waiting::Joined(Outcome { .. })));
    assert_eq!(judge(&cell, 2), Waiting::Answer(Verdict::Mismatch));

    // A lapse to doubt is said to be doubt; a lapse to Open is not an invitation.
    for (effect, doubt) in [(Effect::Unsafe, true), (Effect::Pure, false)] {
        let mut cell = Cell::new(policy());
        cell.granted(begin(1, effect));
        cell.wait(LEASE);
        let woken = judge(&cell, 1);
        assert_eq!(matches!(woken, Waiting::Answer(Verdict::InDoubt { .. })), doubt);
        assert_eq!(retry_now(&woken), !doubt);
    }
}

/// A probe says "not applied", the paused owner wakes and acts: two effects. So *not applied* alone resolves nothing:
/// running again needs a posture, and that is a matter of types.
#[test]
fn c9_running_again_needs_a_posture_and_fences_the_owner() {
    for posture in [Posture::Idempotent, Posture::OperatorAccepted, Posture::Prevented, Posture::OwnerGone] {
        let mut cell = Cell::new(policy());
        let owner = cell.granted(begin(1, Effect::Irreversible));
        cell.wait(LEASE);
        let judged = cell.version;
        assert_eq!(cell.ask(resolve(judged, Resolution::Open(posture))), OK);
        assert_eq!(cell.state(), StateName::Open);
        // The paused owner wakes.
        assert_eq!(cell.ask(Command::Start { token: owner }), Reply::Fenced);
        let renew = Command::Renew { token: owner, lease: hapax_core::Millis(LEASE) };
        assert_eq!(cell.ask(renew), Reply::Fenced);
        assert_eq!(cell.ask(complete(owner, 7)), Reply::Fenced);
        assert_eq!(cell.read().unwrap().evidence.len(), 1, "what it knows is kept");
        assert_eq!(cell.ask(no_effect(owner)), Reply::Fenced);
    }
}

/// Whoever judged another version judged something else.
#[test]
fn c9_a_resolution_of_a_version_that_moved_is_a_conflict() {
    let mut cell = Cell::new(policy());
    let owner = cell.granted(begin(1, Effect::Unsafe));
    let judged = cell.version;
    assert_eq!(cell.ask(Command::Renew { token: owner, lease: hapax_core::Millis(LEASE) }), OK);
    let told = cell.ask(run_again(judged));
    assert_eq!(told, Reply::Conflict(Conflict::VersionMoved { now_at: cell.version }));
}

/// begin(started = false), crash: the corrected request gets Mismatch for a day.
#[test]
fn c11_a_lapse_before_the_start_ends_as_a_release_does() {
    for effect in Effect::ALL {
        for swept in TWICE {
            let mut cell = Cell::new(policy());
            cell.granted(not_started(1, effect));
            cell.wait(LEASE);
            if swept {
                cell.sweep();
            }
            assert_eq!(cell.state(), StateName::Absent);
            let corrected = Begin { fingerprint: Some(print(2)), ..begin(2, effect) };
            assert!(matches!(cell.begin(corrected), Verdict::Execute(_)));
        }
    }
}

/// On a later attempt the print that stood before it stands again: that of the failure, not that of the crash.
#[test]
fn c11_on_a_later_attempt_the_earlier_print_stands() {
    let mut cell = Cell::new(policy());
    let first = cell.granted(begin(1, Effect::Unsafe));
    assert_eq!(cell.ask(fail(first, 3)), OK);
    cell.granted(not_started(2, Effect::Unsafe));
    cell.wait(LEASE);
    assert_eq!(cell.read().unwrap().guard(), Some(&print(1)));
    let other = Begin { fingerprint: Some(print(2)), ..begin(3, Effect::Unsafe) };
    assert_eq!(cell.begin(other), Verdict::Mismatch);
    assert_eq!(cell.granted(begin(3, Effect::Unsafe)).attempt, 3);
}

/// A newer epoch's corrected request gets Mismatch against a not-started older one.
#[test]
fn c12_takeover_is_judged_before_mismatch() {
    let mut cell = Cell::new(policy());
    let older = cell.granted(in_epoch(not_started(1, Effect::Unsafe), 1, 1));
    let corrected = Begin { fingerprint: Some(print(2)), ..not_started(2, Effect::Unsafe) };
    let newer = cell.granted(in_epoch(corrected, 2, 2));
    assert_eq!(newer.attempt, 2);
    assert_eq!(cell.ask(Command::Start { token: older }), Reply::Fenced);
    assert_eq!(cell.ask(Command::Start { token: newer }), OK);

    // Its print left with it: when the newer one leaves nothing either, the key is free for any request.
    assert_eq!(cell.ask(no_effect(newer)), OK);
    assert_eq!(cell.read().unwrap().guard(), None);
    let third = Begin { fingerprint: Some(print(3)), ..begin(3, Effect::Unsafe) };
    assert_eq!(cell.granted(third).attempt, 3);
}

/// A started operation is never touched, and a superseded caller takes nothing over.
#[test]
fn c12_only_what_has_not_started_and_only_by_the_newest() {
    let mut cell = Cell::new(policy());
    cell.granted(in_epoch(begin(1, Effect::Unsafe), 1, 1));
    assert!(matches!(cell.begin(in_epoch(not_started(2, Effect::Unsafe), 2, 2)), Verdict::InFlight { .. }));

    let mut cell = Cell::new(policy());
    cell.granted(in_epoch(not_started(1, Effect::Unsafe), 1, 1));
    assert_eq!(cell.begin(in_epoch(not_started(2, Effect::Unsafe), 2, 3)), Verdict::Fenced);
    assert!(matches!(cell.begin(not_started(2, Effect::Unsafe)), Verdict::InFlight { .. }), "no epoch is not newer");
}

/// A late outcome arrives after the record is gone, and creates one.
#[test]
fn c13_a_late_outcome_without_a_record_creates_none() {
    for command in [complete(token(1, 1), 7), reject(token(1, 1), 7), fail(token(1, 1), 7)] {
        let cell = Cell::new(policy());
        let step = cell.decide(command);
        assert_eq!(step.reply, Reply::Fenced);
        assert_eq!(step.write, hapax_core::Write::Nothing);
        let event = step.event.expect("the outcome is told, even if it is not kept");
        assert_eq!((event.cause, event.to), (hapax_core::Cause::Fenced, StateName::Absent));
    }
}

/// Start or renew after the lapse works only until the sweeper passes.
#[test]
fn s1_start_and_renew_after_the_lapse_are_fenced_in_both_cases() {
    for effect in Effect::ALL {
        for started in TWICE {
            for swept in TWICE {
                let mut cell = Cell::new(policy());
                let owner = cell.granted(Begin { started, ..begin(1, effect) });
                cell.wait(LEASE - 1);
                if swept {
                    cell.sweep();
                }
                assert_eq!(cell.state(), StateName::Pending, "one moment before the end it is held");
                cell.wait(1);
                if swept {
                    cell.sweep();
                }
                assert_eq!(cell.ask(Command::Start { token: owner }), Reply::Fenced);
                let renew = Command::Renew { token: owner, lease: hapax_core::Millis(LEASE) };
                assert_eq!(cell.ask(renew), Reply::Fenced);
            }
        }
    }
}

/// However an attempt ends, its record says for how long it was leased, and goes on saying so when later ones have come.
#[test]
fn an_ended_attempt_is_remembered_with_its_lease() {
    type Ends = fn(&mut Cell, Token);
    let ends: [(&str, Ends); 6] = [
        ("completed", |cell, token| drop(cell.ask(complete(token, 1)))),
        ("rejected", |cell, token| drop(cell.ask(reject(token, 1)))),
        ("failed", |cell, token| drop(cell.ask(fail(token, 1)))),
        ("failed, unknown", |cell, token| drop(cell.ask(fail_unknown(token)))),
        ("lapsed, as it is read", |cell, _| cell.wait(77)),
        ("lapsed and swept", |cell, _| {
            cell.wait(77);
            cell.sweep();
        }),
    ];
    for (how, end) in ends {
        let mut cell = Cell::new(policy());
        let token = cell.granted(Begin { lease: Some(Millis(77)), ..begin(1, Effect::Unsafe) });
        assert_eq!(cell.read().unwrap().attempt.lease, None, "while it runs, its state says so");
        end(&mut cell, token);
        assert_eq!(cell.read().unwrap().attempt.lease, Some(Millis(77)), "{how}");
    }
    let mut cell = Cell::new(policy());
    let token = cell.granted(Begin { lease: Some(Millis(77)), ..begin(1, Effect::Idempotent) });
    assert_eq!(cell.ask(Command::Renew { token, lease: Millis(88) }), OK);
    cell.wait(88);
    let next = cell.granted(begin(2, Effect::Idempotent));
    assert_eq!(cell.ask(complete(next, 1)), OK);
    let record = cell.read().unwrap();
    assert_eq!(record.past[0].lease, Some(Millis(88)), "as it was renewed last");
    assert_eq!(record.attempt.lease, Some(policy().lease));
}

/// The same where an attempt does not simply end.
#[test]
fn the_lease_is_remembered_on_every_way_out() {
    let leased = |begin: Begin| Begin { lease: Some(Millis(77)), ..begin };
    let lease = |cell: &Cell| cell.read().unwrap().attempt.lease;

    let mut cell = Cell::new(stale());
    let token = cell.granted(leased(begin(1, Effect::Unsafe)));
    assert_eq!(cell.ask(fail_unknown(token)), OK);
    assert_eq!((cell.state(), lease(&cell)), (StateName::Pending, Some(Millis(77))), "it waits for somebody's word");
    assert_eq!(cell.ask(complete(token, 1)), LATE);
    assert_eq!(lease(&cell), Some(Millis(77)));

    let mut cell = Cell::new(policy());
    let _lost = cell.granted(begin(1, Effect::Idempotent));
    cell.wait(LEASE);
    let second = cell.granted(leased(not_started(2, Effect::Idempotent)));
    assert_eq!(cell.ask(release(second)), OK);
    assert_eq!(lease(&cell), Some(Millis(77)), "given back");

    let mut cell = Cell::new(policy());
    let _lost = cell.granted(in_epoch(leased(not_started(1, Effect::Idempotent)), 1, 1));
    let _newer = cell.granted(in_epoch(begin(2, Effect::Idempotent), 2, 2));
    assert_eq!(cell.read().unwrap().past[0].lease, Some(Millis(77)), "taken over");

    let mut cell = Cell::new(policy());
    let _lost = cell.granted(leased(begin(1, Effect::Unsafe)));
    let done = cell.ask(resolve(cell.version, Resolution::Committed(success(1))));
    assert_eq!((done, lease(&cell)), (OK, Some(Millis(77))), "resolved while it ran");
}

/// A begin whose reply was lost comes again after its lease: it runs anew, and no lease has ended.
#[test]
fn a_ticket_that_is_given_again_has_no_lease_behind_it() {
    let mut cell = Cell::new(policy());
    let _lost = cell.granted(begin(1, Effect::Idempotent));
    cell.wait(LEASE);
    let _again = cell.granted(begin(1, Effect::Idempotent));
    let record = cell.read().unwrap();
    assert_eq!((record.attempt.number, record.attempt.lease), (1, None));
}
