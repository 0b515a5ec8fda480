//! What may stand for a host.

use std::net::Ipv6Addr;

/// A name or an address, and perhaps a port (RFC 9110, 7.2). Anything else is taken apart differently by everybody who needs
/// the host of it: a path, a user, nothing at all.
pub(crate) fn is_host(text: &str) -> bool {
    let (is_name, port) = match text.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
            None => return false,
        },
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_name(name), port)
        }
    };
    is_name && is_port(port)
}

/// Nothing, or a number behind its colon; an empty one says as much as none.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        None => text.is_empty(),
        Some(digits) => {
            digits.is_empty() || (digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok())
        }
    }
}

/// The letters of a registered name (RFC 3986, 3.2.2), and at least one.
fn is_name(name: &str) -> bool {
    // As most are.
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() | (byte == b'.') | (byte == b'-');
    if !name.is_empty() && name.bytes().all(is_usual) {
        return true;
    }
    let mut rest = name.as_bytes();
    loop {
        rest = match rest {
            [] => return !name.is_empty(),
            [b'%', one, two, rest @ ..] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => rest,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for host in ["a", "A-b_c.example:80", "a:", "10.0.0.1:65535", "[::1]", "[2001:db8::1]:443", "a%20b", "a,b"] {
            assert!(is_host(host), "{host}");
        }
        for other in [
            "", ":80", "a/b", "a?b", "a#b", "u@a", "a b", "a\\b", "a:b", "a:+1", "a:1:2", "a:65536", "::1", "[::1",
            "%4",
        ] {
            assert!(!is_host(other), "{other}");
        }
        for other in ["[]", "[::1]a", "[a]", "[::1]:x", "a]", "é", "a%zz", "\"a\"", "<a>"] {
            assert!(!is_host(other), "{other}");
        }
    }
}
