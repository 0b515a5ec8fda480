//! Who is asking. The tenant comes from here and from nowhere else.

mod file;
mod identity;
mod keys;
mod tenant;

pub use file::KeyFile;
pub use identity::{Capability, Identity, Role};
pub use keys::{ApiKey, KeyError, Keys, generate_key, hash_key};
pub(crate) use tenant::{Reader, TenantState, Waits};

/// How callers show who they are.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Everybody is the tenant `default`. Only on loopback.
    None,
    Keys(Keys),
}

impl Auth {
    /// Whether somebody who came in with this is still who they were.
    pub(crate) fn holds(&self, identity: &Identity) -> bool {
        match self {
            Self::None => identity.digest.is_none(),
            Self::Keys(keys) => keys.holds(identity),
        }
    }

    /// What changes with `next`, for the audit log: names and hashes' beginnings, never a key.
    pub(crate) fn changes(&self, next: &Self) -> Changes {
        let (before, after) = (self.identities(), next.identities());
        let without = |some: &[&Identity], others: &Self| -> Vec<String> {
            some.iter().filter(|identity| !others.holds(identity)).map(|identity| line(identity)).collect()
        };
        Changes { added: without(&after, self), removed: without(&before, next) }
    }

    fn identities(&self) -> Vec<&Identity> {
        match self {
            Self::None => Vec::new(),
            Self::Keys(keys) => keys.named(),
        }
    }
}

/// One line for each key that came or went; one whose rights changed did both.
#[derive(Debug)]
pub(crate) struct Changes {
    added: Vec<String>,
    removed: Vec<String>,
}

impl Changes {
    /// So many lines of each kind fit into a row; the counts are of all.
    const MOST: usize = 64;

    pub(crate) fn detail(&self) -> serde_json::Value {
        let some = |lines: &[String]| lines.iter().take(Self::MOST).cloned().collect::<Vec<_>>();
        serde_json::json!({
            "added": some(&self.added), "added_count": self.added.len(),
            "removed": some(&self.removed), "removed_count": self.removed.len(),
        })
    }
}

fn line(identity: &Identity) -> String {
    let short = |text: &str| text.chars().take(80).collect::<String>();
    let mut can: Vec<&str> = identity.capabilities.iter().map(|capability| capability.name()).collect();
    // What a role brings is said by the rest of the line; a row has to hold many of them.
    let of_a_role = Role::ALL.into_iter().any(|role| crate::a2a::Grants::of_role(role) == identity.a2a);
    let in_the_queue: String =
        if of_a_role { String::new() } else { identity.a2a.names().join(" ").chars().take(120).collect() };
    can.extend((!in_the_queue.is_empty()).then_some(in_the_queue.as_str()));
    let hash = identity.digest.map(|digest| data_encoding::HEXLOWER.encode(&digest[..4])).unwrap_or_default();
    let on = identity.surfaces.as_ref().map(|surfaces| format!(" on {}", short(&surfaces.join(" "))));
    let (home, name) = (short(identity.home.as_str()), short(&identity.name));
    format!("{home}/{name}: {}{}, sha256:{hash}…", can.join(" "), on.unwrap_or_default())
}
