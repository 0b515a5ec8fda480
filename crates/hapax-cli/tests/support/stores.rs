use hapax_testkit::{Postgres, Redis};

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

/// One store that must hold what all of them promise.
pub struct Row {
    pub name: &'static str,
    pub durable: fn() -> Box<dyn SharedServer>,
    /// Set up so that it may forget, and the word that must be said about it.
    pub forgetful: fn() -> (Box<dyn SharedServer>, &'static str),
}

pub const ROWS: [Row; 2] = [
    Row {
        name: "redis",
        durable: || Box::new(Redis::start()),
        forgetful: || {
            let args =
                ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "allkeys-lru", "--save", ""];
            (Box::new(Redis::with(&args)), "maxmemory-policy is allkeys-lru")
        },
    },
    Row {
        name: "postgres",
        durable: || Box::new(Postgres::start()),
        forgetful: || (Box::new(Postgres::with(&["synchronous_commit=off"])), "synchronous_commit is off"),
    },
];
