//! The connection of a request is gone when it is to be sent. Before the first byte nothing has happened, and after it nobody
//! knows.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::net::TcpListener;

use hapax_testkit::Postgres;

use crate::support::{Answer, Dir, Gateway, Reply, Start, Upstream, post, until};

/// A PostgreSQL on which a begin takes as long as the test likes, once it was told to: a request has its connection then, and
/// nothing of it was sent.
struct Slow(Postgres);

impl Slow {
    fn start() -> Self {
        Self(Postgres::start())
    }

    fn gateway(&self, dir: &Dir, upstream: &Upstream) -> Gateway {
        // The connection that lies in the pool is still trusted when the test comes to it.
        let file = format!("[upstream.default]\nurl = \"http://{}\"\nidle = \"60s\"\n", upstream.address);
        Start::at(dir).arg("--store", self.0.url()).file(&file).go()
    }

    /// From here on nothing new is recorded.
    fn hold(&self) {
        self.0.say(
            "CREATE TABLE held AS SELECT true; \
             CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             WHILE EXISTS (SELECT FROM public.held) LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN NEW; END $$; \
             CREATE TRIGGER wait BEFORE INSERT ON hapax.records FOR EACH ROW EXECUTE FUNCTION wait()",
        );
    }

    fn wait_for_a_begin(&self) {
        let asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("a request to be begun", || self.0.say(asked).trim() == "1");
    }

    fn let_go(&self) {
        self.0.say("DELETE FROM held");
    }

    /// A payment that is being begun while something happens to the upstream, whose connection lies in the pool by then; and its
    /// answer.
    fn begun_while(&self, dir: &Dir, upstream: &Upstream, happens: impl FnOnce(&Upstream)) -> (Gateway, Answer) {
        let gateway = self.gateway(dir, upstream);
        let address = gateway.address;
        assert_eq!(post(address, "/pay", "first", "{}").status, 201);
        self.hold();
        let asking = std::thread::spawn(move || post(address, "/pay", "k1", "{}"));
        self.wait_for_a_begin();
        happens(upstream);
        self.let_go();
        (gateway, asking.join().unwrap())
    }
}

/// The upstream restarts just when a payment was begun: its pooled connection is closed, and nobody answers at its address.
/// Nothing was sent, so what was begun is taken back: the key is free, also for another request, which runs.
#[test]
fn what_was_begun_and_could_not_be_sent_leaves_the_key_free() {
    let (store, dir, upstream) = (Slow::start(), Dir::new(), Upstream::counting());
    let (gateway, answer) = store.begun_while(&dir, &upstream, Upstream::leave);
    let address = gateway.address;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(
        answer.says("\"safe_new_key\":true") && answer.says("\"next_action\":\"retry_same_key\""),
        "{}",
        answer.text()
    );
    assert_eq!((upstream.count(), upstream.connections()), (1, 1), "it went by the connection that was there");
    let back = Upstream::on(TcpListener::bind(upstream.address).unwrap(), |_, _, _| Reply::json(200, "{}"));
    let other = post(address, "/pay", "k1", "{\"other\":true}");
    assert_eq!((other.status, other.is_replay()), (200, false), "{}", other.text());
    assert!(post(address, "/pay", "k1", "{\"other\":true}").is_replay());
    assert_eq!(back.count(), 1);
}

/// The same, but the upstream only closes its idle connections: the payment goes out on a fresh one, once.
#[test]
fn what_was_not_sent_on_a_closed_connection_is_sent_on_a_fresh_one() {
    let (store, dir, upstream) = (Slow::start(), Dir::new(), Upstream::counting());
    let (gateway, answer) = store.begun_while(&dir, &upstream, Upstream::close_all);
    let address = gateway.address;
    assert_eq!((answer.status, answer.is_replay()), (201, false), "{}", answer.text());
    assert_eq!((upstream.count(), upstream.connections()), (2, 2));
    assert!(post(address, "/pay", "k1", "{}").is_replay());
    assert_eq!(upstream.count(), 2);
}

/// A pooled connection takes the request and closes without an answer. Most proxies send such a request again on a fresh one,
/// since the upstream "must have closed it before"; this one may have charged the card.
#[test]
fn what_was_sent_on_a_pooled_connection_is_not_sent_again() {
    let upstream = Upstream::new(|asked, number, _| match asked.path.as_str() {
        "/dies" => Reply::Last(Vec::new()),
        _ => Reply::json(201, &format!("{{\"charge\":{number}}}")),
    });
    let dir = Dir::new();
    let file = format!("[upstream.default]\nurl = \"http://{}\"\nidle = \"60s\"\n", upstream.address);
    let gateway = Start::at(&dir).file(&file).go();
    for key in ["k1", "k2", "k3"] {
        assert_eq!(post(gateway.address, "/pay", key, "{}").status, 201);
        let (asked, connections) = (upstream.count(), upstream.connections());
        let answer = post(gateway.address, "/dies", key, "{}");
        assert!(answer.status == 502 && answer.says("\"safe_new_key\":false"), "{}", answer.text());
        for _ in 0..2 {
            let again = post(gateway.address, "/dies", key, "{}");
            assert!(again.status == 409 && again.says("\"code\":\"in_doubt\""), "{}", again.text());
        }
        assert_eq!(
            (upstream.count(), upstream.connections()),
            (asked + 1, connections),
            "sent once, where it was idle"
        );
    }
}
