use hapax_core::{Outcome, Verdict};
use hapax_engine::{Begun, Engine, Wait};

use super::{Open, call, engine};
use crate::Proxy;

/// One round trip for a first begin, for a completion and for a duplicate, whether it comes before the completion or after;
/// none for a duplicate that the gate knows: counted on the wire.
pub async fn each_step_is_one_round_trip(open: Open<'_>, port: u16) {
    each_step_is_one_round_trip_but_a_duplicate(open, port, 1).await;
}

/// The same where a duplicate costs more, since a refusal does not bring along what is held.
pub async fn each_step_is_one_round_trip_but_a_duplicate(open: Open<'_>, port: u16, duplicate: u64) {
    let proxy = Proxy::before(port).await;
    let (one, other) = (engine(open(proxy.port()).await), engine(open(proxy.port()).await));
    // Connections are made and statements known.
    for number in 0..4 {
        whole(&one, &format!("warm-{number}")).await;
        whole(&other, &format!("warm-too-{number}")).await;
    }
    for number in 0..10 {
        let key = format!("key-{number}");
        let trips = async |what: &str, wanted: u64, before: u64| {
            assert_eq!(proxy.asked() - before, wanted, "round trips of {what}");
        };
        let before = proxy.asked();
        let Ok(Begun::Execute(ticket)) = call(&one, &key).begin().await else { panic!("a first begin executes") };
        trips("a first begin", 1, before).await;
        let before = proxy.asked();
        let told = call(&other, &key).wait(Wait::No).begin().await;
        assert!(matches!(told, Ok(Begun::Told(Verdict::InFlight { .. }))), "{told:?}");
        trips("a duplicate of what still runs", duplicate, before).await;
        let before = proxy.asked();
        assert!(ticket.complete(&one, outcome()).await.unwrap().is_done());
        trips("a completion", 1, before).await;
        let before = proxy.asked();
        assert!(matches!(call(&other, &key).begin().await, Ok(Begun::Replay(_))));
        trips("a duplicate elsewhere", duplicate, before).await;
        let before = proxy.asked();
        assert!(matches!(call(&other, &key).begin().await, Ok(Begun::Replay(_))));
        trips("a duplicate that the gate knows", 0, before).await;
    }
}

fn outcome() -> Outcome {
    Outcome::success("done")
}

async fn whole(engine: &Engine, key: &str) {
    if let Begun::Execute(ticket) = call(engine, key).begin().await.unwrap() {
        assert!(ticket.complete(engine, outcome()).await.unwrap().is_done());
    }
}
