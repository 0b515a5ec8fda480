use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use crate::{
    Server, TempDir,
    server::{Recipe, find, free_port},
};

/// A NATS server with JetStream of its own.
#[derive(Debug)]
pub struct Nats {
    server: Server,
    _dir: TempDir,
}

impl Nats {
    /// As it comes from its package, with its data on disk.
    pub fn start() -> Self {
        Self::with("")
    }

    /// With more lines in its configuration.
    pub fn with(lines: &str) -> Self {
        Self::at(free_port(), lines)
    }

    pub(crate) fn at(port: u16, lines: &str) -> Self {
        let mut nats = Self::launch(port, lines);
        nats.wait();
        nats
    }

    /// Without waiting: servers of a cluster come up together.
    pub(crate) fn launch(port: u16, lines: &str) -> Self {
        let dir = TempDir::new("nats");
        let config = dir.join("nats.conf");
        let data = dir.join("data");
        let text = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {data:?} }}\n{lines}\n");
        fs::write(&config, text).unwrap();
        let recipe = Recipe {
            program: find("nats-server", &["/usr/sbin/nats-server".into()], "nats-server"),
            args: vec!["--config".to_owned(), config.display().to_string()],
            envs: Vec::new(),
            user: None,
            log: dir.join("log"),
            port,
        };
        Self { server: Server::start(recipe), _dir: dir }
    }

    /// It listens once JetStream has read its data.
    pub(crate) fn wait(&mut self) {
        let port = self.server.port();
        self.server.ready(|| greeting(port).is_some_and(|said| said.contains("\"jetstream\":true")));
    }

    pub const fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// The names of all its streams, for tests that look behind the store's back.
    pub fn streams(&self) -> Vec<String> {
        let said = ask(self.port(), "$JS.API.STREAM.NAMES", "").expect("it answers");
        let names = said["streams"].as_array().cloned().unwrap_or_default();
        names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
    }

    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// As an operator stops it.
    pub fn stop(&mut self) {
        self.server.stop("TERM");
    }

    pub fn pause(&self) {
        self.server.pause();
    }

    pub fn resume(&self) {
        self.server.resume();
    }

    /// On the same data and the same port.
    pub fn restart(&mut self) {
        self.server.launch_again();
        self.wait();
    }
}

/// One request, in the protocol's own words.
pub(crate) fn ask(port: u16, subject: &str, body: &str) -> Option<serde_json::Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let (inbox, length) = ("_INBOX.testkit", body.len());
    let asked = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB {inbox} 1\r\nPUB {subject} {inbox} {length}\r\n{body}\r\nPING\r\n"
    );
    stream.write_all(asked.as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.starts_with("MSG ") {
            let length = line.split_whitespace().last()?.parse().ok()?;
            let mut bytes = vec![0; length];
            reader.read_exact(&mut bytes).ok()?;
            return serde_json::from_slice(&bytes).ok();
        }
    }
}

/// The line with which it greets everybody.
fn greeting(port: u16) -> Option<String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_server_comes_back_on_its_port() {
        let mut nats = Nats::start();
        let port = nats.port();
        nats.kill();
        assert!(greeting(port).is_none());
        nats.restart();
        nats.pause();
        nats.resume();
        assert!(greeting(port).is_some_and(|said| said.starts_with("INFO ")));
        assert_eq!(nats.port(), port);
    }
}
