//! The refund of a conversation: "Refund my order", then "Order #12345" half a second later.

use std::sync::Arc;

use hapax_core::{Effect, StateName};
use hapax_engine::{Engine, OnceError, Tool, ToolError, Turn};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Failed, Stage, dies_after, soon, state};

/// A bank that knows keys, as the real ones do: the same key is the same refund.
#[derive(Default)]
pub(super) struct Bank {
    pub(super) refunds: Mutex<Vec<(String, Value)>>,
    pub(super) asked: Mutex<u32>,
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

pub(super) fn tool(effect: &str) -> Tool {
    let declared = format!(
        r#"{{"name": "refund", "business_key": "order:{{args.order}}", "narrative": ["/why"], "effect": "{effect}"}}"#
    );
    Tool::from_json(&declared).unwrap()
}

pub(super) fn refund(
    engine: &Engine,
    tool: &Tool,
    bank: &Arc<Bank>,
    turn: &Turn,
    order: u32,
    why: &str,
) -> impl Future<Output = Result<String, ToolError<Failed>>> + Send + use<> {
    let (engine, tool, bank, turn) = (engine.clone(), tool.clone(), Arc::clone(bank), turn.clone());
    let args = json!({ "order": order, "why": why });
    let called = args["order"].clone();
    let run = move |ticket: hapax_engine::Ticket| async move {
        tokio::task::yield_now().await;
        Ok::<_, Failed>(bank.refund(ticket.downstream_key(), &called))
    };
    async move { Ok(tool.run(&engine, &turn, &args.to_string(), run).await?.value) }
}

/// The process of the original turn dies after each of its writes in turn; the restarted one goes on. With the key
/// forwarded to a bank that knows keys there is one refund and one answer, wherever it died.
pub async fn wherever_the_first_process_dies_there_is_one_refund(stage: &Stage) {
    for effect in [Effect::Idempotent, Effect::Irreversible, Effect::Unsafe, Effect::Compensatable] {
        let mut died = 0;
        for writes in 0.. {
            let world = stage.world().await;
            let engine = world.engine();
            let (tool, bank) = (tool(effect.name()), Arc::new(Bank::default()));
            let turn = engine.group("acme", "talk").unwrap().create().await.unwrap();
            let original = refund(&engine, &tool, &bank, &turn, 12345, "");
            let finished = dies_after(&world, writes, original).await.is_some();
            let moved = bank.refunds.lock().len();
            world.jump(3_600_000).await;
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
pub async fn the_corrected_refund_fences_the_late_call_or_is_told_of_it(stage: &Stage) {
    let (mut fenced, mut told) = (0, 0);
    for writes in 0..8 {
        for effect in Effect::ALL {
            let world = stage.world().await;
            let engine = world.engine();
            let (tool, bank) = (tool(effect.name()), Arc::new(Bank::default()));
            let group = engine.group("acme", "talk").unwrap();
            let first = group.create().await.unwrap();
            let gate = world.store.hold_swaps();
            gate.add_permits(writes);
            let late = tokio::spawn(refund(&engine, &tool, &bank, &first, 123, ""));
            world.settle().await;
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
