//! Jobs that clients number themselves, submitted over a real socket.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use crate::support::{self, Setup, ask, begin};
use hapax_client::{Begun, Client, Error, OnceError, Outcome, agents::JobEnd};
use hapax_core::Millis;
use hapax_store::{Clock, ManualClock, MemoryStore, Store};
use serde_json::{Value, json};

const REPORT: &str = "worker-7.dc1:4000:1:00000000000000aa";
const NOWHERE: &str = "worker-7.dc1:4000:2:00000000000000aa";

async fn submit(client: &Client, key: &str, job: &str) -> (u16, Value) {
    ask(client, "POST", "/v1/jobs:submit", json!({ "key": key, "job": { "do": job }, "wait_ms": 0 })).await
}

fn at(ticket: &Value, verb: &str) -> String {
    format!("/v1/jobs/{}{verb}", ticket["operation"].as_str().unwrap())
}

async fn report(client: &Client, ticket: &Value, ended: &str, body: &str) -> (u16, Value) {
    let said = json!({ "token": ticket["token"], "ended": ended, "outcome": { "body": body } });
    ask(client, "POST", &at(ticket, ":report"), said).await
}

/// A client submits and hears nothing; the daemon dies after it gave the ticket, and again after it heard the end. Whoever
/// submits the job again is answered as the first was: an acceptance for five minutes, a refusal for one.
#[tokio::test]
async fn a_job_is_decided_once_whichever_daemon_is_asked_and_each_answer_has_its_own_time() {
    let clock = Arc::new(ManualClock::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let restarted = async || Setup { store: Arc::clone(&store), ..Setup::default() }.start().await.client();
    let client = restarted().await;
    let (_, accepting) = submit(&client, REPORT, "report").await;
    let (_, refusing) = submit(&client, NOWHERE, "to nowhere").await;
    assert_eq!((&accepting["verdict"], &refusing["verdict"]), (&json!("execute"), &json!("execute")));

    let client = restarted().await;
    let (status, running) = submit(&client, REPORT, "report").await;
    assert_eq!((status, running["code"].as_str()), (409, Some("HX0004")), "{running}");
    let (status, other) = submit(&client, REPORT, "another job").await;
    assert_eq!((status, other["code"].as_str()), (422, Some("HX0005")), "{other}");
    assert_eq!(ask(&client, "GET", &at(&accepting, ""), Value::Null).await.1["state"], "pending");
    assert_eq!(report(&client, &accepting, "committed", "job 1").await.0, 200);
    assert_eq!(report(&client, &refusing, "rejected", "no such queue").await.0, 200);
    // The answer to that is lost, and it is said again; another word is not taken.
    assert_eq!(report(&client, &accepting, "committed", "job 1").await.1["already"], true);
    assert_eq!(report(&client, &accepting, "rejected", "no").await.1["code"], "HX0077");

    let client = restarted().await;
    let (_, again) = submit(&client, REPORT, "report").await;
    assert_eq!((&again["verdict"], &again["outcome"]["body"]), (&json!("replay"), &json!("job 1")), "{again}");
    let (_, again) = submit(&client, NOWHERE, "to nowhere").await;
    assert_eq!((&again["rejected"], &again["outcome"]["body"]), (&json!(true), &json!("no such queue")), "{again}");
    let (_, view) = ask(&client, "GET", &at(&accepting, ""), Value::Null).await;
    assert_eq!((&view["state"], &view["outcome"]["class"]), (&json!("committed"), &json!("success")), "{view}");
    assert!(!view.to_string().contains("job 1"), "the answer is for whoever has the key: {view}");

    clock.advance(Millis::from_secs(61));
    let client = restarted().await;
    assert_eq!(submit(&client, NOWHERE, "to nowhere").await.1["verdict"], "execute");
    assert_eq!(submit(&client, REPORT, "report").await.1["verdict"], "replay");
    clock.advance(Millis::from_secs(240));
    assert_eq!(submit(&restarted().await, REPORT, "report").await.1["verdict"], "execute");
}

/// A submission is not accepted under a key that its client cannot have made, and not as anything but a job.
#[tokio::test]
async fn what_is_no_job_is_refused_before_anything_is_recorded() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let long = format!("{}:1:00000000000000aa", "x".repeat(255));
    for key in ["order-17", ":1:00000000000000aa", "c:01:00000000000000aa", "c:1:AA", "c c:1:00000000000000aa", &long] {
        let (status, said) = submit(&client, key, "report").await;
        assert_eq!((status, said["code"].as_str()), (400, Some("HX0001")), "{key}: {said}");
    }
    let (_, payment) = begin(&client, json!({})).await;
    assert_eq!(report(&client, &payment, "committed", "mine").await.0, 404);
    assert_eq!(ask(&client, "GET", &at(&payment, ""), Value::Null).await.0, 404);
    let (_, ticket) = submit(&client, REPORT, "report").await;
    let odd = json!({ "token": ticket["token"], "ended": "committed", "outcome": { "class": "unknown" } });
    assert_eq!(ask(&client, "POST", &at(&ticket, ":report"), odd).await.0, 400);
    // The same job, by whichever address it is asked for.
    let (_, same) = begin(&client, json!({ "surface": "job", "key": REPORT, "request": { "do": "report" } })).await;
    assert_eq!((&same["code"], &same["operation"]), (&json!("HX0004"), &ticket["operation"]), "{same}");
}

/// Two tenants whose clients have the same name, and so the same keys.
#[tokio::test]
async fn two_tenants_with_one_client_id_never_meet() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let (_, mine) = submit(&acme, REPORT, "report").await;
    let (_, theirs) = submit(&globex, REPORT, "another").await;
    assert_eq!(theirs["verdict"], "execute", "{theirs}");
    let absent = json!({ "operation": "ab".repeat(32), "token": mine["token"] });
    assert_eq!(report(&globex, &mine, "committed", "stolen").await, report(&globex, &absent, "committed", "x").await);
    let foreign = ask(&globex, "GET", &at(&mine, ""), Value::Null).await;
    assert_eq!((foreign.0, foreign.clone()), (404, ask(&globex, "GET", &at(&absent, ""), Value::Null).await));
    assert_eq!(submit(&daemon.as_key("acme-reader"), REPORT, "report").await.0, 403);
    assert_eq!(report(&acme, &mine, "committed", "job 1").await.0, 200);
    assert_eq!(ask(&daemon.as_key("acme-reader"), "GET", &at(&mine, ""), Value::Null).await.0, 200);
}

/// The client in Rust: duplicates of a running submission wait for it, and all hear the same.
#[tokio::test]
async fn a_client_that_submits_until_it_hears_is_accepted_once() {
    let daemon = Setup::default().start().await;
    let (client, accepted) = (daemon.client(), Arc::new(AtomicU32::new(0)));
    let sends = (0..5).map(|_| {
        let (client, accepted) = (client.clone(), Arc::clone(&accepted));
        tokio::spawn(async move {
            let accept = |_| async move { Ok::<_, std::io::Error>(accepted.fetch_add(1, SeqCst) + 1) };
            client.job(REPORT, &json!({ "do": "report" })).once(accept).await.unwrap().value
        })
    });
    for send in sends.collect::<Vec<_>>() {
        assert_eq!(send.await.unwrap(), 1);
    }
    let Begun::Execute(ticket) = client.job(NOWHERE, "to nowhere").begin().await.unwrap() else { panic!("it is new") };
    client.report_job(&ticket, JobEnd::Rejected, &Outcome::text("no such queue")).await.unwrap();
    let again = client.job(NOWHERE, "to nowhere").once(|_| async { Ok::<_, std::io::Error>(1) }).await;
    assert!(
        matches!(again, Err(OnceError::Rejected(replay)) if replay.outcome.body.as_deref() == Some("no such queue"))
    );
    assert_eq!(client.job_by_id(&ticket.operation).await.unwrap().state, "rejected");
    assert!(matches!(client.job_by_id(&"ab".repeat(32)).await, Err(Error::Refused(refusal)) if refusal.status == 404));
}
