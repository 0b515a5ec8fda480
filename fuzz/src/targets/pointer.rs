use hapax_core::identity::{Pointer, Selection, canonical};
use serde_json::Value;

use super::{Target, first_line, json, must, variant};

/// First line: a pointer. The rest: a JSON document.
pub(super) const TARGET: Target = Target {
    name: "pointer",
    about: "any text as a JSON pointer into any JSON, against serde_json's own",
    words: &[
        b"/",
        b"~",
        b"~0",
        b"~1",
        b"~01",
        b"/a",
        b"/0",
        b"/-",
        b"/00",
        b"/+1",
        b"/18446744073709551616",
        b"\n",
        b"{\"a\":[0,1]}",
    ],
    seeds: || vec![b"/a/0\n{\"a\":[1]}".to_vec(), b"/~1/~0\n{\"/\":{\"~\":1}}".to_vec(), b"\n[]".to_vec()],
    make: |random| {
        let path = ["", "/a", "/a/b", "/~0", "/~1", "/0/0", "/b/1", "a"][usize::try_from(random.below(8)).unwrap_or(0)];
        format!("{path}\n{}", json(random, 3)).into_bytes()
    },
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let (text, rest) = first_line(input);
    let Ok(text) = std::str::from_utf8(text) else { return Ok(0) };
    let pointer = match Pointer::parse(text) {
        Ok(pointer) => pointer,
        Err(error) => return Ok(variant(&error)),
    };
    must(pointer.as_str() == text && pointer.covers(&pointer), || "it is not itself".to_owned())?;
    let Ok(value) = serde_json::from_slice::<Value>(rest) else { return Ok(1) };
    let found = pointer.find(&value);
    must(found == value.pointer(text), || format!("serde_json finds {:?}, we {found:?}", value.pointer(text)))?;
    // The selection reads the bytes by a way of its own; it has to find the same.
    if let Some(selected) = canonical::selected_to_vec(rest, &Selection::all().fields([pointer])) {
        must((selected != b"{}") == found.is_some(), || {
            format!("a selection sees {}, the pointer {found:?}", String::from_utf8_lossy(&selected))
        })?;
    }
    Ok(2 + u64::from(found.is_some()) + 2 * (text.matches('/').count().min(8) as u64))
}
