//! `redis://[user:password@]host[:port][,host…]/[database][?prefix=…][&sentinel=…]`, taken apart so that what may be shown
//! has no secret in it.

use redis::{Client, IntoConnectionInfo};

use crate::error::OpenError;

const UNREADABLE: &str = "its user, password, host or port cannot be read; in user and password all but letters, digits and \
                          any of - . _ ~ is written as % and two hexadecimal digits";

#[derive(Clone)]
pub(crate) struct Address {
    scheme: &'static str,
    /// User and password as they stand in the URL, with the `@`.
    login: String,
    pub(crate) hosts: Vec<String>,
    database: String,
    /// The name of the master that Sentinels watch at these hosts.
    pub(crate) sentinel: Option<String>,
    pub(crate) prefix: Option<String>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let wrong = |reason: &str| OpenError::Url { reason: reason.to_owned() };
        let (scheme, rest) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
            (Some(rest), _) => ("redis", rest),
            (None, Some(rest)) => ("rediss", rest),
            (None, None) => return Err(wrong("it does not begin with redis:// or rediss://")),
        };
        if rest.contains('#') {
            return Err(wrong("it holds a #, which a password has to write as %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may hold an `@` or a `/` only if they are written as %40 and %2F.
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let mut address = Self {
            scheme,
            login,
            hosts: hosts.split(',').map(str::to_owned).collect(),
            database: database.trim_end_matches('/').to_owned(),
            sentinel: None,
            prefix: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("prefix", prefix)) if plain(prefix) => address.prefix = Some(prefix.to_owned()),
                Some(("sentinel", master)) if plain(master) => address.sentinel = Some(master.to_owned()),
                Some(_) | None => {
                    return Err(wrong(
                        "behind the question mark only prefix= and sentinel= may stand, each with letters, digits and any of \
                         : - _ . /",
                    ));
                }
            }
        }
        if !address.database.is_empty() && address.database.parse::<u32>().is_err() {
            return Err(wrong(
                "what stands behind the host and a / is the number of a database, 0 if there is none; a / in a password is \
                 written as %2F",
            ));
        }
        // Each of them is one that can be asked.
        for host in &address.hosts {
            if host.is_empty() {
                return Err(wrong("it names no host, or has a comma too many"));
            }
            address.client(host)?;
        }
        Ok(address)
    }

    /// How to ask this host, for the records.
    pub(crate) fn client(&self, host: &str) -> Result<Client, OpenError> {
        self.client_with(host, &self.login, &self.database)
    }

    /// How to ask a Sentinel, which knows no database and as a rule no user.
    pub(crate) fn sentinel_client(&self, host: &str, with_login: bool) -> Result<Client, OpenError> {
        self.client_with(host, if with_login { &self.login } else { "" }, "")
    }

    fn client_with(&self, host: &str, login: &str, database: &str) -> Result<Client, OpenError> {
        // The client's own words may repeat what stands there.
        let failed = |_: redis::RedisError| OpenError::Url { reason: UNREADABLE.to_owned() };
        let url = format!("{}://{login}{host}/{database}", self.scheme);
        let info = url.as_str().into_connection_info().map_err(failed)?;
        Client::open(info).map_err(failed)
    }

    pub(crate) fn has_login(&self) -> bool {
        !self.login.is_empty()
    }

    /// A cluster has only the first.
    pub(crate) fn is_first_database(&self) -> bool {
        matches!(self.database.as_str(), "" | "0")
    }

    /// What to call the store in messages.
    pub(crate) fn name(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(|host| with_port(host)).collect();
        let database = if self.database.is_empty() { "0" } else { &self.database };
        let name = format!("{}://{}/{database}", self.scheme, hosts.join(","));
        match &self.sentinel {
            None => name,
            Some(master) => format!("{name}?sentinel={master}"),
        }
    }

    /// What to call one server of several.
    pub(crate) fn name_of(&self, host: &str) -> String {
        format!("{}://{}/", self.scheme, with_port(host))
    }
}

fn with_port(host: &str) -> String {
    // The colons of an IPv6 address stand in brackets.
    let named = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if named { host.to_owned() } else { format!("{host}:6379") }
}

/// Nothing that would have to be escaped, or that a cluster reads a meaning into.
fn plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_./".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_shown_without_its_secret() {
        let one = Address::parse("redis://app:hush@cache/3?prefix=shop:").unwrap();
        assert_eq!((one.name().as_str(), one.prefix.as_deref()), ("redis://cache:6379/3", Some("shop:")));
        let cluster = Address::parse("rediss://:hush@a:7000,b:7001,[::1]:7002/").unwrap();
        assert_eq!(cluster.name(), "rediss://a:7000,b:7001,[::1]:7002/0");
        let watched = Address::parse("redis://app:hush@s1:26379,s2:26379/2?sentinel=pay&prefix=p/").unwrap();
        assert_eq!(watched.name(), "redis://s1:26379,s2:26379/2?sentinel=pay");
        assert_eq!(watched.prefix.as_deref(), Some("p/"));
        assert_eq!(one.client("other:1").unwrap().get_connection_info().redis_settings().password(), Some("hush"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_repeating_it() {
        for url in [
            "http://:hush@host/",
            "redis://:hush@",
            "redis://:hush@host/not-a-number",
            "redis://:hush@host,/0",
            "redis://:hush@host/?prefix=a{hush}",
            "redis://:hush@host/?prefix=",
            "redis://:hush@host/?sentinel=a%20hush",
            "redis://:hush@host/?hush=1",
            "redis://:x#hush@host/",
        ] {
            let refused = Address::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(!format!("{refused} {refused:?}").contains("hush"), "{refused}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("redis://host/not-a-number", "number of a database"),
            ("redis://host/-1", "number of a database"),
            ("redis://:half/other@host/0", "%2F"),
            ("redis://host,/0", "comma"),
            ("redis://:hush@/", "no host"),
            ("redis://host:port/", "port"),
        ] {
            let refused = Address::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(refused.to_string().contains(word), "{url}: {refused}");
        }
    }
}
