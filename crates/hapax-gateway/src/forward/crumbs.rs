//! Cookies that come in crumbs.

use http::{HeaderMap, HeaderValue, Version, header};

/// HTTP/2 may send each pair of a `Cookie` in a field of its own. Whoever is not on that connection is sent one field, or
/// takes the first for all of them (RFC 9113, 8.2.3).
pub(crate) fn join_crumbs(headers: &mut HeaderMap, version: Version) {
    if version != Version::HTTP_2 {
        return;
    }
    let crumbs: Vec<&HeaderValue> = headers.get_all(header::COOKIE).iter().collect();
    if crumbs.len() < 2 {
        return;
    }
    let secret = crumbs.iter().any(|crumb| crumb.is_sensitive());
    let line = crumbs.iter().map(|crumb| crumb.as_bytes()).collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(mut cookie) = HeaderValue::try_from(line) {
        cookie.set_sensitive(secret);
        headers.insert(header::COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crumbs() -> HeaderMap {
        let mut headers = HeaderMap::new();
        for crumb in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(header::COOKIE, HeaderValue::from_static(crumb));
        }
        headers
    }

    #[test]
    fn crumbs_become_one_cookie_where_they_are_allowed() {
        let mut headers = crumbs();
        join_crumbs(&mut headers, Version::HTTP_2);
        assert_eq!(headers.get_all(header::COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3; d=4"]);
        let mut headers = crumbs();
        join_crumbs(&mut headers, Version::HTTP_11);
        assert_eq!(headers, crumbs(), "elsewhere several are what their sender meant");
    }
}
