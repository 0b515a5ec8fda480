use hapax_core::identity::{Grammar, Key};
use hapax_store::Seeded;

use super::{Target, must, variant};
use crate::mutate;

/// First byte: which grammar. The rest: a header's value.
pub(super) const TARGET: Target = Target {
    name: "key-header",
    about: "any bytes as an idempotency key header; bare and quoted spellings are one key",
    words: &[
        b"\"",
        b"\\",
        b"\\\"",
        b"\\\\",
        b";",
        b"; a=1",
        b" ",
        b"\t",
        b"\x80",
        b"0123456789abcdefghijklmn",
        b"._~-",
    ],
    seeds: || {
        [&b"\0k1"[..], b"\0\"k1\"", b"\x018e03978e-40d5-43dd-bc93-6894a57f9324", b"\0\"a\\\"b\\\\c\"  "]
            .map(Vec::from)
            .into()
    },
    make: |random: &mut Seeded| {
        let mut input = vec![random.next().to_le_bytes()[0]];
        input.extend((0..random.below(40)).map(|_| 0x21 + random.next().to_le_bytes()[0] % 94));
        if random.chance(100) {
            input.extend(mutate::noise(random));
        }
        input
    },
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let Some((pick, value)) = input.split_first() else { return Ok(0) };
    let grammar = match pick % 3 {
        0 => Grammar::visible(),
        1 => Grammar::openwop2(),
        _ => Grammar::visible().with_max_len(usize::from(*pick)),
    };
    let key = match Key::from_header(value, &grammar) {
        Ok(key) => key,
        Err(error) => {
            must(!error.to_string().is_empty(), || "an error without a message".to_owned())?;
            return Ok(variant(&error));
        }
    };
    let text = key.as_str();
    must((1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()), || {
        format!("`{text}` was taken")
    })?;
    must(Key::new(text, &grammar).as_ref() == Ok(&key), || format!("`{text}` is another key as text"))?;
    let quoted = format!("\t\"{}\" ", text.replace('\\', "\\\\").replace('"', "\\\""));
    must(Key::from_header(quoted.as_bytes(), &grammar).as_ref() == Ok(&key), || {
        format!("`{text}` is another key when quoted")
    })?;
    if !text.starts_with('"') {
        let bare = format!("  {text}\t");
        must(Key::from_header(bare.as_bytes(), &grammar).as_ref() == Ok(&key), || {
            format!("`{text}` is another key when bare")
        })?;
    }
    let quoted = value.trim_ascii().starts_with(b"\"");
    Ok(2 * (text.len().ilog2() as u64) + u64::from(quoted))
}
