//! What strangers can make us hold: memory, work, connections. All of it is bounded, and who is over the bound keeps its
//! key.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{
    Conn, Dir, Start, Upstream, get,
    http2::{HEADERS, Http2, RST_STREAM, ask, frame},
    post, request, until,
};

/// A client opens a stream, waits until its payment is under way, and resets the stream; the payment goes on. Streams that
/// were reset count for nothing in HTTP/2, so one connection could have any number of payments under way.
#[test]
fn work_of_streams_that_were_reset_counts_for_their_connection() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).file("[limits]\nstreams = 4\n").go();
    let mut conn = Http2::to(gateway.address, &[]);
    let pay =
        |number: u32| ask("POST", "/slow", &[("idempotency-key", &format!("k{number}")), ("content-length", "0")]);
    for number in 0..4_u32 {
        conn.send(&frame(HEADERS, 5, number * 2 + 1, &pay(number))).unwrap();
        until("the upstream to be asked", || upstream.count() == number as usize + 1);
        conn.send(&frame(RST_STREAM, 0, number * 2 + 1, &8_u32.to_be_bytes())).unwrap();
    }
    conn.send(&frame(HEADERS, 5, 9, &pay(4))).unwrap();
    // It is answered, and by us: the upstream answers nobody yet.
    assert!(conn.until("an answer", |frame| frame.kind == HEADERS && frame.stream == 9).is_some());
    assert_eq!(upstream.count(), 4);
    // Others are not concerned.
    assert_eq!(get(gateway.address, "/").status, 201);
    for _ in 0..5 {
        go.send(()).unwrap();
    }
    // And when there is room again the same key runs.
    let mut number = 9;
    until("room for the fifth", || {
        number += 2;
        conn.send(&frame(HEADERS, 5, number, &pay(4))).unwrap();
        let stream = number;
        conn.until("an answer", |frame| frame.kind == HEADERS && frame.stream == stream).expect("a connection");
        upstream.asked().iter().filter(|asked| asked.path == "/slow").count() == 5
    });
}

/// Many large bodies at once: each is within its limit, and all together are not what the machine has. Who finds no room is
/// told to come again; nothing was begun.
#[test]
fn bodies_take_no_more_memory_than_they_may_all_together() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).file("[limits]\nbuffered_bytes = \"1MiB\"\n").go();
    let headers =
        |key| [("Idempotency-Key", key), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    let large = format!("\"{}\"", "x".repeat(900 << 10));
    let whole = request("POST", "/pay", &headers("large"), &large);
    let mut first = Conn::to(gateway.address);
    first.send(&whole[..whole.len() - 10]);
    let other = format!("\"{}\"", "y".repeat(300 << 10));
    let refused = || Conn::to(gateway.address).send(request("POST", "/pay", &headers("other"), &other)).answer();
    until("the first to take its room", || {
        let answer = refused();
        if answer.status != 503 {
            // This one came before the first, which may have found no room itself: it tries again.
            first = Conn::to(gateway.address);
            first.send(&whole[..whole.len() - 10]);
            return false;
        }
        answer.says("\"next_action\":\"retry_same_key\"")
    });
    let before = upstream.count();
    assert_eq!(refused().status, 503);
    // A body whose length nobody knows finds out on its way.
    let mut chunked = Conn::to(gateway.address);
    chunked.send("POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: c\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..300 {
        if chunked.try_send(format!("400\r\n{}\r\n", "z".repeat(1024)).as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(chunked.answer().status, 503);
    // Small ones still find room, and what needs no memory is not asked for any.
    assert_eq!(post(gateway.address, "/pay", "small", "{}").status, 201);
    assert_eq!(Conn::to(gateway.address).send(request("POST", "/upload", &[], &other)).answer().status, 201);
    assert_eq!(upstream.count(), before + 2);
    assert_eq!(first.send(&whole[whole.len() - 10..]).answer().status, 201);
    until("room for the other", || refused().status == 201);
}

/// Ten ask at once for one payment, and nine wait for the one that runs. None of them holds a connection to the upstream
/// meanwhile, or the ten that there are would be taken for as long as anybody waits.
#[test]
fn waiting_for_an_answer_holds_no_connection() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let file = format!(
        "[upstream.default]\nurl = \"http://{}\"\nconnections = 10\nrequests_per_tenant = 10\n[default]\non_in_flight = {{ wait = \"120s\" }}\n",
        upstream.address
    );
    let gateway = Start::at(&dir).file(&file).go();
    let address = gateway.address;
    let mut clients: Vec<Conn> = (0..10).map(|_| Conn::to(address)).collect();
    for conn in &mut clients {
        conn.send(request("POST", "/slow", &[("Idempotency-Key", "k1"), ("Authorization", "Bearer one")], "{}"));
    }
    until("the upstream to be asked", || upstream.count() > 0);
    let others: Vec<_> = (0..9)
        .map(|number| {
            std::thread::spawn(move || {
                let ask = || post(address, "/pay", &format!("k{number}"), "{}").status == 201;
                until("somebody else to be served", ask);
            })
        })
        .collect();
    for other in others {
        other.join().unwrap();
    }
    go.send(()).unwrap();
    for mut conn in clients {
        assert_eq!(conn.answer().status, 201);
    }
    assert_eq!(upstream.asked().iter().filter(|asked| asked.path == "/slow").count(), 1);
}
