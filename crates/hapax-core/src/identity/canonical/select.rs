//! Writing only what a [`Selection`] keeps. Apart from [`emit`](super::emit), so that those who select nothing do not
//! pay for it.

use super::emit;
use super::string;
use super::tape::{Node, Tape};
use super::writer::Writer;
use crate::identity::pointer::Pointer;
use crate::identity::selection::Selection;

/// What is left of the ignored pointers at some place in the document.
type Ignored<'p> = Vec<&'p [String]>;

/// Writes the document without the ignored parts, or an object from pointer text to value.
pub(super) fn document(tape: &Tape<'_>, selection: &Selection) -> Vec<u8> {
    let mut out = emit::room(tape);
    let ignored: Ignored<'_> = selection.ignored().iter().map(Pointer::tokens).collect();
    let Some(fields) = selection.kept() else {
        value(tape, 0, &ignored, &mut out);
        return out.finish();
    };
    let mut comma = Comma::open(b'{', &mut out);
    for field in fields {
        let Some((node, ignored)) = find(tape, field.tokens(), &ignored) else { continue };
        let mut name = Vec::new();
        string::write(field.as_str().as_bytes(), &mut name);
        comma.next(&mut out);
        out.slow(&name);
        out.byte(b':');
        value(tape, node, &ignored, &mut out);
    }
    out.byte(b'}');
    out.finish()
}

/// One value alone.
pub(super) fn single(tape: &Tape<'_>, pointer: &Pointer) -> Option<Vec<u8>> {
    let (node, _) = find(tape, pointer.tokens(), &[])?;
    // Most such values are ids; the writer grows for those that are not.
    let mut out = Writer::with_room(64);
    emit::value(tape, node, &mut out);
    Some(out.finish())
}

/// The node a field points to, with the ignored pointers that go on below it; none when it is ignored itself.
fn find<'p>(tape: &Tape<'_>, path: &[String], ignored: &[&'p [String]]) -> Option<(u32, Ignored<'p>)> {
    let mut node = 0;
    let mut ignored = ignored.to_vec();
    for token in path {
        node = child(tape, node, token)?;
        ignored = below(&ignored, token.as_bytes())?;
    }
    Some((node, ignored))
}

fn child(tape: &Tape<'_>, node: u32, token: &str) -> Option<u32> {
    match *tape.nodes.get(node as usize)? {
        Node::Object { first, count, .. } => {
            let names = tape.members(first, count);
            let found = names.iter().find(|&&name| tape.name_text(name) == token.as_bytes())?;
            Some(found + 1)
        }
        Node::Array { next } => {
            let mut left = Pointer::index(token)?;
            let mut element = node + 1;
            while element < next {
                if left == 0 {
                    return Some(element);
                }
                left -= 1;
                element = tape.after(element);
            }
            None
        }
        Node::Input { .. } | Node::Side { .. } | Node::Name { .. } => None,
    }
}

/// What is left of the ignored pointers one step down; `None` when the step itself is ignored.
fn below<'p>(ignored: &[&'p [String]], token: &[u8]) -> Option<Ignored<'p>> {
    let mut left = Vec::new();
    for pointer in ignored {
        match pointer.split_first() {
            Some((first, [])) if first.as_bytes() == token => return None,
            Some((first, rest)) if first.as_bytes() == token => left.push(rest),
            _ => {}
        }
    }
    Some(left)
}

/// As [`emit::value`], which takes over where nothing more is ignored.
fn value(tape: &Tape<'_>, node: u32, ignored: &[&[String]], out: &mut Writer) {
    match tape.nodes.get(node as usize) {
        Some(&Node::Array { next }) if !ignored.is_empty() => {
            let mut comma = Comma::open(b'[', out);
            let mut element = node + 1;
            let mut index = 0_usize;
            while element < next {
                if let Some(ignored) = below(ignored, index.to_string().as_bytes()) {
                    comma.next(out);
                    value(tape, element, &ignored, out);
                }
                element = tape.after(element);
                index += 1;
            }
            out.byte(b']');
        }
        Some(&Node::Object { first, count, .. }) if !ignored.is_empty() => {
            let mut comma = Comma::open(b'{', out);
            for &name in tape.members(first, count) {
                if let Some(ignored) = below(ignored, tape.name_text(name)) {
                    comma.next(out);
                    emit::value(tape, name, out);
                    out.byte(b':');
                    value(tape, name + 1, &ignored, out);
                }
            }
            out.byte(b'}');
        }
        _ => emit::value(tape, node, out),
    }
}

/// Writes a comma before every item but the first.
struct Comma(bool);

impl Comma {
    fn open(bracket: u8, out: &mut Writer) -> Self {
        out.byte(bracket);
        Self(false)
    }

    fn next(&mut self, out: &mut Writer) {
        if std::mem::replace(&mut self.0, true) {
            out.byte(b',');
        }
    }
}
