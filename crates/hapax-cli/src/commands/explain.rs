use hapax_client::Client;
use serde_json::{Value, json};

use super::{reach::Reach, show};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// An operation's id, or, with --tenant, a key
    what: String,
    /// The surface of the key
    #[arg(long, default_value = "http")]
    surface: String,
    /// Method and path that the key was used at, such as 'POST /orders', where the surface tells them apart; the gateway does
    #[arg(long)]
    endpoint: Option<String>,
    /// A further part of the key's scope, in its order; may be said several times
    #[arg(long, value_name = "LABEL=VALUE")]
    scope: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

async fn asked(explain: &Explain, client: &Client) -> Result<Value, Failure> {
    let looks_like_an_id = explain.what.len() == 64 && explain.what.bytes().all(|byte| byte.is_ascii_hexdigit());
    let by_id = match looks_like_an_id && explain.endpoint.is_none() && explain.scope.is_empty() {
        true => Some(client.get(&format!("/v1/operations/{}", explain.what.to_lowercase())).await),
        false => None,
    };
    if let Some(Ok(told)) = by_id {
        Ok(told)
    } else if let (Some(unknown), None) = (by_id, &explain.reach.tenant) {
        Ok(unknown?)
    } else {
        // A digest makes a fine key, and looks like an id.
        let mut wanted = json!({ "surface": explain.surface, "key": explain.what });
        let mut scope: Vec<Value> = Vec::new();
        scope.extend(explain.endpoint.iter().map(|endpoint| json!({ "label": "endpoint", "value": endpoint })));
        for part in &explain.scope {
            let (label, value) = part
                .split_once('=')
                .ok_or_else(|| Failure::Flag("scope", format!("`{part}` is no LABEL=VALUE; try sender=planner")))?;
            scope.push(json!({ "label": label, "value": value }));
        }
        if !scope.is_empty() {
            wanted["scope"] = json!(scope);
        }
        Ok(client.post("/v1/operations:explain", &wanted).await?)
    }
}

pub(super) async fn run(explain: Explain) -> Result<(), Failure> {
    let told = explain.reach.ask(async |client| asked(&explain, client).await).await?;
    if explain.reach.json {
        show::json(&told);
        return Ok(());
    }
    outln!(
        "{} on surface {}: {}",
        show::text(&told, "operation"),
        show::text(&told, "surface"),
        show::text(&told, "state")
    );
    outln!("");
    for sentence in told["story"].as_array().into_iter().flatten() {
        outln!("  {}", show::plain(sentence.as_str().unwrap_or_default()));
    }
    outln!("");
    outln!("What may be done: {}", show::text(&told, "next"));
    outln!("");
    let rows: Vec<Vec<String>> = told["attempts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|attempt| {
            let [number, owner, end] = ["number", "owner", "end"].map(|name| show::text(attempt, name));
            let lease = match (attempt["lease_left_ms"].as_u64(), attempt["lease_ms"].as_u64()) {
                (Some(left), Some(length)) => format!("{}s of {}s left", left.div_ceil(1000), length.div_ceil(1000)),
                (None, Some(length)) => format!("{}s", length.div_ceil(1000)),
                (_, None) => "-".to_owned(),
            };
            vec![number, owner, show::time(attempt, "begun_at"), lease, end]
        })
        .collect();
    show::table(&["ATTEMPT", "OWNER", "BEGUN", "LEASE", "END"], &rows);
    let evidence: Vec<Vec<String>> = told["evidence"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|kept| vec![show::text(kept, "attempt"), show::time(kept, "at"), show::members(&kept["outcome"])])
        .collect();
    if !evidence.is_empty() {
        outln!("");
        outln!("Outcomes that came too late to count:");
        show::table(&["ATTEMPT", "AT", "OUTCOME"], &evidence);
    }
    outln!("");
    for (name, member) in [
        ("key, hashed", "key_hash"),
        ("key from", "key_from"),
        ("id from", "derived"),
        ("asked first by", "principal"),
        ("effect", "effect"),
        ("policy", "policy"),
        ("revision", "policy_revision"),
        ("downstream key", "downstream_key"),
        ("version", "version"),
    ] {
        outln!("{name:<15} {}", show::text(&told, member));
    }
    Ok(())
}
