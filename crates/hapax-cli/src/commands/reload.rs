//! `hapax reload`: what `SIGHUP` does, with an answer.

use serde_json::{Value, json};

use super::{reach::Reach, show};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn run(reload: Reload) -> Result<(), Failure> {
    let told: Value = reload.reach.ask_running(async |client| Ok(client.post("/v1/reload", &json!({})).await?)).await?;
    if reload.reach.json {
        show::json(&told);
    } else {
        outln!("reloaded");
    }
    Ok(())
}
