use clap::Subcommand;
use hapax_server::{ApiKey, Keys, generate_key, hash_key};
use serde_json::{Value, json};

use super::{op::get, reach::Reach, show};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key for `--tenant`. It is shown once; the entry for the key file holds only its hash.
    New {
        /// What it is called in logs and audit rows
        name: String,
        /// reader, client, operator or admin
        #[arg(long, default_value = "client", value_parser = ["reader", "client", "operator", "admin"])]
        role: String,
        /// Put it in force in the running daemon, which writes it into its key file
        #[arg(long)]
        add: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// The keys in force, without anything to use them by.
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Take a key out of force: its holder is turned away with the next request.
    Revoke {
        name: String,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(super) async fn run(key: Key) -> Result<(), Failure> {
    match key {
        Key::New { name, role, add, reach } => new(name, role, add, reach).await,
        Key::List { reach } => {
            let told = reach.ask(async |client| get(client, "/v1/keys").await).await?;
            if reach.json {
                show::json(&told);
                return Ok(());
            }
            let columns = ["name", "tenant", "principal", "capabilities", "surfaces"];
            let row = |key: &Value| columns.iter().map(|name| show::text(key, name)).collect();
            let rows: Vec<Vec<String>> = told["keys"].as_array().into_iter().flatten().map(row).collect();
            show::table(&["NAME", "TENANT", "PRINCIPAL", "CAPABILITIES", "SURFACES"], &rows);
            if rows.is_empty() {
                errln!("hapax: no key is in force here; `hapax key new NAME --tenant T` makes one");
            }
            Ok(())
        }
        Key::Revoke { name, reach } => {
            let told = change(&reach, "/v1/keys:revoke", &json!({ "name": name })).await?;
            if reach.json {
                show::json(&told);
            } else {
                outln!("revoked: {name}");
            }
            Ok(())
        }
    }
}

async fn new(name: String, role: String, add: bool, mut reach: Reach) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Keys { path: "new key".into(), why };
    let Some(tenant) = reach.tenant.take() else {
        return Err(Failure::Flag("--tenant", "say whose key it is".to_owned()));
    };
    let made = generate_key().map_err(|error| wrong(error.to_string()))?;
    let entry = ApiKey {
        name,
        hash: hash_key(&made),
        tenant,
        principal: None,
        roles: vec![role],
        capabilities: Vec::new(),
        surfaces: None,
        rate: None,
    };
    Keys::of(vec![entry.clone()]).map_err(|error| wrong(error.to_string()))?;
    if add {
        let mut told = change(&reach, "/v1/keys", &serde_json::to_value(&entry).unwrap_or_default()).await?;
        if reach.json {
            told["key"] = json!(made);
            show::json(&told);
        } else {
            errln!("The key, shown this once: {made}");
            outln!("in force: {}", entry.name);
        }
        return Ok(());
    }
    if reach.json {
        show::json(&json!({ "key": made, "entry": entry }));
        return Ok(());
    }
    let text = toml::to_string(&entry).map_err(|error| wrong(error.to_string()))?;
    errln!("The key, shown this once: {made}");
    errln!("For the key file (`hapax serve --keys FILE`):");
    outln!("[[key]]\n{text}");
    Ok(())
}

/// Sent again if no answer comes, and done once.
async fn change(reach: &Reach, path: &str, wanted: &Value) -> Result<Value, Failure> {
    let key = super::fresh_key()?;
    reach.ask(async |client| Ok(client.post_once(path, wanted, &key).await?)).await
}
