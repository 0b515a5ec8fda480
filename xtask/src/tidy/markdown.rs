//! Just enough Markdown: links and the anchors of headings, outside code.

use std::collections::{BTreeMap, BTreeSet};

/// Link targets with their line.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code_spans(line);
        for (at, _) in line.match_indices("](") {
            if let Some(target) = inline_target(&line[at + 2..]) {
                found.push((number, target));
            }
        }
        if let Some(target) = definition_target(&line) {
            found.push((number, target));
        }
    }
    found
}

/// What `#…` may name in this file, as GitHub builds it.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        if let Some(heading) = heading(line) {
            let slug = slug(heading);
            let count = seen.entry(slug.clone()).or_default();
            anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        for attribute in ["id=\"", "name=\""] {
            let values = line.split(attribute).skip(1).filter_map(|rest| rest.split_once('"'));
            anchors.extend(values.map(|(value, _)| value.to_owned()));
        }
    }
    anchors
}

/// Lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((index + 1, line)),
            (Some(_), _) => {}
        }
        None
    })
}

/// `code` may show a link without being one.
fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at(start);
        let ticks = from.len() - from.trim_start_matches('`').len();
        let (mark, after) = from.split_at(ticks);
        out.push_str(before);
        match after.find(mark) {
            Some(end) => rest = after[end..].trim_start_matches('`'),
            None => {
                out.push_str(mark);
                rest = after;
            }
        }
    }
    out + rest
}

/// The target up to its closing bracket; brackets inside it may nest.
fn inline_target(rest: &str) -> Option<String> {
    let mut depth = 0;
    let end = rest.find(|c| {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return true,
            ')' => depth -= 1,
            _ => {}
        }
        false
    })?;
    without_title(&rest[..end])
}

/// `[name]: target`
fn definition_target(line: &str) -> Option<String> {
    let (name, target) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    if name.is_empty() || name.contains(']') { None } else { without_title(target) }
}

fn without_title(target: &str) -> Option<String> {
    let target = target.trim();
    let bare = match target.strip_prefix('<') {
        Some(inner) => inner.split('>').next(),
        None => target.split_whitespace().next(),
    };
    bare.filter(|bare| !bare.is_empty()).map(str::to_owned)
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim().trim_end_matches('#').trim_end())
}

fn slug(heading: &str) -> String {
    let mut slug = String::new();
    for c in visible(heading).to_lowercase().chars() {
        match c {
            ' ' => slug.push('-'),
            '-' | '_' => slug.push(c),
            c if c.is_alphanumeric() => slug.push(c),
            _ => {}
        }
    }
    slug
}

/// `[text](target)` shows as `text`.
fn visible(heading: &str) -> String {
    let mut out = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn links_images_titles_and_definitions_are_found() {
        let text = "[a](b.md) ![c](d.png \"title\")\n[e]: f.md 'x'\n[g](<h i.md>) [j](k_(l).md)";
        assert_eq!(targets(text), ["b.md", "d.png", "f.md", "h i.md", "k_(l).md"]);
    }

    #[test]
    fn code_holds_no_links() {
        let text = "`[a](b.md)` and ``[c](`d`)``\n```\n[e](f.md)\n```\n~~~\n[g](h.md)\n```\n~~~\n[i](j.md)";
        assert_eq!(links(text), [(9, "j.md".to_owned())]);
    }

    #[test]
    fn anchors_are_built_as_github_builds_them() {
        let text =
            "# Who uses it, and for what?\n## `hapax` & co_op\n### Again\n### Again\n#no\n# [Linked](x.md) one\n";
        let expected = ["who-uses-it-and-for-what", "hapax--co_op", "again", "again-1", "linked-one"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
    }

    #[test]
    fn explicit_anchors_count_and_headings_in_code_do_not() {
        let anchors = anchors("<a id=\"here\"></a>\n```\n# comment\n```\n");
        assert_eq!(anchors, ["here".to_owned()].into());
    }
}
