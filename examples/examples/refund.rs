//! A conversation restarts itself, and the refund that both runs of it ask for is made once.
//!
//! Run it with `cargo run --example refund`.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use hapax::{Classified, Gathered, Hapax, OnceError, Tool, ToolError, Turn};
use serde_json::json;

const REFUND: &str = r#"{
    "name": "refund",
    "business_key": "order:{args.order_id}",
    "narrative": ["/reason"],
    "effect": "irreversible"
}"#;

type Failed = Classified<String>;

async fn refund(
    hapax: &Hapax,
    tool: &Tool,
    turn: &Turn,
    order: u32,
    reason: &str,
    refunds: &Arc<AtomicU32>,
) -> Result<(String, bool), ToolError<Failed>> {
    let refunds = Arc::clone(refunds);
    let args = json!({ "order_id": order, "reason": reason }).to_string();
    let done = tool
        .run(hapax, turn, &args, move |_ticket| async move {
            // Here the money moves; `ticket.downstream_key()` goes with it.
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            Ok::<_, Failed>(format!("refund no. {} of order {order}", refunds.fetch_add(1, SeqCst) + 1))
        })
        .await?;
    Ok((done.value, done.replayed))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let tool = Tool::from_json(REFUND)?;
    let refunds = Arc::new(AtomicU32::new(0));

    println!("\"Refund my order\" arrives, then \"Order #12345\" half a second later.");
    let session = hapax.beats("acme", "session-1")?;
    let Gathered::New(beat) = session.gather(&["m1"]).await? else { return Err("m1 is new".into()) };
    let group = hapax.group("acme", "talk-1")?;
    let turn = group.create().await?;
    let (beat, _) = session.absorb_into(&group, &turn, &beat, &["m2"]).await?;
    println!("  absorbed: the beat has {} messages, and the turn restarts with both", beat.size());

    println!("The restarted turn and the one that was restarted both come to the refund:");
    let (one, other) = tokio::join!(
        refund(&hapax, &tool, &turn, 12345, "asked for it", &refunds),
        refund(&hapax, &tool, &turn, 12345, "The customer would like their money back.", &refunds),
    );
    let (one, other) = (one?, other?);
    println!("  one is told:   {} (replayed: {})", one.0, one.1);
    println!("  the other too: {} (replayed: {})", other.0, other.1);
    assert_eq!((&one.0, refunds.load(SeqCst)), (&other.0, 1));

    println!("May a later message still supersede this turn?");
    let why_not = group.may_supersede().await?.expect_err("money has moved");
    println!("  no: {why_not}");

    println!("So it gets a conversation of its own, in which the same order is another matter:");
    let queued = group.fork("talk-2").await?;
    let again = refund(&hapax, &tool, &queued, 12345, "again", &refunds).await?;
    println!("  {}", again.0);

    println!("Asked for another reason, with another order number in the same turn:");
    let late = refund(&hapax, &tool, &turn, 678, "", &refunds).await?;
    println!("  {}: a commit point ends superseding, not the turn", late.0);
    assert_eq!(refunds.load(SeqCst), 3);

    group.close().await?;
    let closed = refund(&hapax, &tool, &turn, 9, "", &refunds).await;
    println!("After the conversation was closed:");
    println!("  {}", closed.as_ref().expect_err("nothing starts any more"));
    assert!(matches!(closed, Err(ToolError::Call(OnceError::NotLetStart(_)))));
    Ok(())
}
