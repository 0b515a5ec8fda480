//! Paths that mean another path.

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

#[cfg(test)]
mod tests {
    use super::*;

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
