use std::fmt;

use super::header;
use super::key::KeyError;
use super::pointer::Pointer;
use super::template::Template;

/// Where a surface finds its key. A policy lists these in order; the first that has one is read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// A request header; its value may be bare or quoted.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A member of the JSON body. It is left out of the fingerprint, since it is the key and not the payload.
    JsonPointer(Pointer),
    /// A business key out of the input.
    Template(Template),
    /// Derived from the request itself, for callers that send none.
    Automatic,
}

/// As a policy file has it.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::JsonPointer(pointer) => write!(f, "body:{pointer}"),
            Self::Template(template) => write!(f, "template:{}", template.as_str()),
            Self::Automatic => f.write_str("automatic"),
        }
    }
}

impl KeySource {
    /// Where the `run` surface looks, in order; they have to [`agree`].
    #[must_use]
    pub fn of_run() -> [Self; 4] {
        [
            Self::Header("Idempotency-Key".to_owned()),
            Self::Header("X-Idempotency-Key".to_owned()),
            Self::Query("idempotency_key".to_owned()),
            Self::Query("idempotency-key".to_owned()),
        ]
    }
}

/// The one key that several places carry, trimmed; blank ones count as absent. The first that has it is read.
///
/// Differing values are refused, because choosing one would quietly run the other's intent under the wrong name. The
/// bare and the quoted spelling of one key do not differ.
pub fn agree<'a, 's>(
    candidates: impl IntoIterator<Item = (&'s str, Option<&'a str>)>,
) -> Result<Option<&'a str>, KeyError> {
    let mut chosen: Option<(&str, &str)> = None;
    for (source, value) in candidates {
        let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { continue };
        match chosen {
            None => chosen = Some((source, value)),
            Some((first, known)) if !same(known, value) => {
                return Err(KeyError::Disagree { first: first.to_owned(), second: source.to_owned() });
            }
            Some(_) => {}
        }
    }
    Ok(chosen.map(|(_, value)| value))
}

fn same(left: &str, right: &str) -> bool {
    let text = |spelling: &'_ str| header::unquote(spelling.as_bytes()).map(std::borrow::Cow::into_owned);
    left == right || matches!((text(left), text(right)), (Ok(left), Ok(right)) if left == right)
}
