//! Tables for people, JSON for programs.

use serde_json::Value;

/// One JSON document on a line.
pub(super) fn json(value: &Value) {
    println!("{value}");
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
    println!("{}", line(head.to_vec()));
    for row in rows {
        println!("{}", line(row.iter().map(String::as_str).collect()));
    }
}

/// A member as text; numbers and flags too.
pub(super) fn text(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// A list of operations.
pub(super) fn operations(page: &Value) {
    let Some(items) = page["items"].as_array() else { return };
    if items.is_empty() {
        println!("none");
        return;
    }
    let with_tenant = items.iter().any(|item| item["tenant"].is_string());
    let mut head = vec!["OPERATION", "STATE", "SURFACE", "EFFECT", "ATTEMPT", "VERSION", "NEXT"];
    let mut names = vec!["operation", "state", "surface", "effect", "attempt", "version", "next"];
    if with_tenant {
        head.insert(2, "TENANT");
        names.insert(2, "tenant");
    }
    let rows: Vec<Vec<String>> = items.iter().map(|item| names.iter().map(|name| text(item, name)).collect()).collect();
    table(&head, &rows);
    if let Some(next) = page["next"].as_str() {
        println!("more: --cursor {next}");
    }
}
