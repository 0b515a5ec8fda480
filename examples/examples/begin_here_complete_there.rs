//! One process begins an operation, another ends it: the token is all that travels.
//!
//! Run it with `cargo run --example begin_here_complete_there`.

use std::sync::Arc;

use hapax::{Begun, Body, Engine, Hapax, MemoryStore, Outcome, Recorded, Token};

/// What a queue would carry from the one to the other.
struct Message {
    operation: String,
    token: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two engines on one store stand for two processes.
    let store = Arc::new(MemoryStore::default());
    let here = Hapax::on(store.clone()).build()?;
    let there = Hapax::on(store).build()?;

    let message = accept(&here).await?;
    println!("accepted: operation {}…, token {}…", &message.operation[..12], &message.token[..6]);
    work(&there, message).await?;

    // Whoever asks again, wherever, gets the answer.
    match begin(&here).await? {
        Begun::Replay(replayed) => match replayed.replay.answer {
            Recorded::Whole(outcome) => match outcome.body {
                Body::Inline(bytes) => println!("replayed: {}", String::from_utf8_lossy(&bytes)),
                other => return Err(format!("expected the pages, got {other:?}").into()),
            },
            Recorded::DigestOnly { .. } => return Err("nothing was evicted here".into()),
        },
        other => return Err(format!("expected a replay, got {other:?}").into()),
    }
    Ok(())
}

async fn begin(engine: &Engine) -> Result<Begun, hapax::EngineError> {
    engine.surface("reports").tenant("acme").key("report-2026-11").fingerprint(&"november").begin().await
}

async fn accept(here: &Engine) -> Result<Message, Box<dyn std::error::Error>> {
    match begin(here).await? {
        Begun::Execute(ticket) => Ok(Message { operation: ticket.id().to_string(), token: ticket.token().to_text() }),
        other => Err(format!("expected to run it, got {other:?}").into()),
    }
}

async fn work(there: &Engine, message: Message) -> Result<(), Box<dyn std::error::Error>> {
    let id = hapax::Id::parse(&message.operation).ok_or("the operation's id was damaged on the way")?;
    let token = Token::parse(&message.token).ok_or("the token was damaged on the way")?;
    let stepped = there.complete(&id, token, Outcome::success("42 pages")).await?;
    println!("completed elsewhere: {stepped:?}");
    // A lost reply is no reason to worry: said again, it is so already.
    let again = there.complete(&id, token, Outcome::success("42 pages")).await?;
    println!("said again: {again:?}");
    assert!(stepped.is_done() && again.is_done());
    Ok(())
}
