//! What a consumer of messages asks a daemon for, over a real socket.

use std::sync::Arc;

use crate::agents::{fine, post, secured};
use crate::support::Setup;
use hapax_client::Client;
use hapax_core::Millis;
use hapax_store::{Clock, ManualClock, MemoryStore, Store};
use serde_json::{Value, json};

fn delivery(sequence: u64, delivery: u32) -> Value {
    let consumer = json!({ "name": "billing", "ack_wait_ms": 9_000, "max_deliveries": 2 });
    json!({ "consumer": consumer, "stream": "orders", "sequence": sequence, "payload_base64": "aGVsbG8=", "delivery": delivery })
}

/// A broker delivers twice at once, and once more when it was handled; another tenant's consumer of the same name is
/// somebody else.
#[tokio::test]
async fn a_message_is_handled_once_whoever_delivers_it() {
    let daemon = secured().await;
    let (client, stranger) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let first = fine(&client, "/v1/bus:deliver", delivery(1, 1)).await;
    assert_eq!((first["verdict"].as_str(), first["in_progress_every_ms"].as_u64()), (Some("execute"), Some(3_000)));
    let meanwhile = fine(&client, "/v1/bus:deliver", delivery(1, 1)).await;
    assert_eq!((meanwhile["verdict"].as_str(), meanwhile["settle"].as_str()), (Some("settle"), Some("nak")));
    assert!(meanwhile["after_ms"].as_u64().unwrap() > 0);
    let settle = format!("/v1/bus/{}:settle", first["operation"].as_str().unwrap());
    let mut done = json!({ "token": first["token"], "delivery": 1, "handled": "done" });
    done["consumer"] = delivery(1, 1)["consumer"].clone();
    let (status, said) = post(&stranger, &settle, done.clone()).await;
    assert_eq!((status, said["code"].as_str()), (404, Some("HX0010")), "{said}");
    for _ in 0..2 {
        assert_eq!(fine(&client, &settle, done.clone()).await, json!({ "settle": "ack" }), "said again, it is so");
    }
    let again = fine(&client, "/v1/bus:deliver", delivery(1, 2)).await;
    assert_eq!((again["verdict"].as_str(), again["settle"].as_str()), (Some("settle"), Some("ack")));
    assert_eq!(fine(&stranger, "/v1/bus:deliver", delivery(1, 1)).await["verdict"], "execute");

    // In doubt: it rests, and on the last delivery a person is told.
    let second = fine(&client, "/v1/bus:deliver", delivery(2, 1)).await;
    let unknown = json!({ "consumer": delivery(2, 1)["consumer"], "token": second["token"], "delivery": 1, "handled": "unknown" });
    let settle = format!("/v1/bus/{}:settle", second["operation"].as_str().unwrap());
    assert_eq!(fine(&client, &settle, unknown).await, json!({ "settle": "nak", "after_ms": 9_000 }));
    let last = fine(&client, "/v1/bus:deliver", delivery(2, 2)).await;
    assert_eq!(last["settle"], "terminate");
    assert!(last["dead_letter"].as_str().unwrap().contains("unknown"), "{last}");

    // What cannot be told from others is put aside; a consumer that nobody knows how long to remember is refused.
    let mut nameless = delivery(3, 1);
    nameless["intent"] = "two words".into();
    assert_eq!(fine(&client, "/v1/bus:deliver", nameless).await["settle"], "terminate");
    let mut unlimited = delivery(3, 1);
    unlimited["consumer"]["max_deliveries"] = Value::Null;
    let (status, said) = post(&client, "/v1/bus:deliver", unlimited).await;
    assert_eq!((status, said["code"].as_str()), (400, Some("HX0097")), "{said}");
}

async fn settle(client: &Client, ticket: &Value, given: &Value, handled: &str) -> Value {
    let path = format!("/v1/bus/{}:settle", ticket["operation"].as_str().unwrap());
    let said = json!({ "consumer": given["consumer"], "token": ticket["token"], "delivery": given["delivery"],
                       "handled": handled, "why": "no such field" });
    fine(client, &path, said).await
}

/// The daemon that gave the ticket is gone, and another one hears how the handler ended. It has to remember it for as long
/// as the broker may deliver the message again, which is longer than a marker is kept at least.
#[tokio::test]
async fn what_another_daemon_hears_of_a_message_is_remembered_as_long_as_it_may_be_delivered() {
    let clock = Arc::new(ManualClock::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let daemon = async || Setup { store: Arc::clone(&store), ..Setup::default() }.start().await;
    let given = |sequence: u64, number: u32| {
        let mut given = delivery(sequence, number);
        given["consumer"] = json!({ "name": "billing", "ack_wait_ms": 3_600_000, "max_deliveries": 3 });
        given
    };
    let (first, second) = (daemon().await.client(), daemon().await.client());
    for (sequence, handled, settled) in [(1, "done", "ack"), (2, "failed", "terminate")] {
        let ticket = fine(&first, "/v1/bus:deliver", given(sequence, 1)).await;
        assert_eq!(settle(&second, &ticket, &given(sequence, 1), handled).await["settle"], settled);
    }
    clock.advance(Millis::from_mins(11));
    let third = daemon().await.client();
    for (sequence, settled) in [(1, "ack"), (2, "terminate")] {
        let again = fine(&third, "/v1/bus:deliver", given(sequence, 2)).await;
        assert_eq!((again["verdict"].as_str(), again["settle"].as_str()), (Some("settle"), Some(settled)), "{again}");
    }
}

/// What cannot be read leaves no record. The answer to that word is lost and it is said again: the same, or the message
/// would come back for ever.
#[tokio::test]
async fn that_a_message_cannot_be_read_may_be_said_again() {
    let daemon = secured().await;
    let (client, stranger) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let ticket = fine(&client, "/v1/bus:deliver", delivery(1, 1)).await;
    // Whether there is a record shows to no stranger, and nothing of theirs reaches it.
    let foreign = settle(&stranger, &ticket, &delivery(1, 1), "undecodable").await;
    let first = settle(&client, &ticket, &delivery(1, 1), "undecodable").await;
    assert_eq!(first, json!({ "settle": "terminate", "dead_letter": "it cannot be read: no such field" }));
    assert_eq!(settle(&client, &ticket, &delivery(1, 1), "undecodable").await, first);
    assert_eq!(settle(&stranger, &ticket, &delivery(1, 1), "undecodable").await, foreign);
    let path = format!("/v1/bus/{}:settle", ticket["operation"].as_str().unwrap());
    let done =
        json!({ "consumer": delivery(1, 1)["consumer"], "token": ticket["token"], "delivery": 1, "handled": "done" });
    assert_eq!(post(&client, &path, done).await.0, 404, "of any other end there would be a record");
}

/// The document counts characters, the engine bytes: what passes the first and not the second is refused as a whole, not
/// message by message.
#[tokio::test]
async fn a_consumer_whose_name_is_too_long_is_refused_before_any_message() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    for (name, code) in [("n".repeat(256), "HX0073"), ("\u{20ac}".repeat(86), "HX0097")] {
        let mut long = delivery(1, 1);
        long["consumer"]["name"] = name.into();
        let (status, said) = post(&client, "/v1/bus:deliver", long).await;
        assert_eq!((status, said["code"].as_str()), (400, Some(code)), "{said}");
    }
    let mut fits = delivery(1, 1);
    fits["consumer"]["name"] = "\u{20ac}".repeat(85).into();
    assert_eq!(fine(&client, "/v1/bus:deliver", fits).await["verdict"], "execute");
}
