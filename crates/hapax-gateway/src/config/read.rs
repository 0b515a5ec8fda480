//! `[gateway]`, `[limits]`, and the rest from their own readers.

use std::path::PathBuf;

use hapax_engine::policy_file::{Report, Section, value};
use toml::de::{DeTable, DeValue};

use super::{
    Config, TenantChoice, Upstream,
    place::{at_least_one, duration, places, set, target},
    routes::routes,
};
use crate::{
    inbound::{Limits, TlsFiles},
    networks::Networks,
    route::HostHeader,
};

const GATEWAY: [&str; 15] = [
    "listen",
    "upstream",
    "store",
    "data",
    "durability",
    "tls_certificate",
    "tls_key",
    "tenant",
    "cookies",
    "secret_headers",
    "trusted_proxies",
    "jwks",
    "issuer",
    "audience",
    "grace",
];

const LIMITS: [&str; 11] = [
    "connections",
    "connections_per_peer",
    "head_timeout",
    "body_pause",
    "body_timeout",
    "idle_timeout",
    "reader_timeout",
    "head_bytes",
    "headers",
    "streams",
    "buffered_bytes",
];

pub(super) fn config(root: &DeTable<'_>, report: &mut Report<'_>) -> Config {
    let mut config = Config {
        upstreams: places(root, "upstream", HostHeader::Client, report),
        egress: places(root, "egress", HostHeader::Upstream, report),
        ..Config::default()
    };
    if let Some((mut section, table)) = table(root, "gateway", report) {
        gateway(&mut section, table, &mut config);
    }
    if let Some((mut section, table)) = table(root, "limits", report) {
        limits(&mut section, table, &mut config.limits);
    }
    let names: Vec<&str> = config.upstreams.keys().map(String::as_str).collect();
    config.routes = routes(root, &names, report);
    config
}

fn gateway(section: &mut Section<'_, '_>, table: &DeTable<'_>, config: &mut Config) {
    section.only(table, &GATEWAY);
    config.listen = section.given(table, "listen", |value| {
        let text = value::text(value)?;
        let fit = text.parse::<std::net::SocketAddr>().is_ok();
        if fit { Ok(text.to_owned()) } else { Err("needs an address and a port, such as \"0.0.0.0:8080\"".to_owned()) }
    });
    if let Some(target) = section.given(table, "upstream", target) {
        if config.upstreams.contains_key(Config::DEFAULT) {
            let rule = "is short for `[upstream.default]`, which is there too; remove one of them";
            section.wrong("upstream", rule.to_owned());
        }
        config.upstreams.insert(Config::DEFAULT.to_owned(), Upstream::at(target));
    }
    config.store = section.given(table, "store", value::text).map(str::to_owned);
    config.data = section.given(table, "data", value::text).map(PathBuf::from);
    let demand = section.given(table, "durability", |value| value::choice(value, &[("any", false), ("durable", true)]));
    config.demand_durable = demand.unwrap_or_default();
    let certificate = section.given(table, "tls_certificate", value::text).map(PathBuf::from);
    let key = section.given(table, "tls_key", value::text).map(PathBuf::from);
    config.tls = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            section.wrong("tls_key", "a certificate needs its key; name the file".to_owned());
            None
        }
        (None, Some(_)) => {
            section.wrong("tls_certificate", "a key needs its certificate; name the file".to_owned());
            None
        }
    };
    set(&mut config.tenant, section.given(table, "tenant", |value| TenantChoice::parse(value::text(value)?)));
    if let Some(names) = section.given(table, "cookies", |value| value::texts(value, |name| Ok(name.into()))) {
        config.cookies = names.iter().map(ToString::to_string).collect();
    }
    if let Some(names) = section.given(table, "secret_headers", |value| value::texts(value, value::header)) {
        config.secret_headers = names.iter().filter_map(|name| name.parse().ok()).collect();
    }
    let networks = section.given(table, "trusted_proxies", |value| {
        let texts = value::texts(value, |text| Ok(text.into()))?;
        Networks::parse(&texts.iter().map(|text| &**text).collect::<Vec<_>>())
    });
    set(&mut config.trusted_proxies, networks);
    config.jwks = section.given(table, "jwks", value::text).map(PathBuf::from);
    config.issuer = section.given(table, "issuer", value::text).map(str::to_owned);
    config.audience = section.given(table, "audience", value::text).map(str::to_owned);
    config.grace = section.given(table, "grace", duration);
    match &config.tenant {
        TenantChoice::Header(_) if config.trusted_proxies.is_empty() => {
            let rule = "a header can be sent by anybody; say in `trusted_proxies` whose is believed";
            section.wrong("tenant", rule.to_owned());
        }
        TenantChoice::Jwt(_) if config.jwks.is_none() => {
            let rule = "a claim is believed only under a signature; name the issuer's key set in `jwks`";
            section.wrong("tenant", rule.to_owned());
        }
        TenantChoice::Header(_) | TenantChoice::Jwt(_) | TenantChoice::Credential | TenantChoice::Fixed(_) => {}
    }
}

fn limits(section: &mut Section<'_, '_>, table: &DeTable<'_>, limits: &mut Limits) {
    section.only(table, &LIMITS);
    set(&mut limits.connections, section.given(table, "connections", at_least_one));
    set(&mut limits.connections_per_peer, section.given(table, "connections_per_peer", at_least_one));
    set(&mut limits.head, section.given(table, "head_timeout", duration));
    set(&mut limits.body_pause, section.given(table, "body_pause", duration));
    set(&mut limits.body, section.given(table, "body_timeout", duration));
    set(&mut limits.idle, section.given(table, "idle_timeout", duration));
    set(&mut limits.reader, section.given(table, "reader_timeout", duration));
    set(&mut limits.headers, section.given(table, "headers", at_least_one));
    let streams = section.given(table, "streams", at_least_one).and_then(|count| u32::try_from(count).ok());
    set(&mut limits.streams, streams);
    let bytes = section.given(table, "head_bytes", |value| match usize::try_from(value::size(value)?) {
        Ok(bytes) if bytes >= 1_024 => Ok(bytes),
        Ok(_) | Err(_) => Err("has to be at least 1KiB, or ordinary heads do not fit".to_owned()),
    });
    set(&mut limits.head_bytes, bytes);
    let bytes = section.given(table, "buffered_bytes", |value| match usize::try_from(value::size(value)?) {
        Ok(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Ok(_) | Err(_) => Err("has to be at least 1MiB, or ordinary bodies do not fit".to_owned()),
    });
    set(&mut limits.buffered_bytes, bytes);
}

/// A table of the root, if it is there and is one.
fn table<'r, 'a, 't, 'i>(
    root: &'t DeTable<'i>,
    name: &str,
    report: &'r mut Report<'a>,
) -> Option<(Section<'r, 'a>, &'t DeTable<'i>)> {
    let (key, given) = root.get_key_value(name)?;
    let at = key.span().start;
    match given.get_ref() {
        DeValue::Table(table) => Some((Section::new(report, name.to_owned(), at), table)),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            report.wrong(at, "", name, format!("is a table; write `[{name}]`"));
            None
        }
    }
}
