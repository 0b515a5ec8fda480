//! "Order 123." – "No, 456." The corrected turn is told what had started, and the late call of the older one is fenced
//! before its effect.
//!
//! Run it with `cargo run --example supersede`.

use hapax::{Begun, Classified, Effect, Hapax, OnceError, Progress, Turn};

type Failed = Classified<String>;

async fn ship(hapax: &Hapax, turn: &Turn, order: &str) -> Result<String, OnceError<Failed>> {
    let answer = format!("shipped {order}");
    let call = hapax.surface("shop").tenant("acme").key(order).effect(Effect::Compensatable).in_turn(turn);
    Ok(call.once(|_| async move { Ok(answer) }).await?.value)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let group = hapax.group("acme", "talk-1")?;
    let first = group.create().await?;
    println!("The first turn (epoch {}) starts two effects, and admits a third:", first.epoch());
    println!("  {}", ship(&hapax, &first, "order-122").await?);
    let call = |key| hapax.surface("shop").tenant("acme").key(key).effect(Effect::Compensatable).in_turn(&first);
    let Begun::Execute(running) = call("label-122").begin().await? else { return Err("it is new".into()) };
    println!("  label-122 is being printed");
    let Begun::Execute(admitted) = call("order-123").not_started().begin().await? else {
        return Err("it is new".into());
    };
    println!("  order-123 is admitted, and not started");

    println!("\"No, 456\": the turn is superseded.");
    let superseded = group.supersede().await?;
    for reported in &superseded.started {
        println!("  may have started in epoch {}: {} effect, {:?}", reported.epoch, reported.effect, reported.progress);
    }
    assert_eq!(superseded.started.len(), 2);

    println!("The older turn wants to start what it had admitted:");
    let refused = admitted.start(&hapax).await?;
    println!("  {refused:?}");
    assert!(!refused.is_done());
    println!("and comes to another call, late:");
    let late = ship(&hapax, &first, "order-123").await;
    println!("  {}", late.as_ref().expect_err("superseded"));
    assert!(matches!(late, Err(OnceError::Superseded)));

    println!("The newer turn does what was meant:");
    println!("  {}", ship(&hapax, &superseded.turn, "order-456").await?);

    println!("What was under way is not stopped; it is followed to its end:");
    let id = running.id();
    let followed = tokio::spawn({
        let hapax = hapax.clone();
        async move { hapax.follow(&id).await }
    });
    assert!(running.complete(&hapax, hapax::Outcome::success("\"printed\"")).await?.is_done());
    let end = followed.await??;
    println!("  label-122: {end:?}");
    assert_eq!(end, Progress::Committed);

    println!("The answer to the supersede was lost, and it is said again with its nonce:");
    let nonce = hapax::Nonce([7; 16]);
    let (once, twice) = (group.supersede_with(nonce).await?, group.supersede_with(nonce).await?);
    println!("  epoch {} both times", twice.turn.epoch());
    assert_eq!(once.turn, twice.turn);
    Ok(())
}
