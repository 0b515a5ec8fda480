//! Answers that come before the request's end.

use super::*;

fn endless() -> Sent {
    let mut body = Sent::coming(None, [frame("abc")]);
    body.endless = true;
    body
}

/// It is passed on; but what the upstream has not read of the request it may take for the next one.
#[tokio::test]
async fn an_answer_before_the_requests_end_is_given_and_ends_the_connection() {
    for said in [
        "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
    ] {
        let answered = ask(post(endless()), Script::saying([said])).await.unwrap();
        assert_eq!((answered.status, answered.text(), answered.rests), (413, Some("no"), false));
    }
}

/// Both go on at once: the rest of the request goes out while the answer is read.
#[tokio::test]
async fn a_request_goes_on_while_its_answer_comes() {
    let long = "0123456789".repeat(20_000);
    let mut script = Script::saying(["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "one", "two"]);
    script.at_once = 50_000;
    let seen = std::sync::Arc::clone(&script.seen);
    let frames = long.as_bytes().chunks(30_000).map(|piece| Ok(http_body::Frame::data(Bytes::copy_from_slice(piece))));
    let mut client = Client::new(script, MOST);
    let head = client.exchange(post(Sent::coming(Some(200_000), frames))).await.unwrap();
    let before = seen.lock().bytes.len();
    assert!(before < 200_000);
    let answered = read_on(&mut client, &head).await;
    assert_eq!((answered.text(), answered.rests), (Some("onetwo"), false));
    assert!(seen.lock().bytes.len() > before);
}

/// An upstream refuses an upload, closes its side, and takes no more: what it said is there to be read.
#[tokio::test]
async fn who_takes_no_more_is_still_heard() {
    for (said, body) in [
        ("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", Some("no")),
        // Whether that is all of it nobody can say.
        ("HTTP/1.1 413 Too Large\r\n\r\nno", None),
    ] {
        let mut script = Script::saying([said]).closed();
        script.takes = 60;
        let answered = ask(post(Sent::whole("0123456789".repeat(10))), script).await.unwrap();
        assert_eq!((answered.status, answered.text(), answered.rests), (413, body, false));
    }
}

/// The rest of the request breaks off while its answer is read: what comes of that is not all of an answer to it.
#[tokio::test]
async fn an_upload_that_breaks_off_takes_its_answer_with_it() {
    let script = Script::saying(["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "one", "two"]);
    let seen = std::sync::Arc::clone(&script.seen);
    let frames = (0..4).map(|_| Ok(http_body::Frame::data(Bytes::from(vec![b'a'; 20_000])))).chain([Err("gone")]);
    let answered = ask(post(Sent::coming(Some(1_000_000), frames)), script).await.unwrap();
    assert_eq!((answered.text(), answered.rests), (None, false));
    assert!(seen.lock().bytes.len() < 1_000_000);
}
