use std::path::PathBuf;

use clap::Subcommand;
use hapax_server::audit::verify;
use serde_json::json;

use super::{
    op::get,
    reach::{Reach, directory_here},
    show,
};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// The newest rows.
    Tail {
        #[arg(long, default_value_t = 20)]
        limit: u32,
        #[command(flatten)]
        reach: Reach,
    },
    /// Prove chains offline, over all their files; the first bad row is named, and the exit code is 8.
    Verify {
        /// Data directories, or single files of a chain [default: the data directory]
        paths: Vec<PathBuf>,
        /// The public key that must have signed, in hexadecimal
        #[arg(long, value_name = "HEX", value_parser = public_key)]
        key: Option<String>,
        #[arg(long)]
        json: bool,
    },
}

fn public_key(text: &str) -> Result<String, &'static str> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_one { Ok(text.to_lowercase()) } else { Err("a key has 64 hexadecimal digits, as `audit verify` prints it") }
}

pub(super) async fn run(audit: Audit) -> Result<(), Failure> {
    match audit {
        Audit::Tail { limit, reach } => {
            let told = reach.ask(async |client| get(client, &format!("/v1/audit?limit={limit}")).await).await?;
            if reach.json {
                show::json(&told);
                return Ok(());
            }
            let rows: Vec<Vec<String>> = told["rows"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|row| {
                    let [n, actor, action, subject] =
                        ["n", "actor", "action", "subject"].map(|name| show::text(row, name));
                    vec![n, show::time(row, "at"), actor, action, subject, show::members(&row["detail"])]
                })
                .collect();
            show::table(&["ROW", "AT", "ACTOR", "ACTION", "SUBJECT", "DETAIL"], &rows);
            Ok(())
        }
        Audit::Verify { paths, key, json } => {
            let paths = if paths.is_empty() { vec![directory_here()?] } else { paths };
            let mut bad_rows = 0;
            for path in paths {
                let file = path;
                let checked = verify(&file, key.as_deref());
                let checked = checked.map_err(|error| Failure::Chain { path: file.clone(), error })?;
                match checked {
                    Ok(whole) if json => show::json(&json!({
                        "file": file, "whole": true, "rows": whole.rows, "first": whole.first, "files": whole.files,
                        "chain": whole.chain, "key": whole.key,
                        "head": whole.head, "checkpoints": whole.checkpoints, "signed_up_to": whole.signed_up_to,
                        "torn_bytes": whole.torn,
                    })),
                    Ok(whole) => {
                        outln!(
                            "{}: whole, rows {} to {} in {} files, signed up to row {}",
                            file.display(),
                            whole.first,
                            whole.rows,
                            whole.files,
                            whole.signed_up_to
                        );
                        outln!("  head {}", whole.head);
                        outln!("  key  {}", whole.key);
                        if whole.torn > 0 {
                            outln!(
                                "  {} bytes of an unfinished row at the end; the next start cuts them off",
                                whole.torn
                            );
                        }
                    }
                    Err(bad) => {
                        bad_rows += 1;
                        if json {
                            show::json(
                                &json!({ "file": bad.file, "whole": false, "row": bad.row, "offset": bad.offset, "what": bad.what }),
                            );
                        } else {
                            outln!("{}: {}", file.display(), show::plain(&bad.to_string()));
                        }
                    }
                }
            }
            if bad_rows > 0 { Err(Failure::Damaged(bad_rows)) } else { Ok(()) }
        }
    }
}
