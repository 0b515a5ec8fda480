//! `[upstream.NAME]` and `[egress.NAME]`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hapax_core::Millis;
use hapax_engine::policy_file::{Report, Section, tables, value};
use toml::de::{DeTable, DeValue};

use super::Upstream;
use crate::{
    outbound::{Protocol, Target},
    route::HostHeader,
};

const KEYS: [&str; 12] = [
    "url",
    "protocol",
    "ca",
    "host",
    "connect_timeout",
    "first_byte_timeout",
    "timeout",
    "body_idle_timeout",
    "idle",
    "connections",
    "streams",
    "requests_per_tenant",
];

pub(super) fn places(
    root: &DeTable<'_>,
    group: &'static str,
    host: HostHeader,
    report: &mut Report<'_>,
) -> BTreeMap<String, Upstream> {
    let mut found = BTreeMap::new();
    for (key, table) in tables(root, group, report) {
        let name = key.get_ref().as_ref();
        let mut section = Section::new(report, format!("{group}.{name}"), key.span().start);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            section.wrong("", "a name is made of letters, digits, `-` and `_`".to_owned());
        }
        if let Some(place) = place(&mut section, table, host) {
            found.insert(name.to_owned(), place);
        }
    }
    found
}

fn place(section: &mut Section<'_, '_>, table: &DeTable<'_>, host: HostHeader) -> Option<Upstream> {
    section.only(table, &KEYS);
    let url = section.given(table, "url", target);
    if !table.contains_key("url") {
        section.wrong("url", "says where it is and has to be there, such as \"http://127.0.0.1:3000\"".to_owned());
    }
    let mut place = Upstream { host, ..Upstream::at(url?) };
    let protocols = [("auto", Protocol::Auto), ("http1", Protocol::Http1), ("http2", Protocol::Http2)];
    set(&mut place.protocol, section.given(table, "protocol", |value| value::choice(value, &protocols)));
    let hosts = [("client", HostHeader::Client), ("upstream", HostHeader::Upstream)];
    set(&mut place.host, section.given(table, "host", |value| value::choice(value, &hosts)));
    place.ca = section.given(table, "ca", value::text).map(PathBuf::from);
    set(&mut place.timing.connect, section.given(table, "connect_timeout", duration));
    set(&mut place.timing.first_byte, section.given(table, "first_byte_timeout", duration));
    set(&mut place.timing.whole, section.given(table, "timeout", duration));
    set(&mut place.timing.idle, section.given(table, "idle", duration));
    set(&mut place.timing.body_idle, section.given(table, "body_idle_timeout", duration));
    set(&mut place.timing.streams, section.given(table, "streams", at_least_one));
    set(&mut place.timing.connections, section.given(table, "connections", at_least_one));
    place.timing.per_tenant = section.given(table, "requests_per_tenant", at_least_one);
    Some(place)
}

pub(super) fn target(value: &DeValue<'_>) -> value::Read<Target> {
    value::text(value)?.parse().map_err(|error: crate::outbound::TargetError| error.to_string())
}

/// A time that is not nothing.
pub(super) fn duration(value: &DeValue<'_>) -> value::Read<Duration> {
    match value::millis(value)? {
        Millis::ZERO => Err("0 would let nothing through; write a length such as \"10s\"".to_owned()),
        length => Ok(length.as_std()),
    }
}

pub(super) fn at_least_one(value: &DeValue<'_>) -> value::Read<usize> {
    match value::small_count(value)? {
        0 => Err("0 would let nothing through; write at least 1".to_owned()),
        count => Ok(count as usize),
    }
}

pub(super) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
