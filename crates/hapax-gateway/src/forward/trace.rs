//! Where a request came from, as told to the upstream.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use super::hop::{remove_all, strip_request};
use crate::{inbound::Peer, networks::Networks};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// What only those who are trusted say of a request.
static OF_THE_TRUSTED: [HeaderName; 6] = [header::FORWARDED, FOR, PROTO, HOST, PORT, REAL_IP];

/// Adds our line to the trace, and believes no stranger's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwarder {
    /// Whoever connects from here may say where a request came from before.
    pub(crate) trusted: Networks,
    /// The headers that tell whose a request is and which one, by this setup's own choice.
    pub(crate) telling: Arc<[HeaderName]>,
}

impl Forwarder {
    /// Leaves of a head what is meant for the upstream.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        strip_request(headers, &self.telling);
    }

    pub(crate) fn trace(&self, headers: &mut HeaderMap, peer: Peer, host: Option<&HeaderValue>) {
        let address = peer.address.ip().to_canonical();
        let trusted = self.trusted.contain(address);
        if !trusted {
            remove_all(headers, &OF_THE_TRUSTED);
        }
        let proto = if peer.tls { "https" } else { "http" };
        let (line, said) = forwarded(address, proto, host);
        append(headers, FOR, line.slice(said));
        append(headers, header::FORWARDED, line);
        // The outermost proxy knows what the client spoke.
        if !headers.contains_key(PROTO) {
            headers.insert(PROTO, HeaderValue::from_static(proto));
        }
        if let Some(host) = host.filter(|_| !headers.contains_key(HOST)) {
            headers.insert(HOST, host.clone());
        }
    }
}

/// The line, and where in it the address stands.
fn forwarded(address: IpAddr, proto: &str, host: Option<&HeaderValue>) -> (Bytes, Range<usize>) {
    // Of an address of version 6 the longest text, and what stands around it and the host.
    const AROUND: usize = 96;
    let plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let host = host.and_then(|host| host.to_str().ok()).filter(plain);
    let mut line = String::with_capacity(AROUND + host.map_or(0, str::len));
    line.push_str("for=");
    let said = match address {
        IpAddr::V4(address) => {
            let from = line.len();
            push_v4(&mut line, address);
            from..line.len()
        }
        IpAddr::V6(address) => {
            let _infallible = write!(line, "\"[{address}]\"");
            "for=\"[".len()..line.len() - "]\"".len()
        }
    };
    line.push_str(";proto=");
    line.push_str(proto);
    if let Some(host) = host {
        line.push_str(";host=\"");
        line.push_str(host);
        line.push('"');
    }
    (line.into(), said)
}

/// As it shows itself, without what can show anything in any format: each request says it.
fn push_v4(line: &mut String, address: Ipv4Addr) {
    let digit = |number: u8| char::from(b'0' + number % 10);
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            line.push('.');
        }
        if octet >= 100 {
            line.push(digit(octet / 100));
        }
        if octet >= 10 {
            line.push(digit(octet / 10));
        }
        line.push(digit(octet));
    }
}

/// One more element of a list, in the same line.
fn append(headers: &mut HeaderMap, name: HeaderName, element: Bytes) {
    let element = if headers.contains_key(&name) {
        let mut line: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        line.push(&element);
        line.join(&b", "[..]).into()
    } else {
        element
    };
    if let Ok(value) = HeaderValue::from_maybe_shared(element) {
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
        append(headers, header::VIA, Bytes::from_static(ours.as_bytes()));
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
        let forwarder = Forwarder { trusted: Networks::parse(&["10.0.0.0/8"]).unwrap(), ..Forwarder::default() };
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
    fn an_address_is_said_as_it_shows_itself() {
        for number in (0..=255).map(|octet| octet * 0x0101_0101).chain([
            256,
            9_999,
            0x0a64_0909,
            0x7f00_0001,
            0xc0a8_0164,
            u32::MAX,
        ]) {
            let address = Ipv4Addr::from(number);
            let mut line = String::new();
            push_v4(&mut line, address);
            assert_eq!(line, address.to_string());
        }
        let mut headers = HeaderMap::new();
        Forwarder::default().trace(&mut headers, peer("[::ffff:192.0.2.7]:1"), None);
        assert_eq!(headers[FOR], "192.0.2.7");
        assert_eq!(headers[header::FORWARDED], "for=192.0.2.7;proto=http");
        headers.clear();
        Forwarder::default().trace(&mut headers, peer("[2001:db8::1]:1"), Some(&HeaderValue::from_static("a b")));
        assert_eq!(headers[FOR], "2001:db8::1");
        assert_eq!(headers[header::FORWARDED], "for=\"[2001:db8::1]\";proto=http");
        // Behind what a trusted one has said, in as many lines as it likes.
        headers.append(FOR, HeaderValue::from_static("1.2.3.4"));
        let forwarder = Forwarder { trusted: Networks::parse(&["2001:db8::/32"]).unwrap(), ..Forwarder::default() };
        forwarder.trace(&mut headers, peer("[2001:db8::2]:1"), None);
        assert_eq!(headers[FOR], "2001:db8::1, 1.2.3.4, 2001:db8::2");
        let both = "for=\"[2001:db8::1]\";proto=http, for=\"[2001:db8::2]\";proto=http";
        assert_eq!(headers[header::FORWARDED], both);
    }

    #[test]
    fn via_grows_by_one() {
        let mut headers = HeaderMap::new();
        via(&mut headers, Version::HTTP_11);
        via(&mut headers, Version::HTTP_2);
        assert_eq!(headers[header::VIA], "1.1 hapax, 2.0 hapax");
    }
}
