//! What agents and workflows ask a daemon for, over a real socket.

use crate::support;
use crate::support::{Running, Setup, ask, begin, step};
use hapax_client::Client;
use hapax_core::{Preset, identity::Surface};
use hapax_engine::Policies;
use serde_json::{Value, json};

pub(crate) async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    ask(client, "POST", path, body).await
}

pub(crate) async fn fine(client: &Client, path: &str, body: Value) -> Value {
    let (status, said) = post(client, path, body).await;
    assert_eq!(status, 200, "{path}: {said}");
    said
}

async fn turn(client: &Client, name: &str) -> Value {
    fine(client, "/v1/groups", json!({ "name": name })).await
}

fn at(turn: &Value, verb: &str) -> String {
    format!("/v1/groups/{}{verb}", turn["group"].as_str().unwrap())
}

fn undo(turn: &Value, verb: &str) -> String {
    format!("/v1/compensations/{}{verb}", turn["group"].as_str().unwrap())
}

pub(crate) async fn secured() -> Running {
    Setup { auth: support::keys(), ..Setup::default() }.start().await
}

/// "123", then "actually 456": the superseded turn's late call is refused, and leaves nothing behind.
#[tokio::test]
async fn a_superseded_turns_late_call_is_fenced_before_its_effect() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let first = turn(&client, "talk").await;
    let epoch = first["epoch"].as_u64().unwrap();
    assert_eq!(turn(&client, "talk").await, first, "found, not made again");
    let running = begin(&client, json!({ "key": "running", "turn": first, "effect": "compensatable" })).await.1;
    let nonce = "ab".repeat(16);
    let newer = fine(&client, &at(&first, ":supersede"), json!({ "nonce": nonce })).await;
    assert_eq!((newer["epoch"].as_u64(), newer["already"].as_bool()), (Some(epoch + 1), Some(false)));
    assert_eq!(newer["started"][0]["operation"], running["operation"]);
    assert_eq!(newer["started"][0]["progress"], "running");
    let again = fine(&client, &at(&first, ":supersede"), json!({ "nonce": nonce })).await;
    assert_eq!((again["epoch"].as_u64(), again["already"].as_bool()), (Some(epoch + 1), Some(true)), "raised once");
    let (status, late) = begin(&client, json!({ "key": "refund-123", "turn": first })).await;
    assert_eq!((status, late["code"].as_str()), (409, Some("HX0012")), "{late}");
    let second = json!({ "group": newer["group"], "epoch": newer["epoch"] });
    let (_, wire) = begin(&client, json!({ "key": "wire", "turn": second, "effect": "irreversible" })).await;
    assert_eq!(wire["verdict"], "execute");
    // Money is on its way for good: the group says why it may not be superseded.
    let (_, view) = ask(&client, "GET", &at(&first, ""), Value::Null).await;
    assert_eq!(view["may_supersede"]["allowed"], false, "{view}");
    assert!(view["may_supersede"]["reason"].as_str().unwrap().contains("irreversible"), "{view}");
    assert_eq!(view["committed"]["by"], wire["operation"]);
    for (verb, body) in [(":supersede", json!({})), (":absorb", json!({ "epoch": newer["epoch"] }))] {
        let (status, said) = post(&client, &at(&first, verb), body).await;
        assert_eq!((status, said["code"].as_str()), (409, Some("HX0090")), "{verb}: {said}");
    }
    // QUEUE and FORCE_COMPLETE: a group of its own.
    let queued = fine(&client, &at(&first, ":fork"), json!({ "name": "talk-2" })).await;
    let forced = fine(&client, &at(&queued, ":force_complete"), json!({ "name": "talk-3" })).await;
    let (_, view) = ask(&client, "GET", &at(&forced, ""), Value::Null).await;
    assert_eq!(view["parent"], queued["group"]);
    fine(&client, &at(&forced, ":absorb"), json!({ "epoch": forced["epoch"] })).await;
    fine(&client, &at(&forced, ":commit"), json!({})).await;
    fine(&client, &at(&forced, ":close"), json!({})).await;
    let (status, closed) = begin(&client, json!({ "key": "late", "turn": forced })).await;
    // Nobody has overtaken it: the reason is the group's, and it is said.
    assert_eq!((status, closed["code"].as_str()), (409, Some("HX0090")), "{closed}");
    assert!(closed["detail"].as_str().unwrap().contains("closed"), "{closed}");
}

/// A stream is recorded by its start and its end. Whoever asks for it later is told what it was, or may call again where
/// the policy says so and that does no harm.
#[tokio::test]
async fn a_stream_is_recorded_by_its_start_and_its_end() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let claim = |node: &str, effect: &str| json!({ "run": "r", "node": node, "provider": "llm:chat", "stream": true, "wait_ms": 0, "effect": effect });
    let end = |ticket: &Value, how: Value| {
        let mut said = how;
        said["token"] = ticket["token"].clone();
        (format!("/v1/activities/{}:end", ticket["operation"].as_str().unwrap()), said)
    };
    let ticket = fine(&client, "/v1/activities:claim", claim("say", "unsafe")).await;
    assert_eq!(ticket["verdict"], "execute");
    let (status, running) = post(&client, "/v1/activities:claim", claim("say", "unsafe")).await;
    assert_eq!((status, running["code"].as_str()), (409, Some("HX0004")), "its start is recorded");
    let whole = json!({ "whole": { "status": 200, "length": 5, "digest": "Ab".repeat(32) } });
    for wrong in [
        json!({}),
        json!({ "whole": { "status": 200, "length": 5, "digest": "ab" } }),
        json!({ "whole": whole["whole"], "broken": "no" }),
    ] {
        let (path, said) = end(&ticket, wrong);
        assert_eq!(post(&client, &path, said).await.0, 400);
    }
    let (path, said) = end(&ticket, whole.clone());
    for _ in 0..2 {
        fine(&client, &path, said.clone()).await;
    }
    let finished = fine(&client, "/v1/activities:claim", claim("say", "unsafe")).await;
    assert_eq!((finished["verdict"].as_str(), finished["length"].as_u64()), (Some("finished"), Some(5)));
    assert_eq!(finished["digest"].as_str(), Some("ab".repeat(32).as_str()));
    // Who asks for its answer is told that there is none to give.
    let mut plain = claim("say", "unsafe");
    plain["stream"] = json!(false);
    assert_eq!(post(&client, "/v1/activities:claim", plain).await.0, 410);
    // One that broke off is in doubt, unless it may be repeated.
    for (effect, then) in [("unsafe", 409), ("idempotent", 200)] {
        let ticket = fine(&client, "/v1/activities:claim", claim(effect, effect)).await;
        let (path, said) = end(&ticket, json!({ "broken": "the connection was cut" }));
        fine(&client, &path, said).await;
        let (status, again) = post(&client, "/v1/activities:claim", claim(effect, effect)).await;
        assert_eq!(status, then, "{effect}: {again}");
    }
}

/// A stream that does no harm when it is called again, and whose policy says so: whoever asks later is told to call, with the
/// key that its provider knows, and nothing is recorded of that.
#[tokio::test]
async fn a_stream_may_be_called_again_where_its_policy_says_so() {
    let policies =
        Policies::from_toml("[surface.activity]\npreset = \"activity\"\ncapture = { on_uncaptured = \"reinvoke\" }\n");
    let daemon = Setup { policies: policies.unwrap().0, ..Setup::default() }.start().await;
    let client = daemon.client();
    let claim = json!({ "run": "r", "node": "say", "provider": "llm:chat", "stream": true, "effect": "idempotent" });
    let ticket = fine(&client, "/v1/activities:claim", claim.clone()).await;
    let path = format!("/v1/activities/{}:end", ticket["operation"].as_str().unwrap());
    let whole = json!({ "status": 200, "length": 5, "digest": "ab".repeat(32) });
    fine(&client, &path, json!({ "token": ticket["token"], "whole": whole })).await;
    for _ in 0..2 {
        let again = fine(&client, "/v1/activities:claim", claim.clone()).await;
        assert_eq!((again["verdict"].as_str(), &again["key"]), (Some("again"), &ticket["key"]), "{again}");
    }
}

/// A system that holds ids of its own names its calls by them; a typing mistake in a recipe must not make two calls one.
#[tokio::test]
async fn an_activity_is_known_by_a_recipe_and_by_who_asked() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let fields = json!({ "workflow": "wf", "job": "j-1", "topic": "refund", "capability": "pay", "step": 2 });
    let claim = |node: &str, recipe: Value| json!({ "run": "r", "node": node, "provider": "bank:pay", "wait_ms": 0, "recipe": recipe });
    let saga = json!({ "name": "cordum.saga", "fields": fields });
    let first = fine(&client, "/v1/activities:claim", claim("a", saga.clone())).await;
    let (status, same) = post(&client, "/v1/activities:claim", claim("b", saga)).await;
    assert_eq!((status, &same["operation"]), (409, &first["operation"]), "wherever it is asked for");
    for wrong in [
        json!({ "name": "cordum.sage", "fields": fields }),
        json!({ "name": "cordum.saga", "fields": { "workflow": "wf" } }),
        json!({ "name": "cordum.intent", "fields": { "workflow": "w", "step": "s", "operation": "o", "more": 1 } }),
    ] {
        assert_eq!(post(&client, "/v1/activities:claim", claim("c", wrong)).await.0, 400);
    }
    let both = json!({ "run": "r", "node": "a", "provider": "p", "business_key": "k",
                       "recipe": { "name": "acf.turn", "fields": { "tenant": "t", "turn": "1" } } });
    assert_eq!(post(&client, "/v1/activities:claim", both).await.0, 400);
    // Who asked is recorded, by whatever name the call goes.
    let by_place = json!({ "run": "r", "node": "z", "provider": "bank:pay" });
    let by_key = json!({ "run": "r", "node": "z", "provider": "bank:pay", "business_key": "order-1" });
    let mut asked = Vec::new();
    for claim in [by_place, by_key] {
        let ticket = fine(&client, "/v1/activities:claim", claim).await;
        let id = hapax_core::Id::parse(ticket["operation"].as_str().unwrap()).unwrap();
        asked.push(daemon.engine.explain(&id).await.unwrap().record.unwrap().about.principal.clone());
    }
    assert!(asked[0].is_some());
    assert_eq!(asked[0], asked[1]);
}

/// A call to a provider: the key to inject, the recorded answer, what may be tried again, what a run did.
#[tokio::test]
async fn an_activity_is_claimed_answered_and_listed_with_its_run() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let place = |ordinal: u64, provider: &str| {
        json!({ "run": "run 1", "node": "pay", "ordinal": ordinal, "provider": provider, "wait_ms": 0,
                "effect": "irreversible" })
    };
    let answer = |ticket: &Value, provider: &str, status: u16| {
        let said = json!({ "token": ticket["token"], "provider": provider,
                           "answer": { "status": status, "headers": [["set-cookie", "a=b"], ["x-id", "7"]], "body": "{}" } });
        (format!("/v1/activities/{}:answer", ticket["operation"].as_str().unwrap()), said)
    };
    let ticket = fine(&client, "/v1/activities:claim", place(0, "stripe:create-charge")).await;
    assert_eq!((ticket["verdict"].as_str(), ticket["header"].as_str()), (Some("execute"), Some("Idempotency-Key")));
    assert_eq!(ticket["key"], ticket["downstream_key"]);
    let (path, said) = answer(&ticket, "stripe:create-charge", 402);
    fine(&client, &path, said).await;
    // A declined card is an answer, and stands.
    let again = fine(&client, "/v1/activities:claim", place(0, "stripe:create-charge")).await;
    assert_eq!((again["verdict"].as_str(), again["answer"]["status"].as_u64()), (Some("replay"), Some(402)));
    assert_eq!(again["answer"]["headers"], json!([["x-id", "7"]]), "a cookie is nobody else's");
    // Too busy: the next attempt, with the same key.
    let busy = fine(&client, "/v1/activities:claim", place(1, "mail:send")).await;
    let (path, said) = answer(&busy, "mail:send", 503);
    fine(&client, &path, said).await;
    // A gateway's 504: nobody knows.
    let lost = fine(&client, "/v1/activities:claim", place(2, "mail:send")).await;
    let (path, said) = answer(&lost, "mail:send", 504);
    fine(&client, &path, said).await;
    let (status, doubt) = post(&client, "/v1/activities:claim", place(2, "mail:send")).await;
    assert_eq!((status, doubt["code"].as_str()), (409, Some("HX0006")));
    let claimed = fine(&client, "/v1/activities:claim", place(3, "mail:send")).await;
    assert_eq!(claimed["header"], Value::Null);
    let (_, run) = ask(&client, "GET", "/v1/runs/run%201/effects", Value::Null).await;
    let mut states: Vec<&str> =
        run["effects"].as_array().unwrap().iter().map(|effect| effect["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["claimed", "completed", "escaped", "released"]);
    let retried = fine(&client, "/v1/activities:claim", place(1, "mail:send")).await;
    assert_eq!((retried["attempt"].as_u64(), &retried["key"]), (Some(2), &busy["key"]));
    // What a Rust program in the same process would get, and the other way round.
    let place = hapax_engine::Place { run: "run 1", node: "pay", ordinal: 0, provider: "stripe:create-charge" };
    let activity = daemon.engine.activity("default", &place).effect(hapax_core::Effect::Irreversible);
    let performed = activity.perform(|_| async { panic!("it was answered") }).await.unwrap();
    assert_eq!((performed.answer.status, performed.replayed), (402, true));
}

/// A model that rewords its reason asks for the same refund; with another amount it does not.
#[tokio::test]
async fn a_tool_is_called_once_however_it_is_worded() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let talk = turn(&client, "talk").await;
    let declaration =
        json!({ "name": "refund", "business_key": "order:{args.order}", "narrative": ["/why"], "effect": "unsafe" });
    let call = |why: &str, amount: u32| {
        json!({ "declaration": declaration, "args": { "order": 12345, "why": why, "amount": amount }, "turn": talk,
                "wait_ms": 0 })
    };
    let ticket = fine(&client, "/v1/tools:begin", call("it broke", 10)).await;
    assert_eq!(step(&client, &ticket, "complete", json!({ "outcome": { "body": "\"r1\"" } })).await.0, 200);
    let reworded = fine(&client, "/v1/tools:begin", call("the item arrived broken", 10)).await;
    assert_eq!((reworded["verdict"].as_str(), reworded["outcome"]["body"].as_str()), (Some("replay"), Some("\"r1\"")));
    assert_eq!(post(&client, "/v1/tools:begin", call("it broke", 99)).await.1["code"], "HX0005");
    let unnamed = json!({ "declaration": { "name": "t" }, "args": {} });
    assert_eq!(post(&client, "/v1/tools:begin", unnamed).await.1["code"], "HX0095");
}

#[tokio::test]
async fn a_beat_is_found_by_any_message_and_answered_once() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let gather = |messages: Value| json!({ "session": "s1", "messages": messages });
    let beat = fine(&client, "/v1/beats:gather", gather(json!(["m2", "m1"]))).await;
    assert_eq!((beat["gathered"].as_str(), beat["size"].as_u64()), (Some("new"), Some(2)));
    let named = |more: Value| {
        let mut said = json!({ "session": "s1", "beat": beat["beat"] });
        for (name, value) in more.as_object().unwrap() {
            said[name] = value.clone();
        }
        said
    };
    assert_eq!(fine(&client, "/v1/beats:gather", gather(json!(["m1"]))).await["gathered"], "known");
    assert_eq!(post(&client, "/v1/beats:begin", named(json!({}))).await.1["code"], "HX0096", "it is not sealed");
    let talk = turn(&client, "talk").await;
    let grown = fine(&client, "/v1/beats:absorb", named(json!({ "messages": ["m3"], "turn": talk }))).await;
    assert_eq!((grown["size"].as_u64(), &grown["elsewhere"]), (Some(3), &json!([])));
    assert_eq!(fine(&client, "/v1/beats:seal", named(json!({}))).await["sealed"], true);
    let overlap = fine(&client, "/v1/beats:gather", gather(json!(["m3", "m4"]))).await;
    assert_eq!((overlap["gathered"].as_str(), &overlap["unanswered"]), (Some("overlap"), &json!(["m4"])));
    let ticket = fine(&client, "/v1/beats:begin", named(json!({}))).await;
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "hello" } })).await;
    assert_eq!(fine(&client, "/v1/beats:begin", named(json!({}))).await["outcome"]["body"], "hello");
    assert_eq!(post(&client, "/v1/beats:seal", json!({ "session": "s1", "beat": 7 })).await.0, 404);
}

#[tokio::test]
async fn a_memo_is_answered_with_its_reason() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let asked = |phase: &str, rules: &str| {
        json!({
            "reuse_decl": { "plan": { "scope": "same_input_same_dep" }, "tool_results": { "scope": "never" } },
            "phase": phase,
            "input": { "agent": "a", "session": "s", "channel": "web", "messages": ["hi"] },
            "dependencies": { "scenario_set": "1", "rules": rules, "knowledge_base": "1", "agent_config": "1", "tool_registry": "1" },
        })
    };
    let keep = |phase: &str, producer: Option<&str>| {
        let mut said = asked(phase, "1");
        said["value"] = json!({ "steps": [1, 2] });
        said["producer"] = json!(producer);
        said
    };
    assert_eq!(fine(&client, "/v1/memos:look_up", asked("plan", "1")).await["answer"], "recompute");
    assert_eq!(fine(&client, "/v1/memos:keep", keep("plan", None)).await["kept"], true);
    let found = fine(&client, "/v1/memos:look_up", asked("plan", "1")).await;
    assert_eq!((found["answer"].as_str(), &found["value"]), (Some("reuse"), &json!({ "steps": [1, 2] })));
    let moved = fine(&client, "/v1/memos:look_up", asked("plan", "2")).await;
    assert_eq!(
        (moved["answer"].as_str(), moved["reason"].as_str()),
        (Some("recompute"), Some("it was made under other dependencies"))
    );
    // Results of tools only with a keyed operation behind them, and of one's own.
    assert_eq!(fine(&client, "/v1/memos:keep", keep("tool_results", None)).await["kept"], false);
    let (_, ticket) = begin(&client, json!({})).await;
    assert_eq!(fine(&client, "/v1/memos:keep", keep("tool_results", ticket["operation"].as_str())).await["kept"], true);
    assert_eq!(post(&client, "/v1/memos:keep", keep("tool_results", Some(&"ab".repeat(32)))).await.0, 404);
    let mut wrong = asked("plan", "1");
    wrong["reuse_decl"] = json!({ "plan": { "scope": "sometimes" } });
    assert_eq!(post(&client, "/v1/memos:look_up", wrong).await.1["code"], "HX0093");
}

/// A trip is undone by workers that come and go: the last booking first, each once, the doubtful one by a person.
#[tokio::test]
async fn a_saga_is_undone_by_whichever_worker_asks_next() {
    let daemon = secured().await;
    let (client, operator) = (daemon.as_key("acme-client"), daemon.as_key("acme-operator"));
    let trip = turn(&client, "trip").await;
    for (key, input) in [("flight", json!("F1")), ("hotel", json!("H1")), ("car", json!("C1"))] {
        let wanted = json!({ "key": key, "turn": trip, "compensation": { "name": "cancel", "input": input } });
        let (_, ticket) = begin(&client, wanted).await;
        step(&client, &ticket, "complete", json!({ "outcome": { "body": "booked" } })).await;
    }
    let from_outcome =
        json!({ "key": "tour", "turn": trip, "compensation": { "name": "cancel", "from_outcome": "/id" } });
    let (_, tour) = begin(&client, from_outcome).await;
    // Something is under way: nothing is planned yet.
    let waiting = fine(&client, &undo(&trip, ":unwind"), json!({})).await;
    assert_eq!(
        (waiting["state"].as_str(), &waiting["unsettled"][0]["operation"]),
        (Some("not_yet"), &tour["operation"])
    );
    step(&client, &tour, "complete", json!({ "outcome": { "body": "{\"id\":\"T1\"}" } })).await;
    let plan = fine(&client, &undo(&trip, ":unwind"), json!({ "wait_ms": 1000 })).await;
    assert_eq!((plan["state"].as_str(), plan["steps"].as_array().unwrap().len()), (Some("pending"), 4));
    let next = |nonce: &str| json!({ "inverses": { "cancel": "unsafe" }, "nonce": nonce.repeat(32) });
    let mut cancelled = Vec::new();
    for (nonce, expected) in [("1", "T1"), ("2", "C1")] {
        let run = fine(&client, &undo(&trip, ":next"), next(nonce)).await;
        assert_eq!((run["next"].as_str(), run["input"].as_str()), (Some("run"), Some(expected)), "{run}");
        // Its answer was lost: the same nonce gives the same ticket, another worker has to wait.
        assert_eq!(fine(&client, &undo(&trip, ":next"), next(nonce)).await["token"], run["token"]);
        assert_eq!(fine(&client, &undo(&trip, ":next"), next("f")).await["next"], "later");
        cancelled.push(run["input"].clone());
        step(&client, &run, "complete", json!({})).await;
    }
    // The third dies in the middle of it: nobody knows, so a person looks.
    let run = fine(&client, &undo(&trip, ":next"), next("3")).await;
    step(&client, &run, "fail", json!({ "outcome": { "class": "unknown" } })).await;
    let stuck = fine(&client, &undo(&trip, ":next"), next("4")).await;
    assert_eq!((stuck["next"].as_str(), stuck["state"].as_str()), (Some("nothing"), Some("manual")), "{stuck}");
    let decision = json!({ "ordinal": run["ordinal"], "note": "looked at the hotel's page" });
    assert_eq!(post(&client, &undo(&trip, ":seen_to"), decision.clone()).await.0, 403, "a client does not decide");
    fine(&operator, &undo(&trip, ":seen_to"), decision).await;
    let last = fine(&client, &undo(&trip, ":next"), next("5")).await;
    assert_eq!(last["input"], "F1");
    step(&client, &last, "complete", json!({})).await;
    let over = fine(&client, &undo(&trip, ":next"), next("6")).await;
    assert_eq!((over["state"].as_str(), over["over"].as_bool()), (Some("completed"), Some(true)), "{over}");
    let (_, rows) = ask(&daemon.root(), "GET", "/v1/audit", Value::Null).await;
    let rows = rows.to_string();
    assert!(rows.contains("\"unwind\"") && rows.contains("\"seen_to\"") && rows.contains("hotel's page"), "{rows}");
    // An inverse that nobody here knows waits for a person too, and may be tried again.
    let other = turn(&client, "other").await;
    let (_, ticket) = begin(&client, json!({ "key": "o", "turn": other, "compensation": { "name": "rare" } })).await;
    step(&client, &ticket, "complete", json!({})).await;
    fine(&client, &undo(&other, ":unwind"), json!({})).await;
    assert_eq!(fine(&client, &undo(&other, ":next"), next("7")).await["state"], "manual");
    let retry = json!({ "ordinal": 1, "note": "a worker that knows it is there now" });
    fine(&operator, &undo(&other, ":retry"), retry).await;
    let known = json!({ "inverses": { "rare": "idempotent" }, "nonce": "8".repeat(32) });
    assert_eq!(fine(&client, &undo(&other, ":next"), known).await["next"], "run");
    assert_eq!(post(&client, &undo(&turn(&client, "none").await, ":next"), next("9")).await.1["code"], "HX0094");
}

/// Two tenants, the same names everywhere: what one made is to the other as if it were not there.
#[tokio::test]
async fn two_tenants_of_groups_beats_memos_and_runs_never_meet() {
    let daemon = secured().await;
    let (acme, globex) = (daemon.as_key("acme-operator"), daemon.as_key("globex-client"));
    let mine = turn(&acme, "talk").await;
    let theirs = turn(&globex, "talk").await;
    assert_ne!(mine["group"], theirs["group"]);
    let (_, ticket) = begin(&acme, json!({ "turn": mine, "compensation": { "name": "cancel" } })).await;
    let unknown = json!({ "group": "ab".repeat(32), "epoch": 1 });
    let nonce = "cd".repeat(16);
    for (method, verb, body) in [
        ("GET", "", Value::Null),
        ("POST", ":supersede", json!({})),
        ("POST", ":fork", json!({ "name": "x" })),
        ("POST", ":force_complete", json!({ "name": "x" })),
        ("POST", ":absorb", json!({ "epoch": 1 })),
        ("POST", ":commit", json!({})),
        ("POST", ":close", json!({})),
    ] {
        let foreign = ask(&globex, method, &at(&mine, verb), body.clone()).await;
        assert_eq!((foreign.0, &foreign), (404, &ask(&globex, method, &at(&unknown, verb), body).await), "{verb}");
    }
    for (method, verb, body) in [
        ("GET", "", Value::Null),
        ("POST", ":unwind", json!({})),
        ("POST", ":next", json!({ "inverses": {}, "nonce": nonce })),
        ("POST", ":seen_to", json!({ "ordinal": 1, "note": "mine" })),
        ("POST", ":retry", json!({ "ordinal": 1, "note": "mine" })),
    ] {
        let foreign = ask(&globex, method, &undo(&mine, verb), body.clone()).await;
        assert_eq!((foreign.0, &foreign), (404, &ask(&globex, method, &undo(&unknown, verb), body).await), "{verb}");
    }
    assert_eq!(begin(&globex, json!({ "turn": mine })).await.0, 404, "nothing starts in a stranger's turn");
    let tool = json!({ "declaration": { "name": "t", "identity": ["/a"] }, "args": { "a": 1 }, "turn": mine });
    assert_eq!(post(&globex, "/v1/tools:begin", tool).await.0, 404);
    let call = json!({ "run": "r", "node": "n", "provider": "p", "turn": mine, "wait_ms": 0 });
    assert_eq!(post(&globex, "/v1/activities:claim", call).await.0, 404);
    let (_, view) = ask(&acme, "GET", &at(&mine, ""), Value::Null).await;
    assert_eq!(
        (view["epoch"].as_u64(), view["phase"].as_str(), view["unwinding"].as_bool()),
        (mine["epoch"].as_u64(), Some("open"), Some(false))
    );
    // Runs, beats, memos.
    let call = json!({ "run": "r", "node": "n", "provider": "p", "wait_ms": 0 });
    let claimed = fine(&acme, "/v1/activities:claim", call.clone()).await;
    assert_eq!(fine(&globex, "/v1/activities:claim", call).await["verdict"], "execute");
    let answer = json!({ "token": claimed["token"], "provider": "p", "answer": { "status": 200 } });
    let path = format!("/v1/activities/{}:answer", claimed["operation"].as_str().unwrap());
    assert_eq!(post(&globex, &path, answer.clone()).await.0, 404);
    fine(&acme, &path, answer).await;
    let (_, run) = ask(&globex, "GET", "/v1/runs/r/effects", Value::Null).await;
    assert_eq!(run["effects"].as_array().unwrap().len(), 1);
    assert_ne!(run["effects"][0]["operation"], claimed["operation"]);
    let gather = json!({ "session": "s", "messages": ["m"] });
    let beat = fine(&acme, "/v1/beats:gather", gather.clone()).await;
    assert_eq!(post(&globex, "/v1/beats:seal", json!({ "session": "s", "beat": beat["beat"] })).await.0, 404);
    assert_eq!(fine(&globex, "/v1/beats:gather", gather).await["gathered"], "new");
    let memo = json!({
        "reuse_decl": { "parsing": { "scope": "same_input" }, "tool_results": { "scope": "same_input" } }, "phase": "parsing", "value": 1,
        "input": { "agent": "a", "session": "s", "channel": "c", "messages": [] },
        "dependencies": { "scenario_set": "", "rules": "", "knowledge_base": "", "agent_config": "", "tool_registry": "" },
    });
    fine(&acme, "/v1/memos:keep", memo.clone()).await;
    let mut look_up = memo.clone();
    look_up.as_object_mut().unwrap().remove("value");
    assert_eq!(fine(&globex, "/v1/memos:look_up", look_up).await["answer"], "recompute");
    let mut borrowed = memo;
    borrowed["phase"] = json!("tool_results");
    borrowed["producer"] = ticket["operation"].clone();
    assert_eq!(post(&globex, "/v1/memos:keep", borrowed).await.0, 404, "a stranger's operation vouches for nothing");
    // A reader may look and not act.
    let reader = daemon.as_key("acme-reader");
    assert_eq!(ask(&reader, "GET", &at(&mine, ""), Value::Null).await.0, 200);
    assert_eq!(post(&reader, &at(&mine, ":supersede"), json!({})).await.0, 403);
}

/// One tenant makes groups, sessions and memos without end: it is stopped at its share, with the words for it, and others
/// are not.
#[tokio::test]
async fn a_flood_of_groups_and_memos_is_stopped_at_the_tenants_share() {
    let mut policies = Policies::default();
    for surface in ["group", "memo", "beat"] {
        let mut policy = Preset::Standard.policy();
        policy.capacity.max_records = 100;
        policy.capacity.per_tenant = 5;
        policies.set(Surface::new(surface).unwrap(), policy).unwrap();
    }
    let daemon = Setup { auth: support::keys(), policies, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let requests = |number: u32| {
        let memo = json!({
            "reuse_decl": { "parsing": { "scope": "same_input" } }, "phase": "parsing", "value": number,
            "input": { "agent": "a", "session": number.to_string(), "channel": "c", "messages": [] },
            "dependencies": { "scenario_set": "", "rules": "", "knowledge_base": "", "agent_config": "", "tool_registry": "" },
        });
        [
            ("/v1/groups", json!({ "name": format!("g{number}") })),
            ("/v1/beats:gather", json!({ "session": format!("s{number}"), "messages": ["m"] })),
            ("/v1/memos:keep", memo),
        ]
    };
    for kind in 0..3 {
        for number in 0..5 {
            let (path, body) = &requests(number)[kind];
            assert_eq!(post(&acme, path, body.clone()).await.0, 200, "{path}");
        }
        let (path, body) = &requests(99)[kind];
        let (status, said) = post(&acme, path, body.clone()).await;
        assert_eq!((status, said["code"].as_str()), (429, Some("HX0150")), "{path}: {said}");
        assert!(said["detail"].as_str().unwrap().contains("a tenant may have 5"), "{said}");
        // What is there already needs no room.
        let (path, body) = &requests(0)[kind];
        assert_eq!(post(&acme, path, body.clone()).await.0, 200, "{path}");
        assert_eq!(post(&globex, path, body.clone()).await.0, 200, "{path}");
    }
}
