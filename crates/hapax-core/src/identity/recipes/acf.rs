//! ACF: the layers of a conversation engine. All are joined by `:` as the existing systems store them.

use std::num::NonZeroU64;

use super::{hex_sha256, python_json};
use crate::identity::key::Key;

/// `acf.api`: a client's own key.
#[must_use]
pub fn api(tenant: &str, key: &str) -> Key {
    Key::made(format!("{tenant}:{key}"))
}

/// `acf.turn`: a logical turn.
#[must_use]
pub fn turn(tenant: &str, turn: &str) -> Key {
    Key::made(format!("{tenant}:{turn}"))
}

/// `acf.beat`: the messages that make one turn, in whatever order they arrived.
#[must_use]
pub fn beat(tenant: &str, session: &str, messages: &[&str]) -> Key {
    let mut ids = messages.to_vec();
    ids.sort_unstable();
    let mut hash = hex_sha256(ids.join(":").as_bytes());
    hash.truncate(16);
    Key::made(format!("{tenant}:beat:{session}:{hash}"))
}

/// `acf.tool`: one business action per conversation attempt; a supersede chain shares the group, a new attempt does not.
#[must_use]
pub fn tool(tool: &str, business_key: &str, group: &str) -> Key {
    Key::made(format!("{tool}:{business_key}:turn_group:{group}"))
}

/// `acf.content`: for requests without a key, the content within a time bucket.
#[must_use]
pub fn content(tenant: &str, customer: &str, messages: &[&str], bucket: u64) -> Key {
    let mut messages = messages.to_vec();
    // Python sorts strings by code point, and so does UTF-8.
    messages.sort_unstable();
    let mut json = String::from("{\"bucket\": ");
    json.push_str(&bucket.to_string());
    json.push_str(", \"customer_id\": ");
    python_json::text(customer, &mut json);
    json.push_str(", \"messages\": [");
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            json.push_str(", ");
        }
        python_json::text(message, &mut json);
    }
    json.push_str("], \"tenant_id\": ");
    python_json::text(tenant, &mut json);
    json.push('}');
    let mut hash = hex_sha256(json.as_bytes());
    hash.truncate(32);
    Key::made(hash)
}

/// Both keys under which a content request may already be known.
///
/// A retry just after a bucket's border would miss the original. So reserve `own` with `started = false`, then read
/// `earlier`: a record there wins and the own reservation is released. In this order a retry after the border finds what
/// was written before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentKeys {
    /// The key in the bucket of now.
    pub own: Key,
    /// The key in the bucket before; there is none before the first.
    pub earlier: Option<Key>,
}

/// The content keys at a point in time, both in seconds since the epoch. The seed's bucket is 300 s.
#[must_use]
pub fn content_keys(tenant: &str, customer: &str, messages: &[&str], now_s: u64, bucket_s: NonZeroU64) -> ContentKeys {
    let bucket = now_s / bucket_s;
    let key = |bucket| content(tenant, customer, messages, bucket);
    ContentKeys { own: key(bucket), earlier: bucket.checked_sub(1).map(key) }
}
