//! Clients leave, gateways die, files change: nothing is lost and nothing happens twice.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{Answer, Conn, Dir, Reply, Start, Upstream, keyed, post, request, until};

/// The client gives up waiting. Its payment goes through all the same, and its retry gets the answer.
#[test]
fn a_client_that_leaves_does_not_take_its_payment_along() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/slow", "k1", "{}"));
    until("the upstream to be asked", || upstream.count() == 1);
    drop(conn);
    // Others come and go meanwhile, so the gateway has seen that the first has left.
    for number in 0..5 {
        assert_eq!(post(gateway.address, "/quick", &format!("q{number}"), "{}").status, 201);
    }
    go.send(()).unwrap();
    let again = post(gateway.address, "/slow", "k1", "{}");
    assert_eq!((again.status, again.text().as_str(), again.is_replay()), (201, "{\"charge\":0}", true));
    assert_eq!(upstream.asked().iter().filter(|asked| asked.path == "/slow").count(), 1);
}

/// The gateway is killed while the upstream is at it. Nobody knows how it ended, and the restarted gateway says so. What
/// was answered before is answered again.
#[test]
fn a_gateway_that_is_killed_forgets_nothing_and_repeats_nothing() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let file = "[default]\nlease = \"1s\"\n";
    let start = || Start::at(&dir).file(file).upstream(upstream.address).go();
    let gateway = start();
    let done = post(gateway.address, "/quick", "done", "{}");
    assert_eq!(done.status, 201);
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/slow", "k1", "{}"));
    until("the upstream to be asked", || upstream.count() == 2);
    gateway.kill();
    let gateway = start();
    let again = post(gateway.address, "/quick", "done", "{}");
    assert!(again.is_replay());
    assert_eq!(again.body, done.body);
    // Until the lease has run out it counts as under way, then as in doubt; never as free.
    until("doubt", || {
        let answer = post(gateway.address, "/slow", "k1", "{}");
        assert_eq!(answer.status, 409, "{}", answer.text());
        answer.says("\"code\":\"in_doubt\"")
    });
    assert_eq!(upstream.count(), 2);
    drop(go);
}

/// Twenty times killed in the middle of a crowd: every answer that a client has seen stands, and no key was sent upstream a
/// second time, though every client that lost its gateway comes back with its key.
#[test]
fn twenty_kills_under_load_break_no_promise() {
    let upstream = Upstream::new(|asked, number, _| {
        Reply::json(201, &format!("{{\"n\":{number},\"body\":{}}}", String::from_utf8_lossy(&asked.body)))
    });
    let dir = Dir::new();
    let file = "[default]\nlease = \"1s\"\non_in_flight = \"reject\"\n";
    let start = || Start::at(&dir).file(file).upstream(upstream.address).go();
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let mut lost: Vec<String> = Vec::new();
    let mut doubts = 0;
    for round in 0..20 {
        let gateway = start();
        doubts += lost.iter().filter(|key| come_back(gateway.address, key)).count();
        // The last few rounds are asked for every time, all of them at the end.
        for (key, body) in seen.iter().rev().take(24) {
            stands(gateway.address, key, body);
        }
        let address = gateway.address;
        let before = upstream.count();
        let clients: Vec<_> = (0..4).map(|client| std::thread::spawn(move || crowd(address, round, client))).collect();
        until("some work to be done", || upstream.count() > before + 20);
        gateway.kill();
        for client in clients {
            let (mut answered, broken) = client.join().unwrap();
            answered.reverse();
            seen.extend(answered.into_iter().take(3));
            lost.extend(broken);
        }
    }
    let gateway = start();
    for (key, body) in &seen {
        stands(gateway.address, key, body);
    }
    doubts += lost.iter().filter(|key| come_back(gateway.address, key)).count();
    assert!(seen.len() >= 60 && lost.len() >= 20, "{} answered, {} lost", seen.len(), lost.len());
    assert!(doubts > 0, "no kill met anything under way, so this shows nothing");
    let mut bodies: Vec<Vec<u8>> = upstream.asked().into_iter().map(|asked| asked.body).collect();
    let all = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), all, "some request went upstream twice");
}

fn pay_once(address: std::net::SocketAddr, key: &str) -> std::io::Result<Answer> {
    let mut conn = Conn::try_to(address)?;
    conn.try_send(keyed("/pay", key, &format!("\"{key}\"")).as_bytes())?;
    conn.try_answer(false)
}

/// Pays until the gateway is gone: what was answered, and the key that was not.
fn crowd(address: std::net::SocketAddr, round: usize, client: usize) -> (Vec<(String, Vec<u8>)>, Option<String>) {
    let mut answered = Vec::new();
    for number in 0.. {
        let key = format!("{round}-{client}-{number}");
        match pay_once(address, &key) {
            Ok(answer) if answer.status == 201 => answered.push((key, answer.body)),
            Ok(_) | Err(_) => return (answered, Some(key)),
        }
    }
    (answered, None)
}

fn stands(address: std::net::SocketAddr, key: &str, body: &[u8]) {
    let again = pay_once(address, key).unwrap();
    assert!(again.is_replay() && again.body == body, "{key}: {}", again.text());
}

/// A client that lost its gateway sends the same again. It gets the answer, or runs if nothing had been sent, or is told
/// that nobody knows; that is the count.
fn come_back(address: std::net::SocketAddr, key: &str) -> bool {
    let again = pay_once(address, key).unwrap();
    assert!(matches!(again.status, 201 | 409), "{key}: {}", again.text());
    again.status == 409
}

/// The order to stop comes while a payment is under way: no new work is taken, the payment is finished and answered.
#[test]
fn stopping_finishes_what_is_under_way() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let address = gateway.address;
    let mut conn = Conn::to(address);
    conn.send(keyed("/slow", "k1", "{}"));
    let mut left = Conn::to(address);
    left.send(keyed("/slow", "k2", "{}"));
    until("the upstream to be asked", || upstream.count() == 2);
    drop(left);
    gateway.signal("TERM");
    gateway.wait_for("stopping");
    until("the door to be closed", || std::net::TcpStream::connect(address).is_err());
    // One for each; which of the two goes first is not ours to say. The second has lost its client, not its end.
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(conn.answer().status, 201);
    assert_eq!(gateway.wait().code(), Some(0));
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in ["k1", "k2"] {
        assert!(post(gateway.address, "/slow", key, "{}").is_replay(), "{key}");
    }
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (upstream, _go) = Upstream::held();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/slow", "k1", "{}"));
    until("the upstream to be asked", || upstream.count() == 1);
    gateway.signal("INT");
    gateway.wait_for("stopping");
    gateway.signal("INT");
    assert_eq!(gateway.wait().code(), Some(3));
}

/// The file changes while a payment is under way: the payment ends as it began, and the next goes the new way.
#[test]
fn a_reload_disturbs_nobody_and_a_bad_file_changes_nothing() {
    let (upstream, go) = Upstream::held();
    let other = Upstream::new(|_, _, _| Reply::json(200, "\"other\""));
    let dir = Dir::new();
    let text = |address: std::net::SocketAddr| format!("[gateway]\nupstream = \"http://{address}\"\n");
    let gateway = Start::at(&dir).file(&text(upstream.address)).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/slow", "k1", "{}"));
    until("the upstream to be asked", || upstream.count() == 1);
    dir.write("hapax.toml", &(text(other.address) + "[[route]]\nmatch = \"POST /strict\"\nkey = \"required\"\n"));
    gateway.signal("HUP");
    gateway.wait_for("hapax: reloaded");
    assert_eq!(post(gateway.address, "/new", "k2", "{}").text(), "\"other\"");
    let without = Conn::to(gateway.address).send(request("POST", "/strict", &[], "{}")).answer();
    assert_eq!(without.status, 400);
    go.send(()).unwrap();
    assert_eq!(conn.answer().text(), "{\"charge\":0}");
    assert!(post(gateway.address, "/slow", "k1", "{}").is_replay());
    dir.write("hapax.toml", &(text(upstream.address) + "[[route]]\nmtach = \"POST /x\"\n"));
    gateway.signal("HUP");
    gateway.wait_for("not reloaded");
    gateway.wait_for("did you mean `match`?");
    assert_eq!(post(gateway.address, "/new", "k3", "{}").text(), "\"other\"");
    assert_eq!((upstream.count(), other.count()), (1, 2));
}
