use hapax_core::{
    Fingerprint,
    identity::{Printer, RequestPrint},
};

use super::{Target, first_line, must};
use crate::{mutate, runner};

/// First line: a content type. The rest: a body; and, read as parts, a form that is sent under two boundaries.
pub(super) const TARGET: Target = Target {
    name: "fingerprint",
    about: "any content type and body; a new multipart boundary is the same request",
    words: &[
        b"application/json\n",
        b"multipart/form-data; boundary=b\n",
        b"multipart/mixed; boundary=\"b\"\n",
        b"; charset=utf-8",
        b"--b\r\n",
        b"\r\n--b\r\n",
        b"\r\n--b--",
        b"\r\n--b--\r\n",
        b"\r\n\r\n",
        b"\r\n",
        b"content-disposition: form-data; name=\"a\"\r\n",
        b"Content-Type: text/plain\r\n",
        b"--",
        b"\"",
        b"\\",
        b";",
        b"=",
        b"{\"a\":1}",
    ],
    seeds: || {
        vec![
            b"multipart/form-data; boundary=b\n--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
                .to_vec(),
            b"application/json; charset=utf-8\n{\"a\": 1}".to_vec(),
            b"text/plain\nhello".to_vec(),
        ]
    },
    make: |random| {
        let mut input = b"multipart/form-data; boundary=b\n".to_vec();
        for _ in 0..random.below(4) {
            input.extend_from_slice(b"--b\r\n");
            input.extend_from_slice(
                random.pick(&[&b"a: 1\r\n"[..], b"", b"A:2\r\nb: \xe2\x82\xac\r\n"]).copied().unwrap_or_default(),
            );
            input.extend_from_slice(b"\r\n");
            input.extend(mutate::noise(random));
            input.extend_from_slice(b"\r\n");
        }
        input.extend_from_slice(b"--b--");
        input
    },
    run,
};

fn print(content_type: &str, body: &[u8]) -> Fingerprint {
    RequestPrint::new("POST", "/v1/things").content_type(content_type).body(body).print(&Printer::plain())
}

fn run(input: &[u8]) -> Result<u64, String> {
    let (line, body) = first_line(input);
    let content_type = String::from_utf8_lossy(line);
    let one = print(&content_type, body);
    must(one == print(&content_type, body) && one.matches(&one), || "it is not itself".to_owned())?;
    let mut longer = body.to_vec();
    longer.push(b'x');
    let other = print(&content_type, &longer);
    must(!one.matches(&other), || "one byte more is the same request".to_owned())?;

    let parts: Vec<&[u8]> = body.split(|byte| *byte == 0xff).take(8).collect();
    let form = |boundary: &str| {
        let mut text = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            text.extend_from_slice(format!("--{boundary}\r\nname: part {number}\r\n\r\n").as_bytes());
            text.extend_from_slice(part);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        print(&format!("multipart/form-data; boundary={boundary}"), &text)
    };
    // A client draws a boundary that its body does not hold.
    if !contains(body, b"hapax-") {
        let (first, second) = (form("hapax-1st"), form("hapax-second-boundary"));
        must(first.matches(&second), || "a new boundary makes another request".to_owned())?;
    }
    let schemes: Vec<u8> = one.digests().map(|(scheme, _)| scheme.0).collect();
    Ok(runner::hash((schemes, parts.len())))
}

fn contains(body: &[u8], word: &[u8]) -> bool {
    body.windows(word.len()).any(|window| window == word)
}
