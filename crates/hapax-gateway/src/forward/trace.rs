//! Where a request came from, as told to the upstream.

use std::{fmt::Write as _, net::IpAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use crate::{inbound::Peer, networks::Networks};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Adds our line to the trace, and believes no stranger's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwarder {
    /// Whoever connects from here may say where a request came from before.
    pub(crate) trusted: Networks,
}

impl Forwarder {
    pub(crate) fn trace(&self, headers: &mut HeaderMap, peer: Peer, host: Option<&HeaderValue>) {
        let address = peer.address.ip().to_canonical();
        let trusted = self.trusted.contain(address);
        if !trusted {
            for name in [header::FORWARDED, FOR, PROTO, HOST, PORT, REAL_IP] {
                headers.remove(name);
            }
        }
        let proto = if peer.tls { "https" } else { "http" };
        append(headers, header::FORWARDED, &forwarded(address, proto, host));
        append(headers, FOR, &address.to_string());
        // The outermost proxy knows what the client spoke.
        if !headers.contains_key(PROTO) {
            headers.insert(PROTO, HeaderValue::from_static(proto));
        }
        if let Some(host) = host.filter(|_| !headers.contains_key(HOST)) {
            headers.insert(HOST, host.clone());
        }
    }
}

fn forwarded(address: IpAddr, proto: &str, host: Option<&HeaderValue>) -> String {
    let mut line = match address {
        IpAddr::V4(address) => format!("for={address};proto={proto}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";proto={proto}"),
    };
    let plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    if let Some(host) = host.and_then(|host| host.to_str().ok()).filter(plain) {
        let _ = write!(line, ";host=\"{host}\"");
    }
    line
}

/// One more element of a list, in the same line.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let before: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    let line = if before.is_empty() {
        element.as_bytes().to_vec()
    } else {
        [before.join(&b", "[..]), element.as_bytes().to_vec()].join(&b", "[..])
    };
    if let Ok(value) = HeaderValue::from_bytes(&line) {
        headers.insert(name, value);
    }
}

/// Says that we were on the way, and what was spoken with us.
pub(crate) fn via(headers: &mut HeaderMap, version: Version) {
    let ours = if version == Version::HTTP_2 {
        "2.0 hapax"
    } else if version == Version::HTTP_10 {
        "1.0 hapax"
    } else {
        "1.1 hapax"
    };
    if headers.contains_key(header::VIA) {
        append(headers, header::VIA, ours);
    } else {
        headers.insert(header::VIA, HeaderValue::from_static(ours));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer { address: address.parse().unwrap(), tls: false }
    }

    #[test]
    fn a_stranger_cannot_say_where_it_comes_from_but_a_trusted_proxy_can() {
        let forged = || {
            let mut headers = HeaderMap::new();
            headers.insert(FOR, HeaderValue::from_static("1.2.3.4"));
            headers.insert(header::FORWARDED, HeaderValue::from_static("for=1.2.3.4"));
            headers.insert(PROTO, HeaderValue::from_static("https"));
            headers
        };
        let forwarder = Forwarder { trusted: Networks::parse(&["10.0.0.0/8"]).unwrap() };
        let host = HeaderValue::from_static("shop.example:80");
        let mut headers = forged();
        forwarder.trace(&mut headers, peer("192.0.2.7:999"), Some(&host));
        assert_eq!(headers[FOR], "192.0.2.7");
        assert_eq!(headers[PROTO], "http");
        assert_eq!(headers[header::FORWARDED], "for=192.0.2.7;proto=http;host=\"shop.example:80\"");
        let mut headers = forged();
        forwarder.trace(&mut headers, peer("10.1.1.1:999"), None);
        assert_eq!(headers[FOR], "1.2.3.4, 10.1.1.1");
        assert_eq!(headers[PROTO], "https");
        assert_eq!(headers[header::FORWARDED], "for=1.2.3.4, for=10.1.1.1;proto=http");
        let mut headers = HeaderMap::new();
        forwarder.trace(&mut headers, peer("[2001:db8::1]:1"), None);
        assert_eq!(headers[header::FORWARDED], "for=\"[2001:db8::1]\";proto=http");
    }

    #[test]
    fn via_grows_by_one() {
        let mut headers = HeaderMap::new();
        via(&mut headers, Version::HTTP_11);
        via(&mut headers, Version::HTTP_2);
        assert_eq!(headers[header::VIA], "1.1 hapax, 2.0 hapax");
    }
}
