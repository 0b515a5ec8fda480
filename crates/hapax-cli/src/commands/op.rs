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
    Complete(Step),
    /// It failed for good; this is the answer from now on.
    Reject(Step),
    /// It failed, and may be tried again.
    Fail(Step),
    /// Give it back: nothing happened.
    Release(Step),
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
    operation: String,
    /// As given by begin
    token: String,
    /// The answer, as text
    #[arg(long)]
    body: Option<String>,
    /// With `fail`: nobody can say whether it happened
    #[arg(long)]
    unknown: bool,
    /// With `release`: my word that nothing happened, although it had started
    #[arg(long)]
    no_effect: bool,
    #[command(flatten)]
    reach: Reach,
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
    let (verb, step) = match op {
        Op::Begin(begin) => return begin.run().await,
        Op::List(list) => return list.run().await,
        Op::Start(step) => ("start", step),
        Op::Renew(step) => ("renew", step),
        Op::Complete(step) => ("complete", step),
        Op::Reject(step) => ("reject", step),
        Op::Fail(step) => ("fail", step),
        Op::Release(step) => ("release", step),
    };
    let mut said = json!({ "token": step.token });
    let takes_outcome = matches!(verb, "complete" | "reject" | "fail");
    if step.unknown {
        said["outcome"]["class"] = "unknown".into();
    }
    if let Some(body) = step.body.filter(|_| takes_outcome) {
        said["outcome"]["body"] = body.into();
    }
    if step.no_effect {
        said["why"] = "no_effect".into();
    }
    let path = format!("/v1/operations/{}:{verb}", step.operation);
    let reached = step.reach.connect().await?;
    let done: Result<Value, _> = reached.client.post(&path, &said).await;
    reached.close().await;
    let done = done?;
    if step.reach.json {
        show::json(&done);
    } else {
        let already = if done["already"] == true { "; it was so already" } else { "" };
        let late = if done["late"] == true { "; it came late and was taken all the same" } else { "" };
        println!("done{already}{late}");
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
        let reached = self.reach.connect().await?;
        let told: Result<Value, _> = reached.client.post("/v1/operations:begin", &wanted).await;
        reached.close().await;
        let told = told?;
        if self.reach.json {
            show::json(&told);
            return Ok(());
        }
        match told["verdict"].as_str() {
            Some("execute") => {
                println!("run it: attempt {}, for {} ms", told["attempt"], told["lease_ms"]);
                println!("  operation       {}", show::text(&told, "operation"));
                println!("  token           {}", show::text(&told, "token"));
                println!("  downstream key  {}", show::text(&told, "downstream_key"));
            }
            Some("replay") => {
                let what = if told["rejected"] == true { "it failed for good before" } else { "it was done before" };
                println!("{what}; the answer:");
                println!("{}", show::text(&told["outcome"], "body"));
            }
            Some(_) | None => println!("{told}"),
        }
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let mut path = format!("/v1/operations?limit={}", self.limit.unwrap_or(50));
        for (name, value) in [("surface", &self.surface), ("state", &self.state), ("cursor", &self.cursor)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        let reached = self.reach.connect().await?;
        let page = get(&reached.client, &path).await;
        reached.close().await;
        let page = page?;
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
