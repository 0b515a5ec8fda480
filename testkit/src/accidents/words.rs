use bytes::Bytes;
use hapax_core::{BodyId, Version};
use hapax_store::{Answer, Index, Store, StoreError};
use tokio::time::timeout;

use super::{Open, PATIENCE, Server};
use crate::sample::{id, numbered, tag};

/// The password by which the store is to be opened, where a server asks for one.
pub const SECRET: &str = "hunter2-very-secret";

/// Each is what somebody can do, or what happens by itself.
const STEPS: [&str; 5] = ["check ", "wait", "look ", "try again", "connects anew"];

const CALLS: [&str; 10] =
    ["get", "swap", "watch", "scan", "changes", "put_body", "get_body", "drop_body", "bodies", "usage"];

/// The server stands still, and then it is gone. Whoever reads the error at night learns from it which server that is, what was
/// asked of it and what to do next, whatever it was; and nobody learns the password.
pub async fn every_error_names_the_server_and_a_next_step(open: Open<'_>, server: &mut dyn Server) {
    let store = open(server.port()).await;
    assert!(store.name().contains(&format!("127.0.0.1:{}", server.port())), "{}", store.name());
    for call in CALLS {
        // Connections are made and statements known, so that it is sent.
        for _ in 0..6 {
            ask(store.as_ref(), call).await.unwrap();
        }
        server.pause();
        let answer = ask(store.as_ref(), call).await;
        server.resume();
        complains(store.as_ref(), call, "it stands still", answer);
    }
    server.kill();
    for call in CALLS {
        let answer = ask(store.as_ref(), call).await;
        complains(store.as_ref(), call, "it is gone", answer);
    }
    if let Ok(mut watch) = store.watch(&id(1)).await {
        timeout(PATIENCE, watch.changed()).await.expect("without a server one is woken now and then");
    }
}

fn ask<'a>(store: &'a dyn Store, call: &'a str) -> Answer<'a, ()> {
    const BODY: BodyId = BodyId([7; 32]);
    Box::pin(async move {
        match call {
            "get" => store.get(&id(1)).await.map(drop),
            "swap" => store.swap(&id(1), Version::NEVER, Some(numbered(1))).await.map(drop),
            "watch" => store.watch(&id(1)).await.map(drop),
            "scan" => store.scan(Index::InDoubt, None, 10).await.map(drop),
            "changes" => store.changes(None, 10).await.map(drop),
            "put_body" => store.put_body(&id(1), BODY, Bytes::from_static(b"body")).await,
            "get_body" => store.get_body(BODY).await.map(drop),
            "drop_body" => store.drop_body(BODY).await,
            "bodies" => store.bodies(None, 10).await.map(drop),
            "usage" => store.usage(tag(1)).await.map(drop),
            other => panic!("no store is asked `{other}`"),
        }
    })
}

fn complains(store: &dyn Store, call: &str, why: &str, answer: Result<(), StoreError>) {
    let error = match answer {
        Err(error) => error,
        // It may be set up all the same, if whoever waits is woken to find out.
        Ok(()) if call == "watch" => return,
        Ok(()) => panic!("`{call}` is answered, although {why}"),
    };
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(SECRET), "`{call}` shows the password: {shown}");
    let (StoreError::Unavailable { store: named, reason } | StoreError::Unknown { store: named, reason }) = &error
    else {
        panic!("`{call}`, when {why}: {shown}");
    };
    assert_eq!(*named, store.name(), "`{call}` names its server");
    let (asked, rest) = reason.split_once(": ").unwrap_or(("", ""));
    assert_eq!(asked, format!("`{call}`"), "what was asked stands first: {shown}");
    // The words that follow the reason in every such error are for programs.
    let step = rest.rsplit_once("; ").map_or("", |(_, step)| step);
    assert!(STEPS.iter().any(|word| step.contains(word)), "`{call}`, when {why}, tells no next step: {reason}");
}
