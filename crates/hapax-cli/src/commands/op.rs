use clap::Subcommand;
use hapax_client::Client;
use serde_json::{Value, json};

use super::{reach::Reach, show};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Op {
    /// Ask for the right to run something once.
    Begin(Begin),
    /// The effect is about to begin.
    Start(Step),
    /// Still at it: more time.
    Renew(Step),
    /// It succeeded; this is the answer from now on.
    Complete(Finish),
    /// It failed for good; this is the answer from now on.
    Reject(Finish),
    /// It failed, and may be tried again.
    Fail {
        #[command(flatten)]
        finish: Finish,
        /// Nobody can say whether it happened
        #[arg(long)]
        unknown: bool,
    },
    /// Give it back: nothing happened.
    Release {
        #[command(flatten)]
        step: Step,
        /// My word that nothing happened, although it had started
        #[arg(long)]
        no_effect: bool,
    },
    /// Operations, page by page.
    List(List),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Begin {
    /// The place where duplicates arrive; it decides the policy
    surface: String,
    /// Names the intent
    key: String,
    /// What is asked under the key, as JSON: it guards the key
    #[arg(long, value_name = "JSON")]
    request: Option<String>,
    /// pure, idempotent, compensatable, irreversible or unsafe
    #[arg(long)]
    effect: Option<String>,
    /// How long it may be silent before it counts as lost [default: as the policy says]
    #[arg(long, value_name = "MILLISECONDS")]
    lease_ms: Option<u64>,
    /// How long to wait for another's attempt
    #[arg(long, value_name = "MILLISECONDS")]
    wait_ms: Option<u64>,
    /// `start` comes before the effect
    #[arg(long)]
    not_started: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Step {
    /// As given by begin
    #[arg(value_parser = id)]
    operation: String,
    /// As given by begin
    token: String,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Finish {
    #[command(flatten)]
    step: Step,
    /// The answer, as text
    #[arg(long)]
    body: Option<String>,
}

impl Finish {
    /// What it comes to on the wire.
    fn said(self) -> (Step, Value) {
        let outcome = self.body.map_or_else(|| json!({}), |body| json!({ "body": body }));
        (self.step, json!({ "outcome": outcome }))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[arg(long)]
    surface: Option<String>,
    /// pending, open, in_doubt, committed, rejected or tombstone
    #[arg(long)]
    state: Option<String>,
    #[arg(long)]
    cursor: Option<String>,
    #[arg(long)]
    limit: Option<u32>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn run(op: Op) -> Result<(), Failure> {
    let (verb, (step, mut said)) = match op {
        Op::Begin(begin) => return begin.run().await,
        Op::List(list) => return list.run().await,
        Op::Start(step) => ("start", (step, json!({}))),
        Op::Renew(step) => ("renew", (step, json!({}))),
        Op::Complete(finish) => ("complete", finish.said()),
        Op::Reject(finish) => ("reject", finish.said()),
        Op::Fail { finish, unknown } => {
            let (step, mut said) = finish.said();
            if unknown {
                said["outcome"]["class"] = "unknown".into();
            }
            ("fail", (step, said))
        }
        Op::Release { step, no_effect } => {
            ("release", (step, if no_effect { json!({ "why": "no_effect" }) } else { json!({}) }))
        }
    };
    said["token"] = step.token.into();
    let path = format!("/v1/operations/{}:{verb}", step.operation);
    let done: Value = step.reach.ask(async |client| Ok(client.post(&path, &said).await?)).await?;
    if step.reach.json {
        show::json(&done);
    } else {
        let already = if done["already"] == true { "; it was so already" } else { "" };
        let late = if done["late"] == true { "; it came late and was taken all the same" } else { "" };
        outln!("done{already}{late}");
    }
    Ok(())
}

impl Begin {
    async fn run(self) -> Result<(), Failure> {
        let mut wanted = json!({ "surface": self.surface, "key": self.key });
        if let Some(request) = &self.request {
            wanted["request"] = serde_json::from_str(request)
                .map_err(|error| Failure::Flag("--request", format!("it is not JSON: {error}")))?;
        }
        let more = [
            ("effect", self.effect.map(Value::from)),
            ("lease_ms", self.lease_ms.map(Value::from)),
            ("wait_ms", self.wait_ms.map(Value::from)),
            ("started", self.not_started.then_some(Value::from(false))),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                wanted[name] = value;
            }
        }
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| Failure::Flag("begin", error.to_string()))?;
        wanted["nonce"] = data_encoding::HEXLOWER.encode(&nonce).into();
        let told: Value =
            self.reach.ask(async |client| Ok(client.post("/v1/operations:begin", &wanted).await?)).await?;
        if self.reach.json {
            show::json(&told);
            return Ok(());
        }
        match told["verdict"].as_str() {
            Some("execute") => {
                outln!("run it: attempt {}, for {} ms", show::text(&told, "attempt"), show::text(&told, "lease_ms"));
                outln!("  operation       {}", show::text(&told, "operation"));
                outln!("  token           {}", show::text(&told, "token"));
                outln!("  downstream key  {}", show::text(&told, "downstream_key"));
            }
            Some("replay") => {
                let what = if told["rejected"] == true { "it failed for good before" } else { "it was done before" };
                outln!("{what}; the answer:");
                outln!("{}", show::lines(&told["outcome"], "body"));
            }
            Some(_) | None => outln!("{}", show::plain(&told.to_string())),
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let mut path = "/v1/operations?".to_owned();
        for (name, value) in [("surface", &self.surface), ("state", &self.state)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        let page = self.reach.ask(async |client| filled(client, &path, self.cursor.clone(), self.limit).await).await?;
        if self.reach.json {
            show::json(&page);
        } else {
            show::operations(&page);
        }
        Ok(())
    }
}

pub(super) async fn get(client: &Client, path: &str) -> Result<Value, Failure> {
    Ok(client.get(path).await?)
}

/// A page of a list. Each request looks at a bounded number of records, whoever's they are, so that one may come back
/// empty and not be the end: this goes on until the page is full or the list ends.
pub(super) async fn filled(
    client: &Client,
    path: &str,
    cursor: Option<String>,
    limit: Option<u32>,
) -> Result<Value, Failure> {
    let limit = limit.unwrap_or(50);
    let (mut items, mut next) = (Vec::new(), cursor);
    loop {
        let left = u64::from(limit).saturating_sub(items.len() as u64);
        let after = next.as_deref().map_or_else(String::new, |cursor| format!("&cursor={}", encoded(cursor)));
        let mut page = get(client, &format!("{path}&limit={left}{after}")).await?;
        if let Some(more) = page["items"].as_array_mut() {
            items.append(more);
        }
        next = page["next"].as_str().map(str::to_owned);
        if next.is_none() || items.len() as u64 >= u64::from(limit) {
            break;
        }
    }
    let mut page = json!({ "items": items });
    if let Some(next) = next {
        page["next"] = next.into();
    }
    Ok(page)
}

/// An operation's id; nothing else is worth asking for.
pub(super) fn id(text: &str) -> Result<String, &'static str> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_one {
        Ok(text.to_lowercase())
    } else {
        Err("an id has 64 hexadecimal digits, as `op begin` and lists show it")
    }
}

/// As a query wants it.
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut safe, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            safe.push(char::from(byte));
        } else {
            safe.push_str(&format!("%{byte:02X}"));
        }
        safe
    })
}

#[cfg(test)]
mod tests {
    use hapax_server::{Limits, Server};

    use super::*;

    /// More of others' records than one look takes in: a page that comes back empty is not taken for the end.
    #[tokio::test]
    async fn an_empty_page_with_a_next_one_is_not_the_end() {
        let engine = hapax_engine::Engine::builder(std::sync::Arc::new(hapax::MemoryStore::default())).build().unwrap();
        let server = Server::builder(engine).limits(Limits { looked_at: 20, ..Limits::default() }).build().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move { server.serve_admin(listener).await });
        for number in 0..103 {
            let client = client.clone().tenant(if number < 100 { "busy" } else { "quiet" });
            let wanted = json!({ "surface": "payments", "key": number.to_string(), "effect": "irreversible" });
            let told: Value = client.post("/v1/operations:begin", &wanted).await.unwrap();
            let said = json!({ "token": told["token"], "outcome": { "class": "unknown" } });
            let path = format!("/v1/operations/{}:fail", told["operation"].as_str().unwrap());
            let _: Value = client.post(&path, &said).await.unwrap();
        }
        let client = client.tenant("quiet");
        let first: Value = get(&client, "/v1/doubt?limit=2").await.unwrap();
        assert!(first["items"].as_array().unwrap().is_empty() && first["next"].is_string(), "{first}");
        let page = filled(&client, "/v1/doubt?", None, Some(2)).await.unwrap();
        assert_eq!(page["items"].as_array().unwrap().len(), 2, "{page}");
        let next = page["next"].as_str().map(str::to_owned);
        let rest = filled(&client, "/v1/doubt?", next, Some(2)).await.unwrap();
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null), "{rest}");
    }
}
