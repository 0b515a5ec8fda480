//! "Refund my order", "Order #12345"; and "123", then "actually 456".

use std::{sync::Arc, time::Duration};

use hapax_core::{Effect, Nonce};
use hapax_engine::{Engine, OnceError, Settings, Tool, ToolError, Turn};
use hapax_store::Store;
use serde_json::json;

use super::{Left, Log, Scene, each_death};
use crate::stories::Failed;

fn tool(effect: &str) -> Tool {
    let declared = format!(
        r#"{{"name": "refund", "business_key": "order:{{args.order}}", "narrative": ["/why"], "effect": "{effect}"}}"#
    );
    Tool::from_json(&declared).unwrap()
}

/// An engine that asks the bank where it does not know what happened.
fn engine(store: Arc<dyn Store>, log: &Log) -> Engine {
    let log = log.clone();
    let probe = move |doubt| {
        let found = log.found(&doubt);
        async move { found }
    };
    Engine::builder(store)
        .settings(Settings { owner: "test".into(), ..Settings::default() })
        .probe("tool", probe)
        .build()
        .unwrap()
}

async fn refund(
    engine: &Engine,
    log: &Log,
    effect: &str,
    turn: &Turn,
    order: u32,
    why: &str,
) -> Result<String, ToolError<Failed>> {
    let (log, knows_keys) = (log.clone(), Effect::parse(effect).unwrap().may_rerun());
    let run = move |ticket: hapax_engine::Ticket| async move {
        let (key, what) = (ticket.downstream_key(), format!("refund of {order}"));
        // Only of an effect that may be repeated is it expected that whoever does it knows keys.
        if knows_keys {
            log.happen_once(&key, &what).await;
        } else {
            log.happen(&key, &what).await;
        }
        Ok::<_, Failed>(what)
    };
    let args = json!({ "order": order, "why": why }).to_string();
    Ok(tool(effect).run(engine, turn, &args, run).await?.value)
}

/// Asks until there is an answer, as a workflow does that was restarted.
async fn until_answered(engine: &Engine, log: &Log, effect: &str, turn: &Turn, order: u32, why: &str) -> String {
    for _ in 0..2_000 {
        match refund(engine, log, effect, turn, order, why).await {
            Ok(answer) => return answer,
            Err(ToolError::Call(OnceError::InDoubt { id })) => {
                let _asked = engine.probe(&id).await.unwrap();
            }
            Err(ToolError::Call(OnceError::InFlight { .. } | OnceError::JoinedFailure { .. })) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no answer")
}

/// The turn and its restart, both on their way to the refund.
pub(super) async fn act(store: Arc<dyn Store>, log: Log, effect: &str) {
    let (first, second) = (engine(Arc::clone(&store), &log), engine(store, &log));
    let turn = first.group("acme", "talk").unwrap().create().await.unwrap();
    let original = refund(&first, &log, effect, &turn, 12345, "asked for it");
    let restarted = refund(&second, &log, effect, &turn, 12345, "the customer wants their money back");
    let (original, restarted) = tokio::join!(original, restarted);
    assert_eq!(original.unwrap(), restarted.unwrap());
}

/// Wherever the process of both callers is killed: one refund, and both get the same answer from the next.
pub async fn one_refund(scene: &Scene<'_>) {
    for effect in ["idempotent", "compensatable", "irreversible", "unsafe"] {
        let deaths = each_death(scene, "refund", effect, |left| async move {
            let Left { world, log, at, _dir } = left;
            let store = Arc::clone(&world.store) as Arc<dyn Store>;
            let (first, second) = (engine(Arc::clone(&store), &log), engine(store, &log));
            let turn = first.group("acme", "talk").unwrap().create().await.unwrap();
            let original = until_answered(&first, &log, effect, &turn, 12345, "asked for it");
            let restarted = until_answered(&second, &log, effect, &turn, 12345, "reworded");
            let (original, restarted) = tokio::join!(original, restarted);
            assert_eq!((original.as_str(), restarted.as_str()), ("refund of 12345", "refund of 12345"));
            assert_eq!(log.whats(), ["refund of 12345"], "{effect}, killed at point {at}");
        });
        let deaths = deaths.await;
        println!("{effect}: killed {deaths} times");
        assert!(deaths >= 8 / scene.stride, "{effect}: only {deaths} points to die at");
    }
}

/// The correction's own nonce: whoever carries it out says the same supersede, also after a restart.
const CORRECTION: Nonce = Nonce([45; 16]);

/// The late call for 123 while the turn is superseded, then 456.
pub(super) async fn act_corrected(store: Arc<dyn Store>, log: Log, effect: &str) {
    let engine = engine(store, &log);
    let group = engine.group("acme", "talk").unwrap();
    let first = group.create().await.unwrap();
    let late = refund(&engine, &log, effect, &first, 123, "");
    let corrected = async {
        let turn = match group.supersede_with(CORRECTION).await {
            Ok(superseded) => superseded.turn,
            Err(_committed) => group.fork("talk-2").await.unwrap(),
        };
        refund(&engine, &log, effect, &turn, 456, "").await.unwrap()
    };
    let (_told, corrected) = tokio::join!(late, corrected);
    assert_eq!(corrected, "refund of 456");
}

/// Wherever the process is killed: 456 is refunded once, and 123 not at all once the turn was superseded, unless it had
/// started before and the supersede says so. The second process says the supersede of the first again, under its nonce: a
/// new one would find the group committed by the refund of 456 itself, and go on in a fork, where it would be another.
pub async fn corrected_refund(scene: &Scene<'_>) {
    for effect in ["idempotent", "compensatable", "irreversible", "unsafe"] {
        let deaths = each_death(scene, "corrected", effect, |left| async move {
            let Left { world, log, at, _dir } = left;
            let engine = engine(Arc::clone(&world.store) as Arc<dyn Store>, &log);
            let group = engine.group("acme", "talk").unwrap();
            group.create().await.unwrap();
            let first = group.turn(1);
            let (turn, reported) = match group.supersede_with(CORRECTION).await {
                Ok(superseded) => (superseded.turn, !superseded.started.is_empty()),
                Err(_committed) => (group.fork("talk-2").await.unwrap(), true),
            };
            let story = format!("{effect}, killed at point {at}");
            let moved = |log: &Log, what: &str| log.whats().iter().filter(|known| *known == what).count();
            let before = moved(&log, "refund of 123");
            assert!(before == 0 || reported, "{story}: refunded behind the newer turn's back");
            // The process that was superseded comes back, and goes on where it was.
            if turn.group() == first.group() {
                let late = refund(&engine, &log, effect, &first, 123, "").await;
                // Refused, or not answered for: what was begun and not listed when its process died is in doubt.
                let refused = matches!(late, Err(ToolError::Call(OnceError::Superseded | OnceError::InDoubt { .. })));
                assert!(before == 1 || reported || refused, "{story}: {late:?}");
                assert_eq!(moved(&log, "refund of 123"), before, "{story}: refunded after it was superseded");
            }
            assert_eq!(until_answered(&engine, &log, effect, &turn, 456, "").await, "refund of 456");
            assert_eq!(moved(&log, "refund of 456"), 1, "{story}");
        });
        let deaths = deaths.await;
        println!("{effect}: killed {deaths} times");
        assert!(deaths >= 8 / scene.stride, "{effect}: only {deaths} points to die at");
    }
}
