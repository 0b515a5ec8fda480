//! What people are told.

use serde_json::Value;

use crate::commands::show::{plain, table, text};

pub(super) fn sent(said: &Value) {
    let id = text(said, "id");
    match said["status"].as_str() {
        Some("queued") => outln!("queued: {id}"),
        Some("joined") => outln!("joined: {id} ends as {} ends", text(said, "joined")),
        Some("replayed") => {
            outln!("replayed: {id} was done before");
            result(&said["result"]);
        }
        Some("already_resolved") => outln!("already resolved: {id}"),
        Some(_) | None => outln!("{}", plain(&said.to_string())),
    }
}

pub(super) fn handed(said: &Value) {
    let Some(items) = said["items"].as_array().filter(|items| !items.is_empty()) else {
        outln!("nothing waits");
        return;
    };
    for item in items {
        let task = &item["task"];
        outln!("{} from {}: attempt {}", text(task, "kind"), text(&task["sender"], "key"), text(item, "attempt"));
        outln!("  task      {}", text(task, "id"));
        outln!("  token     {}", text(item, "token"));
        outln!("  lease id  {}", text(item, "lease_id"));
        outln!("  key       {}", text(item, "forward_key"));
        outln!(
            "  payload   {}",
            if task["payload"].is_null() { text(task, "payload_base64") } else { plain(&task["payload"].to_string()) }
        );
    }
}

pub(super) fn results(said: &Value) {
    let Some(items) = said["items"].as_array().filter(|items| !items.is_empty()) else {
        outln!("no results");
        return;
    };
    for item in items {
        outln!(
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
            outln!("  {}", text(result, name));
        }
    }
}

pub(super) fn one(status: &Value) {
    let task = &status["task"];
    outln!("{} from {} to {}", text(task, "kind"), text(&task["sender"], "key"), text(&task["recipient"], "key"));
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
            outln!("  {label:<10} {value}");
        }
    }
    for repair in status["repairs"].as_array().into_iter().flatten() {
        outln!(
            "  {} of {} by {}: {}",
            text(repair, "repair"),
            text(repair, "lease_id"),
            text(repair, "actor"),
            text(repair, "reason")
        );
    }
    for kept in status["evidence"].as_array().into_iter().flatten() {
        outln!("  refused, from attempt {}: {}", kept["attempt"], text(&kept["result"], "status"));
    }
}

pub(super) fn many(page: &Value) {
    let Some(items) = page["items"].as_array().filter(|items| !items.is_empty()) else {
        outln!("none");
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
        outln!("more: --cursor {}", plain(next));
    }
}

pub(super) fn retried(report: &Value) {
    let verb = if report["enabled"] == true { "requeued" } else { "would requeue" };
    outln!("looked at {}", report["considered"]);
    for entry in report["requeued"].as_array().into_iter().flatten() {
        outln!("{verb} {} (attempt {}, lease age {} ms)", text(entry, "task"), entry["attempt"], entry["lease_age_ms"]);
    }
    for entry in report["skipped"].as_array().into_iter().flatten() {
        outln!("skipped {}: {}", text(entry, "task"), text(entry, "reason"));
    }
    if report["enabled"] != true {
        outln!("nothing was changed; --enable does it");
    }
}

pub(super) fn compacted(done: &Value) {
    outln!("compacted {}, kept {}", done["compacted"], done["kept"]);
}

pub(super) fn imported(done: &Value) {
    outln!("{} tasks, {} cached results; {} were there already", done["tasks"], done["cached"], done["known"]);
    if !done["torn_line"].is_null() {
        outln!("line {} was torn and left out", done["torn_line"]);
    }
}
