//! The client in Rust tells the stories of agents over a real socket.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use crate::support::Setup;
use hapax_client::{
    Effect, Error, OnceError,
    agents::{Answer, Claimed, Dependencies, Gathered, Input, MemoAnswer},
};
use parking_lot::Mutex;
use serde_json::{json, value::RawValue};

#[tokio::test]
async fn two_callers_of_one_refund_get_one_answer_and_a_superseded_one_none() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (group, turn) = client.group("talk").await.unwrap();
    let refunds = Arc::new(AtomicU32::new(0));
    let declared = json!({ "name": "refund", "business_key": "order:{args.order}", "narrative": ["/why"] });
    let ask = |why: &str, turn| {
        let (tool, refunds) =
            (client.tool(&declared, &json!({ "order": 7, "why": why }), Some(turn)), Arc::clone(&refunds));
        tool.once(move |_| async move { Ok::<_, std::io::Error>(refunds.fetch_add(1, SeqCst) + 1) })
    };
    let (first, second) = tokio::join!(ask("it broke", &turn), ask("arrived broken", &turn));
    assert_eq!((first.unwrap().value, second.unwrap().value, refunds.load(SeqCst)), (1, 1, 1));
    let newer = group.supersede().await.unwrap();
    assert_eq!((newer.turn.epoch, newer.started.len()), (turn.epoch + 1, 1));
    let late = client.operation("refunds", "late").in_turn(&turn).once(|_| async { Ok::<_, std::io::Error>(1) }).await;
    assert!(matches!(late, Err(OnceError::Client(Error::Refused(refusal))) if refusal.code == "HX0012"));
    group.commit().await.unwrap();
    assert!(group.view().await.unwrap().why_not().unwrap().contains("commit point"));
    let (_, queued) = group.fork("talk-2").await.unwrap();
    assert_ne!(queued.group, turn.group);
    group.close().await.unwrap();
}

#[tokio::test]
async fn a_saga_is_undone_in_reverse_and_a_memo_says_why() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (trip, turn) = client.group("trip").await.unwrap();
    for step in ["flight", "hotel"] {
        let booked = client.operation("bookings", step).in_turn(&turn).compensated_by("cancel", &step);
        booked.once(|_| async { Ok::<_, std::io::Error>(1) }).await.unwrap();
    }
    let cancelled = Mutex::new(Vec::new());
    let plan = trip
        .unwind(&[("cancel", Effect::Idempotent)], |inverse| {
            cancelled.lock().push(inverse.input_as::<String>().unwrap());
            async { Ok(()) }
        })
        .await
        .unwrap();
    assert_eq!(
        (plan.state.as_str(), cancelled.into_inner()),
        ("completed", vec!["hotel".to_owned(), "flight".to_owned()])
    );

    let memos = client.memos(json!({ "plan": { "scope": "same_input_same_dep" } }));
    let (input, then) = (Input::default(), Dependencies::default());
    assert!(memos.keep("plan", &input, &then, &[1, 2], None).await.unwrap());
    let found: MemoAnswer<Vec<u32>> = memos.look_up("plan", &input, &then).await.unwrap();
    assert!(matches!(found, MemoAnswer::Reuse { value, .. } if value == [1, 2]));
    let now = Dependencies { rules: "2".to_owned(), ..then };
    let moved: MemoAnswer<Vec<u32>> = memos.look_up("plan", &input, &now).await.unwrap();
    assert!(matches!(moved, MemoAnswer::Recompute { reason } if reason.contains("dependencies")));
}

#[tokio::test]
async fn an_activity_and_a_beat_are_answered_once() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let charge = || client.activity("run/1", "pay", 0, "stripe:create-charge").effect(Effect::Irreversible);
    let Claimed::Call(outgoing) = charge().claim().await.unwrap() else { panic!("it is new") };
    assert_eq!(outgoing.header.as_deref(), Some("Idempotency-Key"));
    let answer = Answer { status: 200, body: "charged".to_owned(), ..Answer::default() };
    charge().answered(&outgoing, &answer).await.unwrap();
    assert!(matches!(charge().claim().await.unwrap(), Claimed::Answered(again) if again == answer));
    let effects = client.effects_of_run("run/1").await.unwrap();
    assert_eq!((effects.len(), effects[0].state.as_str()), (1, "completed"));

    let session = client.session("s");
    let Gathered::New(beat) = session.gather(&["m1"]).await.unwrap() else { panic!("it is new") };
    let (beat, elsewhere) = session.absorb(&beat, &["m2"], None).await.unwrap();
    assert!(elsewhere.is_empty());
    let beat = session.seal(&beat).await.unwrap();
    for replayed in [false, true] {
        let done = session.answer(&beat).once(|_| async { Ok::<_, std::io::Error>("hi".to_owned()) }).await.unwrap();
        assert_eq!((done.value.as_str(), done.replayed), ("hi", replayed));
    }
}

/// A model asks for two amounts that are one and the same to a double. They are two intents, and neither is paid as the other.
#[tokio::test]
async fn two_amounts_that_differ_in_the_twentieth_digit_are_two_intents() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let amounts = ["1234567890123456789.0", "1234567890123456789.1", "12345678901234567890", "12345678901234567891"];
    let by_amount = json!({ "name": "pay", "business_key": "pay:{args.amount}" });
    let by_order = json!({ "name": "pay", "business_key": "order:{args.order}" });
    for (order, amount) in amounts.iter().enumerate() {
        let args = RawValue::from_string(format!(r#"{{"order":{},"amount":{amount}}}"#, order / 2)).unwrap();
        let paid = client.tool(&by_amount, &args, None).once(|_| async { Ok::<_, std::io::Error>(0) }).await.unwrap();
        assert!(!paid.replayed, "{amount} was taken for another");
        // One order with two amounts: the second is not the first's retry.
        let again = client.tool(&by_order, &args, None).once(|_| async { Ok::<_, std::io::Error>(0) }).await;
        let request = client.operation("payments", format!("order-{}", order / 2)).request(&args).begin().await;
        if order % 2 == 0 {
            assert!(!again.unwrap().replayed);
            assert!(request.is_ok());
        } else {
            assert!(matches!(again, Err(OnceError::Client(Error::Mismatch(_)))), "{amount}: {again:?}");
            assert!(matches!(request, Err(Error::Mismatch(_))), "{amount}: {request:?}");
        }
    }
}

/// What an effect says its inverse needs comes back digit by digit: who cancels a payment cancels all of it.
#[tokio::test]
async fn an_inverse_gets_the_amount_that_was_written() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let (trip, turn) = client.group("trip").await.unwrap();
    let amount = RawValue::from_string("12345678901234567890.55".to_owned()).unwrap();
    let paid = client.operation("payments", "k").in_turn(&turn).compensated_by("refund", &amount);
    paid.once(|_| async { Ok::<_, std::io::Error>(1) }).await.unwrap();
    let refunded = Mutex::new(Vec::new());
    let undo = |inverse: hapax_client::agents::Inverse| {
        refunded.lock().push(inverse.input.get().to_owned());
        async { Ok(()) }
    };
    assert_eq!(trip.unwind(&[("refund", Effect::Idempotent)], undo).await.unwrap().state, "completed");
    assert_eq!(refunded.into_inner(), [amount.get()]);

    let memos = client.memos(json!({ "plan": { "scope": "same_input" } }));
    let (input, on) = (Input::default(), Dependencies::default());
    assert!(memos.keep("plan", &input, &on, &amount, None).await.unwrap());
    let found: MemoAnswer<Box<RawValue>> = memos.look_up("plan", &input, &on).await.unwrap();
    assert!(matches!(found, MemoAnswer::Reuse { value, .. } if value.get() == amount.get()));
}
