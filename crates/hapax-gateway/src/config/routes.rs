//! `[[route]]`.

use hapax_core::Effect;
use hapax_engine::policy_file::{Report, Section, value};
use hapax_http::Dialect;
use toml::de::{DeTable, DeValue};

use super::{
    RouteRules,
    place::{duration, set},
};
use crate::pattern::Pattern;

const KEYS: [&str; 12] = [
    "match",
    "surface",
    "dialect",
    "effect",
    "upstream",
    "key",
    "key_headers",
    "protect",
    "reauthorize",
    "max_request_body",
    "first_byte_timeout",
    "timeout",
];

const EFFECTS: [(&str, Effect); 5] = [
    ("pure", Effect::Pure),
    ("idempotent", Effect::Idempotent),
    ("compensatable", Effect::Compensatable),
    ("irreversible", Effect::Irreversible),
    ("unsafe", Effect::Unsafe),
];

pub(super) fn routes(root: &DeTable<'_>, upstreams: &[&str], report: &mut Report<'_>) -> Vec<RouteRules> {
    let Some((key, given)) = root.get_key_value("route") else { return Vec::new() };
    let Some(list) = given.get_ref().as_array() else {
        report.wrong(key.span().start, "", "route", "is a list of tables; write `[[route]]`".to_owned());
        return Vec::new();
    };
    let mut found: Vec<RouteRules> = Vec::new();
    for (at, item) in list.iter().enumerate() {
        let mut section = Section::new(report, format!("route number {}", at + 1), item.span().start);
        match item.get_ref() {
            DeValue::Table(table) => found.extend(route(&mut section, table, upstreams)),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => section.wrong("", "is a table; write `[[route]]`".to_owned()),
        }
    }
    found
}

fn route(section: &mut Section<'_, '_>, table: &DeTable<'_>, upstreams: &[&str]) -> Option<RouteRules> {
    section.only(table, &KEYS);
    let pattern = section.given(table, "match", |value| Pattern::parse(value::text(value)?));
    if !table.contains_key("match") {
        section.wrong("match", "says which requests it is for, such as \"POST /v1/charges\"; add it".to_owned());
    }
    let mut route = RouteRules {
        pattern: pattern?,
        surface: None,
        dialect: Dialect::default(),
        effect: Effect::default(),
        upstream: None,
        key_required: None,
        key_headers: Vec::new(),
        protect: true,
        reauthorize: None,
        request_body: None,
        first_byte: None,
        whole: None,
    };
    route.surface = section.given(table, "surface", value::text).map(str::to_owned);
    let dialects = Dialect::ALL.map(|dialect| (dialect.name(), dialect));
    set(&mut route.dialect, section.given(table, "dialect", |value| value::choice(value, &dialects)));
    set(&mut route.effect, section.given(table, "effect", |value| value::choice(value, &EFFECTS)));
    route.upstream = section.given(table, "upstream", value::text).map(str::to_owned);
    if let Some(name) = route.upstream.as_deref().filter(|name| !upstreams.contains(name)) {
        let known = hapax_engine::policy_file::suggest::or_one_of(name, upstreams);
        section.wrong("upstream", format!("there is no `[upstream.{name}]`{known}"));
    }
    let keys = [("required", true), ("optional", false)];
    route.key_required = section.given(table, "key", |value| value::choice(value, &keys));
    if let Some(names) = section.given(table, "key_headers", |value| value::texts(value, value::header)) {
        route.key_headers = names.iter().map(ToString::to_string).collect();
    }
    set(&mut route.protect, section.given(table, "protect", value::flag));
    route.reauthorize = section.given(table, "reauthorize", path).map(str::to_owned);
    route.request_body = section.given(table, "max_request_body", |value| {
        usize::try_from(value::size(value)?).map_err(|_| "is more than this machine can hold".to_owned())
    });
    route.first_byte = section.given(table, "first_byte_timeout", duration);
    route.whole = section.given(table, "timeout", duration);
    if !route.protect && table.contains_key("timeout") {
        let instead = "is for answers that are recorded, and this route records none; write `first_byte_timeout`";
        section.wrong("timeout", instead.to_owned());
    }
    if !route.protect && table.contains_key("surface") {
        section.wrong("protect", "a route that is not protected has no surface; remove one of them".to_owned());
    }
    Some(route)
}

fn path<'t>(value: &'t DeValue<'_>) -> value::Read<&'t str> {
    let text = value::text(value)?;
    let plain = text.starts_with('/') && http::uri::PathAndQuery::try_from(text).is_ok();
    if plain { Ok(text) } else { Err("needs a path of the upstream that begins with a slash".to_owned()) }
}
