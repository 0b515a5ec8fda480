use super::string;
use super::tape::{Node, Tape};
use crate::identity::pointer::Pointer;
use crate::identity::selection::Selection;

/// Writes the whole document.
pub(super) fn document(tape: &Tape<'_>, out: &mut Vec<u8>) {
    value(tape, 0, &[], out);
}

/// Writes what the selection keeps: the document without the ignored parts, or an object from pointer to value.
pub(super) fn selected(tape: &Tape<'_>, selection: &Selection, out: &mut Vec<u8>) {
    let ignored: Vec<&[String]> = selection.ignored().iter().map(Pointer::tokens).collect();
    let Some(fields) = selection.kept() else {
        return value(tape, 0, &ignored, out);
    };
    let mut comma = Comma::new(b'{', out);
    for field in fields {
        let Some((node, below)) = find(tape, field.tokens(), &ignored) else { continue };
        comma.next(out);
        string::write(field.as_str().as_bytes(), out);
        out.push(b':');
        value(tape, node, &below, out);
    }
    out.push(b'}');
}

/// The node a field points to, with the ignored pointers that go on below it; none when it is ignored itself.
fn find<'p>(tape: &Tape<'_>, path: &[String], ignored: &[&'p [String]]) -> Option<(u32, Vec<&'p [String]>)> {
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
fn below<'p>(ignored: &[&'p [String]], token: &[u8]) -> Option<Vec<&'p [String]>> {
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

/// As [`below`], but free where nothing is ignored.
fn step<'p>(ignored: &[&'p [String]], token: impl FnOnce() -> Vec<u8>) -> Option<Vec<&'p [String]>> {
    if ignored.is_empty() { Some(Vec::new()) } else { below(ignored, &token()) }
}

/// Recursion is safe here: the tape holds at most `MOST_DEPTH` levels.
fn value(tape: &Tape<'_>, node: u32, ignored: &[&[String]], out: &mut Vec<u8>) {
    match tape.nodes.get(node as usize) {
        Some(&Node::Input { start, end }) => copy(tape.input, start, end, out),
        Some(&Node::Side { start, end }) => copy(&tape.side, start, end, out),
        Some(&Node::Name { start, end }) => {
            string::write(tape.side.get(start as usize..end as usize).unwrap_or_default(), out);
        }
        Some(&Node::Array { next }) => {
            let mut comma = Comma::new(b'[', out);
            let mut element = node + 1;
            let mut index = 0_usize;
            while element < next {
                if let Some(ignored) = step(ignored, || index.to_string().into_bytes()) {
                    comma.next(out);
                    value(tape, element, &ignored, out);
                }
                element = tape.after(element);
                index += 1;
            }
            out.push(b']');
        }
        Some(&Node::Object { first, count, .. }) => {
            let mut comma = Comma::new(b'{', out);
            for &name in tape.members(first, count) {
                if let Some(ignored) = step(ignored, || tape.name_text(name).to_vec()) {
                    comma.next(out);
                    value(tape, name, &[], out);
                    out.push(b':');
                    value(tape, name + 1, &ignored, out);
                }
            }
            out.push(b'}');
        }
        None => {}
    }
}

#[inline]
fn copy(from: &[u8], start: u32, end: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(from.get(start as usize..end as usize).unwrap_or_default());
}

/// Writes a comma before every item but the first.
struct Comma(bool);

impl Comma {
    fn new(open: u8, out: &mut Vec<u8>) -> Self {
        out.push(open);
        Self(false)
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.0, true) {
            out.push(b',');
        }
    }
}
