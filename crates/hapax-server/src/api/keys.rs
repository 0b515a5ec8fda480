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
    // What is wrong with it is said before anything is written down: a row tells of a change, not of a wish.
    Keys::of(vec![entry.clone()]).map_err(|error| refused(&error))?;
    let is_new = with_file(app, |file| file.would_add(&entry))?;
    let actor = asked.caller.identity.actor();
    let subject = format!("add {}", entry.name);
    if is_new {
        note(app, &actor, Action::KeysChange, &subject, detail(&entry)).await?;
    }
    if let Err(failed) = with_file(app, |file| file.add(&entry, |keys| app.set_auth(Auth::Keys(keys)))) {
        return Err(not_changed(app, &actor, &subject, failed).await);
    }
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
    let Some(entry) = with_file(app, |file| file.would_revoke(&name))? else { return Err(no_such_key()) };
    let actor = asked.caller.identity.actor();
    let subject = format!("revoke {name}");
    note(app, &actor, Action::KeysChange, &subject, detail(&entry)).await?;
    match with_file(app, |file| file.revoke(&name, |keys| app.set_auth(Auth::Keys(keys)))) {
        Ok(true) => {}
        // Somebody else was faster.
        Ok(false) => return Err(not_changed(app, &actor, &subject, no_such_key()).await),
        Err(failed) => return Err(not_changed(app, &actor, &subject, failed).await),
    }
    app.say(Level::Info, "key_revoked", &[("name", &name), ("actor", &actor)]);
    Ok(answer(&value!({ "name": name, "in_force": false })))
}

fn no_such_key() -> Problem {
    let detail = "no key has this name; `GET /v1/keys` lists those there are";
    Problem::new(StatusCode::NOT_FOUND, "HX0010", "No such key", detail, Next::FixRequest)
}

/// What a row says of a key: of its hash as much as tells it from others.
fn detail(entry: &ApiKey) -> serde_json::Value {
    let hash: String = entry.hash.chars().take("sha256:".len() + 8).collect();
    let (roles, capabilities) = (&entry.roles, &entry.capabilities);
    value!({ "tenant": &entry.tenant, "roles": roles, "capabilities": capabilities, "hash": format!("{hash}…") })
}

/// A row after the one that told of the change: it did not happen.
async fn not_changed(app: &App, actor: &str, subject: &str, failed: Problem) -> Problem {
    let detail = value!({ "code": failed.code });
    match note(app, actor, Action::KeysChangeFailed, subject, detail).await {
        // That it could not be written down stands in the log; the caller hears of the key.
        Ok(()) | Err(_) => failed,
    }
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
        KeyError::File { .. } => {
            app.say(Level::Error, "key_file_failed", &[("error", &error.to_string())]);
            // Again would be the same: somebody has to look at the file.
            let title = "The key file cannot be changed";
            Problem::new(StatusCode::CONFLICT, "HX0081", title, error.to_string(), Next::AskOperator)
        }
        KeyError::Entropy(_) => store_down(error),
    }
}
