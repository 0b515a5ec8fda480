//! A store drops and indexes a record by what `seal` writes beside it. A window too early loses an answer that somebody
//! may still ask for; one too late, or none, keeps it for ever.

use crate::codec_support;
use crate::codec_support::{inline, last, outcome, pending, record};
use hapax_core::{
    Anchor, Millis, OutcomeClass, Record, Span, Stamp, State, WallMillis, as_read,
    policy::{AfterWindow, OnLapse},
    record::{End, InDoubt, Open, Tombstone},
};
use hapax_store::{Counted, Due, Envelope, Kind, codec};
use proptest::prelude::*;

const AT: Anchor = Anchor::At(Stamp(1_000));

fn with(mut record: Record, change: impl FnOnce(&mut hapax_core::record::Rules)) -> Record {
    change(&mut record.rules);
    record
}

fn done(decided: Anchor, retention: Span) -> hapax_core::record::Final {
    hapax_core::record::Final { decided, retention, ..last(outcome(OutcomeClass::Success, 200, inline())) }
}

fn committed(decided: Anchor, retention: Span) -> Record {
    record(State::Committed(done(decided, retention)), End::Completed)
}

fn rejected(decided: Anchor, retention: Span) -> Record {
    record(State::Rejected(done(decided, retention)), End::Rejected)
}

fn stone(decided: Anchor, retention: Span) -> Record {
    let stone =
        Tombstone { rejected: false, status: 200, digest: [7; 32], decided, decided_wall: WallMillis(0), retention };
    record(State::Tombstone(stone), End::Completed)
}

const fn ms(length: u64) -> Span {
    Span::For(Millis(length))
}

const fn at(stamp: u64) -> Option<Due> {
    Some(Due::At(Stamp(stamp)))
}

const fn after(length: u64) -> Option<Due> {
    Some(Due::After(Millis(length)))
}

/// Lease end, expiry, gone.
type Windows = (Option<Due>, Option<Due>, Option<Due>);

fn windows(sealed: &Envelope) -> Windows {
    (sealed.lease_end, sealed.expiry, sealed.gone)
}

#[test]
fn each_state_has_its_windows() {
    let refuse = |rules: &mut hapax_core::record::Rules| {
        rules.after_window = AfterWindow::Refuse;
        rules.tombstone_retention = ms(5_000);
    };
    let open = |since| record(State::Open(Open { since, failure: None }), End::Failed);
    let doubt = InDoubt { since: AT, probes: 2, next_probe: Some(Stamp(9_000)) };
    let lapse = |on_lapse| move |rules: &mut hapax_core::record::Rules| rules.on_lapse = on_lapse;
    let kept = |span| move |rules: &mut hapax_core::record::Rules| rules.open_retention = span;
    let cases: Vec<(&str, Record, Windows)> = vec![
        ("pending", record(pending(true, AT), End::Running), (at(61_000), None, None)),
        ("pending, fresh", record(pending(true, Anchor::Write), End::Running), (after(60_000), None, None)),
        ("pending, reserved", record(pending(false, AT), End::Running), (at(61_000), None, None)),
        (
            "pending, open on lapse",
            with(record(pending(true, AT), End::Running), lapse(OnLapse::Open)),
            (at(61_000), None, None),
        ),
        (
            "pending, stale on lapse",
            with(record(pending(true, AT), End::Running), lapse(OnLapse::Stale)),
            (None, None, None),
        ),
        ("in doubt", record(State::InDoubt(doubt), End::Lapsed { started: true }), (None, None, None)),
        ("open", with(open(AT), kept(ms(500))), (None, at(1_500), at(1_500))),
        ("open, fresh", with(open(Anchor::Write), kept(ms(500))), (None, after(500), after(500))),
        ("open, for ever", with(open(AT), kept(Span::Forever)), (None, None, None)),
        ("committed", committed(AT, ms(300)), (None, at(1_300), at(1_300))),
        ("committed, fresh", committed(Anchor::Write, ms(300)), (None, after(300), after(300))),
        ("committed, for ever", committed(AT, Span::Forever), (None, None, None)),
        ("committed, refuse", with(committed(AT, ms(300)), refuse), (None, at(1_300), at(6_300))),
        ("committed, fresh, refuse", with(committed(Anchor::Write, ms(300)), refuse), (None, after(300), after(5_300))),
        ("committed, for ever, refuse", with(committed(AT, Span::Forever), refuse), (None, None, None)),
        ("rejected", rejected(AT, ms(300)), (None, at(1_300), at(1_300))),
        ("rejected, refuse", with(rejected(AT, ms(300)), refuse), (None, at(1_300), at(6_300))),
        ("tombstone", stone(AT, ms(300)), (None, at(1_300), at(1_300))),
        ("tombstone, refuse", with(stone(AT, ms(300)), refuse), (None, at(6_300), at(6_300))),
        ("tombstone, for ever", stone(AT, Span::Forever), (None, None, None)),
        ("the end of time", committed(AT, ms(u64::MAX)), (None, at(u64::MAX), at(u64::MAX))),
    ];
    for (name, record, expected) in cases {
        let sealed = codec::seal(&record);
        assert_eq!(windows(&sealed), expected, "{name}");
        assert_eq!(sealed.in_doubt, name == "in doubt", "{name}");
        let counted = if name.starts_with("tombstone") { Counted::Tombstone } else { Counted::Record };
        assert_eq!(sealed.counted, counted, "{name}");
        assert_eq!((sealed.kind, sealed.entries.len()), (Kind::OPERATION, 0), "{name}");
        assert_eq!((sealed.surface, sealed.tenant), (record.about.surface_tag, record.about.tenant_tag), "{name}");
    }
}

proptest! {
    /// The windows against the rules themselves: a store may never drop what the rules still read, and whatever time
    /// does to a record, somebody was told to look at that moment or before.
    #[test]
    fn no_window_contradicts_the_rules(record in codec_support::any_record(), stamp in 0_u64..1_000_000, later in any::<u64>()) {
        let sealed = codec::seal(&record);
        let record = record.settled(hapax_core::Version(1), Stamp(stamp));
        prop_assert_eq!(windows(&codec::seal(&record)), {
            let settled = |due: Option<Due>| due.map(|due| Due::At(due.resolve(Stamp(stamp))));
            (settled(sealed.lease_end), settled(sealed.expiry), settled(sealed.gone))
        });
        let ends = [sealed.lease_end, sealed.expiry, sealed.gone].map(|due| due.map(|due| due.resolve(Stamp(stamp))));
        for now in ends.iter().flatten().flat_map(|end| [end.0.saturating_sub(1), end.0]).chain([later]) {
            let read = as_read(&record, Stamp(now));
            if ends[2].is_some_and(|gone| gone.0 <= now) {
                prop_assert!(read.is_none(), "gone at {now}, and still read");
            }
            let moved = !matches!(read, Some(std::borrow::Cow::Borrowed(_)));
            if moved {
                let told = ends[0].or(ends[1]);
                prop_assert!(told.is_some_and(|told| told.0 <= now), "moved at {now}, and nobody was told to look");
            }
        }
    }
}
