use super::scan::plain_end;

/// Where a string ended and what its escapes looked like.
pub(super) struct Found {
    /// Just past the closing quote.
    pub(super) end: usize,
    /// Every escape is spelled as RFC 8785 would spell it.
    pub(super) canonical: bool,
}

/// Reads the string whose opening quote stands at `start` and decodes it onto the end of `decoded`. `None`: not a string, a bare control character, or a lone surrogate.
pub(super) fn read(bytes: &[u8], start: usize, decoded: &mut Vec<u8>) -> Option<Found> {
    let mut at = start + 1;
    let mut canonical = true;
    loop {
        let end = plain_end(bytes, at);
        decoded.extend_from_slice(bytes.get(at..end)?);
        match bytes.get(end)? {
            b'"' => return Some(Found { end: end + 1, canonical }),
            b'\\' => {}
            _ => return None,
        }
        let (next, spelled_so) = escape(bytes, end + 1, decoded)?;
        canonical &= spelled_so;
        at = next;
    }
}

/// Decodes one escape, `at` being just past the backslash. Says where it ended and whether it is spelled canonically.
fn escape(bytes: &[u8], at: usize, decoded: &mut Vec<u8>) -> Option<(usize, bool)> {
    let (plain, canonical) = match bytes.get(at)? {
        b'"' => (b'"', true),
        b'\\' => (b'\\', true),
        b'/' => (b'/', false),
        b'b' => (0x08, true),
        b't' => (b'\t', true),
        b'n' => (b'\n', true),
        b'f' => (0x0C, true),
        b'r' => (b'\r', true),
        b'u' => return unicode(bytes, at + 1, decoded),
        _ => return None,
    };
    decoded.push(plain);
    Some((at + 1, canonical))
}

fn unicode(bytes: &[u8], at: usize, decoded: &mut Vec<u8>) -> Option<(usize, bool)> {
    let first = four_hex(bytes, at)?;
    let mut end = at + 4;
    let mut code = first;
    if (0xD800..0xDC00).contains(&first) {
        if bytes.get(end..end + 2)? != br"\u" {
            return None;
        }
        let second = four_hex(bytes, end + 2)?;
        if !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        end += 6;
        code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
    let character = char::from_u32(code)?;
    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    let lowercase = !bytes.get(at..at + 4)?.iter().any(u8::is_ascii_uppercase);
    let spelled_so = code < 0x20 && !matches!(code, 0x08 | 0x09 | 0x0A | 0x0C | 0x0D) && lowercase;
    Some((end, spelled_so))
}

fn four_hex(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.iter().try_fold(0, |sum, &digit| Some(sum * 16 + char::from(digit).to_digit(16)?))
}

/// Writes a decoded string with its quotes and the escapes of RFC 8785: only what JSON forbids bare is escaped.
pub(super) fn write(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = 0;
    loop {
        let end = plain_end(text, at);
        out.extend_from_slice(text.get(at..end).unwrap_or_default());
        let Some(&byte) = text.get(end) else { break };
        match byte {
            0x08 => out.extend_from_slice(br"\b"),
            b'\t' => out.extend_from_slice(br"\t"),
            b'\n' => out.extend_from_slice(br"\n"),
            0x0C => out.extend_from_slice(br"\f"),
            b'\r' => out.extend_from_slice(br"\r"),
            0x00..0x20 => {
                const HEX: [u8; 16] = *b"0123456789abcdef";
                out.extend_from_slice(br"\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.extend([b'\\', byte]),
        }
        at = end + 1;
    }
    out.push(b'"');
}
