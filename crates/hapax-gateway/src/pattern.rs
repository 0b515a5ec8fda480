//! Which requests a route is for.

use http::Method;

/// A method and a path with parameters: `POST /v1/charges/{id}`, `* /hooks/{rest...}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// None: any.
    method: Option<Method>,
    template: Box<str>,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Plain(Box<str>),
    /// One segment.
    Named(Box<str>),
    /// All that is left, also nothing.
    Rest(Box<str>),
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a method and a path, such as \"POST /v1/charges/{id}\" or \"* /hooks/{rest...}\"";
        let (method, path) = text.split_once(' ').ok_or_else(|| format!("a pattern has two words; {FORM}"))?;
        let method = match method {
            "*" => None,
            name if name.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                Some(Method::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no method; {FORM}"))?)
            }
            name => return Err(format!("`{name}` is no method, which is written in capitals; {FORM}")),
        };
        let inner = path.strip_prefix('/').ok_or_else(|| format!("a path begins with a slash; {FORM}"))?;
        let mut parts = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for segment in inner.split('/') {
            if matches!(parts.last(), Some(Part::Rest(_))) {
                return Err("`{name...}` takes all that is left, so nothing can come after it".to_owned());
            }
            let part = part(segment)?;
            if let Part::Named(name) | Part::Rest(name) = &part
                && names.contains(&&**name)
            {
                return Err(format!("the parameter `{name}` is there twice; give each its own name"));
            }
            names.extend(segment.strip_prefix('{').map(|name| name.trim_end_matches('}').trim_end_matches("...")));
            parts.push(part);
        }
        Ok(Self { method, template: path.into(), parts })
    }

    /// The path as it was written, which names the endpoint.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The parameters, if the request is of this pattern.
    pub(crate) fn matched<'p>(&self, method: &Method, path: &'p str) -> Option<Vec<(&str, &'p str)>> {
        if self.method.as_ref().is_some_and(|wanted| wanted != method) {
            return None;
        }
        let mut left = path.strip_prefix('/');
        let mut found = Vec::new();
        for part in &self.parts {
            if let Part::Rest(name) = part {
                found.push((&**name, left.unwrap_or_default()));
                return Some(found);
            }
            let path = left?;
            let (segment, after) = match path.split_once('/') {
                Some((segment, after)) => (segment, Some(after)),
                None => (path, None),
            };
            match part {
                Part::Plain(text) if **text == *segment => {}
                Part::Named(name) if !segment.is_empty() => found.push((name, segment)),
                Part::Plain(_) | Part::Named(_) | Part::Rest(_) => return None,
            }
            left = after;
        }
        left.is_none().then_some(found)
    }
}

fn part(segment: &str) -> Result<Part, String> {
    let Some(name) = segment.strip_prefix('{') else {
        if segment.contains(['{', '}', '?', '#', ' ', '*']) {
            return Err(format!("`{segment}` mixes text and signs; a segment is plain, `{{name}}` or `{{name...}}`"));
        }
        return Ok(Part::Plain(segment.into()));
    };
    let name = name.strip_suffix('}').ok_or_else(|| format!("`{segment}` lacks its closing brace"))?;
    let (name, rest) = name.strip_suffix("...").map_or((name, false), |name| (name, true));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("`{segment}` needs a name of letters, digits and underscores"));
    }
    Ok(if rest { Part::Rest(name.into()) } else { Part::Named(name.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let pattern = Pattern::parse("POST /v1/charges/{id}/refund").unwrap();
        assert_eq!(pattern.matched(&Method::POST, "/v1/charges/7/refund"), Some(vec![("id", "7")]));
        for path in ["/v1/charges/7", "/v1/charges/7/refund/", "/v1/charges//refund", "/v1/charges/7/8/refund", "/"] {
            assert_eq!(pattern.matched(&Method::POST, path), None, "{path}");
        }
        assert_eq!(pattern.matched(&Method::PUT, "/v1/charges/7/refund"), None);
        let rest = Pattern::parse("* /hooks/{rest...}").unwrap();
        assert_eq!(rest.matched(&Method::PUT, "/hooks/a/b"), Some(vec![("rest", "a/b")]));
        assert_eq!(rest.matched(&Method::PUT, "/hooks"), Some(vec![("rest", "")]));
        assert_eq!(rest.matched(&Method::PUT, "/hookss"), None);
        assert_eq!(Pattern::parse("* /").unwrap().matched(&Method::GET, "/"), Some(vec![]));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "/v1",
            "POST v1",
            "post /v1",
            "POST /{",
            "POST /{a}b",
            "POST /{a-b}",
            "POST /{a...}/b",
            "POST /{a}/{a}",
            "P@ /",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
