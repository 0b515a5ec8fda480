//! Names and sentences: what happened and what may be done, for somebody who reads this for the first time.

use hapax_core::{Cause, StateName, WallMillis, record::End};
use hapax_engine::Advice;

pub(crate) const fn state(state: StateName) -> &'static str {
    match state {
        StateName::Absent => "absent",
        StateName::Pending => "pending",
        StateName::Open => "open",
        StateName::InDoubt => "in_doubt",
        StateName::Committed => "committed",
        StateName::Rejected => "rejected",
        StateName::Tombstone => "tombstone",
    }
}

pub(crate) const STATES: [StateName; 6] = [
    StateName::Pending,
    StateName::Open,
    StateName::InDoubt,
    StateName::Committed,
    StateName::Rejected,
    StateName::Tombstone,
];

pub(crate) const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Begin => "begin",
        Cause::BeginAgain => "begin_again",
        Cause::TakeOver => "take_over",
        Cause::Start => "start",
        Cause::Renew => "renew",
        Cause::Complete => "complete",
        Cause::Reject => "reject",
        Cause::Fail => "fail",
        Cause::FailUnknown => "fail_unknown",
        Cause::Release => "release",
        Cause::Unstart => "unstart",
        Cause::Disown => "disown",
        Cause::Resolve => "resolve",
        Cause::ClaimProbe => "claim_probe",
        Cause::Lapse => "lapse",
        Cause::Expire => "expire",
        Cause::Evict => "evict",
        Cause::LetGo => "let_go",
        Cause::Fenced => "fenced",
        Cause::Replay => "replay",
        Cause::InFlight => "in_flight",
        Cause::Mismatch => "mismatch",
        Cause::InDoubt => "in_doubt",
        Cause::Refused => "refused",
        Cause::WindowClosed => "window_closed",
    }
}

/// What a cause means, for the list of what happened lately.
pub(crate) const fn cause_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Begin => "A caller got the right to run it.",
        Cause::BeginAgain => "The same caller asked again, after a lost answer, and got the same ticket.",
        Cause::TakeOver => "A newer turn took over before it had started.",
        Cause::Start => "The effect was started.",
        Cause::Renew => "Its owner asked for more time.",
        Cause::Complete => "It succeeded, and the answer was recorded.",
        Cause::Reject => "It failed for good, and that answer was recorded.",
        Cause::Fail => "It failed in a way that may be tried again.",
        Cause::FailUnknown => "Its owner could not say whether it happened.",
        Cause::Release => "Its owner gave it back: nothing had happened.",
        Cause::Unstart => "The start was taken back: a newer turn had overtaken it.",
        Cause::Disown => "A begin that nobody saw answered was taken back.",
        Cause::Resolve => "An operator or a probe decided how it ended.",
        Cause::ClaimProbe => "The provider was asked whether it happened.",
        Cause::Lapse => "Its owner fell silent and the lease ran out.",
        Cause::Expire => "A retention ended.",
        Cause::Evict => "The recorded answer was given up to make room; what it was is still known.",
        Cause::LetGo => "The group that kept it is done, so its retention counts again.",
        Cause::Fenced => {
            "Somebody reported an outcome with a token that no longer counts. It was refused and kept as evidence."
        }
        Cause::Replay => "The same request came again and got the recorded answer. Nothing ran.",
        Cause::InFlight => "The same request came while it was running, and was told to come back.",
        Cause::Mismatch => {
            "The key came with a different request and was refused: a key names one intent. Nothing ran."
        }
        Cause::InDoubt => "The same request came while the end was unknown, and was held back.",
        Cause::Refused => "There was no room for it, and it was turned away.",
        Cause::WindowClosed => "A retry came after its window and was refused.",
    }
}

pub(crate) const fn end(end: End) -> &'static str {
    match end {
        End::Running => "running",
        End::Completed => "completed",
        End::Rejected => "rejected",
        End::Failed => "failed, may be tried again",
        End::FailedUnknown => "its owner could not say",
        End::Released => "given back",
        End::Lapsed { started: true } => "fell silent after the start",
        End::Lapsed { started: false } => "fell silent before the start",
        End::Resolved => "decided by somebody else",
        End::TakenOver => "taken over by a newer turn",
    }
}

pub(crate) const fn advice(advice: Advice) -> &'static str {
    match advice {
        Advice::RunsAgain => "runs_again",
        Advice::Wait => "wait",
        Advice::Replays => "replays",
        Advice::Resolve => "resolve",
        Advice::TooLate => "too_late",
    }
}

pub(crate) const fn advice_in_words(advice: Advice) -> &'static str {
    match advice {
        Advice::RunsAgain => "It is safe to send it again with the same key: the next call runs it.",
        Advice::Wait => "It is running. Send the same request with the same key and it waits for the answer.",
        Advice::Replays => "It is done. Sending it again with the same key returns the recorded answer; nothing runs.",
        Advice::Resolve => {
            "Nobody knows whether it happened. Do not send it under a new key: that could do it twice. Find out at the \
             provider, by the downstream key, and then resolve it: `committed` if it happened, `rejected` if it must not, \
             `open` to let it run again."
        }
        Advice::TooLate => "It was done long ago and a retry is refused. Use a new key only for a new intent.",
    }
}

/// Wall time as people write it, in UTC: milliseconds since 1970.
#[must_use]
pub fn time(millis: u64) -> String {
    WallMillis(millis).to_string()
}
