/// A media type, as far as a fingerprint needs to understand it.
pub(super) struct Media {
    /// `type/subtype` in lower case.
    pub(super) essence: String,
    /// Parameters in order, names in lower case, values without quotes.
    pub(super) parameters: Vec<(String, String)>,
}

impl Media {
    /// Reads a `Content-Type` value; `None` when it is not one, and then nobody may reinterpret the body.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (essence, mut rest) = value.split_once(';').unwrap_or((value, ""));
        let essence = essence.trim().to_ascii_lowercase();
        essence.split_once('/').filter(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())?;
        let mut parameters = Vec::new();
        while !rest.trim().is_empty() {
            let (name, after) = rest.split_once('=')?;
            let (text, after) = parameter(after)?;
            parameters.push((name.trim().to_ascii_lowercase(), text));
            rest = after;
        }
        Some(Self { essence, parameters })
    }

    /// JSON by name or by suffix (RFC 6839).
    pub(super) fn is_json(&self) -> bool {
        matches!(self.essence.as_str(), "application/json" | "text/json") || self.essence.ends_with("+json")
    }

    /// The boundary of a multipart body.
    pub(super) fn boundary(&self) -> Option<&str> {
        let multipart = self.essence.starts_with("multipart/");
        let mut named = self.parameters.iter().filter(|(name, _)| name == "boundary");
        let found = named.next().filter(|_| multipart && named.next().is_none());
        found.map(|(_, boundary)| boundary.as_str())
    }

    /// The type without what says nothing about meaning: the boundary, and UTF-8, which JSON always is. Other
    /// parameters (a `version`, a `profile`) stay.
    pub(super) fn normal(&self) -> String {
        let mut text = self.essence.clone();
        for (name, value) in &self.parameters {
            let noise = name == "boundary" || (name == "charset" && value.eq_ignore_ascii_case("utf-8"));
            if !noise {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!(";{name}=\"{value}\""));
            }
        }
        text
    }
}

/// One parameter's value and what follows its semicolon.
fn parameter(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.trim_start().strip_prefix('"') else {
        let (value, rest) = text.split_once(';').unwrap_or((text, ""));
        return Some((value.trim().to_owned(), rest));
    };
    let mut value = String::new();
    let mut rest = quoted.chars();
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => value.push(rest.next()?),
            other => value.push(other),
        }
    }
    let rest = rest.as_str().trim_start();
    if rest.is_empty() { Some((value, rest)) } else { rest.strip_prefix(';').map(|rest| (value, rest)) }
}
