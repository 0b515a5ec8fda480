//! API keys, hashed at rest.
//!
//! A key is 32 random bytes, so a plain SHA-256 of it tells a reader of the file nothing that could be tried through;
//! the slow hashes that passwords need would only make every request slow.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use hapax_core::identity::Tenant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::a2a::Grants;

use super::{
    identity::{Capability, Identity, Role},
    tenant::TenantState,
};

/// Why a key file is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    #[error("the key file is not as it should be: {0} [HX0081]")]
    Toml(String),
    #[error("key `{name}`: {rule} [HX0081]")]
    Entry { name: String, rule: String },
    #[error("the key file {path} cannot be changed: {why} [HX0081]")]
    File { path: PathBuf, why: String },
    #[error("the machine has no randomness to give: {0}")]
    Entropy(String),
}

/// One entry of the key file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// What it is called in logs and audit rows.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// `sha256:` and 64 hexadecimal digits; made by `hapax key new`.
    #[schemars(regex(pattern = r"^sha256:[0-9a-fA-F]{64}$"))]
    pub hash: String,
    pub tenant: String,
    /// Who acts with it; its name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Only these surfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surfaces: Option<Vec<String>>,
    /// Requests a second of its whole tenant; the first entry of a tenant that names one decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) key: Vec<ApiKey>,
}

#[derive(Clone, Debug)]
struct Known {
    digest: [u8; 32],
    identity: Arc<Identity>,
}

/// All keys, by the first bytes of their hash.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    known: HashMap<[u8; 8], Vec<Known>>,
    tenants: HashMap<Tenant, Arc<TenantState>>,
    rates: HashMap<String, u32>,
}

const MOST_KEYS: usize = 100_000;
/// A name stands in logs, lists and audit rows.
const MOST_NAME: usize = 255;
const MOST_LISTED: usize = 64;

/// Whether its texts can be shown and written down wherever a key is named.
fn bounded(entry: &ApiKey) -> Result<(), String> {
    let fits = |text: &str| !text.trim().is_empty() && text.len() <= MOST_NAME && !text.chars().any(char::is_control);
    let texts = [("name", Some(&entry.name)), ("principal", entry.principal.as_ref())];
    if let Some((place, _)) = texts.into_iter().find(|(_, text)| text.is_some_and(|text| !fits(text))) {
        return Err(format!("`{place}` has from 1 to {MOST_NAME} bytes, and no control characters"));
    }
    let surfaces = entry.surfaces.as_deref().unwrap_or_default();
    for (place, list) in [("roles", &entry.roles[..]), ("capabilities", &entry.capabilities), ("surfaces", surfaces)] {
        if list.len() > MOST_LISTED || !list.iter().all(|text| fits(text)) {
            return Err(format!("`{place}` has at most {MOST_LISTED} entries, each of 1 to {MOST_NAME} bytes"));
        }
    }
    Ok(())
}

impl Keys {
    pub fn from_toml(text: &str) -> Result<Self, KeyError> {
        let file: File = toml::from_str(text).map_err(|error| KeyError::Toml(error.message().to_owned()))?;
        Self::of(file.key)
    }

    pub fn of(entries: Vec<ApiKey>) -> Result<Self, KeyError> {
        let mut keys = Self::default();
        if entries.len() > MOST_KEYS {
            return Err(KeyError::Toml(format!("it holds more than {MOST_KEYS} keys")));
        }
        let mut rates: HashMap<String, u32> = HashMap::new();
        let mut names: HashSet<String> = HashSet::new();
        for entry in &entries {
            if let Some(rate) = entry.rate {
                rates.entry(entry.tenant.clone()).or_insert(rate);
            }
        }
        for entry in entries {
            let wrong = |rule: String| KeyError::Entry { name: entry.name.clone(), rule };
            bounded(&entry).map_err(wrong)?;
            let digest = digest_of(&entry.hash).ok_or_else(|| {
                wrong("`hash` is `sha256:` and 64 hexadecimal digits; `hapax key new` makes one".to_owned())
            })?;
            let tenant = Tenant::new(&entry.tenant).map_err(|error| wrong(error.to_string()))?;
            if !names.insert(entry.name.clone()) {
                let rule =
                    "another entry has the same name; audit rows and `hapax key revoke` could not tell them apart";
                return Err(wrong(rule.to_owned()));
            }
            let state = keys
                .tenants
                .entry(tenant.clone())
                .or_insert_with(|| Arc::new(TenantState::new(rates.get(&entry.tenant).copied())));
            let identity = Arc::new(Identity {
                home: tenant.clone(),
                digest: Some(digest),
                tenant,
                principal: entry.principal.as_deref().unwrap_or(&entry.name).into(),
                name: entry.name.as_str().into(),
                capabilities: capabilities(&entry).map_err(wrong)?,
                a2a: grants(&entry),
                surfaces: entry.surfaces.clone(),
                state: Arc::clone(state),
            });
            let bucket = keys.known.entry(head(&digest)).or_default();
            if bucket.iter().any(|known| known.digest == digest) {
                return Err(wrong("another entry has the same hash; give each client a key of its own".to_owned()));
            }
            bucket.push(Known { digest, identity });
        }
        keys.rates = rates;
        Ok(keys)
    }

    /// Counts on from where the earlier keys were: a change of keys gives nobody room that somebody still takes.
    pub(crate) fn go_on_from(&mut self, earlier: &Self) {
        for (tenant, state) in &mut self.tenants {
            if let Some(before) = earlier.tenants.get(tenant) {
                before.set_rate(self.rates.get(tenant.as_str()).copied());
                *state = Arc::clone(before);
            }
        }
        for known in self.known.values_mut().flatten() {
            if let Some(state) = self.tenants.get(&known.identity.home) {
                Arc::make_mut(&mut known.identity).state = Arc::clone(state);
            }
        }
    }

    /// Whose key this is.
    #[must_use]
    pub fn find(&self, presented: &[u8]) -> Option<Arc<Identity>> {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let bucket = self.known.get(&head(&digest))?;
        // What is looked up is a hash, which nobody can steer; the rest is compared in constant time all the same.
        let mut found = None;
        for known in bucket {
            if bool::from(known.digest.ct_eq(&digest)) {
                found = Some(Arc::clone(&known.identity));
            }
        }
        found
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether this key is still here, with the rights that it had.
    pub(crate) fn holds(&self, identity: &Identity) -> bool {
        let Some(digest) = identity.digest else { return false };
        let bucket = self.known.get(&head(&digest)).map_or(&[][..], Vec::as_slice);
        bucket.iter().any(|known| known.identity.is_as(identity))
    }

    /// Every key's name and whose it is, in the order of the names.
    pub(crate) fn named(&self) -> Vec<&Identity> {
        let mut all: Vec<&Identity> = self.known.values().flatten().map(|known| &*known.identity).collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        all
    }

    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&Tenant, &Arc<TenantState>)> {
        self.tenants.iter()
    }
}

fn capabilities(entry: &ApiKey) -> Result<Vec<Capability>, String> {
    let mut all = Vec::new();
    for name in &entry.roles {
        let role = Role::parse(name)
            .ok_or_else(|| format!("there is no role `{name}`; use reader, client, operator or admin"))?;
        all.extend_from_slice(role.capabilities());
    }
    for name in &entry.capabilities {
        if Grants::parse(name).is_some() {
            continue;
        }
        let capability = Capability::parse(name).ok_or_else(|| {
            format!("there is no capability `{name}`; use operate, read, resolve, metrics, admin or a2a.…")
        })?;
        all.push(capability);
    }
    all.sort_unstable();
    all.dedup();
    if all.is_empty() && grants(entry).is_empty() {
        return Err("it may do nothing; give it `roles`, for instance [\"client\"]".to_owned());
    }
    Ok(all)
}

/// What it may do in the queue: what its roles bring, and what is named.
fn grants(entry: &ApiKey) -> Grants {
    let mut all = Grants::default();
    for role in entry.roles.iter().filter_map(|name| Role::parse(name)) {
        all.extend(Grants::of_role(role));
    }
    for grant in entry.capabilities.iter().filter_map(|name| Grants::parse(name)) {
        all.extend(grant);
    }
    all
}

fn digest_of(hash: &str) -> Option<[u8; 32]> {
    let hex = hash.strip_prefix("sha256:")?;
    HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?.try_into().ok()
}

fn head(digest: &[u8; 32]) -> [u8; 8] {
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    head
}

/// A new key, to be shown once.
pub fn generate_key() -> Result<String, KeyError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| KeyError::Entropy(error.to_string()))?;
    Ok(format!("hx_{}", BASE64URL_NOPAD.encode(&bytes)))
}

/// What the key file holds of a key.
#[must_use]
pub fn hash_key(key: &str) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(key.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, key: &str) -> String {
        format!("[[key]]\nname = \"{name}\"\nhash = \"{}\"\ntenant = \"acme\"\nroles = [\"client\"]\n", hash_key(key))
    }

    #[test]
    fn a_key_is_found_by_itself_and_by_nothing_else() {
        let key = generate_key().unwrap();
        let keys = Keys::from_toml(&entry("billing", &key)).unwrap();
        assert_eq!(&*keys.find(key.as_bytes()).unwrap().name, "billing");
        assert!(keys.find(&key.as_bytes()[1..]).is_none());
        assert!(keys.find(b"").is_none());
        // The hash from the file is no key.
        assert!(keys.find(hash_key(&key).as_bytes()).is_none());
    }

    #[test]
    fn a_key_file_with_a_slip_is_refused_with_the_slip_named() {
        let good = entry("billing", "k");
        for (bad, named) in [
            (good.replace("client", "clint"), "clint"),
            (good.replace("sha256:", "md5:"), "`hash`"),
            (good.replace("acme", ""), "tenant"),
            (good.replace("roles", "rolls"), "rolls"),
            (format!("{good}{}", entry("other", "k")), "same hash"),
            (format!("{good}{}", entry("billing", "another")), "same name"),
            (good.replace("[\"client\"]", "[]"), "may do nothing"),
        ] {
            let error = Keys::from_toml(&bad).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
