use clap::Subcommand;
use serde_json::{Value, json};

use super::{Serve, show};
use crate::{
    failure::Failure,
    serve::{in_force, settings::Given},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// The values in force for `serve`, and where each came from.
    Show {
        #[command(flatten)]
        serve: Serve,
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(config: Config) -> Result<(), Failure> {
    let Config::Show { serve, json } = config;
    let (settings, beside) = in_force(&serve)?;
    let knobs = settings.knobs.iter().map(|(name, given)| ((*name).to_owned(), given));
    let aliases = settings.aliases.iter().map(|(name, given)| (name.clone(), given));
    // A URL may hold a password.
    let shown = |(name, given): (String, &Given)| {
        let is_url = matches!(name.as_str(), "store" | "otlp" | "upstream");
        let value = if is_url && !matches!(given.value.as_str(), "off" | "none") {
            crate::store::shown(&given.value)
        } else {
            given.value.clone()
        };
        (name, Given { value, from: given.from.clone() })
    };
    let beside = beside.iter().map(|(name, given)| (name.clone(), given));
    let all: Vec<_> = knobs.chain(beside).chain(aliases).map(shown).collect();
    if json {
        let members =
            all.iter().map(|(name, given)| (name.clone(), json!({ "value": given.value, "from": given.from })));
        let mut members: serde_json::Map<String, Value> = members.collect();
        let surfaces = settings.policies.iter().map(|(surface, policy)| (surface.to_string(), json!(&*policy.name)));
        members.insert("surfaces".to_owned(), Value::Object(surfaces.collect()));
        members.insert("file".to_owned(), json!(settings.file));
        show::json(&Value::Object(members));
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        all.iter().map(|(name, given)| vec![name.clone(), given.value.clone(), given.from.clone()]).collect();
    show::table(&["NAME", "VALUE", "FROM"], &rows);
    let surfaces: Vec<String> =
        settings.policies.iter().map(|(surface, policy)| format!("{surface} ({})", policy.name)).collect();
    outln!("");
    match &settings.file {
        Some(path) => outln!("file: {}", path.display()),
        None => outln!("file: none"),
    }
    outln!(
        "surfaces with a policy of their own: {}",
        if surfaces.is_empty() { "none".to_owned() } else { surfaces.join(", ") }
    );
    Ok(())
}
