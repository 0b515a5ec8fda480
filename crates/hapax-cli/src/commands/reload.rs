//! `hapax reload`: what `SIGHUP` does, with an answer.

use serde_json::{Value, json};

use super::{reach::Reach, show};
use crate::{failure::Failure, serve::waiting_words};

#[derive(Debug, clap::Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn run(reload: Reload) -> Result<(), Failure> {
    let told: Value = reload.reach.ask_running(async |client| Ok(client.post("/v1/reload", &json!({})).await?)).await?;
    let waiting = told["waits_for_restart"].as_array().map(Vec::as_slice).unwrap_or_default();
    let waiting: Vec<&str> = waiting.iter().filter_map(Value::as_str).collect();
    if reload.reach.json {
        show::json(&told);
    } else if waiting.is_empty() {
        outln!("reloaded");
    } else {
        outln!("reloaded; {} changed as well, and wait for a restart", waiting_words(&waiting));
    }
    Ok(())
}
