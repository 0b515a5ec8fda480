//! What people are told.

use serde_json::Value;

use crate::commands::show::{table, text};

pub(super) fn sent(said: &Value) {
    let id = text(said, "id");
    match said["status"].as_str() {
        Some("queued") => println!("queued: {id}"),
        Some("joined") => println!("joined: {id} ends as {} ends", text(said, "joined")),
        Some("replayed") => {
            println!("replayed: {id} was done before");
            result(&said["result"]);
        }
        Some("already_resolved") => println!("already resolved: {id}"),
        Some(_) | None => println!("{said}"),
    }
}

pub(super) fn handed(said: &Value) {
    let Some(items) = said["items"].as_array().filter(|items| !items.is_empty()) else {
        println!("nothing waits");
        return;
    };
    for item in items {
        let task = &item["task"];
        println!("{} from {}: attempt {}", text(task, "kind"), text(&task["sender"], "key"), item["attempt"]);
        println!("  task      {}", text(task, "id"));
        println!("  token     {}", text(item, "token"));
        println!("  lease id  {}", text(item, "lease_id"));
        println!("  key       {}", text(item, "forward_key"));
        println!(
            "  payload   {}",
            if task["payload"].is_null() { text(task, "payload_base64") } else { task["payload"].to_string() }
        );
    }
}

pub(super) fn results(said: &Value) {
    let Some(items) = said["items"].as_array().filter(|items| !items.is_empty()) else {
        println!("no results");
        return;
    };
    for item in items {
        println!(
            "{} {}: {} ({})",
            text(item, "task"),
            text(item, "kind"),
            text(&item["result"], "status"),
            text(item, "how")
        );
        result(&item["result"]);
    }
}

fn result(result: &Value) {
    for name in ["json", "text", "base64"] {
        if !result[name].is_null() {
            println!("  {}", text(result, name));
        }
    }
}

pub(super) fn one(status: &Value) {
    let task = &status["task"];
    println!("{} from {} to {}", text(task, "kind"), text(&task["sender"], "key"), text(&task["recipient"], "key"));
    for (label, value) in [
        ("task", text(task, "id")),
        ("state", text(status, "state")),
        ("attempt", text(status, "attempt")),
        ("lease id", text(status, "lease_id")),
        ("lease age", text(status, "lease_age_ms")),
        ("joined", text(status, "joined")),
        ("class", text(&task["idempotency"], "class")),
    ] {
        if !value.is_empty() {
            println!("  {label:<10} {value}");
        }
    }
    for repair in status["repairs"].as_array().into_iter().flatten() {
        println!(
            "  {} of {} by {}: {}",
            text(repair, "repair"),
            text(repair, "lease_id"),
            text(repair, "actor"),
            text(repair, "reason")
        );
    }
    for kept in status["evidence"].as_array().into_iter().flatten() {
        println!("  refused, from attempt {}: {}", kept["attempt"], text(&kept["result"], "status"));
    }
}

pub(super) fn many(page: &Value) {
    let Some(items) = page["items"].as_array().filter(|items| !items.is_empty()) else {
        println!("none");
        return;
    };
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            let task = &item["task"];
            let late = if item["overdue"] == true { ", overdue" } else { "" };
            vec![
                text(task, "id"),
                format!("{}{late}", text(item, "state")),
                text(task, "kind"),
                text(&task["sender"], "key"),
                text(&task["recipient"], "key"),
                text(item, "attempt"),
                text(item, "lease_id"),
            ]
        })
        .collect();
    table(&["TASK", "STATE", "KIND", "FROM", "TO", "ATTEMPT", "LEASE"], &rows);
    if let Some(next) = page["next"].as_str() {
        println!("more: --cursor {next}");
    }
}

pub(super) fn retried(report: &Value) {
    let verb = if report["enabled"] == true { "requeued" } else { "would requeue" };
    println!("looked at {}", report["considered"]);
    for entry in report["requeued"].as_array().into_iter().flatten() {
        println!(
            "{verb} {} (attempt {}, lease age {} ms)",
            text(entry, "task"),
            entry["attempt"],
            entry["lease_age_ms"]
        );
    }
    for entry in report["skipped"].as_array().into_iter().flatten() {
        println!("skipped {}: {}", text(entry, "task"), text(entry, "reason"));
    }
    if report["enabled"] != true {
        println!("nothing was changed; --enable does it");
    }
}

pub(super) fn compacted(done: &Value) {
    println!("compacted {}, kept {}", done["compacted"], done["kept"]);
}

pub(super) fn imported(done: &Value) {
    println!("{} tasks, {} cached results; {} were there already", done["tasks"], done["cached"], done["known"]);
    if !done["torn_line"].is_null() {
        println!("line {} was torn and left out", done["torn_line"]);
    }
}
