use std::fs;

use crate::{
    Redis, Server, TempDir,
    redis::{DURABLE, ask},
    server::{Recipe, find, free_port},
    wait_until,
};

/// A Redis, its replica, and three Sentinels that make the replica take over.
pub struct RedisSentinel {
    pub master: Redis,
    pub replica: Redis,
    sentinels: Vec<Server>,
    _dir: TempDir,
}

/// What the Sentinels call the master.
const NAME: &str = "pay";

impl RedisSentinel {
    pub fn start() -> Self {
        let master = Redis::with(&[DURABLE, &["--repl-diskless-sync-delay", "0"]].concat());
        let port = master.port().to_string();
        let replica = Redis::with(&[DURABLE, &["--replicaof", "127.0.0.1", &port]].concat());
        wait_until("the replica follows", || replica.say("INFO replication").contains("master_link_status:up"));
        let dir = TempDir::new("sentinel");
        let sentinels: Vec<Server> = (0..3).map(|number| sentinel(&dir, number, master.port())).collect();
        for sentinel in &sentinels {
            wait_until("the Sentinels know each other and the replica", || {
                let said = ask(sentinel.port(), "INFO sentinel").unwrap_or_default();
                said.contains("slaves=1,sentinels=3")
            });
        }
        Self { master, replica, sentinels, _dir: dir }
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis://{}/?sentinel={NAME}", hosts.join(","))
    }

    /// `kill -9` of the master, and waits until the replica has taken over.
    pub fn fail_over(&mut self) {
        self.master.kill();
        // It hangs up on everybody while it changes.
        let port = self.replica.port();
        wait_until("the replica takes over", || ask(port, "ROLE").is_some_and(|said| said.contains("master")));
    }

    pub fn kill_sentinel(&mut self, number: usize) {
        self.sentinels[number].kill();
    }
}

fn sentinel(dir: &TempDir, number: usize, master: u16) -> Server {
    let port = free_port();
    let config = dir.join(&format!("sentinel-{number}.conf"));
    let text = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor {NAME} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 5000\n"
    );
    fs::write(&config, text).unwrap();
    let recipe = Recipe {
        program: find("redis-server", &[], "redis-server"),
        args: vec![config.display().to_string(), "--sentinel".to_owned()],
        envs: Vec::new(),
        user: None,
        log: dir.join(&format!("log-{number}")),
        port,
    };
    let mut server = Server::start(recipe);
    server.ready(|| ask(port, "PING").is_some_and(|said| said.starts_with("+PONG")));
    server
}
