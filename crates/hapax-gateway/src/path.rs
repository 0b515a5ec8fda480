//! Paths that mean another path.

use std::borrow::Cow;

/// Whether a path has segments that somebody after us may resolve: `/./`, `/../`, also written with escapes, or a
/// backslash. Such a path would be matched here as one thing and served there as another.
pub(crate) fn is_devious(path: &str) -> bool {
    if !path.bytes().any(|byte| matches!(byte, b'.' | b'%' | b'\\')) {
        return false;
    }
    path.contains('\\')
        || path.split('/').any(|segment| {
            let mut rest = segment;
            let mut dots = 0;
            loop {
                if let Some(after) = rest.strip_prefix('.') {
                    rest = after;
                } else if let Some(after) = rest.get(..3).filter(|escape| escape.eq_ignore_ascii_case("%2e")) {
                    rest = rest.get(after.len()..).unwrap_or_default();
                } else {
                    break;
                }
                dots += 1;
            }
            rest.is_empty() && (dots == 1 || dots == 2)
        })
        || escapes_a_separator(path)
}

fn escapes_a_separator(path: &str) -> bool {
    path.as_bytes()
        .windows(3)
        .any(|escape| escape.eq_ignore_ascii_case(b"%2f") || escape.eq_ignore_ascii_case(b"%5c") || escape == b"%00")
}

/// A path as routes look at it: escapes of letters, digits and `-._~` are what they stand for, slashes side by side are one, and one at
/// the end is none. Most services serve all these spellings alike, so a route that guards one of them guards all.
pub(crate) fn as_routed(path: &str) -> Cow<'_, str> {
    let odd = path.contains('%') || path.contains("//") || (path.len() > 1 && path.ends_with('/'));
    if !odd {
        return Cow::Borrowed(path);
    }
    let mut routed = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let escaped = rest.get(1..3).filter(|_| first == '%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.map(char::from) {
            Some(plain) if plain.is_ascii_alphanumeric() || matches!(plain, '-' | '.' | '_' | '~') => {
                routed.push(plain);
                rest = rest.get(3..).unwrap_or_default();
            }
            Some(_) | None => {
                if first != '/' || !routed.ends_with('/') {
                    routed.push(first);
                }
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    if routed.len() > 1 && routed.ends_with('/') {
        routed.pop();
    }
    Cow::Owned(routed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_are_one_route() {
        for path in ["/v1/pay", "/v1/%70ay", "//v1/pay", "/v1//pay/", "/v1/p%61%79", "/v1/pay//"] {
            assert_eq!(as_routed(path), "/v1/pay", "{path}");
        }
        for path in ["/", "/a%20b", "/%25", "/50%", "/%zz", "/%2", "/é", "/a%C3%A9"] {
            assert_eq!(as_routed(path), path);
        }
        assert_eq!(as_routed("//"), "/");
        assert_eq!(as_routed("/%2570ay"), "/%2570ay", "once, not twice");
    }

    #[test]
    fn paths_that_walk_are_found() {
        for path in ["/a/../b", "/..", "/a/.", "/a/%2e%2E/b", "/a/.%2e/b", "/a%2fb", "/a\\b", "/%5c", "/a%00"] {
            assert!(is_devious(path), "{path}");
        }
        for path in ["/", "/a.b", "/a/...", "/.well-known/x", "/a/..b", "/50%25", "/é"] {
            assert!(!is_devious(path), "{path}");
        }
    }
}
