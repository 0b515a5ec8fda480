//! OpenWOP: the HTTP layer's cache key and the engine's invocation ids.

use super::hex_sha256;
use crate::{identity::key::Key, sha::sha256};

/// `openwop.http.v1`. Joined by `:`, so a tenant that holds colons may meet another; new systems use
/// [`Id::operation`](crate::identity::Id::operation).
#[must_use]
pub fn http_v1(tenant: &str, endpoint: &str, key: &str) -> Key {
    Key::made(hex_sha256(format!("{tenant}:{endpoint}:{key}").as_bytes()))
}

/// `openwop.activity.v1`. The attempt inside the key gives every retry a new key, so it never deduplicates a retry;
/// it is here for compatibility only. See [`native::activity`](super::native::activity).
#[must_use]
pub fn activity_v1(run: &str, node: &str, attempt: u64, provider: &str) -> Key {
    Key::made(hex_sha256(format!("{run}:{node}:{attempt}:{provider}").as_bytes()))
}

/// `openwop.activity.v2`. Joined by NUL, which is safe as long as no field holds one.
#[must_use]
pub fn activity_v2(tenant: &str, run: &str, node: &str, ordinal: u64, provider: &str) -> Key {
    let text = ["openwop:activity:v2", tenant, run, node, &ordinal.to_string(), provider].join("\0");
    Key::made(data_encoding::BASE64URL_NOPAD.encode(&sha256(text.as_bytes())))
}
