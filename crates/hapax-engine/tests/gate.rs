//! The fast path: it may only shorten a replay, and never holds the truth about anything live.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::support::*;
use hapax_core::{
    Body, Fingerprint, Id, Millis, Outcome, OutcomeClass, Recorded, Replay, Span, Stamp, Tag, WallMillis,
    identity::{Printer, Scheme},
    policy::{Capacity, FingerprintMode, Mode, OnFull},
};
use hapax_engine::{
    OnceError, Policies, Settings,
    gate::{Gate, GateSize},
};

fn id_of(number: u64) -> Id {
    Id::derived("test", &[&number.to_be_bytes()])
}

/// Ids of one shard, so that its order can be watched.
fn in_one_shard() -> impl Iterator<Item = Id> {
    (0..).map(id_of).filter(|id| id.0[31] % 16 == 0)
}

fn answer(bytes: usize, expires: u64) -> Replay {
    Replay {
        answer: Recorded::Whole(Outcome::success(vec![b'x'; bytes])),
        rejected: false,
        decided_wall: WallMillis(1),
        expires: Some(Stamp(expires)),
        attempt: 1,
        asked_first: None,
    }
}

fn print(text: &str) -> Fingerprint {
    Printer::plain().of_bytes(text.as_bytes())
}

const A: Tag = Tag([1; 16]);
const B: Tag = Tag([2; 16]);
const NOW: Stamp = Stamp(0);

/// Half of a print may do to recognise a retry. Which half is told by what is kept, and where nothing is, nobody digests anything.
#[tokio::test(start_paused = true)]
async fn a_part_of_a_print_is_asked_for_where_it_can_tell_something() {
    let bytes = print("a");
    let both = bytes.clone().and(Scheme::CANONICAL_V1, [7; 32]).unwrap();
    let (raw, canonical, none) = (Scheme::RAW_V1, Scheme::CANONICAL_V1, Scheme(0));
    let world = World::new();
    let engine = world.engine();
    let unasked = |_: &[Scheme]| panic!("there is nothing to compare it with");
    assert!(call(&engine, "k0").at_hand(unasked).is_none());
    for (key, kept, schemes) in [("k1", &bytes, [raw, none]), ("k2", &both, [raw, canonical])] {
        assert!(pay(call(&engine, key).fingerprinted(kept.clone()), "v").await.is_ok());
        let recognised = |part: Option<Fingerprint>| {
            let at_hand = call(&engine, key).at_hand(|known| {
                assert_eq!(known, schemes, "{key}");
                part
            });
            at_hand.is_some()
        };
        assert!(recognised(Some(bytes.clone())) && !recognised(Some(print("b"))) && !recognised(None));
    }
    // What is not compared is not asked for, and in shadow mode nobody is stopped.
    let off = world.engine_with(policy(|policy| policy.fingerprint.mode = FingerprintMode::Off));
    assert!(pay(call(&off, "k3"), "v").await.is_ok());
    assert!(call(&off, "k3").at_hand(unasked).is_some());
    let shadow = world.engine_with(policy(|policy| policy.mode = Mode::Shadow));
    assert!(pay(call(&shadow, "k4"), "v").await.is_ok());
    assert!(call(&shadow, "k4").at_hand(unasked).is_none());
}

/// A retry of what this process knows costs the store nothing.
#[tokio::test(start_paused = true)]
async fn a_hit_costs_no_store_call() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "k").fingerprint("a"), "v").await.is_ok());
    let before = world.store.calls();
    for _ in 0..100 {
        assert_eq!(never(call(&engine, "k").fingerprint("a")).await.unwrap().value, "v");
    }
    assert_eq!(world.store.calls(), before);
    assert_eq!((engine.stats().gate_hits, engine.stats().replayed), (100, 100));
    // A replay read from the store warms it as well.
    let elsewhere = world.engine();
    assert!(never(call(&elsewhere, "k")).await.is_ok());
    let before = world.store.calls();
    assert!(never(call(&elsewhere, "k")).await.is_ok());
    assert_eq!(world.store.calls(), before);
}

/// An answer of a few bytes is a part of the buffer that a connection was read into. The gate kept all of it,
/// and counted the few bytes.
#[test]
fn an_answer_does_not_keep_the_buffer_it_came_in() {
    let gate = Gate::new(GateSize::default());
    let buffer = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let plain = Outcome::success(buffer.slice(..16));
    let headers = vec![("location".into(), buffer.slice(16..32)), ("etag".into(), buffer.slice(32..40))];
    let whole = Outcome { status: 201, headers, ..plain.clone() };
    let no_body = Outcome { body: Body::Empty, ..whole.clone() };
    let handle = Outcome::new(OutcomeClass::Success, Body::Handle("run-7".into()));
    let too_large = Outcome { body: Body::Uncaptured { length: 1 << 40, digest: [9; 32] }, ..whole.clone() };
    let failed = Outcome { class: OutcomeClass::FinalFailure, ..whole.clone() };
    let long = Outcome { body: Body::Inline(buffer.slice(..5_000).into()), ..whole.clone() };
    for (number, outcome) in [plain, whole, no_body, handle, too_large, failed, long].into_iter().enumerate() {
        for asked_first in [None, Some(Arc::from("ann"))] {
            let id = id_of(2 * number as u64 + u64::from(asked_first.is_some()));
            let replay = Replay { answer: Recorded::Whole(outcome.clone()), asked_first, ..answer(0, 10) };
            gate.insert(&id, A, None, &replay, None);
            for _ in 0..2 {
                let known = gate.look_up(&id, None, NOW).expect("it was just kept");
                assert_eq!(known, replay, "and is the same to the byte");
            }
        }
    }
    assert!(buffer.is_unique(), "nobody holds the buffer any more");
    let headers = |many| Outcome { status: 200, headers: vec![("x".into(), "y".into()); many], ..Outcome::success("") };
    let kept = |many: usize| {
        let (id, replay) = (id_of(100), Replay { answer: Recorded::Whole(headers(many)), ..answer(0, 10) });
        gate.insert(&id, A, None, &replay, None);
        let known = gate.look_up(&id, None, NOW).is_some_and(|known| known == replay);
        gate.forget(&id);
        known
    };
    assert_eq!([kept(1_024), kept(1_025)], [true, false], "more headers than are read again");
}

/// A replay expires by the store's clock: also when that jumps, in either direction.
#[tokio::test(start_paused = true)]
async fn expiry_follows_the_stores_clock_through_a_jump() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.success = Span::For(Millis::from_hours(1))));
    assert!(pay(call(&engine, "k"), "first").await.is_ok());
    world.clock.jump(-10_000_000);
    assert!(never(call(&engine, "k")).await.unwrap().replayed, "a jump back only lengthens the window");
    world.clock.jump(10_000_000 + 3_599_000);
    assert!(never(call(&engine, "k")).await.unwrap().replayed);
    world.clock.jump(2_000);
    assert_eq!(pay(call(&engine, "k"), "second").await.unwrap().value, "second");
    world.clock.jump(-3_000);
    assert_eq!(never(call(&engine, "k")).await.unwrap().value, "second", "the old answer does not come back");
}

/// Another request under the key is never answered here: it goes to the ledger, which calls it a mismatch.
#[tokio::test(start_paused = true)]
async fn a_mismatch_is_never_answered_from_the_gate() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "k").fingerprint("a"), "v").await.is_ok());
    let before = world.store.calls();
    assert!(matches!(never(call(&engine, "k").fingerprint("b")).await, Err(OnceError::Mismatch)));
    assert!(world.store.calls() > before);
    assert_eq!(engine.stats().gate_hits, 0);
}

/// What was evicted to make room is forgotten here too.
#[tokio::test(start_paused = true)]
async fn an_evicted_record_is_forgotten() {
    let world = World::new();
    let engine = world.engine_with(policy(|policy| policy.capacity = Capacity::of(1, OnFull::EvictOldestFinal)));
    assert!(pay(call(&engine, "old"), "v").await.is_ok());
    assert_eq!(engine.gate().len(), 1);
    assert!(pay(call(&engine, "new"), "v").await.is_ok());
    assert_eq!(engine.gate().len(), 1);
    assert!(matches!(never(call(&engine, "old")).await, Err(OnceError::AlreadyCompleted { .. })));
}

/// A reload clears it.
#[tokio::test(start_paused = true)]
async fn a_reload_clears_it() {
    let world = World::new();
    let engine = world.engine();
    assert!(pay(call(&engine, "k"), "v").await.is_ok());
    assert_eq!(engine.gate().len(), 1);
    engine.reload(Policies::default());
    assert!(engine.gate().is_empty());
    assert!(never(call(&engine, "k")).await.unwrap().replayed, "and the ledger still knows");
}

/// Where others write too, an entry is believed for two seconds only.
#[tokio::test(start_paused = true)]
async fn on_shared_stores_an_entry_is_believed_for_a_moment() {
    let world = World::new();
    world.store.pretend_shared();
    let engine = world.engine();
    assert!(pay(call(&engine, "k"), "v").await.is_ok());
    sleep(1_900).await;
    let before = world.store.calls();
    assert!(never(call(&engine, "k")).await.is_ok());
    assert_eq!(world.store.calls(), before);
    sleep(200).await;
    assert!(never(call(&engine, "k")).await.is_ok());
    assert!(world.store.calls() > before);
}

/// Live work is not in it: nothing is answered from here before it is final.
#[tokio::test(start_paused = true)]
async fn nothing_live_is_in_it() {
    let world = World::new();
    let engine = world.engine();
    let ticket = begin(call(&engine, "k")).await;
    assert!(engine.gate().is_empty());
    assert!(ticket.fail(&engine, retryable("no")).await.unwrap().is_done());
    assert!(engine.gate().is_empty());
    let doubtful = begin(call(&engine, "doubtful")).await;
    sleep(61_000).await;
    engine.sweep().await.unwrap();
    assert!(engine.gate().is_empty());
    assert!(doubtful.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(engine.gate().len(), 1);
}

/// A completion's answer is slow; meanwhile the record is evicted. The slow one must not bring the old answer back.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_bring_back_what_has_gone() {
    let world = World::new();
    let capacity = policy(|policy| policy.capacity = Capacity::of(1, OnFull::EvictOldestFinal));
    let engine = world.engine_with(capacity.clone());
    let ticket = begin(call(&engine, "k")).await;
    let held = world.store.hold_swaps();
    let completing = {
        let (engine, ticket) = (engine.clone(), ticket.clone());
        tokio::spawn(async move { ticket.complete(&engine, done("\"v\"")).await })
    };
    sleep(1).await;
    world.store.hold_nothing();
    // The same engine evicts it to make room for another.
    assert!(pay(call(&engine, "other"), "o").await.is_ok());
    held.add_permits(10);
    assert!(completing.await.unwrap().unwrap().is_done());
    let told = never(call(&engine, "k")).await;
    assert!(matches!(told, Err(OnceError::AlreadyCompleted { .. })), "the gate knows better than the ledger: {told:?}");
}

/// The number of entries is bounded, and the least recently used go first.
#[test]
fn the_least_recently_used_go_first() {
    let gate = Gate::new(GateSize { entries: 16 * 4, bytes: 1 << 20, tenant_share: 1 });
    let ids: Vec<Id> = in_one_shard().take(6).collect();
    for id in &ids[..4] {
        gate.insert(id, A, None, &answer(1, 100), None);
    }
    assert!(gate.look_up(&ids[0], None, NOW).is_some(), "used again");
    for id in &ids[4..] {
        gate.insert(id, A, None, &answer(1, 100), None);
    }
    assert_eq!(gate.len(), 4);
    let there: Vec<bool> = ids.iter().map(|id| gate.look_up(id, None, NOW).is_some()).collect();
    assert_eq!(there, [true, false, false, true, true, true]);
}

/// However many are inserted, neither their number nor their bytes grow beyond what was allowed.
#[test]
fn entries_and_bytes_are_bounded() {
    let gate = Gate::new(GateSize { entries: 1_600, bytes: 160_000, tenant_share: 2 });
    for number in 0..20_000_u64 {
        let tenant = Tag([(number % 7) as u8; 16]);
        gate.insert(&id_of(number), tenant, None, &answer((number % 2_000) as usize, 100), None);
        assert!(gate.len() <= 1_600);
    }
    assert!(gate.bytes() <= 160_000, "{}", gate.bytes());
    assert!(gate.len() > 50);
    gate.insert(&id_of(0), A, None, &answer(1_000_000, 100), None);
    assert!(gate.look_up(&id_of(0), None, NOW).is_none(), "too large for it");
    for number in 0..20_000 {
        gate.forget(&id_of(number));
    }
    assert_eq!((gate.len(), gate.bytes()), (0, 0));
}

/// One tenant floods it, with many entries and with large ones: its neighbour's stay.
#[test]
fn a_flood_of_one_tenant_leaves_the_others_entries() {
    for bytes in [1, 2_000] {
        let gate = Gate::new(GateSize { entries: 3_200, bytes: 1_600_000, tenant_share: 2 });
        let theirs: Vec<Id> = (0..300).map(|number| id_of(1_000_000 + number)).collect();
        for id in &theirs {
            gate.insert(id, B, None, &answer(100, 100), None);
        }
        for number in 0..20_000 {
            gate.insert(&id_of(number), A, None, &answer(bytes, 100), None);
        }
        let left = theirs.iter().filter(|id| gate.look_up(id, None, NOW).is_some()).count();
        assert_eq!(left, theirs.len(), "answers of {bytes} bytes");
    }
}

/// An expired entry is gone, one without an end is not, and an answer is for its own request only.
#[tokio::test(start_paused = true)]
async fn an_entry_is_for_its_time_and_its_request() {
    let gate = Gate::new(GateSize::default());
    gate.insert(&id_of(1), A, Some(&print("a")), &answer(3, 100), None);
    assert!(gate.look_up(&id_of(1), Some(&print("a")), Stamp(99)).is_some());
    assert!(gate.look_up(&id_of(1), Some(&print("b")), Stamp(99)).is_none());
    assert!(gate.look_up(&id_of(1), None, Stamp(99)).is_some(), "a caller that does not say is not compared");
    assert!(gate.look_up(&id_of(1), Some(&print("a")), Stamp(100)).is_none());
    assert!(gate.is_empty(), "and it is dropped");
    let endless = Replay { expires: None, ..answer(3, 0) };
    gate.insert(&id_of(2), A, None, &endless, None);
    assert!(gate.look_up(&id_of(2), None, Stamp(u64::MAX)).is_some());
    gate.insert(&id_of(3), A, None, &endless, Some(Millis(10)));
    assert!(gate.look_up(&id_of(3), None, Stamp(0)).is_some());
    tokio::time::advance(Millis(10).as_std()).await;
    assert!(gate.look_up(&id_of(3), None, Stamp(0)).is_none(), "counted by this process, whatever the store says");
    let replayed = gate.look_up(&id_of(2), None, NOW).unwrap();
    assert_eq!(replayed, endless);
}

/// What is read while it is replaced is read again, never half of one answer and half of the next.
#[test]
fn nobody_reads_two_answers_as_one() {
    const IDS: u64 = 40;
    // Bodies beside their entry and elsewhere, in turn, and so few places that most inserts take one from another.
    let gate = Gate::new(GateSize { entries: 16, bytes: 1 << 20, tenant_share: 1 });
    let told = |number: u64, round: u64| Replay {
        answer: Recorded::Whole(Outcome::success((number << 32 | round).to_le_bytes().repeat(1 + round as usize % 12))),
        expires: Some(Stamp(1_000 + round)),
        attempt: round as u32,
        ..answer(0, 0)
    };
    let prints: Vec<Fingerprint> = (0..IDS).map(|number| print(&number.to_string())).collect();
    let rounds = 10_000;
    let done = std::sync::atomic::AtomicBool::new(false);
    let hits: u64 = std::thread::scope(|scope| {
        let ask = || {
            let mut hits = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..IDS {
                    let Some(found) = gate.look_up(&id_of(number), Some(&prints[number as usize]), NOW) else {
                        continue;
                    };
                    assert_eq!(found, told(number, u64::from(found.attempt)));
                    hits += 1;
                }
            }
            hits
        };
        let asking = [scope.spawn(ask), scope.spawn(ask)];
        for round in 0..rounds {
            for number in 0..IDS {
                let print = &prints[number as usize];
                gate.insert(&id_of(number), A, Some(print), &told(number, round), None);
                if (number + round) % 7 == 0 {
                    gate.forget(&id_of(number));
                }
            }
            if round % 50 == 49 {
                gate.clear();
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        asking.map(|asking| asking.join().unwrap()).iter().sum()
    });
    assert!(hits > 0, "somebody read something");
}

/// The same while one shard grows, moves its entries about, evicts, forgets and is cleared: whoever put an answer in finds
/// it, who forgot it does not, and nobody finds another's, nor loses who asked first.
#[test]
fn nobody_reads_anothers_answer_while_a_shard_grows_and_shrinks() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    const IDS: u64 = 1_500;
    let ids: Vec<Id> = in_one_shard().take(IDS as usize).collect();
    let told = |number: u64, round: u64| Replay {
        answer: Recorded::Whole(Outcome::success(
            (number << 32 | round).to_le_bytes().repeat(1 + (7 * round + number) as usize % 11),
        )),
        rejected: round.is_multiple_of(2),
        attempt: round as u32,
        asked_first: (number + round).is_multiple_of(5).then(|| number.to_string().into()),
        ..answer(0, 1_000 + round)
    };
    let mut hits = 0;
    for turn in 0..40 {
        let entries = if turn % 2 == 0 { 16 * 1_000 } else { 16 * 2_500 };
        let (gate, done) = (Gate::new(GateSize { entries, bytes: 1 << 30, tenant_share: 1 }), AtomicBool::new(false));
        hits += std::thread::scope(|scope| {
            let ask = |mut at: u64| {
                let mut hits = 0;
                while !done.load(Relaxed) {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = (at >> 33) % IDS;
                    let Some(found) = gate.look_up(&ids[number as usize], None, NOW) else { continue };
                    assert_eq!(found, told(number, u64::from(found.attempt)));
                    hits += 1;
                }
                hits
            };
            let asking = [scope.spawn(move || ask(turn)), scope.spawn(move || ask(turn + 1_000))];
            for round in 0..3 {
                for number in 0..IDS {
                    let id = &ids[number as usize];
                    gate.insert(id, Tag([(number % 7) as u8; 16]), None, &told(number, round), None);
                    assert_eq!(gate.look_up(id, None, NOW).map(|found| u64::from(found.attempt)), Some(round));
                    if number.is_multiple_of(13) {
                        let other = &ids[number as usize / 2];
                        gate.forget(other);
                        assert_eq!(gate.look_up(other, None, NOW), None);
                    }
                }
                if round == 1 {
                    gate.clear();
                    assert_eq!((gate.len(), gate.bytes()), (0, 0));
                }
            }
            done.store(true, Relaxed);
            asking.map(|asking| asking.join().unwrap()).iter().sum::<u64>()
        });
    }
    assert!(hits > 0, "somebody read something");
}

/// It grows with use, in many steps: each time everything it knows has to be found again, and nothing after a reload.
#[test]
fn all_that_is_kept_is_found_however_much_it_grew() {
    let gate = Gate::new(GateSize { entries: 1 << 20, bytes: 1 << 30, tenant_share: 1 });
    for _ in 0..2 {
        for number in 0..20_000_u64 {
            gate.insert(&id_of(number), A, None, &answer(number as usize % 200, 100 + number), None);
        }
        assert_eq!(gate.len(), 20_000);
        for number in 0..20_000 {
            let known = gate.look_up(&id_of(number), None, NOW);
            assert_eq!(known, Some(answer(number as usize % 200, 100 + number)));
            assert_eq!(gate.given(&id_of(number)), 1);
        }
        assert!(gate.look_up(&id_of(20_000), None, NOW).is_none());
        gate.clear();
        assert_eq!((gate.len(), gate.bytes()), (0, 0));
        assert!((0..20_000).all(|number| gate.look_up(&id_of(number), None, NOW).is_none()));
    }
}

/// A gate of almost no size still answers rightly.
#[tokio::test(start_paused = true)]
async fn a_tiny_gate_is_still_right() {
    let world = World::new();
    let tiny = Settings { gate: GateSize { entries: 0, bytes: 0, tenant_share: 0 }, ..settings() };
    let engine = world.builder().settings(tiny).build().unwrap();
    for round in 0..50 {
        let key = format!("k{}", round % 10);
        let given = pay(call(&engine, &key), "v").await.unwrap();
        assert_eq!(given.replayed, round >= 10);
    }
}
