//! Keys, put in and out of force while the daemon runs.
//!
//! Whoever makes a key sends its hash only. So the key is in no answer that is recorded, and in no reply that can be lost:
//! who made it has it.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json as value;

use super::resolve::note;
use crate::{
    app::{App, Asked},
    audit::Action,
    auth::{ApiKey, Auth, KeyError, KeyFile, Keys},
    http::{Reply, answer, json},
    log::Level,
    problem::{Next, Problem, store_down},
};

pub(crate) fn keys(app: &App) -> Result<Reply, Problem> {
    let auth = Arc::clone(&app.auth.read());
    let listed: Vec<_> = match &*auth {
        Auth::None => Vec::new(),
        Auth::Keys(keys) => keys
            .named()
            .into_iter()
            .map(|identity| {
                let capabilities = identity.capabilities.iter().map(|capability| capability.name().to_owned());
                let capabilities: Vec<String> = capabilities.chain(identity.a2a.names()).collect();
                value!({
                    "name": &*identity.name,
                    "tenant": identity.tenant.as_str(),
                    "principal": &*identity.principal,
                    "capabilities": capabilities,
                    "surfaces": identity.surfaces,
                })
            })
            .collect(),
    };
    Ok(answer(&value!({ "keys": listed })))
}

pub(crate) async fn add_key(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let entry: ApiKey = json(&asked.headers, asked.body, &app.limits).await?;
    // What is wrong with it is said before anything is written down.
    Keys::of(vec![entry.clone()]).map_err(|error| refused(&error))?;
    with_file(app, |_| Ok(()))?;
    let actor = asked.caller.identity.actor();
    let detail = value!({ "tenant": &entry.tenant, "roles": &entry.roles, "capabilities": &entry.capabilities });
    note(app, &actor, Action::KeysChange, &format!("add {}", entry.name), detail).await?;
    with_file(app, |file| file.add(&entry, |keys| app.set_auth(Auth::Keys(keys))))?;
    app.say(Level::Info, "key_added", &[("name", &entry.name), ("tenant", &entry.tenant), ("actor", &actor)]);
    Ok(answer(&value!({ "name": entry.name, "tenant": entry.tenant, "in_force": true })))
}

/// The key to take out of force.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revoke {
    /// As it stands in the file.
    name: String,
}

pub(crate) async fn revoke_key(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let Revoke { name } = json(&asked.headers, asked.body, &app.limits).await?;
    with_file(app, |_| Ok(()))?;
    let actor = asked.caller.identity.actor();
    note(app, &actor, Action::KeysChange, &format!("revoke {name}"), value!({})).await?;
    if !with_file(app, |file| file.revoke(&name, |keys| app.set_auth(Auth::Keys(keys))))? {
        let detail = "no key has this name; `GET /v1/keys` lists those there are";
        return Err(Problem::new(StatusCode::NOT_FOUND, "HX0010", "No such key", detail, Next::FixRequest));
    }
    app.say(Level::Info, "key_revoked", &[("name", &name), ("actor", &actor)]);
    Ok(answer(&value!({ "name": name, "in_force": false })))
}

/// Does something to the file. No reload names another one meanwhile: it would not know of what was done.
fn with_file<T>(app: &App, change: impl FnOnce(&KeyFile) -> Result<T, KeyError>) -> Result<T, Problem> {
    let file = app.key_file.read();
    let Some(file) = file.as_ref() else {
        let detail = "this daemon has no key file to write to; start it with `--keys FILE` and a first key in it";
        let title = "Keys are not kept in a file";
        return Err(Problem::new(StatusCode::CONFLICT, "HX0140", title, detail, Next::AskOperator));
    };
    change(file).map_err(|error| failed(app, &error))
}

fn refused(error: &KeyError) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "HX0081", "The key file is refused", error.to_string(), Next::FixRequest)
}

fn failed(app: &App, error: &KeyError) -> Problem {
    match error {
        KeyError::Toml(_) | KeyError::Entry { .. } => Problem { status: StatusCode::CONFLICT, ..refused(error) },
        KeyError::File { .. } | KeyError::Entropy(_) => {
            app.say(Level::Error, "key_file_failed", &[("error", &error.to_string())]);
            store_down(error)
        }
    }
}
