//! Who is asking. The tenant comes from here and from nowhere else.

mod file;
mod identity;
mod keys;
mod tenant;

pub use file::KeyFile;
pub use identity::{Capability, Identity, Role};
pub use keys::{ApiKey, KeyError, Keys, generate_key, hash_key};
pub(crate) use tenant::{Reader, TenantState};

/// How callers show who they are.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Everybody is the tenant `default`. Only on loopback.
    None,
    Keys(Keys),
}
