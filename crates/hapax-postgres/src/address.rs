//! What of a URL is ours: `?schema=…` and `?listen=HOST[:PORT]`. The rest is the driver's to read, unless a person may have
//! meant it otherwise: host and database are shown, and part of a password could be taken for them.

use std::net::Ipv6Addr;

use tokio_postgres::{Config, config::Host};

use crate::error::OpenError;

#[derive(Default)]
pub(crate) struct Address {
    /// Without what is ours.
    pub(crate) url: String,
    pub(crate) schema: Option<String>,
    /// The same URL with another host.
    pub(crate) listen_url: Option<String>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let Some((scheme, rest)) = behind_scheme(url) else {
            // Settings in the form `host=… dbname=…` hold none of ours.
            return Ok(Self { url: url.to_owned(), ..Self::default() });
        };
        reads_one_way(url)?;
        let (login, rest) = match rest.split_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut address = Self::default();
        let mut listen = None;
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", schema)) if is_schema(schema) => address.schema = Some(schema.to_owned()),
                Some(("schema", _)) => {
                    return Err(wrong("its schema is not 1 to 63 letters, digits, - or _, or begins with pg_"));
                }
                Some(("listen", host)) if is_host(host) => listen = Some(host),
                Some(("listen", _)) => return Err(wrong("behind listen= stands no host[:port]")),
                Some(_) | None => others.push(pair),
            }
        }
        let others = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        address.url = format!("{scheme}://{login}{place}{others}");
        address.listen_url = listen.map(|host| {
            let database = place.split_once('/').map_or("", |(_, database)| database);
            format!("{scheme}://{login}{host}/{database}{others}")
        });
        Ok(address)
    }
}

/// `None` where it is no URL.
fn behind_scheme(url: &str) -> Option<(&str, &str)> {
    url.split_once("://").filter(|(scheme, _)| ["postgres", "postgresql"].contains(scheme))
}

/// For the driver the host begins behind the first `@`, whatever stands before it.
pub(crate) fn reads_one_way(url: &str) -> Result<(), OpenError> {
    let parts = behind_scheme(url).and_then(|(_, rest)| rest.split_once('@'));
    match parts {
        Some((login, rest)) if login.contains(['/', '?']) || rest.contains('@') => Err(wrong(
            "it can be read in two ways; only one @ stands in it, before the host, and in a user, a password or a value \
             @ is written as %40, / as %2F and ? as %3F",
        )),
        Some(_) | None => Ok(()),
    }
}

/// The server repeats the user and the database, and we the hosts. Where one of them has swallowed what stood beside it, a
/// password is in it.
pub(crate) fn parts_are_apart(config: &Config) -> Result<(), OpenError> {
    let user = config.get_user().is_none_or(|user| !user.contains([':', '=']));
    let database = config.get_dbname().is_none_or(|database| !database.contains(['@', '=']));
    let hosts = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_name(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    if user && database && hosts {
        return Ok(());
    }
    Err(wrong(
        "its user, host or database holds one of : = @ and the like, as if its parts had run together; encode user and \
         password each by itself, and nothing around them",
    ))
}

fn wrong(reason: &str) -> OpenError {
    OpenError::Url { reason: reason.to_owned() }
}

fn is_name(host: &str) -> bool {
    // An address of IPv6 may name its interface.
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    host.chars().all(|letter| letter.is_alphanumeric() || ".-_".contains(letter)) || address.parse::<Ipv6Addr>().is_ok()
}

fn is_schema(word: &str) -> bool {
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    plain && (1..=63).contains(&word.len()) && !word.starts_with("pg_")
}

fn is_host(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !word.is_empty() && !word.starts_with(':') && word.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_taken_out_and_the_rest_left_alone() {
        let own =
            Address::parse("postgres://app:x%3Fy@pool:6432/shop?schema=pay&sslmode=require&listen=db:5432").unwrap();
        assert_eq!(own.url, "postgres://app:x%3Fy@pool:6432/shop?sslmode=require");
        assert_eq!(own.schema.as_deref(), Some("pay"));
        assert_eq!(own.listen_url.as_deref(), Some("postgres://app:x%3Fy@db:5432/shop?sslmode=require"));
        for untouched in [
            "postgres://app@db/shop",
            "postgresql://a:1,b:2/shop?target_session_attrs=read-write",
            "postgres://app%40shop:x:y#%40%2F@db/shop",
            "host=db",
            "host=db password=x://y@z?schema=w@v",
        ] {
            let plain = Address::parse(untouched).unwrap();
            assert_eq!((plain.url.as_str(), plain.schema, plain.listen_url), (untouched, None, None));
        }
    }

    #[test]
    fn what_would_mean_something_else_is_refused_without_repeating_it() {
        for url in [
            "postgres://app:hush@db/shop?schema=",
            "postgres://app:hush@db/shop?schema=a\"hush",
            "postgres://app:hush@db/shop?schema=pg_hush",
            "postgres://app:hush@db/shop?listen=",
            "postgres://app:hush@db/shop?listen=other@hush",
            "postgres://app:first@hush@db/shop",
            "postgres://app:first@hush/second@db/shop",
            "postgres://app:first@hush?port=1@db/shop",
            "postgres://app:first/hush@db/shop",
            "postgres://app:first?hush@db/shop",
            "postgresql://db/shop?user=app&password=first@hush",
            "postgres://db:5432/shop?password=first@hush",
        ] {
            let refused = Address::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(!format!("{refused} {refused:?}").contains("hush"), "{refused}");
        }
    }

    #[test]
    fn a_part_that_has_swallowed_its_neighbour_is_refused_without_repeating_it() {
        let read = |url: &str| parts_are_apart(&url.parse().unwrap());
        for url in [
            "postgres://app%3Ahush%40db/shop",
            "postgres://app%3Ahush@db/shop",
            "postgres://app%3Ahush%40db%3A5432%2Fshop",
            "postgres://app:12/hush%40db/shop",
            "postgres://db,app%3Ahush/shop",
            "postgres://host=db password=hush",
            "postgres://app password=hush@db/shop",
            "postgres://db/shop&password=hush",
            "postgres://db/shop?user=app:hush",
            "host=db,password=hush",
            "host=postgres://app:hush@db/shop",
            "host=db dbname=shop;password=hush",
            "host=db dbname=postgres://app:hush@db/shop",
            "host=db user=app:hush",
        ] {
            let refused = read(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(!format!("{refused} {refused:?}").contains("hush"), "{refused}");
        }
        for url in [
            "postgres://app%40tenant:first%40:=%2Fsecond@db-1.shop_x:5432,[::1]:5433,10.0.0.1/my%20shop",
            "postgres://[fe80::1%25eth0]/shop",
            "postgres://app@%2Fvar%2Frun%2Fpostgresql/shop",
            "host=db user=app password='a:b=c@d /' dbname=shop",
        ] {
            read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
    }
}
