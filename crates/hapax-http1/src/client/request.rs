//! The head of a request of ours.

use http::{Method, header, request};
use http_body::Body;

use crate::answer::{self, Framing};

/// Writes the head.
pub(super) fn begin<B: Body>(out: &mut Vec<u8>, head: &request::Parts, body: &B) -> Framing {
    let framing = framing(body);
    let target = head.uri.path_and_query().map_or("/", |path| path.as_str());
    out.reserve(128 + target.len() + head.headers.len() * 64);
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut names_host = false;
    for (name, value) in &head.headers {
        if answer::is_of_the_connection(name) {
            continue;
        }
        names_host |= *name == header::HOST;
        answer::line(out, name.as_str(), value.as_bytes());
    }
    // It was made for HTTP/2, where the target names it.
    if let Some(authority) = head.uri.authority().filter(|_| !names_host) {
        answer::line(out, "host", authority.as_str().as_bytes());
    }
    match framing {
        Framing::Counted(length) => answer::counted(out, length),
        Framing::Chunked => answer::line(out, "transfer-encoding", b"chunked"),
        // Where a body is usual some servers insist on hearing that there is none.
        Framing::None if [Method::POST, Method::PUT, Method::PATCH].contains(&head.method) => answer::counted(out, 0),
        Framing::None | Framing::Closing => {}
    }
    out.extend_from_slice(b"\r\n");
    framing
}

/// A body of which nobody knows the length goes in chunks, whatever the method; where there is none, none is announced.
fn framing<B: Body>(body: &B) -> Framing {
    if body.is_end_stream() {
        return Framing::None;
    }
    body.size_hint().exact().map_or(Framing::Chunked, Framing::Counted)
}
