//! Records to try the codec with: one of each sort for the golden files, and any at all for the properties.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use hapax_core::{
    Anchor, Body, BodyId, Compensation, CompensationInput, Effect, Fence, Fingerprint, Honoured, Id, Millis, Nonce,
    Outcome, OutcomeClass, Record, Span, Stamp, State, Tag, Ties, Version, WallMillis,
    identity::Scheme,
    policy::{AfterWindow, OnLapse},
    record::{
        About, Attempt, EarlierDoubt, End, Evidence, Final, InDoubt, Lease, Open, Past, Pending, Resolved, Rules,
        Tombstone,
    },
};
use hapax_store::{
    Counted, Envelope, Kind,
    codec::{self, CodecError},
};
use proptest::{collection::vec, option, prelude::*};

pub const SURFACE: Tag = Tag([0xa1; 16]);
pub const TENANT: Tag = Tag([0xb2; 16]);

pub fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// Stored bytes as a store hands them back.
pub fn envelope(payload: impl Into<Bytes>) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: SURFACE,
        tenant: TENANT,
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: payload.into(),
    }
}

pub fn decode(payload: impl Into<Bytes>) -> Result<Record, CodecError> {
    codec::open(&envelope(payload))
}

pub const ENDS: [End; 10] = [
    End::Running,
    End::Completed,
    End::Rejected,
    End::Failed,
    End::FailedUnknown,
    End::Released,
    End::Lapsed { started: false },
    End::Lapsed { started: true },
    End::Resolved,
    End::TakenOver,
];

pub fn outcome(class: OutcomeClass, status: u16, body: Body) -> Outcome {
    let headers = vec![
        (Arc::from("content-type"), Bytes::from_static(b"application/json")),
        (Arc::from("x-bytes"), Bytes::from_static(&[0, 0xff, 0x80])),
    ];
    Outcome { class, status, headers, body }
}

pub fn inline() -> Body {
    Body::Inline(b"{\"id\":\"ch_1\"}".into())
}

pub fn last(outcome: Outcome) -> Final {
    Final {
        outcome,
        decided: Anchor::At(Stamp(1_700_000_060_000)),
        decided_wall: WallMillis(1_700_000_060_123),
        retention: Span::For(Millis::from_hours(24)),
    }
}

/// A plain record in this state: attempt 1, settled, with one fingerprint.
pub fn record(state: State, end: End) -> Record {
    Record {
        about: Arc::new(About {
            surface: Arc::from("payments"),
            tenant: Arc::from("acme"),
            surface_tag: SURFACE,
            tenant_tag: TENANT,
            principal: None,
            key_hash: *b"\x01\x23\x45\x67\x89\xab\xcd\xef",
        }),
        effect: Effect::Unsafe,
        print: Some(Fingerprint::of(Scheme::RAW_V1, [0x11; 32])),
        guard_before: None,
        attempt: Attempt {
            number: 1,
            nonce: Nonce(*b"0123456789abcdef"),
            owner: Arc::from("worker 7"),
            epoch: None,
            begun: Anchor::At(Stamp(1_700_000_000_000)),
            begun_wall: WallMillis(1_700_000_000_123),
            fence: Fence::At(Version(42)),
            lease: None,
            end,
        },
        rules: Rules {
            on_lapse: OnLapse::InDoubt,
            open_retention: Span::For(Millis::from_hours(24)),
            after_window: AfterWindow::New,
            tombstone_retention: Span::For(Millis::from_days(90)),
            revision: 0x0123_4567_89ab_cdef,
        },
        state,
        past: Vec::new(),
        evidence: Vec::new(),
        resolved: None,
        ties: None,
        earlier_doubt: None,
    }
}

pub fn pending(started: bool, from: Anchor) -> State {
    State::Pending(Pending { started, lease: Lease { from, length: Millis::from_secs(60) } })
}

/// One record of each sort, under the name of its golden file.
pub fn samples() -> Vec<(String, Record)> {
    let at = Anchor::At(Stamp(1_700_000_030_000));
    let success = |body| last(outcome(OutcomeClass::Success, 200, body));
    let mut all: Vec<(String, Record)> = Vec::new();
    let mut add = |name: &str, record: Record| all.push((name.to_owned(), record));

    add("state-pending-started", record(pending(true, at), End::Running));
    add("state-pending-reserved", record(pending(false, at), End::Running));
    let mut fresh = record(pending(true, Anchor::Write), End::Running);
    fresh.attempt.begun = Anchor::Write;
    fresh.attempt.fence = Fence::Write;
    add("state-pending-unsettled", fresh);
    add("state-open", record(State::Open(Open { since: at, failure: None }), End::Lapsed { started: true }));
    let failure = Some(outcome(OutcomeClass::RetryableFailure, 503, Body::Empty));
    add("state-open-with-failure", record(State::Open(Open { since: at, failure }), End::Failed));
    let doubt = |probes, next_probe| State::InDoubt(InDoubt { since: at, probes, next_probe });
    add("state-in-doubt", record(doubt(0, None), End::Lapsed { started: true }));
    add("state-in-doubt-probed", record(doubt(3, Some(Stamp(1_700_000_100_000))), End::FailedUnknown));
    add("state-committed", record(State::Committed(success(inline())), End::Completed));
    let refused = last(outcome(OutcomeClass::FinalFailure, 402, inline()));
    add("state-rejected", record(State::Rejected(refused), End::Rejected));
    for (name, rejected) in [("completed", false), ("rejected", true)] {
        let stone = Tombstone {
            rejected,
            status: if rejected { 402 } else { 200 },
            digest: [0x77; 32],
            decided: at,
            decided_wall: WallMillis(1_700_000_030_123),
            retention: Span::For(Millis::from_hours(24)),
        };
        let end = if rejected { End::Rejected } else { End::Completed };
        add(&format!("state-tombstone-{name}"), record(State::Tombstone(stone), end));
    }

    let bodies = [
        ("empty", Body::Empty),
        ("inline", inline()),
        ("stored", Body::Stored { body: BodyId([0x33; 32]), length: 5_000_000_000, digest: [0x44; 32] }),
        ("uncaptured", Body::Uncaptured { length: u64::MAX, digest: [0x55; 32] }),
        ("handle", Body::Handle(Arc::from("run_0123456789"))),
    ];
    for (name, body) in bodies {
        add(&format!("body-{name}"), record(State::Committed(success(body)), End::Completed));
    }
    for class in OutcomeClass::ALL {
        let failure = Some(outcome(class, 0, inline()));
        add(&format!("class-{class:?}").to_lowercase(), record(State::Open(Open { since: at, failure }), End::Failed));
    }
    for end in ENDS {
        let name = format!("end-{end:?}").to_lowercase();
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        add(&name, record(State::Open(Open { since: at, failure: None }), end));
    }
    for effect in Effect::ALL {
        let mut sample = record(pending(true, at), End::Running);
        sample.effect = effect;
        add(&format!("effect-{effect}"), sample);
    }
    for (name, on_lapse) in [("open", OnLapse::Open), ("in-doubt", OnLapse::InDoubt), ("stale", OnLapse::Stale)] {
        let mut sample = record(pending(true, at), End::Running);
        sample.rules.on_lapse = on_lapse;
        add(&format!("lapse-{name}"), sample);
    }
    let mut refuse = record(State::Committed(success(Body::Empty)), End::Completed);
    refuse.rules.after_window = AfterWindow::Refuse;
    add("window-refuse", refuse);
    let mut forever = record(State::Committed(success(Body::Empty)), End::Completed);
    forever.rules.open_retention = Span::Forever;
    if let State::Committed(done) = &mut forever.state {
        done.retention = Span::Forever;
    }
    add("window-forever", forever);
    let mut leased = record(State::Committed(success(Body::Empty)), End::Completed);
    leased.attempt.lease = Some(Millis::from_secs(60));
    leased.attempt.number = 3;
    leased.past = [(1, None), (2, Some(Millis(1)))]
        .map(|(number, lease)| Past {
            number,
            owner: Arc::from("worker 1"),
            begun_wall: WallMillis(1_699_999_000_000),
            lease,
            end: End::Lapsed { started: true },
        })
        .to_vec();
    add("leases", leased);
    add("full", full());
    all
}

/// A record with something in every place.
fn full() -> Record {
    let mut sample = record(State::Rejected(last(outcome(OutcomeClass::FinalFailure, 599, inline()))), End::Resolved);
    let about = About { principal: Some(Arc::from("käthe")), ..(*sample.about).clone() };
    sample.about = Arc::new(about);
    sample.print = [Scheme::CANONICAL_V1, Scheme::TUPLE_V1, Scheme::PARTS_V1]
        .into_iter()
        .try_fold(Fingerprint::of(Scheme::RAW_V1.keyed(), [1; 32]), |print, scheme| print.and(scheme, [scheme.0; 32]));
    sample.guard_before = Some(Fingerprint::of(Scheme::RAW_V1, [9; 32]));
    sample.attempt.number = u32::MAX;
    sample.attempt.epoch = Some(u64::MAX);
    sample.past = (1..=8)
        .map(|number| Past {
            number,
            owner: format!("worker {number}").into(),
            begun_wall: WallMillis(1_699_999_000_000 + u64::from(number)),
            lease: None,
            end: ENDS[number as usize],
        })
        .collect();
    sample.evidence = (1..=4)
        .map(|attempt| Evidence {
            attempt,
            outcome: outcome(OutcomeClass::Success, 200, inline()),
            wall: WallMillis(1_699_999_500_000),
        })
        .collect();
    sample.resolved = Some(Resolved {
        actor: Arc::from("ops@example.com"),
        reason: Arc::from("the provider says that it was refused"),
        wall: WallMillis(1_700_000_090_000),
    });
    sample
}

fn text() -> impl Strategy<Value = Arc<str>> {
    "\\PC{0,24}".prop_map(|text| Arc::from(text.as_str()))
}

/// Numbers of every length, not only the longest ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..300, any::<u32>().prop_map(u64::from), any::<u64>(), Just(u64::MAX)]
}

fn anchor() -> impl Strategy<Value = Anchor> {
    option::of(number()).prop_map(|at| at.map_or(Anchor::Write, |at| Anchor::At(Stamp(at))))
}

fn span() -> impl Strategy<Value = Span> {
    option::of(number()).prop_map(|length| length.map_or(Span::Forever, |length| Span::For(Millis(length))))
}

fn end() -> impl Strategy<Value = End> {
    prop::sample::select(&ENDS[..])
}

fn some_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        Just(Body::Empty),
        some_bytes().prop_map(|bytes| Body::Inline(bytes.into())),
        (any::<[u8; 32]>(), number(), any::<[u8; 32]>()).prop_map(|(body, length, digest)| Body::Stored {
            body: BodyId(body),
            length,
            digest
        }),
        (number(), any::<[u8; 32]>()).prop_map(|(length, digest)| Body::Uncaptured { length, digest }),
        text().prop_map(Body::Handle),
    ]
}

pub fn any_outcome() -> impl Strategy<Value = Outcome> {
    (prop::sample::select(&OutcomeClass::ALL[..]), any::<u16>(), vec((text(), some_bytes()), 0..4), body())
        .prop_map(|(class, status, headers, body)| Outcome { class, status, headers, body })
}

fn any_final() -> impl Strategy<Value = Final> {
    (any_outcome(), anchor(), number(), span()).prop_map(|(outcome, decided, wall, retention)| Final {
        outcome,
        decided,
        decided_wall: WallMillis(wall),
        retention,
    })
}

fn print() -> impl Strategy<Value = Fingerprint> {
    vec(any::<(u8, [u8; 32])>(), 1..=4).prop_map(|digests| {
        let mut rest = digests.into_iter().map(|(scheme, digest)| (Scheme(scheme), digest));
        let first = rest.next().map_or(Fingerprint::of(Scheme(0), [0; 32]), |(scheme, d)| Fingerprint::of(scheme, d));
        rest.fold(first, |print, (scheme, digest)| print.clone().and(scheme, digest).unwrap_or(print))
    })
}

fn state() -> impl Strategy<Value = State> {
    let tombstone = (any::<bool>(), any::<u16>(), any::<[u8; 32]>(), anchor(), number(), span()).prop_map(
        |(rejected, status, digest, decided, wall, retention)| {
            State::Tombstone(Tombstone { rejected, status, digest, decided, decided_wall: WallMillis(wall), retention })
        },
    );
    prop_oneof![
        (any::<bool>(), anchor(), number()).prop_map(|(started, from, length)| State::Pending(Pending {
            started,
            lease: Lease { from, length: Millis(length) },
        })),
        (anchor(), option::of(any_outcome())).prop_map(|(since, failure)| State::Open(Open { since, failure })),
        (anchor(), any::<u32>(), option::of(number())).prop_map(|(since, probes, next)| State::InDoubt(InDoubt {
            since,
            probes,
            next_probe: next.map(Stamp),
        })),
        any_final().prop_map(State::Committed),
        any_final().prop_map(State::Rejected),
        tombstone,
    ]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let fence = option::of(number()).prop_map(|at| at.map_or(Fence::Write, |at| Fence::At(Version(at))));
    let lease = option::of(number()).prop_map(|lease| lease.map(Millis));
    (any::<u32>(), any::<[u8; 16]>(), text(), option::of(number()), anchor(), number(), fence, lease, end()).prop_map(
        |(number, nonce, owner, epoch, begun, wall, fence, lease, end)| Attempt {
            number,
            nonce: Nonce(nonce),
            owner,
            epoch,
            begun,
            begun_wall: WallMillis(wall),
            fence,
            lease,
            end,
        },
    )
}

fn rules() -> impl Strategy<Value = Rules> {
    let lapse = prop::sample::select(&[OnLapse::Open, OnLapse::InDoubt, OnLapse::Stale][..]);
    let window = prop::sample::select(&[AfterWindow::New, AfterWindow::Refuse][..]);
    (lapse, span(), window, span(), any::<u64>()).prop_map(
        |(on_lapse, open_retention, after_window, tombstone_retention, revision)| Rules {
            on_lapse,
            open_retention,
            after_window,
            tombstone_retention,
            revision,
        },
    )
}

/// Any record that can be stored at all, whether or not the rules would ever make it.
pub fn any_record() -> impl Strategy<Value = Record> {
    let about = (text(), text(), option::of(text()), any::<[u8; 8]>(), any::<[[u8; 16]; 2]>()).prop_map(
        |(surface, tenant, principal, key_hash, [surface_tag, tenant_tag])| {
            let (surface_tag, tenant_tag) = (Tag(surface_tag), Tag(tenant_tag));
            Arc::new(About { surface, tenant, surface_tag, tenant_tag, principal, key_hash })
        },
    );
    let past =
        (any::<u32>(), text(), number(), option::of(number()), end()).prop_map(|(number, owner, wall, lease, end)| {
            Past { number, owner, begun_wall: WallMillis(wall), lease: lease.map(Millis), end }
        });
    let evidence = (any::<u32>(), any_outcome(), number()).prop_map(|(attempt, outcome, wall)| Evidence {
        attempt,
        outcome,
        wall: WallMillis(wall),
    });
    let resolved =
        (text(), text(), number()).prop_map(|(actor, reason, wall)| Resolved { actor, reason, wall: WallMillis(wall) });
    let head = (about, prop::sample::select(&Effect::ALL[..]), option::of(print()), option::of(print()));
    let doubt = (any::<u32>(), number(), option::of(any_outcome()))
        .prop_map(|(attempt, since, failure)| EarlierDoubt { attempt, since: Stamp(since), failure });
    let tail = (vec(past, 0..=8), vec(evidence, 0..=4), option::of(resolved), option::of(ties()), option::of(doubt));
    (head, attempt(), rules(), state(), tail).prop_map(
        |((about, effect, print, guard_before), attempt, rules, state, (past, evidence, resolved, ties, doubt))| {
            Record {
                about,
                effect,
                print,
                guard_before,
                attempt,
                rules,
                state,
                past,
                evidence,
                resolved,
                ties: ties.map(Arc::new),
                earlier_doubt: doubt.map(Arc::new),
            }
        },
    )
}

fn ties() -> impl Strategy<Value = Ties> {
    let bytes = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let input =
        prop_oneof![bytes().prop_map(CompensationInput::Given), text().prop_map(CompensationInput::FromOutcome),];
    let compensation = (text(), input).prop_map(|(name, input)| Compensation { name, input });
    let honoured = (option::of(number()), number()).prop_map(|(from, window)| Honoured {
        from: from.map_or(Anchor::Write, |at| Anchor::At(Stamp(at))),
        window: Millis(window),
    });
    let (group, run) = (option::of(any::<[u8; 32]>()), option::of(any::<[u8; 16]>()));
    (group, run, option::of(compensation), any::<bool>(), option::of(honoured)).prop_map(
        |(group, run, compensation, held, honoured)| Ties {
            group: group.map(Id),
            run: run.map(Tag),
            compensation,
            held,
            honoured,
        },
    )
}
