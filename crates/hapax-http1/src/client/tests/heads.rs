//! Heads are read as httparse reads them, which most clients do: whoever answers those answers us.

use bytes::BytesMut;

use super::super::{ending::Ending, head::Head};
use super::*;

type Read = (u16, bool, Vec<(String, Vec<u8>)>);

fn by_httparse(bytes: &[u8]) -> Option<Read> {
    let mut lines = [httparse::EMPTY_HEADER; 20];
    let mut response = httparse::Response::new(&mut lines);
    if !response.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return None;
    }
    let headers = response.headers.iter().map(|line| (line.name.to_ascii_lowercase(), line.value.to_vec())).collect();
    // What is lower is no status.
    let code = response.code.filter(|code| *code >= 100)?;
    Some((code, response.version == Some(1), headers))
}

fn by_us(bytes: &[u8]) -> Option<Read> {
    let head = Ending::default().find_next(&mut BytesMut::from(bytes), 1_000).ok()??;
    let response = Head::read(&head, 20).ok()?.response;
    Some((response.status().as_u16(), response.version() == http::Version::HTTP_11, lines(response.headers())))
}

/// Every byte of these is replaced, left out and doubled.
#[test]
fn what_httparse_takes_for_a_head_we_do_and_nothing_else() {
    let (mut heads, mut good) = (0, 0);
    for head in [
        "HTTP/1.1 200 OK\r\nName: value \r\nX-Y:\r\nz: \t a\tb \r\n\r\n",
        "HTTP/1.0 404 Not Found\nName:value\n\n",
        "\r\nHTTP/1.1 503\r\nA: b\r\n\n",
    ] {
        let mut judge = |bytes: &[u8]| {
            let wanted = by_httparse(bytes);
            assert_eq!(by_us(bytes), wanted, "{:?}", String::from_utf8_lossy(bytes));
            (heads, good) = (heads + 1, good + usize::from(wanted.is_some()));
        };
        let head = head.as_bytes();
        for at in 0..head.len() {
            for byte in 0..=u8::MAX {
                let mut changed = head.to_vec();
                changed[at] = byte;
                judge(&changed);
                changed.insert(at, head[at]);
                judge(&changed);
            }
            let mut shorter = head.to_vec();
            shorter.remove(at);
            judge(&shorter);
        }
    }
    assert!(good > 10_000 && heads - good > 10_000, "{good} of {heads}");
}
