//! Where an answer ends.

use super::*;

#[tokio::test]
async fn a_counted_answer_is_read_to_its_length_and_leaves_the_connection_fit() {
    let answered =
        answer("HTTP/1.1 201 Created\r\nX-One: a\r\nContent-Length: 3\r\nX-Two:  b \r\n\r\nabc").await.unwrap();
    assert_eq!((answered.status, answered.text(), answered.rests), (201, Some("abc"), true));
    let names: Vec<_> = answered.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    assert_eq!(names, [("x-one", &b"a"[..]), ("content-length", b"3"), ("x-two", b"b")]);
}

/// An upstream that is asked for a page says "wait" in several ways first.
#[tokio::test]
async fn interim_answers_are_passed_over() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 7\r\n\r\n";
    let answered = answer(format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")).await.unwrap();
    assert_eq!((answered.status, answered.text(), answered.rests), (200, Some("ok"), true));
    assert!(matches!(last_answer(interim).await, Err(Fault::Closed)));
}

/// Each of them is short, but there is no end of them; nor is there of empty lines.
#[tokio::test]
async fn who_only_says_that_there_will_be_an_answer_is_not_heard_for_ever() {
    for again in ["HTTP/1.1 100 C\r\n\r\n", "\r\n", "\n"] {
        let said = again.repeat(MOST.head_bytes / again.len() + 1);
        assert!(matches!(answer(said).await, Err(Fault::Head("it is too long"))), "{again:?}");
    }
}

/// Whether it is wanted is not decided here; but nothing after it is HTTP.
#[tokio::test]
async fn a_change_of_protocol_is_given_on_and_ends_the_connection() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    let answered = answer(switching).await.unwrap();
    assert_eq!((answered.status, answered.text(), answered.rests), (101, Some(""), false));
}

#[tokio::test]
async fn answers_without_bodies_have_none_whatever_they_say() {
    for (method, head) in [
        ("HEAD", "200 OK\r\nContent-Length: 5000"),
        ("HEAD", "200 OK\r\nTransfer-Encoding: chunked"),
        ("HEAD", "200 OK"),
        ("POST", "204 No Content"),
        ("POST", "204 No Content\r\nContent-Length: 3"),
        ("POST", "304 Not Modified\r\nContent-Length: 3"),
        ("POST", "200 OK\r\nContent-Length: 0"),
    ] {
        let said = format!("HTTP/1.1 {head}\r\n\r\n");
        let answered = ask(of(method), Script::saying([said])).await.unwrap();
        assert_eq!((answered.text(), answered.rests), (Some(""), true), "{method} {head}");
    }
}

#[tokio::test]
async fn chunks_are_joined_and_what_comes_after_them_is_told() {
    let said = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n00000000000000000005;why=not\r\ndefgh\r\n2  \r\nij\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n";
    let answered = answer(said).await.unwrap();
    assert_eq!((answered.text(), answered.rests), (Some("abcdefghij"), true));
    assert_eq!(answered.trailers, [("x-sum".to_owned(), b"1".to_vec()), ("x-other".to_owned(), b"2".to_vec())]);
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    let said = "HTTP/1.1 200 OK\r\n\r\nall of this";
    let answered = last_answer(said).await.unwrap();
    assert_eq!((answered.text(), answered.rests), (Some("all of this"), false));
    let answered = ask(of("POST"), Script::saying([said]).reset()).await.unwrap();
    assert_eq!(answered.text(), None, "a reset is no end");
}

#[tokio::test]
async fn who_says_so_or_is_old_is_not_asked_again() {
    for head in [
        "HTTP/1.0 200 OK\r\nContent-Length: 2",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2",
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nConnection: keep-alive\r\nContent-Length: 2",
    ] {
        let answered = answer(format!("{head}\r\n\r\nok")).await.unwrap();
        assert_eq!((answered.text(), answered.rests), (Some("ok"), false), "{head}");
    }
}

/// What came is less than what was said, and must not look like all of it.
#[tokio::test]
async fn an_answer_that_is_cut_short_is_broken_and_not_short() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n";
    let body = chunked.find("\r\n\r\n").unwrap() + 4;
    let counted = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    for said in (body..chunked.len()).map(|end| &chunked[..end]).chain([counted, &counted[..counted.len() - 3]]) {
        for script in [Script::saying([said]).closed(), Script::saying([said]).reset()] {
            let answered = ask(of("POST"), script).await.unwrap();
            assert_eq!((answered.text(), answered.rests), (None, false), "{said:?}");
        }
    }
    for end in 0..body {
        assert!(last_answer(&chunked[..end]).await.is_err(), "{:?}", &chunked[..end]);
    }
}

#[tokio::test]
async fn chunks_that_are_none_break_the_answer() {
    for chunks in
        ["zz\r\nabc\r\n", "10000000000000003\r\nabc\r\n", "3\r\nabcdef\r\n0\r\n\r\n", "\r\n", "-1\r\n", "3\nabc\r\n"]
    {
        let said = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let answered = answer(said).await.unwrap();
        assert_eq!((answered.text(), answered.rests), (None, false), "{chunks:?}");
    }
}

#[tokio::test]
async fn heads_that_are_none_are_refused() {
    for head in [
        "200 OK",
        "SSH-2.0-OpenSSH_9.6",
        "HTTP/2.0 200 OK",
        "HTTP/1.1 2OO OK",
        "HTTP/1.1 099 Low",
        "HTTP/1.1 200 OK\r\nX: a\0b",
        "HTTP/1.1 200 OK\r\nX : a",
        "HTTP/1.1 200 OK\r\nX: a\r\n folded",
        "HTTP/1.1 200 OK\r\nno colon",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999",
        "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
    ] {
        assert!(matches!(answer(format!("{head}\r\n\r\n")).await, Err(Fault::Head(_))), "{head}");
    }
    // Whoever speaks something else is not waited for.
    assert!(matches!(answer("220 mail.example ESMTP\r\n").await, Err(Fault::Head(_))));
}

/// What is plain is read, though nobody should write it.
#[tokio::test]
async fn old_servers_are_understood() {
    for said in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "\r\n\nHTTP/1.1 200\r\nContent-Length: 2\r\n\nok",
        "HTTP/1.1 200 caf\u{e9}\r\nContent-Length: 2\r\nX: caf\u{e9}\r\n\r\nok",
    ] {
        let answered = answer(said).await.unwrap();
        assert_eq!((answered.text(), answered.rests), (Some("ok"), true), "{said:?}");
    }
}

#[tokio::test]
async fn a_head_has_so_many_headers_and_no_more() {
    let with = |count: usize| {
        let lines: String = (1..count).map(|number| format!("X-{number}: {number}\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok")
    };
    for count in [63, 64, 65, 999, 1_000] {
        let answered = answer(with(count)).await.unwrap();
        assert_eq!((answered.headers.len(), answered.text(), answered.rests), (count, Some("ok"), true));
    }
    assert!(matches!(answer(with(1_001)).await, Err(Fault::Head(_))));
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_kept() {
    let endless = std::iter::once("HTTP/1.1 200 OK\r\nX: ".to_owned()).chain((0..500).map(|_| "a".repeat(1_024)));
    let script = Script::saying(endless);
    assert!(matches!(ask(of("POST"), script).await, Err(Fault::Head(_))));
    // What comes before it is as good as a part of it, and many a slow upstream says that it is at work.
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000);
    let answered = answer(format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).await.unwrap();
    assert_eq!(answered.status, 200);
}
