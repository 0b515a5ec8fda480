use std::{fmt, str::FromStr};

use http::{
    HeaderValue, Uri,
    uri::{Authority, PathAndQuery},
};

/// Where an upstream is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub(crate) tls: bool,
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// What stands before every path, without a slash at its end.
    pub(crate) base: Box<str>,
    /// The `Host` by which it knows itself.
    pub(crate) name: HeaderValue,
}

/// Why a text is no upstream.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{url}` is no upstream: {rule}; write it as http://127.0.0.1:3000 or https://api.example.com/base [HX0050]")]
pub struct TargetError {
    pub url: String,
    pub rule: &'static str,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, TargetError> {
        let refused = |rule| TargetError { url: url.chars().take(200).collect(), rule };
        let uri: Uri = url.parse().map_err(|_| refused("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(refused("it has to begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| refused("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it holds a user or password, which would end in logs"));
        }
        if uri.query().is_some() {
            return Err(refused("it has a query, and every request brings its own"));
        }
        let name = HeaderValue::from_str(authority.as_str()).map_err(|_| refused("its host is not plain text"))?;
        Ok(Self {
            tls,
            host: authority.host().trim_matches(['[', ']']).into(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            base: uri.path().trim_end_matches('/').into(),
            name,
        })
    }
}

impl Target {
    pub(crate) fn authority(&self) -> Option<Authority> {
        Authority::try_from(self.name.as_bytes()).ok()
    }

    /// The request target there for a path here.
    pub(crate) fn path(&self, path: &PathAndQuery) -> Option<PathAndQuery> {
        if self.base.is_empty() {
            return Some(path.clone());
        }
        PathAndQuery::try_from(format!("{}{path}", self.base)).ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.name.to_str().unwrap_or(&self.host), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_what_is_none_is_refused_with_its_rule() {
        let target: Target = "https://api.example.com/base/".parse().unwrap();
        assert_eq!((target.tls, &*target.host, target.port, &*target.base), (true, "api.example.com", 443, "/base"));
        assert_eq!(target.path(&PathAndQuery::from_static("/v1?x=1")).unwrap(), "/base/v1?x=1");
        let target: Target = "http://[::1]:3000".parse().unwrap();
        assert_eq!((&*target.host, target.port, target.to_string().as_str()), ("::1", 3000, "http://[::1]:3000"));
        for url in ["", "127.0.0.1:3000", "ftp://a", "http://", "http://u:p@a", "http://a/?x=1", "/x"] {
            assert!(url.parse::<Target>().is_err(), "{url}");
        }
    }
}
