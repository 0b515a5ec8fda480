use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    time::Duration,
};

use crate::{
    Server, TempDir,
    server::{Recipe, find, free_port},
};

/// A Redis of its own.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    _dir: TempDir,
}

/// What makes a single Redis durable.
pub(crate) const DURABLE: &[&str] =
    &["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--save", ""];

/// The second is one that no certificate of the tests names.
const TWO_NAMES: &[&str] = &["--bind", "127.0.0.1", "127.0.0.2"];

impl Redis {
    /// Durable, as an operator would set it up.
    pub fn start() -> Self {
        Self::launch(DURABLE)
    }

    /// Durable, and with further settings.
    pub fn durable_with(args: &[&str]) -> Self {
        Self::launch(&[DURABLE, args].concat())
    }

    /// Set up in another way.
    pub fn with(args: &[&str]) -> Self {
        Self::launch(args)
    }

    /// Durable, and reached by TLS as well, with `server.pem` and `server-key.pem` of this directory; and the port for that.
    pub fn with_tls(certificates: &Path) -> (Self, u16) {
        let (port, at) = (free_port(), |name: &str| certificates.join(name).display().to_string());
        let (port_text, certificate, key) = (port.to_string(), at("server.pem"), at("server-key.pem"));
        let tls = ["--tls-port", &port_text, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let args =
            [DURABLE, &tls, &["--tls-auth-clients", "no", "--tls-ca-cert-file", &certificate], TWO_NAMES].concat();
        (Self::launch(&args), port)
    }

    /// Quick and forgetful, for what is not about durability.
    pub fn forgetful() -> Self {
        Self::launch(&["--save", ""])
    }

    fn launch(args: &[&str]) -> Self {
        let dir = TempDir::new("redis");
        let port = free_port();
        let mut all: Vec<String> =
            ["--bind", "127.0.0.1", "--port", &port.to_string(), "--daemonize", "no"].map(str::to_owned).into();
        all.extend(["--dir".to_owned(), dir.path().display().to_string()]);
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let recipe = Recipe {
            program: find("redis-server", &[], "redis-server"),
            args: all,
            envs: Vec::new(),
            user: None,
            log: dir.join("log"),
            port,
        };
        let mut redis = Self { server: Server::start(recipe), _dir: dir };
        redis.wait();
        redis
    }

    fn wait(&mut self) {
        let port = self.server.port();
        self.server
            .ready(|| ask(port, "PING").is_some_and(|said| said.starts_with("+PONG") || said.starts_with("-NOAUTH")));
    }

    pub const fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
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

    /// One command in the inline form, for tests that look behind the store's back.
    pub fn say(&self, line: &str) -> String {
        ask(self.port(), line).unwrap_or_else(|| panic!("redis does not answer to `{line}`"))
    }
}

pub(crate) fn ask(port: u16, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
    let mut bytes = vec![0; 1 << 16];
    let mut length = 0;
    while !bytes[..length].ends_with(b"\r\n") {
        let read = stream.read(&mut bytes[length..]).ok().filter(|read| *read > 0)?;
        length += read;
    }
    String::from_utf8(bytes[..length].to_vec()).ok()
}
