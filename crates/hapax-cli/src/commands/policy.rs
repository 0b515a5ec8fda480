use std::{collections::BTreeMap, path::PathBuf};

use clap::Subcommand;
use hapax::Policies;
use hapax_server::wire::PolicyWire;
use serde_json::json;

use super::{op::get, reach::Reach, show};
use crate::{failure::Failure, problem, serve::of_file};

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Whether a file can be used; all that is wrong with it, or odd.
    Check {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// What would change if this file were in force: against another file, or the running process. Exit code 9 if anything.
    Diff {
        file: PathBuf,
        /// The file to compare with
        against: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
    },
}

type All = BTreeMap<String, BTreeMap<String, String>>;

pub(super) async fn run(policy: Policy) -> Result<(), Failure> {
    match policy {
        Policy::Check { file, json } => {
            let settings = of_file(&file).map_err(|failure| unusable(failure, json))?;
            let policies = &settings.policies;
            let warnings = settings.warnings.iter().map(ToString::to_string).chain(settings.notes.iter().cloned());
            let warnings: Vec<String> = warnings.collect();
            if json {
                show::json(&json!({ "usable": true, "surfaces": policies.iter().count(), "warnings": warnings }));
                return Ok(());
            }
            for warning in &warnings {
                outln!("odd: {warning}");
            }
            outln!("{} can be used: {} surfaces of their own", file.display(), policies.iter().count());
            Ok(())
        }
        Policy::Diff { file, against, reach } => {
            let after = all(&of_file(&file)?.policies);
            let before = match against {
                Some(against) => all(&of_file(&against)?.policies),
                None => running(&reach).await?,
            };
            let rows = differences(&before, &after);
            if reach.json {
                let rows: Vec<_> = rows
                    .iter()
                    .map(|row| json!({ "surface": row[0], "knob": row[1], "before": row[2], "after": row[3] }))
                    .collect();
                show::json(&json!({ "differences": rows }));
            } else if rows.is_empty() {
                outln!("nothing would change");
            } else {
                show::table(&["SURFACE", "KNOB", "BEFORE", "AFTER"], &rows);
            }
            if rows.is_empty() { Ok(()) } else { Err(Failure::Differs(rows.len())) }
        }
    }
}

/// For programs the same question has an answer of the same form.
fn unusable(failure: Failure, json: bool) -> Failure {
    if !json {
        return failure;
    }
    let mut document = problem::said(&failure);
    document["usable"] = false.into();
    show::json(&document);
    Failure::Told(Box::new(failure))
}

fn all(policies: &Policies) -> All {
    let own = policies.iter().map(|(surface, policy)| (surface.to_string(), PolicyWire::of(policy).knobs));
    own.chain([("(all others)".to_owned(), PolicyWire::of(policies.standard()).knobs)]).collect()
}

async fn running(reach: &Reach) -> Result<All, Failure> {
    let told = reach.ask_running(async |client| get(client, "/v1/policies").await).await?;
    let knobs = |policy: &serde_json::Value| {
        let members = policy["knobs"].as_object().into_iter().flatten();
        members.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let own = told["surfaces"].as_object().into_iter().flatten().map(|(name, policy)| (name.clone(), knobs(policy)));
    Ok(own.chain([("(all others)".to_owned(), knobs(&told["standard"]))]).collect())
}

fn differences(before: &All, after: &All) -> Vec<Vec<String>> {
    let others = "(all others)";
    let surfaces: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut rows = Vec::new();
    for surface in surfaces {
        // A surface without a policy of its own is under the one of all others.
        let of = |side: &All| side.get(surface).or_else(|| side.get(others)).cloned().unwrap_or_default();
        let (old, new) = (of(before), of(after));
        for (knob, value) in &new {
            let was = old.get(knob).cloned().unwrap_or_default();
            if was != *value {
                rows.push(vec![surface.clone(), knob.clone(), was, value.clone()]);
            }
        }
    }
    rows
}
