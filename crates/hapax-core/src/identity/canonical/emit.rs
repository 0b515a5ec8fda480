use super::string;
use super::tape::{Node, Tape};
use super::writer::Writer;

/// Writes the whole document.
pub(super) fn document(tape: &Tape<'_>) -> Vec<u8> {
    let mut out = room(tape);
    value(tape, 0, &mut out);
    out.finish()
}

pub(super) fn room(tape: &Tape<'_>) -> Writer {
    Writer::with_room(tape.input.len() + tape.side.len())
}

/// Recursion is safe here: the tape holds at most `MOST_DEPTH` levels.
pub(super) fn value(tape: &Tape<'_>, node: u32, out: &mut Writer) {
    match tape.nodes.get(node as usize) {
        Some(&Node::Input { start, end }) => out.span(tape.input, start, end),
        Some(&Node::Side { start, end }) => out.span(&tape.side, start, end),
        Some(&Node::Name { start, end }) => {
            let name = tape.side.get(start as usize..end as usize).unwrap_or_default();
            let mut text = Vec::with_capacity(name.len() + 2);
            string::write(name, &mut text);
            out.slow(&text);
        }
        Some(&Node::Array { next }) => {
            out.byte(b'[');
            let mut element = node + 1;
            while element < next {
                if element > node + 1 {
                    out.byte(b',');
                }
                value(tape, element, out);
                element = tape.after(element);
            }
            out.byte(b']');
        }
        Some(&Node::Object { first, count, .. }) => {
            let mut mark = b'{';
            for &name in tape.members(first, count) {
                out.byte(mark);
                mark = b',';
                if let Some(&Node::Input { start, end }) = tape.nodes.get(name as usize) {
                    out.span(tape.input, start, end);
                } else {
                    value(tape, name, out);
                }
                out.byte(b':');
                value(tape, name + 1, out);
            }
            if mark == b'{' {
                out.byte(mark);
            }
            out.byte(b'}');
        }
        None => {}
    }
}
