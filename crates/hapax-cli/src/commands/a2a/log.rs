//! The queue as a file. A log has no longest length: it is written page by page, and read in parts that a daemon takes.

use std::{
    collections::BTreeMap,
    io::{BufWriter, Write as _},
    path::Path,
};

use hapax_client::Client;
use serde_json::{Value, json};

use super::told;
use crate::{
    commands::{reach::Reach, show},
    failure::Failure,
    whole::Whole,
};

/// How much is sent at once. A daemon takes two MiB unless it is set otherwise, and one task is far shorter.
const PART: usize = 1024 * 1024;

pub(super) async fn export(reach: &Reach, file: &Path) -> Result<(), Failure> {
    let lines = reach.ask(async |client| written(client, file).await).await?;
    if reach.json {
        show::json(&json!({ "lines": lines }));
    } else {
        outln!("{lines} lines in {}", file.display());
    }
    Ok(())
}

/// How many lines there are.
async fn written(client: &Client, file: &Path) -> Result<usize, Failure> {
    let failed = |error: std::io::Error| Failure::Flag("export", format!("{}: {error}", file.display()));
    let (whole, out) = Whole::begin(file).map_err(failed)?;
    let mut out = BufWriter::new(out);
    let (mut lines, mut path) = (0, Some("/v1/a2a/export".to_owned()));
    while let Some(here) = path {
        let got = client.response(http::Method::GET, &here, b"", None).await?;
        if got.status() != 200 {
            return Err(Failure::Flag("export", String::from_utf8_lossy(got.body()).into_owned()));
        }
        out.write_all(got.body()).map_err(failed)?;
        lines += got.body().iter().filter(|byte| **byte == b'\n').count();
        path = next_of(got.headers());
    }
    let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
    whole.put(&out).map_err(failed)?;
    Ok(lines)
}

/// Where there is more, as the header `link` says.
fn next_of(headers: &http::HeaderMap) -> Option<String> {
    let link = headers.get(http::header::LINK)?.to_str().ok()?;
    let (address, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then(|| address.to_owned())
}

pub(super) async fn import(reach: &Reach, file: &Path) -> Result<(), Failure> {
    let log = std::fs::read_to_string(file)
        .map_err(|error| Failure::Flag("import", format!("{}: {error}", file.display())))?;
    let (parts, torn) = parts_of(&log)?;
    let mut said = json!(reach.ask(async |client| sent(client, &parts, file).await).await?);
    if let Some(line) = torn {
        said["torn_line"] = json!(line);
    }
    if reach.json {
        show::json(&said);
    } else {
        told::imported(&said);
    }
    Ok(())
}

async fn sent(client: &Client, parts: &Parts, file: &Path) -> Result<BTreeMap<&'static str, u64>, Failure> {
    let mut sums: BTreeMap<&str, u64> = ["tasks", "cached", "known"].into_iter().map(|name| (name, 0)).collect();
    for (first_line, part) in parts {
        let (status, body) = client.raw(http::Method::POST, "/v1/a2a/import", part.as_bytes()).await?;
        let said: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status != 200 {
            let why = show::text(&said, "detail");
            let where_ = format!("in the part that begins with line {first_line} of {}", file.display());
            return Err(Failure::Flag("import", format!("{why} ({where_}; what came before it is imported)")));
        }
        for (name, sum) in &mut sums {
            *sum += said[*name].as_u64().unwrap_or_default();
        }
    }
    Ok(sums)
}

type Parts = Vec<(usize, String)>;

/// The log in parts, each with its first line's number; and the number of the last line if that is torn. What is told of one
/// task stays together and in its order, since a part is read on its own.
fn parts_of(log: &str) -> Result<(Parts, Option<usize>), Failure> {
    let lines: Vec<(usize, &str)> = (1..).zip(log.lines()).filter(|(_, line)| !line.trim().is_empty()).collect();
    let mut groups: Vec<(usize, String)> = Vec::new();
    let mut of_task: BTreeMap<String, usize> = BTreeMap::new();
    let last = lines.last().map(|(number, _)| *number);
    let mut torn = None;
    for (number, line) in lines {
        let said: Value = match serde_json::from_str(line) {
            Ok(said) => said,
            Err(_) if Some(number) == last && !log.ends_with('\n') => {
                torn = Some(number);
                break;
            }
            Err(error) => {
                return Err(Failure::Flag("import", format!("line {number} of the log cannot be used: {error}")));
            }
        };
        let task = said["task_id"].as_str().or(said["task"]["id"].as_str()).map(str::to_owned);
        let group = match task {
            Some(task) => *of_task.entry(task).or_insert(groups.len()),
            None => groups.len(),
        };
        if group == groups.len() {
            groups.push((number, String::new()));
        }
        if let Some((_, text)) = groups.get_mut(group) {
            text.push_str(line);
            text.push('\n');
        }
    }
    let mut parts: Parts = Vec::new();
    for (number, group) in groups {
        match parts.last_mut() {
            Some((_, part)) if part.len() + group.len() <= PART => part.push_str(&group),
            Some(_) | None => parts.push((number, group)),
        }
    }
    Ok((parts, torn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_one_task_stays_together() {
        let big = "x".repeat(PART / 2);
        let sent = |id: &str| format!("{{\"event\":\"task_sent\",\"task\":{{\"id\":\"{id}\",\"pad\":\"{big}\"}}}}\n");
        let leased = |id: &str| format!("{{\"event\":\"task_leased\",\"task_id\":\"{id}\"}}\n");
        let log =
            [sent("a"), sent("b"), sent("c"), leased("a"), leased("c"), "{\"event\":\"task_le".to_owned()].concat();
        let (parts, torn) = parts_of(&log).unwrap();
        assert_eq!(torn, Some(6));
        assert_eq!(parts.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(parts[0].1, sent("a") + &leased("a"));
        assert_eq!(parts[2].1, sent("c") + &leased("c"));
        assert!(parts_of("{}\nnonsense\n{}\n").is_err_and(|error| error.to_string().contains("line 2")));
    }
}
