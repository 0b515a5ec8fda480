//! When a computation may be used again.

use hapax_core::{
    Anchor, Body, Fingerprint, Id, Millis, Moment, Span, Stamp, WallMillis,
    memo::{Memo, MemoAsked, MemoVerdict, Reuse, ReuseDeclaration, ReuseScope, WhyRecompute, WhyReuse, judge_memo},
};

use crate::rules_support::{about, print};

const SCOPES: [ReuseScope; 3] = [ReuseScope::SameInput, ReuseScope::SameInputSameDep, ReuseScope::Never];

fn memo(phase: &str, reuse: Reuse, producer: Option<Id>) -> Memo {
    Memo {
        about: about(),
        phase: phase.into(),
        input: print(1),
        dependencies: print(2),
        reuse,
        producer,
        value: Body::Empty,
        made: Anchor::At(Stamp(1_000)),
        made_wall: WallMillis(0),
        keep: Span::For(Millis(100)),
    }
}

fn judge(memo: Option<&Memo>, phase: &str, now: Reuse, input: &Fingerprint, dep: &Fingerprint, at: u64) -> MemoVerdict {
    let declaration = ReuseDeclaration::default().with(phase, now);
    let asked = MemoAsked { phase, input, dependencies: dep };
    judge_memo(memo, &declaration, &asked, Moment { now: Stamp(at), wall: WallMillis(0) })
}

/// Every pair of declarations, the one it was made under and the one of now, with and without a dependency that moved:
/// whichever allows less counts, *never* is never, and what hangs on a dependency is not used when that has moved.
#[test]
fn of_two_declarations_the_stricter_counts() {
    for made in SCOPES {
        for now in SCOPES {
            for (then_look, now_look) in [(false, false), (true, false), (false, true), (true, true)] {
                for moved in [false, true] {
                    let memo = memo("plan", Reuse { scope: made, requires_revalidate: then_look }, None);
                    let now_reuse = Reuse { scope: now, requires_revalidate: now_look };
                    let dependencies = if moved { print(3) } else { print(2) };
                    let told = judge(Some(&memo), "plan", now_reuse, &print(1), &dependencies, 1_050);
                    let never = [made, now].contains(&ReuseScope::Never);
                    let hangs = [made, now].contains(&ReuseScope::SameInputSameDep);
                    let why = if hangs { WhyReuse::SameInputSameDep } else { WhyReuse::SameInput };
                    let expected = if never {
                        MemoVerdict::Recompute(WhyRecompute::Never)
                    } else if hangs && moved {
                        MemoVerdict::Recompute(WhyRecompute::DependencyMoved)
                    } else if then_look || now_look {
                        MemoVerdict::Revalidate { memo: Box::new(memo), why }
                    } else {
                        MemoVerdict::Reuse { memo: Box::new(memo), why }
                    };
                    assert_eq!(told, expected, "{made:?}, {now:?}, moved: {moved}");
                }
            }
        }
    }
}

/// What is not there, is too old, is of another input or of a phase that nobody declared is computed, and the reason said.
#[test]
fn what_does_not_fit_is_computed_and_why_is_said() {
    let reuse = Reuse { scope: ReuseScope::SameInput, requires_revalidate: false };
    let kept = memo("plan", reuse, None);
    let ask = |memo: Option<&Memo>, input: u8, at| judge(memo, "plan", reuse, &print(input), &print(2), at);
    assert_eq!(ask(None, 1, 1_050), MemoVerdict::Recompute(WhyRecompute::NotKept));
    assert_eq!(ask(Some(&kept), 9, 1_050), MemoVerdict::Recompute(WhyRecompute::OtherInput));
    assert!(matches!(ask(Some(&kept), 1, 1_099), MemoVerdict::Reuse { .. }));
    assert_eq!(ask(Some(&kept), 1, 1_100), MemoVerdict::Recompute(WhyRecompute::Expired));
    let other_phase = judge(Some(&kept), "route", reuse, &print(1), &print(2), 1_050);
    assert_eq!(other_phase, MemoVerdict::Recompute(WhyRecompute::OtherInput));
    let (input, dependencies) = (print(1), print(2));
    let asked = MemoAsked { phase: "plan", input: &input, dependencies: &dependencies };
    let moment = Moment { now: Stamp(1_050), wall: WallMillis(0) };
    let undeclared = judge_memo(Some(&kept), &ReuseDeclaration::default(), &asked, moment);
    assert_eq!(undeclared, MemoVerdict::Recompute(WhyRecompute::NotDeclared));
}

/// Behind the result of a tool there may be an effect: it is used again only if the operation that made it is keyed, and
/// then only while nothing has moved.
#[test]
fn a_tools_result_is_used_again_only_if_its_operation_is_keyed() {
    for scope in SCOPES {
        let reuse = Reuse { scope, requires_revalidate: false };
        let unkeyed = memo("tool_results", reuse, None);
        let told = judge(Some(&unkeyed), "tool_results", reuse, &print(1), &print(2), 1_050);
        assert_eq!(told, MemoVerdict::Recompute(WhyRecompute::Never), "{scope:?}");
    }
    let never = Reuse { scope: ReuseScope::Never, requires_revalidate: false };
    let kept_as = Reuse { scope: ReuseScope::SameInputSameDep, requires_revalidate: false };
    let keyed = memo("tool_results", kept_as, Some(Id([4; 32])));
    let ask = |dependencies: u8| judge(Some(&keyed), "tool_results", never, &print(1), &print(dependencies), 1_050);
    assert!(matches!(ask(2), MemoVerdict::Reuse { why: WhyReuse::SameInputSameDep, .. }));
    assert_eq!(ask(3), MemoVerdict::Recompute(WhyRecompute::DependencyMoved));
}
