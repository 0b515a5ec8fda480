//! Multipart bodies by their parts. Clients draw a new boundary for every attempt, so the bytes of a retry differ
//! although it says the same.

use memchr::memmem;

use super::frame::Sink;

/// Writes the parts of a body, each as its headers and its content, in order.
///
/// `None` where two readers could split it differently: text before the first or after the last boundary, a delimiter
/// followed by something else, a header without a colon. Then only the raw bytes are compared.
pub(super) fn write(sink: &mut impl Sink, body: &[u8], boundary: &str) -> Option<()> {
    if boundary.is_empty() || boundary.len() > 70 {
        return None;
    }
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let mut rest = after_delimiter(body.strip_prefix(&delimiter.as_bytes()[2..])?)?;
    while let Some(part) = rest {
        // A part without headers begins with the empty line; one without content may end right after it.
        let end = finder.find(part)?;
        let (headers, content) = split(part.get(..end)?)?;
        sink.pour(&[1]);
        write_headers(sink, headers)?;
        sink.frame(content);
        rest = after_delimiter(part.get(end + delimiter.len()..)?)?;
    }
    sink.pour(&[0]);
    Some(())
}

/// What follows a delimiter: the next part, or nothing after the last one.
fn after_delimiter(text: &[u8]) -> Option<Option<&[u8]>> {
    match text {
        b"--" | b"--\r\n" => Some(None),
        _ => text.strip_prefix(b"\r\n").map(Some),
    }
}

/// A part's header lines and its content.
fn split(part: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(content) = part.strip_prefix(b"\r\n") {
        return Some((&[], content));
    }
    let end = memmem::find(part, b"\r\n\r\n")?;
    Some((part.get(..end)?, part.get(end + 4..)?))
}

/// All headers of a part, whatever their order and the case of their names: name and file name are in
/// `Content-Disposition`, and an encoding would change what the content means.
fn write_headers(sink: &mut impl Sink, headers: &[u8]) -> Option<()> {
    let headers = std::str::from_utf8(headers).ok()?;
    let mut lines = Vec::new();
    for line in headers.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        lines.push((name.trim().to_ascii_lowercase(), value.trim()));
    }
    lines.sort();
    sink.number(lines.len() as u64);
    for (name, value) in &lines {
        sink.frame(name.as_bytes());
        sink.frame(value.as_bytes());
    }
    Some(())
}
