//! Tasks and key slots as the program that first had their format wrote them, and where a store lists them.
//!
//! `HAPAX_WRITE_GOLDEN=1` writes the files that are missing; one that exists is never touched.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use hapax_core::{
    Anchor, Fingerprint, Id, Millis, Nonce, Outcome, Stamp, Tag, Token, WallMillis,
    record::{About, Lease},
    task::{
        Class, Deadline, How, Idempotency, KeySlot, LeaseId, Leased, Order, Payload, Peer, Repair, RepairKind,
        RepairPosture, Resolved, Task, TaskEvidence, TaskId, TaskState, compactable_tag, compactable_tag_of, failure,
        joined_tag, leased_tag, leased_tag_of, queue_tag, request_tag, results_tag, waiting_tag_of,
    },
};
use hapax_store::{Counted, Due, Entry, Envelope, Kind, List, codec};

const AT: u64 = 1_700_000_000_000;

fn about() -> Arc<About> {
    Arc::new(About {
        surface: "a2a.task".into(),
        tenant: "acme".into(),
        surface_tag: Tag([1; 16]),
        tenant_tag: Tag([2; 16]),
        principal: None,
        key_hash: [0; 8],
    })
}

fn task(state: TaskState) -> Task {
    let id = TaskId([3; 16]);
    let token = Token { attempt: 2, nonce: Nonce([9; 16]) };
    let peer = |key: &str, display: &str| Peer { key: key.into(), display: display.into() };
    let repair = |kind| Repair {
        kind,
        lease: LeaseId::of(&id, token),
        actor: "op".into(),
        reason: "gone".into(),
        wall: WallMillis(AT + 5),
    };
    Task {
        about: about(),
        order: Arc::new(Order {
            id,
            sender: peer("planner", "The planner"),
            recipient: peer("indexer", "The indexer"),
            kind: "index".into(),
            intent: "so that it can be found".into(),
            payload: Payload { json: true, bytes: Bytes::from_static(b"{\"page\":7}") },
            print: Fingerprint::of_json_bytes(b"{\"page\":7}"),
            parent: Some(TaskId([4; 16])),
            deadline: Some(Deadline { wall: WallMillis(AT + 60_000), after: Millis(60_000), expires: true }),
            idempotency: Some(Idempotency { class: Class::Idempotent, key: "page-7".into() }),
            cache: Some(Id([5; 32])),
            digest: [6; 32],
        }),
        state,
        attempt: 1,
        number: 2,
        sent: Anchor::At(Stamp(AT)),
        sent_wall: WallMillis(AT + 1),
        repairs: vec![
            repair(RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: true }),
            repair(RepairKind::ForceError { message: "given up".into() }),
        ],
        evidence: vec![TaskEvidence { attempt: 1, outcome: failure("late"), wall: WallMillis(AT + 9) }],
    }
}

fn leased(lease: Option<Lease>) -> TaskState {
    TaskState::Leased(Box::new(Leased {
        token: Token { attempt: 2, nonce: Nonce([9; 16]) },
        owner: "worker 1".into(),
        request: Some([8; 16]),
        since_wall: WallMillis(AT + 2),
        lease,
        order: 77,
        place: 70,
    }))
}

fn resolved(how: How, acked: Option<WallMillis>) -> TaskState {
    let outcome = Outcome::success("{\"pages\":1}");
    TaskState::Resolved(Box::new(Resolved { outcome, how, wall: WallMillis(AT + 3), acked, order: 78 }))
}

fn samples() -> Vec<(&'static str, Envelope)> {
    let lease = Lease { from: Anchor::At(Stamp(AT + 2)), length: Millis(30_000) };
    let token = Token { attempt: 2, nonce: Nonce([9; 16]) };
    let states = [
        ("task-sent", TaskState::Sent { order: 70 }),
        ("task-joined", TaskState::Joined { leader: TaskId([4; 16]) }),
        ("task-queued", TaskState::Queued { order: 70 }),
        ("task-leased", leased(Some(lease))),
        ("task-leased-unknown", leased(None)),
        ("task-posted", resolved(How::Posted(token), None)),
        ("task-delivered", resolved(How::Joined(TaskId([4; 16])), Some(WallMillis(AT + 4)))),
        ("task-replayed", resolved(How::Replayed, None)),
        ("task-forced", resolved(How::Forced, None)),
        ("task-expired", resolved(How::Expired, None)),
        ("task-compacted", TaskState::Compacted { since: Anchor::At(Stamp(AT + 6)) }),
    ];
    let mut all: Vec<_> = states.into_iter().map(|(name, state)| (name, codec::seal_task(&task(state)))).collect();
    all.push(("key-slot", codec::seal_key_slot(&KeySlot { about: about(), leader: TaskId([3; 16]) })));
    all
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds").join(name).with_extension("bin")
}

fn round(envelope: &Envelope) -> Result<(String, Bytes), codec::CodecError> {
    Ok(match envelope.kind {
        Kind::TASK => codec::open_task(envelope).map(|task| (format!("{task:?}"), codec::seal_task(&task)))?,
        Kind::KEY_SLOT => {
            codec::open_key_slot(envelope).map(|slot| (format!("{slot:?}"), codec::seal_key_slot(&slot)))?
        }
        other => panic!("{other:?}"),
    })
    .map(|(text, sealed)| (text, sealed.payload))
}

#[test]
fn old_tasks_are_read_as_they_were_meant() {
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

#[test]
fn damage_to_a_task_is_noticed() {
    for (name, sealed) in samples() {
        for cut in 0..sealed.payload.len() {
            let torn = Envelope { payload: sealed.payload.slice(..cut), ..sealed.clone() };
            assert!(round(&torn).is_err(), "{name} cut at {cut}");
        }
        for at in 0..sealed.payload.len() {
            let mut bytes = sealed.payload.to_vec();
            bytes[at] ^= 0x10;
            assert!(round(&Envelope { payload: bytes.into(), ..sealed.clone() }).is_err(), "{name}, byte {at}");
        }
        assert!(codec::open(&sealed).is_err(), "{name} is no operation");
    }
}

#[test]
fn a_store_lists_a_task_where_somebody_looks_for_it() {
    let all = samples();
    let of = |name: &str| &all.iter().find(|(known, _)| *known == name).unwrap().1;
    let queue = |tag, order| Entry { list: List::Queue, tag, order };
    let group = |tag| Entry { list: List::Group, tag, order: 0 };
    for name in ["task-sent", "task-queued"] {
        assert_eq!(
            of(name).entries,
            [queue(queue_tag("acme", "indexer"), 70), queue(waiting_tag_of("acme"), 70)],
            "{name}"
        );
        assert_eq!(of(name).expiry, Some(Due::At(Stamp(AT + 60_000))), "its deadline");
    }
    assert_eq!(of("task-joined").entries, [group(joined_tag("acme", &TaskId([4; 16])))]);
    let flight = [queue(leased_tag(), 77), queue(leased_tag_of("acme"), 77)];
    assert_eq!(of("task-leased").entries[..2], flight);
    assert_eq!(of("task-leased").entries[2], group(request_tag("acme", "indexer", &[8; 16])));
    assert_eq!((of("task-leased").lease_end, of("task-leased").expiry), (None, None), "nobody hands it out again");
    assert_eq!(of("task-posted").entries, [queue(results_tag("acme", "planner"), 78)]);
    let done = [queue(compactable_tag(), 78), queue(compactable_tag_of("acme"), 78)];
    assert_eq!(of("task-delivered").entries, done);
    assert!(of("task-compacted").entries.is_empty());
    assert_eq!(of("task-compacted").counted, Counted::Tombstone);
    assert_eq!(of("task-compacted").gone, Some(Due::At(Stamp(AT + 6 + 90 * 86_400_000))));
    let tags = [
        queue_tag("acme", "indexer"),
        queue_tag("acm", "eindexer"),
        queue_tag("other", "indexer"),
        results_tag("acme", "indexer"),
        leased_tag(),
        leased_tag_of(""),
        leased_tag_of("acme"),
        compactable_tag(),
    ];
    let apart: std::collections::BTreeSet<Tag> = tags.into_iter().collect();
    assert_eq!(apart.len(), tags.len(), "two lists meet");
}
