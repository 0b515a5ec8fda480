//! The tape: one node per value or member name, in the order of the input, with spans instead of copies.

use super::{MOST_DEPTH, number, order, scan, string};

/// Positions are kept in 32 bits, and the side buffer may grow to five times the input (`1e20` is written in full).
const MOST_BYTES: usize = 1 << 28;

/// Where a node's text is, or what the container that begins here holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// A span of the input that is already canonical, quotes included.
    Input { start: u32, end: u32 },
    /// A span of the side buffer that was made canonical while reading, quotes included.
    Side { start: u32, end: u32 },
    /// A member name that had escapes: decoded in the side buffer, without quotes.
    Name { start: u32, end: u32 },
    /// An array; its elements follow up to `next`.
    Array { next: u32 },
    /// An object; its members follow up to `next`, and `order[first..first + count]` are its names, sorted.
    Object { next: u32, first: u32, count: u32 },
}

pub(super) struct Tape<'a> {
    pub(super) input: &'a [u8],
    pub(super) side: Vec<u8>,
    pub(super) nodes: Vec<Node>,
    pub(super) order: Vec<u32>,
    /// Where strings are decoded before they are written anew.
    scratch: Vec<u8>,
    /// Names of the objects still open, innermost last, each with the head it is sorted by.
    open: Vec<(u64, u32)>,
}

impl<'a> Tape<'a> {
    /// Reads one whole document; `None` when only its raw bytes may be compared.
    pub(super) fn read(input: &'a [u8]) -> Option<Self> {
        if input.len() > MOST_BYTES {
            return None;
        }
        let text = std::str::from_utf8(input).ok()?;
        let guess = input.len() / 12 + 4;
        let mut tape = Self {
            input,
            side: Vec::new(),
            scratch: Vec::new(),
            nodes: Vec::with_capacity(guess),
            order: Vec::with_capacity(guess / 2),
            open: Vec::with_capacity(32),
        };
        let end = tape.value(text, scan::solid(input, 0), 0)?;
        (scan::solid(input, end) == input.len()).then_some(tape)
    }

    /// Reads the value at `at` and gives the position just past it.
    fn value(&mut self, text: &str, at: usize, depth: usize) -> Option<usize> {
        match self.input.get(at)? {
            b'"' => self.string(at),
            b'{' => self.object(text, at + 1, depth + 1),
            b'[' => self.array(text, at + 1, depth + 1),
            b't' => self.literal(at, b"true"),
            b'f' => self.literal(at, b"false"),
            b'n' => self.literal(at, b"null"),
            _ => self.number(text, at),
        }
    }

    fn literal(&mut self, at: usize, word: &[u8]) -> Option<usize> {
        let end = at + word.len();
        (self.input.get(at..end)? == word).then(|| self.keep(at, end))
    }

    #[inline]
    fn keep(&mut self, start: usize, end: usize) -> usize {
        self.nodes.push(Node::Input { start: short(start), end: short(end) });
        end
    }

    fn number(&mut self, text: &str, at: usize) -> Option<usize> {
        let found = number::read(self.input, at)?;
        if found.canonical {
            return Some(self.keep(at, found.end));
        }
        let start = self.side.len();
        number::write(text.get(at..found.end)?, &mut self.side);
        self.nodes.push(Node::Side { start: short(start), end: short(self.side.len()) });
        Some(found.end)
    }

    fn string(&mut self, at: usize) -> Option<usize> {
        if let Some(end) = string::skim(self.input, at) {
            return Some(self.keep(at, end));
        }
        self.scratch.clear();
        let end = string::read(self.input, at, &mut self.scratch)?;
        let start = self.side.len();
        string::write(&self.scratch, &mut self.side);
        self.nodes.push(Node::Side { start: short(start), end: short(self.side.len()) });
        Some(end)
    }

    fn name(&mut self, at: usize) -> Option<usize> {
        if self.input.get(at) != Some(&b'"') {
            return None;
        }
        let node = short(self.nodes.len());
        let plain = scan::plain_end(self.input, at + 1);
        if self.input.get(plain) == Some(&b'"') {
            self.open.push((order::head(self.input, at + 1, plain), node));
            return Some(self.keep(at, plain + 1));
        }
        let start = self.side.len();
        let end = string::read(self.input, at, &mut self.side)?;
        self.open.push((order::head(&self.side, start, self.side.len()), node));
        self.nodes.push(Node::Name { start: short(start), end: short(self.side.len()) });
        Some(end)
    }

    fn array(&mut self, text: &str, mut at: usize, depth: usize) -> Option<usize> {
        if depth > MOST_DEPTH {
            return None;
        }
        let here = self.nodes.len();
        self.nodes.push(Node::Array { next: 0 });
        at = scan::solid(self.input, at);
        if self.input.get(at) != Some(&b']') {
            loop {
                at = self.value(text, scan::solid(self.input, at), depth)?;
                at = scan::solid(self.input, at);
                match self.input.get(at)? {
                    b',' => at += 1,
                    b']' => break,
                    _ => return None,
                }
            }
        }
        let next = short(self.nodes.len());
        *self.nodes.get_mut(here)? = Node::Array { next };
        Some(at + 1)
    }

    fn object(&mut self, text: &str, mut at: usize, depth: usize) -> Option<usize> {
        if depth > MOST_DEPTH {
            return None;
        }
        let here = self.nodes.len();
        let names = self.open.len();
        self.nodes.push(Node::Object { next: 0, first: 0, count: 0 });
        at = scan::solid(self.input, at);
        if self.input.get(at) != Some(&b'}') {
            loop {
                at = self.name(scan::solid(self.input, at))?;
                at = scan::solid(self.input, at);
                if self.input.get(at) != Some(&b':') {
                    return None;
                }
                at = self.value(text, scan::solid(self.input, at + 1), depth)?;
                at = scan::solid(self.input, at);
                match self.input.get(at)? {
                    b',' => at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        let (first, count) = self.sort(names)?;
        let next = short(self.nodes.len());
        *self.nodes.get_mut(here)? = Node::Object { next, first, count };
        Some(at + 1)
    }

    /// Moves the names from `names` on into `order`, sorted; `None` when two of them are equal.
    fn sort(&mut self, names: usize) -> Option<(u32, u32)> {
        let mut members = std::mem::take(&mut self.open);
        let mine = members.get_mut(names..)?;
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0).then_with(|| order::by_utf16(self.name_text(a.1), self.name_text(b.1)))
        };
        if !mine.is_sorted_by(|a, b| compare(a, b).is_lt()) {
            mine.sort_unstable_by(compare);
            if mine.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq()) {
                return None;
            }
        }
        let first = short(self.order.len());
        let count = short(mine.len());
        self.order.extend(mine.iter().map(|(_, name)| *name));
        members.truncate(names);
        self.open = members;
        Some((first, count))
    }

    /// A member name as UTF-8, unescaped, without quotes.
    pub(super) fn name_text(&self, node: u32) -> &[u8] {
        match self.nodes.get(node as usize) {
            Some(&Node::Input { start, end }) => self.input.get(start as usize + 1..end as usize - 1),
            Some(&Node::Name { start, end }) => self.side.get(start as usize..end as usize),
            Some(Node::Side { .. } | Node::Array { .. } | Node::Object { .. }) | None => None,
        }
        .unwrap_or_default()
    }

    /// The node just past the value that begins at `node`.
    pub(super) fn after(&self, node: u32) -> u32 {
        match self.nodes.get(node as usize) {
            Some(&(Node::Array { next } | Node::Object { next, .. })) => next,
            Some(Node::Input { .. } | Node::Side { .. } | Node::Name { .. }) | None => node + 1,
        }
    }

    /// The names of an object's members in canonical order; each member's value is the node after its name.
    pub(super) fn members(&self, first: u32, count: u32) -> &[u32] {
        self.order.get(first as usize..(first + count) as usize).unwrap_or_default()
    }
}

/// Positions fit because [`MOST_BYTES`] bounds the input.
fn short(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
