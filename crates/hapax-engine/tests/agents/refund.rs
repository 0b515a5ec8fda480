//! The refund of seed 004: "Refund my order", then "Order #12345" half a second later.

use std::sync::Arc;

use hapax_core::{Effect, StateName};
use hapax_engine::{Engine, OnceError, Tool, ToolError, Turn};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Failed, World, settle, soon, state};

/// A bank that knows keys, as the real ones do: the same key is the same refund.
#[derive(Default)]
struct Bank {
    refunds: Mutex<Vec<(String, Value)>>,
    asked: Mutex<u32>,
}

impl Bank {
    fn refund(&self, key: String, order: &Value) -> String {
        *self.asked.lock() += 1;
        let mut refunds = self.refunds.lock();
        let number = refunds.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            refunds.push((key, order.clone()));
            refunds.len() - 1
        });
        format!("refund {number} of {order}")
    }
}

fn tool(effect: &str) -> Tool {
    let declared = format!(
        r#"{{"name": "refund", "business_key": "order:{{args.order}}", "narrative": ["/why"], "effect": "{effect}"}}"#
    );
    Tool::from_json(&declared).unwrap()
}

async fn refund(
    engine: &Engine,
    tool: &Tool,
    bank: &Arc<Bank>,
    turn: &Turn,
    order: u32,
    why: &str,
) -> Result<String, ToolError<Failed>> {
    let (bank, args) = (Arc::clone(bank), json!({ "order": order, "why": why }));
    let called = args["order"].clone();
    let run = move |ticket: hapax_engine::Ticket| async move {
        tokio::task::yield_now().await;
        Ok::<_, Failed>(bank.refund(ticket.downstream_key(), &called))
    };
    Ok(tool.run(engine, turn, &args, run).await?.value)
}

/// The turn is restarted with both messages, and the one that was restarted also reaches the refund: two processes, real
/// threads, fifty times. One refund, both callers the same answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_refund_and_both_callers_the_same_answer() {
    for effect in ["idempotent", "irreversible", "unsafe"] {
        for _ in 0..50 {
            let world = World::new();
            let (first, second) = (world.engine(), world.engine());
            let (tool, bank) = (tool(effect), Arc::new(Bank::default()));
            let turn = first.group("acme", "talk").unwrap().create().await.unwrap();
            let original = tokio::spawn({
                let (engine, tool, bank, turn) = (first.clone(), tool.clone(), Arc::clone(&bank), turn.clone());
                async move { refund(&engine, &tool, &bank, &turn, 12345, "asked for it").await }
            });
            let restarted = tokio::spawn({
                let (engine, tool, bank, turn) = (second.clone(), tool.clone(), Arc::clone(&bank), turn.clone());
                async move { refund(&engine, &tool, &bank, &turn, 12345, "the customer wants their money back").await }
            });
            let (original, restarted) = (soon(original).await.unwrap(), soon(restarted).await.unwrap());
            assert_eq!(original.unwrap(), restarted.unwrap());
            assert_eq!((bank.refunds.lock().len(), *bank.asked.lock()), (1, 1));
        }
    }
}

/// The process of the original turn dies after each of its writes in turn; the restarted one goes on. With the key
/// forwarded to a bank that knows keys there is one refund and one answer, wherever it died.
#[tokio::test(start_paused = true)]
async fn wherever_the_first_process_dies_there_is_one_refund() {
    for effect in [Effect::Idempotent, Effect::Irreversible, Effect::Unsafe, Effect::Compensatable] {
        let mut died = 0;
        for writes in 0.. {
            let world = World::new();
            let engine = world.engine();
            let (tool, bank) = (tool(effect.name()), Arc::new(Bank::default()));
            let turn = engine.group("acme", "talk").unwrap().create().await.unwrap();
            let gate = world.store.hold_swaps();
            gate.add_permits(writes);
            let original = tokio::spawn({
                let (engine, tool, bank, turn) = (engine.clone(), tool.clone(), Arc::clone(&bank), turn.clone());
                async move { refund(&engine, &tool, &bank, &turn, 12345, "").await }
            });
            settle().await;
            let finished = original.is_finished();
            original.abort();
            world.store.hold_nothing();
            let moved = bank.refunds.lock().len();
            world.clock.jump(3_600_000);
            let other = world.engine();
            let again = refund(&other, &tool, &bank, &turn, 12345, "again").await;
            match again {
                Ok(answer) => assert_eq!(answer, "refund 0 of 12345", "{effect}, died after {writes} writes"),
                // It may have happened: nobody runs it again, and nobody says that it failed.
                Err(ToolError::Call(OnceError::InDoubt { id })) => {
                    assert!(!effect.may_rerun(), "{effect}, died after {writes} writes");
                    assert_eq!(state(&other, &id).await, StateName::InDoubt);
                    assert_eq!(bank.refunds.lock().len(), moved);
                }
                Err(error) => panic!("{effect}, died after {writes} writes: {error}"),
            }
            assert!(bank.refunds.lock().len() <= 1, "{effect}, died after {writes} writes: two refunds");
            if finished {
                break;
            }
            died += 1;
        }
        assert!(died >= 2, "{effect}: only {died} places to die at");
    }
}

/// "123", then "actually 456": the superseded turn comes to its refund late, at each moment there is. It is fenced before
/// the effect, or it had started and the supersede says so.
#[tokio::test(start_paused = true)]
async fn the_corrected_refund_fences_the_late_call_or_is_told_of_it() {
    let (mut fenced, mut told) = (0, 0);
    for writes in 0..8 {
        for effect in Effect::ALL {
            let world = World::new();
            let engine = world.engine();
            let (tool, bank) = (tool(effect.name()), Arc::new(Bank::default()));
            let group = engine.group("acme", "talk").unwrap();
            let first = group.create().await.unwrap();
            let gate = world.store.hold_swaps();
            gate.add_permits(writes);
            let late = tokio::spawn({
                let (engine, tool, bank, turn) = (engine.clone(), tool.clone(), Arc::clone(&bank), first.clone());
                async move { refund(&engine, &tool, &bank, &turn, 123, "").await }
            });
            settle().await;
            world.store.hold_nothing();
            let superseded = group.supersede().await;
            gate.add_permits(100);
            let late = soon(late).await.unwrap();
            let moved = bank.refunds.lock().iter().any(|(_, order)| *order == json!(123));
            match superseded {
                Ok(superseded) => {
                    assert!(
                        !moved || !superseded.started.is_empty(),
                        "{effect}: refunded behind the newer turn's back"
                    );
                    if !moved {
                        fenced += 1;
                        assert!(matches!(late, Err(ToolError::Call(OnceError::Superseded))), "{effect}: {late:?}");
                    }
                    let corrected = refund(&engine, &tool, &bank, &superseded.turn, 456, "").await;
                    assert!(corrected.unwrap().ends_with("456"));
                }
                // Money was on its way for good: the correction is a conversation of its own.
                Err(error) => {
                    assert!(effect == Effect::Irreversible && error.to_string().contains("irreversible"), "{error}");
                    let queued = group.fork("talk-2").await.unwrap();
                    assert!(refund(&engine, &tool, &bank, &queued, 456, "").await.is_ok());
                }
            }
            told += u32::from(moved);
        }
    }
    assert!(fenced >= 5 && told >= 5, "{fenced} fenced, {told} told");
}
