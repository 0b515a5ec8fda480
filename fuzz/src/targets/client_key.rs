use hapax_core::identity::recipes::ad40::ClientKey;

use super::{Target, must, variant};

pub(super) const TARGET: Target = Target {
    name: "client-key",
    about: "any text as an AD-40 client key; what is read is written the same",
    words: &[
        b":",
        b"::",
        b"0",
        b"00",
        b"+1",
        b"-1",
        b"18446744073709551615",
        b"18446744073709551616",
        b"0123456789abcdef",
        b"ABCDEF",
        b"host1.dc1:12345",
    ],
    seeds: || vec![b"host1.dc1:12345:7:0123456789abcdef".to_vec(), b"c:0:ffffffffffffffff".to_vec()],
    make: |random| {
        let nonce = format!("{:016x}", random.next());
        format!("client-{}:{}:{nonce}", random.below(3), random.next() >> random.below(64)).into_bytes()
    },
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
    match ClientKey::parse(text) {
        Ok(key) => {
            must(key.to_string() == text && key.key().as_str() == text, || format!("is written as `{key}`"))?;
            let again = ClientKey::new(key.client(), key.sequence(), key.nonce());
            must(again.as_ref() == Ok(&key), || "its parts make another key".to_owned())?;
            Ok(1 + key.sequence().checked_ilog2().map_or(0, u64::from))
        }
        Err(error) => Ok(variant(&error)),
    }
}
