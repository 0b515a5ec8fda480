//! The work that is timed by the benchmarks, and whose allocations are counted by a program of their own: counting costs
//! more than many an allocation, and would be measured along.

use bytes::Bytes;
use hapax_core::{Fingerprint, Id, Outcome, Recorded, Replay, Stamp, Tag, WallMillis};
use hapax_engine::{
    Begun, Engine, InScope,
    gate::{Gate, GateSize},
};

pub(crate) const PAIRS: u64 = 2_000;
pub(crate) const ENTRIES: u64 = 1_000_000;
pub(crate) const BODY: usize = 64;

/// Begins and completes each of them once.
pub(crate) async fn make_pairs(engine: &Engine, scope: &InScope, body: &Bytes) {
    for key in 0..PAIRS {
        let begun = scope.clone().key(key).begin().await;
        let Ok(Begun::Execute(ticket)) = begun else { panic!("every begin runs: {begun:?}") };
        let done = ticket.complete(engine, Outcome::success(body.clone())).await;
        assert!(done.is_ok_and(|stepped| stepped.is_done()), "every complete is taken");
    }
}

/// Asks for each of them again.
pub(crate) async fn replay_all(scope: &InScope) {
    for key in 0..PAIRS {
        let replayed = scope.clone().key(key).begin().await;
        assert!(matches!(replayed, Ok(Begun::Replay(_))), "what was completed is replayed");
    }
}

pub(crate) fn bodies(entries: u64) -> Vec<Bytes> {
    let body = |number: u64| {
        let body = Bytes::from(number.to_le_bytes().repeat(BODY / 8));
        // Shared once already: what that takes is not the gate's.
        drop(body.clone());
        body
    };
    (0..entries).map(body).collect()
}

pub(crate) fn full_gate(bodies: &[Bytes]) -> Gate {
    let gate = Gate::new(GateSize { entries: 2 * ENTRIES as usize, bytes: usize::MAX / 2, tenant_share: 1 });
    for (number, body) in bodies.iter().enumerate() {
        gate.insert(&id(number as u64), Tag([1; 16]), Some(&print(number as u64)), &replay(body), None);
    }
    assert_eq!(gate.len(), bodies.len(), "all of them fit");
    gate
}

/// Spread like a digest in each of its parts, made as cheaply as possible: the figure is about the look-up.
pub(crate) fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = (4 * number + at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        *chunk = (word ^ (word >> 32)).to_le_bytes();
    }
    Id(bytes)
}

/// How many requests differ in their print.
pub(crate) const PRINTS: u64 = 256;

/// The print of an entry's request.
pub(crate) fn print(number: u64) -> Fingerprint {
    Fingerprint::of(hapax_core::identity::Scheme::RAW_V1, id((number % PRINTS) ^ 0x5555).0)
}

pub(crate) fn replay(body: &Bytes) -> Replay {
    Replay {
        answer: Recorded::Whole(Outcome::success(body.clone())),
        rejected: false,
        decided_wall: WallMillis(1),
        expires: Some(Stamp(1_000)),
        attempt: 1,
        asked_first: None,
    }
}
