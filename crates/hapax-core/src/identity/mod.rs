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
mod key;
mod pointer;
mod recipe;
pub mod recipes;
mod scope;
mod secret;
mod selection;
mod source;
mod surface;
mod tag;
mod template;

pub use fingerprint::{Fingerprint, Scheme};
pub use grammar::Grammar;
pub use id::Id;
pub use key::{Key, KeyError};
pub use pointer::{Pointer, PointerError};
pub use recipe::{Field, Recipe, RecipeError};
pub use scope::{Scope, ScopeError, Tenant};
pub use secret::{Secret, SecretError};
pub use selection::Selection;
pub use source::{KeySource, agree};
pub use surface::Surface;
pub use tag::Tag;
pub use template::{Template, TemplateError};
