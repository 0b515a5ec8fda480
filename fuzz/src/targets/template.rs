use hapax_core::identity::Template;
use serde_json::Value;

use super::{Target, first_line, json, must, variant};

/// First line: a template. The rest: its input as JSON.
pub(super) const TARGET: Target = Target {
    name: "template",
    about: "any text as a key template over any JSON",
    words: &[
        b"{",
        b"}",
        b"{{",
        b"}}",
        b"{a}",
        b"{a.b}",
        b"{order_id}",
        b"{0}",
        b".",
        b"{\"a\":\"x\"}",
        b"\n",
        b"\xe2\x82\xac",
        b"[1,2]",
    ],
    seeds: || {
        vec![b"refund:{args.order_id}\n{\"args\":{\"order_id\":\"o1\"}}".to_vec(), b"{{{a.0}}}\n{\"a\":[5.0]}".to_vec()]
    },
    make: |random| {
        let path = ["{a}", "{a.b}", "{order_id}", "x:{b.0}", "{{", "{"][usize::try_from(random.below(6)).unwrap_or(0)];
        format!("{path}\n{}", json(random, 3)).into_bytes()
    },
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let (text, rest) = first_line(input);
    let Ok(text) = std::str::from_utf8(text) else { return Ok(0) };
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => return Ok(variant(&error)),
    };
    must(template.as_str() == text, || "it has another text".to_owned())?;
    must(Template::parse(template.as_str()).as_ref() == Ok(&template), || "it parses otherwise again".to_owned())?;
    let Ok(value) = serde_json::from_slice::<Value>(rest) else { return Ok(1) };
    match template.key(&value) {
        Ok(key) => {
            must(!key.as_str().is_empty(), || "an empty key".to_owned())?;
            must(template.key(&value).as_ref() == Ok(&key), || "another key for the same input".to_owned())?;
            Ok(2 + u64::from(key.as_str().len().ilog2()))
        }
        Err(error) => Ok(variant(&error)),
    }
}
