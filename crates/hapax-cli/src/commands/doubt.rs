use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    op::{filled, get, id},
    reach::Reach,
    show,
};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Doubt {
    /// What nobody knows the end of.
    List {
        #[arg(long)]
        cursor: Option<String>,
        /// How many at most [default: 50]
        #[arg(long)]
        limit: Option<u32>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Decide one: committed, rejected or open.
    Resolve(Box<Resolve>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resolve {
    /// Its id, as in the list
    #[arg(value_parser = id)]
    operation: String,
    /// committed: it happened. rejected: it failed, and must not be tried again. open: let it run again
    #[arg(value_parser = ["committed", "rejected", "open"])]
    resolution: String,
    /// Why; it stands in the record and in the audit log
    #[arg(long)]
    reason: String,
    /// With `open`, why that is safe: idempotent, operator_accepted, prevented or owner_gone
    #[arg(long, value_parser = ["idempotent", "operator_accepted", "prevented", "owner_gone"])]
    posture: Option<String>,
    /// With `committed` and `rejected`, the answer for later callers
    #[arg(long)]
    body: Option<String>,
    /// The version that the decision is about; the present one if left out
    #[arg(long)]
    version: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn run(doubt: Doubt) -> Result<(), Failure> {
    match doubt {
        Doubt::List { cursor, limit, reach } => {
            let page = reach.ask(async |client| filled(client, "/v1/doubt?", cursor.clone(), limit).await).await?;
            if reach.json {
                show::json(&page);
            } else {
                show::operations(&page);
            }
            Ok(())
        }
        Doubt::Resolve(resolve) => {
            let done = resolve.reach.ask(async |client| resolve.decide(client).await).await?;
            if resolve.reach.json {
                show::json(&done);
            } else {
                outln!("decided: {}", resolve.resolution);
            }
            Ok(())
        }
    }
}

impl Resolve {
    async fn decide(&self, client: &hapax_client::Client) -> Result<Value, Failure> {
        let version = match self.version {
            Some(version) => json!(version),
            None => get(client, &format!("/v1/operations/{}", self.operation)).await?["version"].clone(),
        };
        let mut wanted = json!({ "version": version, "resolution": self.resolution, "reason": self.reason });
        if let Some(posture) = &self.posture {
            wanted["posture"] = posture.as_str().into();
        }
        if let Some(body) = &self.body {
            wanted["outcome"]["body"] = body.as_str().into();
        }
        // A lost answer is asked for again; the decision is made once, and the repeat is told what the first was.
        let path = format!("/v1/operations/{}:resolve", self.operation);
        Ok(client.post_once(&path, &wanted, &super::fresh_key()?).await?)
    }
}
