use serde_json::Value;

use super::canonical;
use super::fingerprint::{Fingerprint, Scheme};
use super::frame::Sink;
use super::key::Key;
use super::pointer::{Pointer, PointerError};
use super::printer::Printer;
use super::recipes::native;
use super::selection::Selection;

/// Why a tool's declaration or a call's arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntentError {
    /// Without identity every call of the tool would be the same call.
    #[error("tool `{tool}` declares no identity argument, so all its calls would be one; declare at least one")]
    NoIdentity { tool: String },
    /// One argument cannot have two roles.
    #[error("arguments `{outer}` and `{inner}` overlap; give a role to one of them only")]
    Overlap { outer: String, inner: String },
    /// The whole of the arguments cannot have a role.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// The call lacks what names it. Nothing is put in its place.
    #[error(
        "the call of `{tool}` has no usable `{argument}`, which identifies it; send a value that is not null or empty"
    )]
    MissingIdentity { tool: String, argument: String },
    /// The arguments have no one reading.
    #[error(
        "the arguments of `{tool}` are not JSON that all readers read alike; send an object without duplicate members"
    )]
    Unreadable { tool: String },
}

/// What an argument means for duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Names the intent: forms the key.
    Identity,
    /// Changes what happens: fingerprinted, so the same key with another value is a mismatch.
    Effect,
    /// Only tells about it: ignored, since a model may reword it on a retry.
    Narrative,
}

/// A tool's declaration of what its arguments mean. Arguments it does not mention are [`Role::Effect`]: the mistake is
/// then a refused retry, never a second effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intent {
    tool: String,
    identity: Vec<Pointer>,
    guarded: Selection,
}

/// A call, seen by its intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Made of the identity arguments and the tool's name.
    pub key: Key,
    /// Made of the effect arguments.
    pub fingerprint: Fingerprint,
}

impl Intent {
    /// Checks a declaration, once, when the tool is registered.
    pub fn new(tool: &str, roles: impl IntoIterator<Item = (Pointer, Role)>) -> Result<Self, IntentError> {
        let roles: Vec<(Pointer, Role)> = roles.into_iter().collect();
        for (index, (pointer, _)) in roles.iter().enumerate() {
            for (other, _) in roles.iter().skip(index + 1) {
                let (outer, inner) = if pointer.covers(other) { (pointer, other) } else { (other, pointer) };
                if outer.covers(inner) {
                    return Err(IntentError::Overlap { outer: outer.to_string(), inner: inner.to_string() });
                }
            }
        }
        let of =
            |wanted: Role| roles.iter().filter(move |(_, role)| *role == wanted).map(|(pointer, _)| pointer.clone());
        let guarded = Selection::all().ignore(of(Role::Identity).chain(of(Role::Narrative)))?;
        let mut identity: Vec<Pointer> = of(Role::Identity).collect();
        identity.sort();
        if identity.is_empty() {
            return Err(IntentError::NoIdentity { tool: tool.to_owned() });
        }
        Ok(Self { tool: tool.to_owned(), identity, guarded })
    }

    /// Reads a call's arguments as they came; numbers too big for a double keep their text.
    pub fn call(&self, arguments: &[u8], printer: &Printer) -> Result<Call, IntentError> {
        let unreadable = || IntentError::Unreadable { tool: self.tool.clone() };
        let values = canonical::values(arguments, &self.identity).ok_or_else(unreadable)?;
        let mut fields: Vec<(&str, &[u8])> = vec![("tool", self.tool.as_bytes())];
        for (pointer, value) in self.identity.iter().zip(&values) {
            let usable = value.as_deref().filter(|text| ![&b"null"[..], b"\"\""].contains(text));
            let value = usable.ok_or_else(|| IntentError::MissingIdentity {
                tool: self.tool.clone(),
                argument: pointer.to_string(),
            })?;
            fields.push((pointer.as_str(), value));
        }
        let key = native::named("intent", 1, &fields);
        let guarded = canonical::selected_to_vec(arguments, &self.guarded).ok_or_else(unreadable)?;
        let fingerprint = printer.print(Scheme::CANONICAL_V1, |hash| hash.pour(&guarded));
        Ok(Call { key, fingerprint })
    }

    /// As [`call`](Self::call), for arguments that are already a value.
    pub fn call_value(&self, arguments: &Value, printer: &Printer) -> Result<Call, IntentError> {
        self.call(arguments.to_string().as_bytes(), printer)
    }
}
