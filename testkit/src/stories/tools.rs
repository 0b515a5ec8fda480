//! From a tool's declaration to a protected call.

use hapax_core::{Effect, StateName};
use hapax_engine::{Compensations, Engine, GroupHandle, OnceError, Tool, ToolError, Turn};
use serde_json::{Value, json};

use super::{Failed, Stage, pay, state};

const REFUND: &str = r#"{
    "name": "refund",
    "business_key": "order:{args.order_id}",
    "identity": ["/order_id"],
    "narrative": ["/reason"],
    "effect": "irreversible"
}"#;

async fn turn(engine: &Engine, name: &str) -> (GroupHandle, Turn) {
    let group = engine.group("acme", name).unwrap();
    let turn = group.create().await.unwrap();
    (group, turn)
}

async fn run(tool: &Tool, engine: &Engine, turn: &Turn, args: &Value) -> Result<(String, bool), ToolError<Failed>> {
    let answer = format!("refunded {}", args["order_id"]);
    let done = tool.run(engine, turn, &args.to_string(), move |_| async move { Ok::<_, Failed>(answer) }).await?;
    Ok((done.value, done.replayed))
}

/// The model words its reason otherwise on the retry. It is the same refund; with another amount it is not.
pub async fn a_reworded_call_is_the_same_call_and_a_changed_one_is_not(stage: &Stage) {
    let engine = stage.engine().await;
    let tool = Tool::from_json(REFUND).unwrap();
    let (_, turn) = turn(&engine, "talk").await;
    let first = json!({ "order_id": 123, "amount": 10, "reason": "it broke" });
    assert!(!run(&tool, &engine, &turn, &first).await.unwrap().1);
    let reworded = json!({ "reason": "The item arrived broken.", "amount": 10.0, "order_id": 123 });
    assert!(run(&tool, &engine, &turn, &reworded).await.unwrap().1);
    let changed = json!({ "order_id": 123, "amount": 99, "reason": "it broke" });
    let told = run(&tool, &engine, &turn, &changed).await.unwrap_err();
    assert!(matches!(told, ToolError::Call(OnceError::Mismatch)), "{told}");
}

/// The same order in another conversation is another action; for another tenant it is nobody's business.
pub async fn a_turn_group_bounds_what_counts_as_the_same_action(stage: &Stage) {
    let engine = stage.engine().await;
    let tool = Tool::from_json(REFUND).unwrap();
    let args = json!({ "order_id": 123 });
    let (group, first) = turn(&engine, "talk").await;
    assert!(!run(&tool, &engine, &first, &args).await.unwrap().1);
    let queued = group.fork("talk-2").await.unwrap();
    assert!(!run(&tool, &engine, &queued, &args).await.unwrap().1);
    let theirs = engine.group("other", "talk").unwrap().create().await.unwrap();
    assert!(!run(&tool, &engine, &theirs, &args).await.unwrap().1);
    // Two tools with the same business key do not meet.
    let other = Tool::from_json(&REFUND.replace("\"refund\"", "\"void\"")).unwrap();
    assert!(!run(&other, &engine, &first, &args).await.unwrap().1);
    // Outside of any conversation: once for the tenant.
    for replayed in [false, true] {
        let call = tool.call_for::<Failed>(&engine, "acme", &args.to_string()).unwrap();
        assert_eq!(pay(call, "x").await.unwrap().replayed, replayed);
    }
}

pub async fn what_names_the_call_has_to_be_there(stage: &Stage) {
    let engine = stage.engine().await;
    let (_, turn) = turn(&engine, "talk").await;
    let by_template = Tool::from_json(r#"{"name": "t", "business_key": "order:{args.order_id}"}"#).unwrap();
    let by_identity = Tool::from_json(r#"{"name": "t", "identity": ["/order_id"]}"#).unwrap();
    for args in [json!({}), json!({ "order_id": null }), json!({ "order_id": "" })] {
        for tool in [&by_template, &by_identity] {
            assert!(run(tool, &engine, &turn, &args).await.is_err(), "{args}");
        }
    }
    for declaration in [
        r#"{"name": "t"}"#,
        r#"{"name": "t", "identity": ["order_id"]}"#,
        r#"{"name": "t", "identity": ["/a"], "narrative": ["/a/b"]}"#,
        r#"{"name": "t", "identity": ["/a"], "effect": "harmless"}"#,
        r#"{"name": "t", "business_key": "fixed"}"#,
        r#"{"name": "t", "identity": ["/a"], "identities": []}"#,
    ] {
        let error = Tool::from_json(declaration).unwrap_err().to_string();
        assert!(error.contains("HX0095"), "{declaration}: {error}");
    }
}

/// A tool says with its declaration what undoes it, and where in its answer the input stands.
pub async fn a_tool_is_undone_by_what_it_declared(stage: &Stage) {
    let engine = stage.engine().await;
    let declared =
        r#"{"name": "book", "identity": ["/room"], "compensation": {"name": "cancel", "input": "/booking"}}"#;
    let tool = Tool::from_json(declared).unwrap();
    let (group, turn) = turn(&engine, "trip").await;
    let room = r#"{ "room": 7 }"#;
    let booked = tool.run(&engine, &turn, room, |_| async { Ok::<_, Failed>(json!({ "booking": "b-1" })) });
    assert!(!booked.await.unwrap().replayed);
    let id = tool.call_in::<Failed>(&engine, &turn, room).unwrap().id().unwrap();
    assert_eq!(state(&engine, &id).await, StateName::Committed);
    let cancels = Compensations::default().on("cancel", Effect::Unsafe, |undo| async move {
        assert_eq!(undo.input::<String>()?, "b-1");
        Ok(())
    });
    assert!(group.unwind(&cancels).await.unwrap().is_over());
}

/// The business key names the order, and the identity the order and the item. Two items of one order are two refunds: the
/// second is refused under the key of the first, and never answered with what the first was told.
pub async fn what_identifies_a_call_beside_its_business_key_is_guarded(stage: &Stage) {
    let engine = stage.engine().await;
    let (_, turn) = turn(&engine, "talk").await;
    let declared = r#"{"name": "refund", "business_key": "order:{args.order_id}", "identity": ["/order_id", "/item"]}"#;
    let tool = Tool::from_json(declared).unwrap();
    let item = |name: &str| json!({ "order_id": 17, "item": name });
    assert!(!run(&tool, &engine, &turn, &item("a")).await.unwrap().1);
    assert!(run(&tool, &engine, &turn, &item("a")).await.unwrap().1);
    let told = run(&tool, &engine, &turn, &item("b")).await.unwrap_err();
    assert!(matches!(told, ToolError::Call(OnceError::Mismatch)), "{told}");
    assert!(run(&tool, &engine, &turn, &json!({ "order_id": 18 })).await.is_err(), "the item has to be there");
}

/// Two order numbers differ in the last of their twenty digits. A double holds neither, and rounds both to the same: they
/// stay two orders, in the key, in the identity and in the guard.
pub async fn long_numbers_are_not_rounded_into_one(stage: &Stage) {
    let engine = stage.engine().await;
    let (_, turn) = turn(&engine, "talk").await;
    let order = |last: u8| format!(r#"{{ "order_id": 9999999999999999999{last}, "amount": 1 }}"#);
    for declared in [
        r#"{"name": "by-template", "business_key": "order:{args.order_id}"}"#,
        r#"{"name": "by-identity", "identity": ["/order_id"]}"#,
    ] {
        let tool = Tool::from_json(declared).unwrap();
        let refund = |args: String| {
            let (tool, engine, turn) = (tool.clone(), engine.clone(), turn.clone());
            async move {
                let done = tool.run(&engine, &turn, &args, |_| async { Ok::<_, Failed>("done".to_owned()) }).await;
                done.map(|done| done.replayed)
            }
        };
        for last in [0, 1, 2] {
            assert!(!refund(order(last)).await.unwrap(), "{declared}: {last}");
            assert!(refund(order(last)).await.unwrap(), "{declared}: {last}");
        }
    }
    let tool = Tool::from_json(r#"{"name": "pay", "business_key": "order:{args.order_id}"}"#).unwrap();
    let pay =
        |amount: &str| tool.call_in::<Failed>(&engine, &turn, &format!(r#"{{"order_id": 1, "amount": {amount}}}"#));
    super::pay(pay("36893488147419103232").unwrap(), "x").await.unwrap();
    let told = super::never(pay("36893488147419103233").unwrap()).await;
    assert!(matches!(told, Err(OnceError::Mismatch)), "{told:?}");
    // What two readers may read in two ways is not read.
    for unreadable in [r#"{"order_id": 1, "order_id": 2}"#, "order_id", r#"{"order_id": 1"#] {
        assert!(tool.call_in::<Failed>(&engine, &turn, unreadable).is_err(), "{unreadable}");
    }
}
