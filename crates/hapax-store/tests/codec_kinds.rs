//! Records of every other kind, and operations with ties, as the program that first had their format wrote them. As long
//! as one may lie on somebody's disk, every later program has to read it as it was meant.
//!
//! `HAPAX_WRITE_GOLDEN=1` writes the files that are missing; one that exists is never touched.

use std::{path::PathBuf, sync::Arc};

use crate::codec_support::{SURFACE, TENANT, inline, last, outcome, pending, record};
use bytes::Bytes;
use hapax_core::{
    Anchor, Body, BodyId, Compensation, CompensationInput, Effect, Fingerprint, Honoured, Id, Millis, Nonce, Outcome,
    OutcomeClass, Span, Stamp, State, Tag, Ties, WallMillis,
    beat::{Beat, Beats, Message},
    claim::{Claim, Claimant},
    group::{CommitPoint, Group, GroupPhase, Raise, Started},
    identity::Scheme,
    mark::Mark,
    memo::{Memo, Reuse, ReuseScope},
    plan::{Inverse, Kept, Plan, StepState},
    record::{About, EarlierDoubt, End, InDoubt},
};
use hapax_store::{Due, Entry, Envelope, Kind, List, codec};

fn about(surface: &str) -> Arc<About> {
    Arc::new(About {
        surface: surface.into(),
        tenant: "acme".into(),
        surface_tag: SURFACE,
        tenant_tag: TENANT,
        principal: None,
        key_hash: *b"\x01\x23\x45\x67\x89\xab\xcd\xef",
    })
}

fn group(phase: GroupPhase) -> Group {
    Group {
        about: about("group"),
        parent: Some(Id([7; 32])),
        epoch: 3,
        raises: vec![Raise { nonce: Nonce([1; 16]), epoch: 2 }, Raise { nonce: Nonce([2; 16]), epoch: 3 }],
        committed: Some(CommitPoint { by: Some(Id([9; 32])), wall: WallMillis(1_700_000_000_500) }),
        unwinding: true,
        phase,
        starts: vec![
            Started { member: Id([8; 32]), attempt: 1, epoch: 1, effect: Effect::Compensatable, ordinal: 1 },
            Started { member: Id([9; 32]), attempt: 2, epoch: 3, effect: Effect::Irreversible, ordinal: 4 },
        ],
        next_ordinal: 5,
        absorbed: 6,
        created_wall: WallMillis(1_700_000_000_000),
    }
}

fn beats() -> Beats {
    let beat = |number, members: &[u8], sealed| Beat {
        number,
        members: members.iter().map(|byte| Message([*byte; 16])).collect(),
        sealed,
        since: Anchor::At(Stamp(1_700_000_000_000 + number)),
        wall: WallMillis(1_700_000_000_123),
    };
    Beats {
        about: about("beat"),
        next: 3,
        beats: vec![beat(1, &[1, 2], true), beat(2, &[3], false)],
        keep: Millis(60_000),
    }
}

fn plan(kept: Option<Kept>) -> Plan {
    let step = |ordinal, state, note: Option<&str>| Inverse {
        member: Id([u8::try_from(ordinal).unwrap(); 32]),
        ordinal,
        name: "refund".into(),
        input: Bytes::from_static(b"{\"id\":\"ch_1\"}"),
        state,
        note: note.map(Arc::from),
    };
    Plan {
        about: about("group"),
        group: Id([7; 32]),
        steps: vec![
            step(5, StepState::Done, None),
            step(4, StepState::SeenTo, Some("by phone")),
            step(3, StepState::Failed, Some("no such charge")),
            step(2, StepState::Manual, Some("unknown")),
            step(1, StepState::Pending, None),
        ],
        without: 2,
        running: true,
        made_wall: WallMillis(1_700_000_000_000),
        kept,
    }
}

fn memo(scope: ReuseScope, value: Body) -> Memo {
    Memo {
        about: about("memo"),
        phase: "tool_plan".into(),
        input: Fingerprint::of(Scheme::TUPLE_V1, [1; 32]),
        dependencies: Fingerprint::of(Scheme::TUPLE_V1.keyed(), [2; 32]),
        reuse: Reuse { scope, requires_revalidate: scope == ReuseScope::SameInputSameDep },
        producer: Some(Id([3; 32])),
        value,
        made: Anchor::At(Stamp(1_700_000_000_000)),
        made_wall: WallMillis(1_700_000_000_000),
        keep: Span::For(Millis::from_hours(24)),
    }
}

fn claim(since: Anchor) -> Claim {
    Claim { by: Claimant([4; 16]), since, length: Millis(30_000) }
}

fn tied(ties: Ties, state: State, end: End) -> Envelope {
    let mut record = record(state, end);
    record.ties = Some(Arc::new(ties));
    codec::seal(&record)
}

/// Attempt 1 was lost; attempt 2 was let run beside that doubt.
fn doubted(failure: Option<Outcome>) -> Envelope {
    let since = Stamp(1_700_000_060_000);
    let doubt = InDoubt { since: Anchor::At(since), probes: 0, next_probe: None };
    let mut record = record(State::InDoubt(doubt), End::Released);
    record.attempt.number = 2;
    if failure.is_some() {
        record.attempt.end = End::Failed;
        record.ties = Some(Arc::new(full_ties(CompensationInput::FromOutcome("/id".into()))));
    }
    record.earlier_doubt = Some(Arc::new(EarlierDoubt { attempt: 1, since, failure }));
    codec::seal(&record)
}

fn full_ties(input: CompensationInput) -> Ties {
    Ties {
        group: Some(Id([7; 32])),
        run: Some(Tag([6; 16])),
        compensation: Some(Compensation { name: "refund".into(), input }),
        held: true,
        honoured: Some(Honoured { from: Anchor::At(Stamp(1_700_000_000_000)), window: Millis::from_hours(24) }),
    }
}

fn samples() -> Vec<(&'static str, Envelope)> {
    let stored = Body::Stored { body: BodyId([5; 32]), length: 70_000, digest: [6; 32] };
    let closed =
        GroupPhase::Closed { since: Anchor::At(Stamp(1_700_000_000_000)), keep: Span::For(Millis(86_400_000)) };
    let kept = Kept { since: Anchor::Write, keep: Span::Forever };
    let given = CompensationInput::Given(Bytes::from_static(b"{\"charge\":1}"));
    let done = State::Committed(last(outcome(OutcomeClass::Success, 201, inline())));
    vec![
        ("group-open", codec::seal_group(&group(GroupPhase::Open))),
        ("group-closing", codec::seal_group(&group(GroupPhase::Closing))),
        ("group-closed", codec::seal_group(&group(closed))),
        ("beats", codec::seal_beats(&beats())),
        ("plan", codec::seal_plan(&plan(None))),
        ("plan-kept", codec::seal_plan(&plan(Some(kept)))),
        ("memo-inline", codec::seal_memo(&memo(ReuseScope::SameInputSameDep, inline()))),
        ("memo-stored", codec::seal_memo(&memo(ReuseScope::SameInput, stored))),
        ("memo-never", codec::seal_memo(&memo(ReuseScope::Never, Body::Empty))),
        ("operation-held", tied(full_ties(given), done, End::Completed)),
        (
            "operation-from-outcome",
            tied(
                full_ties(CompensationInput::FromOutcome("/id".into())),
                pending(true, Anchor::At(Stamp(1_700_000_000_000))),
                End::Running,
            ),
        ),
        ("claim", codec::seal_claim(&claim(Anchor::At(Stamp(1_700_000_000_000))))),
        ("claim-fresh", codec::seal_claim(&claim(Anchor::Write))),
        ("mark", codec::seal_mark(&Mark([5; 32]))),
        ("operation-beside-doubt", doubted(Some(outcome(OutcomeClass::RetryableFailure, 503, inline())))),
        ("operation-beside-doubt-bare", doubted(None)),
        ("operation-bare-ties", tied(Ties::default(), pending(false, Anchor::Write), End::Running)),
    ]
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds").join(name).with_extension("bin")
}

/// What it is read as, and the bytes that this is written as.
fn round(envelope: &Envelope) -> Result<(String, Bytes), codec::CodecError> {
    Ok(match envelope.kind {
        Kind::GROUP => codec::open_group(envelope).map(|group| (format!("{group:?}"), codec::seal_group(&group)))?,
        Kind::BEAT => codec::open_beats(envelope).map(|beats| (format!("{beats:?}"), codec::seal_beats(&beats)))?,
        Kind::PLAN => codec::open_plan(envelope).map(|plan| (format!("{plan:?}"), codec::seal_plan(&plan)))?,
        Kind::MEMO => codec::open_memo(envelope).map(|memo| (format!("{memo:?}"), codec::seal_memo(&memo)))?,
        Kind::CLAIM => codec::open_claim(envelope).map(|claim| (format!("{claim:?}"), codec::seal_claim(&claim)))?,
        Kind::MARK => codec::open_mark(envelope).map(|mark| (format!("{mark:?}"), codec::seal_mark(&mark)))?,
        Kind::OPERATION => codec::open(envelope).map(|record| (format!("{record:?}"), codec::seal(&record)))?,
        other => panic!("{other:?}"),
    })
    .map(|(text, sealed)| (text, sealed.payload))
}

#[test]
fn old_records_of_other_kinds_are_read_as_they_were_meant() {
    for (name, sealed) in samples() {
        let path = golden(name);
        if std::env::var_os("HAPAX_WRITE_GOLDEN").is_some() && !path.exists() {
            std::fs::write(&path, &sealed.payload).unwrap();
        }
        let bytes = Bytes::from(std::fs::read(&path).unwrap_or_else(|_| panic!("no golden file for {name}")));
        assert_eq!(sealed.payload, bytes, "{name} is written otherwise than it was");
        let kept = Envelope { payload: bytes.clone(), ..sealed.clone() };
        let (text, again) = round(&kept).unwrap();
        assert_eq!(round(&sealed).unwrap().0, text, "{name}");
        assert_eq!(again, bytes, "{name}");
    }
}

/// A torn write, a flipped bit, a record of another kind under this id: an error, never a guess and never a panic.
#[test]
fn damage_to_other_kinds_is_noticed() {
    for (name, sealed) in samples() {
        for cut in 0..sealed.payload.len() {
            let torn = Envelope { payload: sealed.payload.slice(..cut), ..sealed.clone() };
            assert!(round(&torn).is_err(), "{name} cut at {cut}");
        }
        for at in 0..sealed.payload.len() {
            let mut bytes = sealed.payload.to_vec();
            bytes[at] ^= 0x10;
            let flipped = Envelope { payload: bytes.into(), ..sealed.clone() };
            assert!(round(&flipped).is_err(), "{name}, byte {at}");
        }
        let kinds =
            [Kind::OPERATION, Kind::GROUP, Kind::BEAT, Kind::PLAN, Kind::MEMO, Kind::TASK, Kind::CLAIM, Kind::MARK];
        for kind in kinds {
            let other = Envelope { kind, ..sealed.clone() };
            let opened = [
                codec::open_group(&other).is_ok(),
                codec::open_beats(&other).is_ok(),
                codec::open_plan(&other).is_ok(),
                codec::open_memo(&other).is_ok(),
                codec::open_claim(&other).is_ok(),
                codec::open_mark(&other).is_ok(),
                codec::open(&other).is_ok(),
            ];
            let expected = usize::from(kind == sealed.kind);
            assert_eq!(opened.iter().filter(|open| **open).count(), expected, "{name} as {kind:?}");
        }
    }
}

/// The store must find a member by its group and by its run, keep what may have to be undone, and drop the rest in time.
#[test]
fn a_store_is_told_where_to_list_ties_and_until_when_to_keep_them() {
    let all = samples();
    let of = |name: &str| &all.iter().find(|(known, _)| *known == name).unwrap().1;
    let entry = |tag| Entry { list: List::Group, tag, order: 0 };
    assert_eq!(of("operation-held").entries, [entry(Tag([7; 16])), entry(Tag([6; 16]))]);
    assert_eq!((of("operation-held").expiry, of("operation-held").gone), (None, None), "held");
    assert!(of("operation-bare-ties").entries.is_empty());
    assert_eq!(of("group-open").gone, None);
    assert!(of("group-closing").lease_end.is_some(), "or nobody would go on with a closing that was cut short");
    assert_eq!(of("group-closed").gone, Some(Due::At(Stamp(1_700_086_400_000))));
    assert_eq!(of("beats").expiry, Some(Due::At(Stamp(1_700_000_060_002))), "due when the last beat is");
    assert_eq!(of("beats").gone, None, "a sealed beat may still be answered, which somebody has to look at");
    assert_eq!(of("memo-inline").gone, Some(Due::At(Stamp(1_700_086_400_000))));
}

/// A record without ties is written as the first format had it; with ties, or beside an earlier doubt, an older program says
/// *newer*, and does not misread it.
#[test]
fn ties_and_earlier_doubts_are_new_formats() {
    for (name, sealed) in samples().into_iter().filter(|(_, sealed)| sealed.kind == Kind::OPERATION) {
        let expected = if name.contains("doubt") { 3 } else { 2 };
        assert_eq!(sealed.payload[0], expected, "{name}");
    }
    assert_eq!(codec::seal(&record(pending(true, Anchor::Write), End::Running)).payload[0], 1);
}
