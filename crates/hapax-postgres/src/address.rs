//! What of a URL is ours: `?schema=…` and `?listen=HOST[:PORT]`. The rest is the driver's to read.

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
        let Some((scheme, rest)) = url.split_once("://") else {
            // Settings in the form `host=… dbname=…` hold none of ours.
            return Ok(Self { url: url.to_owned(), ..Self::default() });
        };
        // The driver reads a password up to the first `@`, whatever it holds.
        let (login, rest) = match rest.split_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let wrong = |reason: &str| OpenError::Url { reason: reason.to_owned() };
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
            Address::parse("postgres://app:x?y@pool:6432/shop?schema=pay&sslmode=require&listen=db:5432").unwrap();
        assert_eq!(own.url, "postgres://app:x?y@pool:6432/shop?sslmode=require");
        assert_eq!(own.schema.as_deref(), Some("pay"));
        assert_eq!(own.listen_url.as_deref(), Some("postgres://app:x?y@db:5432/shop?sslmode=require"));
        for untouched in
            ["postgres://app@db/shop", "postgresql://a:1,b:2/shop?target_session_attrs=read-write", "host=db"]
        {
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
        ] {
            let refused = Address::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(!format!("{refused} {refused:?}").contains("hush"), "{refused}");
        }
    }
}
