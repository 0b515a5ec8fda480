//! Who is asking for what: scopes, keys, recipes and fingerprints.
//!
//! Everything here is a pure function from labelled fields to bytes. Nothing is joined with a separator unless a
//! compatibility recipe demands exactly that, so two different tuples never meet in one id.

pub mod canonical;
mod fingerprint;
mod frame;
mod grammar;
mod header;
mod id;
mod intent;
mod key;
mod media;
mod multipart;
mod pointer;
mod printer;
mod recipe;
pub mod recipes;
mod request;
mod scope;
mod secret;
mod selection;
mod source;
mod surface;
mod tag;
mod template;
mod tuple;

pub use fingerprint::{Fingerprint, Scheme};
pub use grammar::Grammar;
pub use id::Id;
pub use intent::{Call, Intent, IntentError, Role};
pub use key::{Key, KeyError};
pub use pointer::{Pointer, PointerError};
pub use printer::Printer;
pub use recipe::{Field, Recipe, RecipeError};
pub use request::RequestPrint;
pub use scope::{Scope, ScopeError, Tenant};
pub use secret::{Secret, SecretError};
pub use selection::Selection;
pub use source::{KeySource, agree};
pub use surface::Surface;
pub use tag::Tag;
pub use template::{Template, TemplateError};
pub use tuple::{Dependencies, DuplicateLabel, Part, TurnInput};
