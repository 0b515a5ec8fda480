use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
};

use crate::{Redis, redis::ask, server::free_port, wait_until};

/// A Redis Cluster of its own: masters, and replicas that take over from them.
pub struct RedisCluster {
    /// The masters first, then a replica for each, in the same order.
    pub nodes: Vec<Redis>,
    masters: usize,
}

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

impl RedisCluster {
    /// Three masters, each durable by itself.
    pub fn start() -> Self {
        Self::launch(false)
    }

    /// And a replica for each.
    pub fn with_replicas() -> Self {
        Self::launch(true)
    }

    fn launch(replicas: bool) -> Self {
        let count = if replicas { 2 * MASTERS } else { MASTERS };
        // A master that stands still for so long is called dead. Only where somebody can take over is that meant to happen.
        let patience = if replicas { "3000" } else { "15000" };
        let (nodes, buses): (Vec<Redis>, Vec<u16>) = (0..count).map(|_| node(patience)).unzip();
        for (number, master) in nodes.iter().take(MASTERS).enumerate() {
            let (first, last) = (number * SLOTS / MASTERS, (number + 1) * SLOTS / MASTERS - 1);
            ok(master, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        // Each with a number of its own, or they would have to agree on one first.
        for (number, node) in nodes.iter().enumerate() {
            ok(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
        }
        let first = &nodes[0];
        for (node, bus) in nodes.iter().zip(&buses).skip(1) {
            ok(first, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port()));
        }
        let cluster = Self { nodes, masters: MASTERS };
        cluster.wait("all know each other", |said| said.contains(&format!("cluster_known_nodes:{count}\r")));
        for (replica, master) in cluster.nodes.iter().skip(MASTERS).zip(&cluster.nodes) {
            let id = master.say("CLUSTER MYID").lines().nth(1).unwrap_or_default().to_owned();
            wait_until("the replica knows its master", || {
                replica.say(&format!("CLUSTER REPLICATE {id}")).starts_with("+OK")
            });
        }
        cluster.wait("every slot has a master", |said| said.contains("cluster_state:ok"));
        for replica in cluster.nodes.iter().skip(MASTERS) {
            wait_until("the replica follows", || replica.say("INFO replication").contains("master_link_status:up"));
        }
        for master in cluster.nodes.iter().take(MASTERS).filter(|_| replicas) {
            wait_until("the master sees it", || master.say("INFO replication").contains("connected_slaves:1"));
        }
        cluster
    }

    fn wait(&self, what: &str, holds: impl Fn(&str) -> bool) {
        for node in &self.nodes {
            wait_until(what, || holds(&node.say("CLUSTER INFO")));
        }
    }

    /// Names two of the servers: the others are found.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{},127.0.0.1:{}/", self.nodes[0].port(), self.nodes[1].port())
    }

    /// `kill -9` of a master, and waits until its replica has taken over.
    pub fn fail_over(&mut self, master: usize) {
        self.nodes[master].kill();
        let heir = self.nodes[self.masters + master].port();
        wait_until("the replica takes over", || ask(heir, "ROLE").is_some_and(|said| said.contains("master")));
    }

    /// Gives an empty slot to another master while the cluster is in use.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let id = self.nodes[to].say("CLUSTER MYID").lines().nth(1).unwrap_or_default().to_owned();
        for node in [to, from] {
            ok(&self.nodes[node], &format!("CLUSTER SETSLOT {slot} NODE {id}"));
        }
    }

    /// Carries a slot over to another master one key at a time, as an operator does, while the cluster is in use: first what
    /// comes first in this order. After each key the slot is half here and half there for as long as `between` takes. How many
    /// keys there were.
    pub fn carry_slot(
        &self,
        slot: u16,
        (from, to): (usize, usize),
        order: impl Fn(&[u8]) -> usize,
        mut between: impl FnMut(),
    ) -> usize {
        let id = |node: usize| self.nodes[node].say("CLUSTER MYID").lines().nth(1).unwrap_or_default().to_owned();
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        ok(target, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
        ok(source, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
        let (slot_text, port) = (slot.to_string(), target.port().to_string());
        let mut carried = 0;
        loop {
            let keys = tell(source.port(), &[b"CLUSTER", b"GETKEYSINSLOT", slot_text.as_bytes(), b"10000"]);
            let Some(key) = keys.into_iter().min_by_key(|key| order(key)) else { break };
            let parts: [&[u8]; 8] = [b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS", &key];
            // A key that has run out meanwhile needs no carrying.
            let said = tell(source.port(), &parts);
            assert!(said == [b"OK"] || said == [b"NOKEY"], "{said:?}");
            carried += 1;
            between();
        }
        for node in self.nodes.iter().take(self.masters).rev() {
            ok(node, &format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
        }
        carried
    }
}

/// A command whose parts may be any bytes; a list of words, or one.
fn tell(port: u16, parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut wire = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens"));
    let mut request = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        request.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        request.extend_from_slice(part);
        request.extend_from_slice(b"\r\n");
    }
    wire.get_mut().write_all(&request).expect("it reads");
    let mut first = String::new();
    wire.read_line(&mut first).expect("it answers");
    let first = first.trim_end();
    let Some(count) = first.strip_prefix('*') else { return vec![first.as_bytes()[1..].to_vec()] };
    let count: usize = count.parse().expect("a number of words");
    (0..count)
        .map(|_| {
            let mut length = String::new();
            wire.read_line(&mut length).expect("it answers");
            let mut word = vec![0; length.trim_end()[1..].parse::<usize>().expect("a length") + 2];
            wire.read_exact(&mut word).expect("it answers");
            word.truncate(word.len() - 2);
            word
        })
        .collect()
}

fn node(patience: &str) -> (Redis, u16) {
    // Its own choice is ten thousand above, which may be taken or be no port at all.
    let bus = free_port();
    let port = bus.to_string();
    let args = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &port,
        "--cluster-node-timeout",
        patience,
        "--cluster-config-file",
        "nodes.conf",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--maxmemory-policy",
        "noeviction",
        "--save",
        "",
        "--repl-diskless-sync-delay",
        "0",
    ];
    (Redis::with(&args), bus)
}

fn ok(node: &Redis, line: &str) {
    let said = node.say(line);
    assert!(said.starts_with("+OK"), "{line}: {said}");
}
