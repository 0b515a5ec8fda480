use super::scan::plain_end;

/// The end of the string whose opening quote stands at `start`, if it is already spelled as RFC 8785 spells it.
///
/// `None` says only that it has to be [`read`]: another spelling, or no string at all.
#[inline]
pub(super) fn skim(bytes: &[u8], start: usize) -> Option<usize> {
    let mut end = plain_end(bytes, start + 1);
    while bytes.get(end) == Some(&b'\\') {
        match bytes.get(end + 1)? {
            b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r' => end = plain_end(bytes, end + 2),
            _ => return None,
        }
    }
    (bytes.get(end) == Some(&b'"')).then_some(end + 1)
}

/// Reads the string whose opening quote stands at `start`, decodes it onto the end of `decoded` and gives the position
/// just past it. `None`: not a string, a bare control character, or a lone surrogate.
pub(super) fn read(bytes: &[u8], start: usize, decoded: &mut Vec<u8>) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let end = plain_end(bytes, at);
        decoded.extend_from_slice(bytes.get(at..end)?);
        match bytes.get(end)? {
            b'"' => return Some(end + 1),
            b'\\' => at = escape(bytes, end + 1, decoded)?,
            _ => return None,
        }
    }
}

/// Decodes one escape, `at` being just past the backslash, and says where it ended.
fn escape(bytes: &[u8], at: usize, decoded: &mut Vec<u8>) -> Option<usize> {
    let plain = match bytes.get(at)? {
        &same @ (b'"' | b'\\' | b'/') => same,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0C,
        b'r' => b'\r',
        b'u' => return unicode(bytes, at + 1, decoded),
        _ => return None,
    };
    decoded.push(plain);
    Some(at + 1)
}

fn unicode(bytes: &[u8], at: usize, decoded: &mut Vec<u8>) -> Option<usize> {
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
    // A lone second half is no character.
    let character = char::from_u32(code)?;
    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(end)
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
