//! What an upstream sees of a request.

use http_body::Frame;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async fn seen(request: Request<Sent>) -> String {
    let script = Script::saying([OK]);
    let seen = std::sync::Arc::clone(&script.seen);
    assert_eq!(ask(request, script).await.unwrap().text(), Some("ok"));
    seen.lock().text().to_owned()
}

async fn seen_of(method: &str) -> String {
    let script = Script::saying(["HTTP/1.1 204 No Content\r\n\r\n"]);
    let seen = std::sync::Arc::clone(&script.seen);
    ask(of(method), script).await.unwrap();
    seen.lock().text().to_owned()
}

#[tokio::test]
async fn a_length_is_said_where_it_is_known_and_only_by_us() {
    let mut counted = post(Sent::whole("abc"));
    counted.headers_mut().insert("content-length", "7".parse().unwrap());
    counted.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
    counted.headers_mut().insert("connection", "close".parse().unwrap());
    assert_eq!(seen(counted).await, "POST /pay?x=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
    for method in ["GET", "DELETE", "HEAD", "PURGE"] {
        assert!(!seen_of(method).await.contains("content-length"), "{method}");
    }
    for method in ["POST", "PUT", "PATCH"] {
        assert_eq!(seen_of(method).await, format!("{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"));
    }
    for method in ["GET", "POST"] {
        let request = Request::builder().method(method).uri("/").body(Sent::coming(None, [frame("abc"), frame("d")]));
        let chunks =
            format!("{method} / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
        assert_eq!(seen(request.unwrap()).await, chunks);
    }
}

/// It was made for HTTP/2 and goes out on a fresh connection, which speaks HTTP/1.1.
#[tokio::test]
async fn a_host_in_the_target_is_said() {
    let request = Request::get("https://b:8443/x").body(Sent::nothing()).unwrap();
    assert_eq!(seen(request).await, "GET /x HTTP/1.1\r\nhost: b:8443\r\n\r\n");
}

#[tokio::test]
async fn trailers_are_sent_where_they_were_announced() {
    let trailers = HeaderMap::from_iter(
        ["x-sum", "x-other", "content-length"].map(|name| (name.parse().unwrap(), "1".parse().unwrap())),
    );
    let body = Sent::coming(None, [frame("abc"), Ok(Frame::trailers(trailers))]);
    let request = Request::post("/").header("trailer", "X-Sum, Content-Length").body(body).unwrap();
    let text = seen(request).await;
    assert!(text.ends_with("\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"), "{text}");
}

/// However little is taken at once, all of it arrives, in order.
#[tokio::test]
async fn a_request_that_is_taken_in_parts_arrives_whole() {
    let long = "0123456789".repeat(10_000);
    for (at_once, length) in [(1, 30), (7, 5_000), (1_000, 100_000)] {
        for counted in [true, false] {
            let body = Bytes::copy_from_slice(&long.as_bytes()[..length]);
            let body = if counted { Sent::whole(body) } else { Sent::coming(None, [Ok(Frame::data(body))]) };
            let mut script = Script::saying([OK]);
            let seen = std::sync::Arc::clone(&script.seen);
            let head =
                if counted { format!("content-length: {length}") } else { "transfer-encoding: chunked".to_owned() };
            let ends = if counted { ("", "") } else { (&*format!("{length:x}\r\n"), "\r\n0\r\n\r\n") };
            let all =
                format!("POST /pay?x=1 HTTP/1.1\r\nhost: a\r\n{head}\r\n\r\n{}{}{}", ends.0, &long[..length], ends.1);
            (script.at_once, script.listens_to) = (at_once, all.len());
            let answered = ask(post(body), script).await.unwrap();
            assert!(answered.rests);
            assert!(seen.lock().text() == all, "{at_once} {length} {counted}");
        }
    }
}

/// Half an upload is not a payment of one cent.
#[tokio::test]
async fn an_upload_that_breaks_off_is_seen_as_broken() {
    for (length, frames, most) in [
        (Some(10), vec![frame("abc"), Err("gone")], "content-length: 10\r\n\r\nabc"),
        (Some(10), vec![frame("abc")], "content-length: 10\r\n\r\nabc"),
        (Some(2), vec![frame("abc")], "content-length: 2\r\n\r\n"),
        (None, vec![frame("abc"), Err("gone")], "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        (None, vec![Err("gone")], "transfer-encoding: chunked\r\n\r\n"),
    ] {
        let script = Script::saying([OK]);
        let seen = std::sync::Arc::clone(&script.seen);
        let answered = ask(post(Sent::coming(length, frames)), script).await;
        assert!(matches!(answered, Err(Fault::Request)), "{answered:?}");
        let all = format!("POST /pay?x=1 HTTP/1.1\r\nhost: a\r\n{most}");
        assert!(all.starts_with(seen.lock().text()), "{}", seen.lock().text());
    }
}

/// Nothing of it was taken, which is the one thing that proves that nothing of it was seen.
#[tokio::test]
async fn what_was_sent_is_known_to_the_byte() {
    for takes in [0, 1, 20] {
        let mut script = Script::saying([b""; 0]).closed();
        script.takes = takes;
        let mut client = Client::new(script, MOST);
        assert!(client.exchange(post(Sent::whole("{}"))).await.is_err());
        assert_eq!(client.has_sent(), takes > 0);
    }
}
