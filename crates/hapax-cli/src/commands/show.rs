//! Tables for people, JSON for programs.

use serde_json::Value;

pub(super) use crate::say::{plain, plain_lines};

/// One JSON document on a line.
pub(super) fn json(value: &Value) {
    outln!("{value}");
}

/// A table whose columns are as wide as they need to be.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if let Some(width) = widths.get_mut(at) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    outln!("{}", line(head.to_vec()));
    for row in rows {
        outln!("{}", line(row.iter().map(String::as_str).collect()));
    }
}

/// A member as text, on one line; numbers and flags too. Whoever wrote it, it steers no terminal and forges no line.
pub(super) fn text(value: &Value, name: &str) -> String {
    plain(&raw(value, name))
}

/// A member that may have lines of its own.
pub(super) fn lines(value: &Value, name: &str) -> String {
    plain_lines(&raw(value, name))
}

fn raw(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// A moment as people write it, in UTC.
pub(super) fn time(value: &Value, name: &str) -> String {
    value[name].as_u64().map_or_else(String::new, hapax_server::wall_time)
}

/// The same, and how long ago that is.
fn since(value: &Value, name: &str) -> String {
    let Some(at) = value[name].as_u64() else { return String::new() };
    let ago = hapax_engine::WallClock::now(&hapax_engine::SystemWallClock).0.saturating_sub(at) / 1_000;
    let ago = match ago {
        0..120 => format!("{ago} s"),
        120..7_200 => format!("{} min", ago / 60),
        7_200..172_800 => format!("{} h", ago / 3_600),
        _ => format!("{} d", ago / 86_400),
    };
    format!("{} ({ago} ago)", hapax_server::wall_time(at))
}

/// What may be done, in few words; `explain` has more.
fn advice(code: &str) -> String {
    let words = match code {
        "runs_again" => "runs again",
        "wait" => "wait for it",
        "replays" => "replays the answer",
        "resolve" => "decide it: doubt resolve",
        "too_late" => "too late",
        other => other,
    };
    words.to_owned()
}

/// An object's members on one line, without the marks that only programs need.
pub(super) fn members(value: &Value) -> String {
    let Some(members) = value.as_object() else { return plain(&value.to_string()) };
    let shown = members.iter().filter(|(_, value)| !value.is_null());
    shown.map(|(name, _)| format!("{}: {}", plain(name), text(value, name))).collect::<Vec<_>>().join("; ")
}

/// A list of operations.
pub(super) fn operations(page: &Value) {
    let Some(items) = page["items"].as_array() else { return };
    if items.is_empty() {
        outln!("none");
        return;
    }
    let with_tenant = items.iter().any(|item| item["tenant"].is_string());
    let mut head = vec!["OPERATION", "STATE", "SURFACE", "EFFECT", "ATTEMPT", "OWNER", "BEGUN", "VERSION", "NEXT"];
    let mut names = vec!["operation", "state", "surface", "effect", "attempt", "owner", "begun_at", "version", "next"];
    if with_tenant {
        head.insert(2, "TENANT");
        names.insert(2, "tenant");
    }
    let cell = |item: &Value, name: &str| match name {
        "begun_at" => since(item, name),
        "next" => advice(&text(item, name)),
        _ => text(item, name),
    };
    let rows: Vec<Vec<String>> = items.iter().map(|item| names.iter().map(|name| cell(item, name)).collect()).collect();
    table(&head, &rows);
    if let Some(next) = page["next"].as_str() {
        outln!("more: --cursor {}", plain(next));
    }
}
