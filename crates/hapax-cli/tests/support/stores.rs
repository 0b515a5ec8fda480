use hapax_testkit::{Nats, Postgres, Redis};

/// A real server that several processes share.
pub trait SharedServer {
    fn url(&self) -> String;
}

impl SharedServer for Redis {
    fn url(&self) -> String {
        Redis::url(self)
    }
}

impl SharedServer for Postgres {
    fn url(&self) -> String {
        Postgres::url(self)
    }
}

impl SharedServer for Nats {
    fn url(&self) -> String {
        Nats::url(self)
    }
}

/// One store that must hold what all of them promise.
pub struct Row {
    pub name: &'static str,
    /// Set up as well as it can be.
    pub sound: fn() -> Box<dyn SharedServer>,
    /// What is said at the start about what it promises then.
    pub promises: &'static str,
    /// What lets it carry work of which nothing is known.
    pub policy: &'static str,
    /// Set up so that it may forget, and the word that must be said about it.
    pub forgetful: fn() -> (Box<dyn SharedServer>, &'static str),
}

pub const ROWS: [Row; 3] = [
    Row {
        name: "redis",
        sound: || Box::new(Redis::start()),
        promises: "promises: durable",
        policy: "",
        forgetful: || {
            let args =
                ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "allkeys-lru", "--save", ""];
            (Box::new(Redis::with(&args)), "maxmemory-policy is allkeys-lru")
        },
    },
    Row {
        name: "postgres",
        sound: || Box::new(Postgres::start()),
        promises: "promises: durable",
        policy: "",
        forgetful: || (Box::new(Postgres::with(&["synchronous_commit=off"])), "synchronous_commit is off"),
    },
    Row {
        name: "nats",
        sound: || Box::new(Nats::start()),
        // No server shows whether it syncs, so none is believed to.
        promises: "promises: best effort",
        policy: "[default]\nbest_effort = [\"unsafe\"]\n",
        forgetful: || (Box::new(Nats::start()), "kept on one server"),
    },
];
