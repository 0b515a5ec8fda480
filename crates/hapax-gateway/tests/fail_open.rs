//! The store is gone, and the policy lets pure work go on without it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use hapax_core::identity::Secret;
use hapax_engine::{Engine, Settings};
use hapax_gateway::{
    Config, Gateway, Notice,
    config::Secrets,
    inbound::{Crew, Inbound, Limits, Live, Stop},
};
use hapax_store::{Fault, FaultyStore, MemoryStore, Plan};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Answers everything, one request a connection.
async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap() == 0 {
                        return;
                    }
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nquote";
                stream.write_all(answer).await.unwrap();
            });
        }
    });
    address
}

async fn post(address: SocketAddr, path: &str, key: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.to_ascii_lowercase()
}

/// An answer of which nothing is recorded looks like any other. Its caller would count on the record, so it says so; and whoever
/// runs the store has to hear of it too, since no request fails.
#[tokio::test]
async fn what_ran_without_a_record_is_marked() {
    let file = format!(
        "[gateway]\nupstream = \"http://{}\"\n[default]\non_store_error = \"fail_open\"\n\
         [[route]]\nmatch = \"POST /quote\"\neffect = \"pure\"\n",
        upstream().await
    );
    let ((config, policies), _) = Config::from_toml(&file).unwrap();
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default()), Plan::quiet()));
    let settings = Settings { store_retries: 1, store_backoff: Duration::from_millis(1), ..Settings::default() };
    let engine = Engine::builder(store.clone()).settings(settings).policies(policies.clone()).build().unwrap();
    let secrets = Secrets { tenants: Secret::new(&[7; 32]).unwrap() };
    let setup = config.build(&engine, &policies, &secrets, None).unwrap();
    let (live, (_stop, stopping)) = (Live::default(), Stop::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let inbound = Inbound { listener, tls: None, limits: Limits::default(), crew: Crew::default() };
    let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let heard = Arc::clone(&notices);
    let tell = move |notice| heard.lock().unwrap().push(notice);
    tokio::spawn(Gateway::new(setup, live, tell).serve(inbound, stopping));
    let of_the_store = || {
        let notices = notices.lock().unwrap();
        let errors = notices.iter().filter_map(|notice| match notice {
            Notice::StoreFailed { error, .. } => Some(error.clone()),
            Notice::Anonymous | Notice::ByAllCookies | _ => None,
        });
        errors.collect::<Vec<_>>()
    };

    let recorded = post(address, "/quote", "k1").await;
    assert!(recorded.starts_with("http/1.1 200") && !recorded.contains("hapax-unrecorded"), "{recorded}");
    assert!(of_the_store().is_empty(), "{:?}", of_the_store());
    store.script(Fault::Stale(1_000_000));
    let unrecorded = post(address, "/quote", "k2").await;
    assert!(unrecorded.starts_with("http/1.1 200"), "{unrecorded}");
    assert!(unrecorded.contains("hapax-unrecorded: true\r\n"), "{unrecorded}");
    assert!(of_the_store()[0].contains("HX0008"), "{:?}", of_the_store());
    // What is not pure is not run.
    let refused = post(address, "/pay", "k3").await;
    assert!(refused.starts_with("http/1.1 503") && !refused.contains("hapax-unrecorded"), "{refused}");
}
