//! `nats://[user:password@]host[:port][,host…]/[bucket][?replicas=N]`, taken apart so that what may be shown has no
//! secret in it.

use crate::error::OpenError;

#[derive(Clone)]
pub(crate) struct Address {
    /// Without user and password.
    pub(crate) servers: Vec<String>,
    pub(crate) login: Option<Login>,
    pub(crate) bucket: String,
    pub(crate) replicas: usize,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Token(String),
    User(String, String),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let wrong = |reason: &'static str| OpenError::Url { reason };
        let rest = url.strip_prefix("nats://").ok_or_else(|| wrong("it does not begin with nats://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may hold an `@` or a `/` only if they are written as %40 and %2F.
        let (hosts, bucket) = rest.split_once('/').unwrap_or((rest, ""));
        let mut login = None;
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            let (user, host) = host.rsplit_once('@').map_or((None, host), |(user, host)| (Some(user), host));
            if let Some(user) = user {
                login = Some(Login::parse(user).ok_or_else(|| wrong("its user or password cannot be read"))?);
            }
            servers.push(with_port(host).ok_or_else(|| wrong("it names no host, or a port that is none"))?);
        }
        let mut replicas = 1;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let number = pair.strip_prefix("replicas=").and_then(|number| number.parse().ok());
            replicas = number
                .filter(|number| (1..=5).contains(number))
                .ok_or_else(|| wrong("behind the question mark only replicas=1 to 5 may stand"))?;
        }
        let bucket = if bucket.is_empty() { "hapax" } else { bucket };
        Ok(Self { servers, login, bucket: named(bucket)?, replicas })
    }

    /// What to call the store in messages.
    pub(crate) fn name(&self) -> String {
        format!("nats://{}/{}", self.servers.join(","), self.bucket)
    }
}

/// NATS allows these in the name of a bucket.
pub(crate) fn named(bucket: &str) -> Result<String, OpenError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if bucket.is_empty() || bucket.len() > 100 || !bucket.bytes().all(plain) {
        return Err(OpenError::Url { reason: "its bucket is not 1 to 100 letters, digits, - or _" });
    }
    Ok(bucket.to_owned())
}

fn with_port(host: &str) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        // The colons of an IPv6 address stand inside brackets.
        Some((name, port)) if !port.ends_with(']') => (name, port.parse::<u16>().ok().filter(|port| *port > 0)?),
        Some(_) | None => (host, 4222),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    (!name.is_empty() && name.bytes().all(plain)).then(|| format!("{name}:{port}"))
}

impl Login {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some((user, password)) => Some(Self::User(unescaped(user)?, unescaped(password)?)),
            None => Some(Self::Token(unescaped(text)?)),
        }
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_its_name_has_no_secret() {
        let address = Address::parse("nats://me:pa%40ss@a,b:99/orders?replicas=3").unwrap();
        assert_eq!(address.name(), "nats://a:4222,b:99/orders");
        assert!(address.login == Some(Login::User("me".into(), "pa@ss".into())));
        assert_eq!((address.bucket.as_str(), address.replicas), ("orders", 3));
        let address = Address::parse("nats://token@[::1]").unwrap();
        assert_eq!(address.name(), "nats://[::1]:4222/hapax");
        assert!(address.login == Some(Login::Token("token".into())));
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none_without_repeating_it() {
        for url in [
            "nats://",
            "nats:///b",
            "http://hunter2@h/",
            "nats://:hunter2@h:0/",
            "nats://hunter2@h/b.c",
            "nats://hunter2@h/b?storage=memory",
            "nats://hunter2@h/b?replicas=9",
            "nats://u:%zzhunter2@h",
            "nats://u:hunter2@h h",
            "",
        ] {
            let said = Address::parse(url).err().unwrap().to_string();
            assert!(said.contains("HX0100") && !said.contains("hunter2"), "{said}");
        }
    }
}
