//! A real server on a real socket, in this process.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;

use hapax_client::Client;
use hapax_engine::{Engine, Policies, Settings};
use hapax_server::{Auth, Keys, Limits, Server, hash_key};
use hapax_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) address: String,
    pub(crate) admin: String,
    pub(crate) engine: Engine,
}

pub(crate) struct Setup {
    pub(crate) auth: Auth,
    pub(crate) limits: Limits,
    pub(crate) settings: Settings,
    pub(crate) policies: Policies,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key_file: Option<std::path::PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            auth: Auth::None,
            limits: Limits::default(),
            settings: Settings::default(),
            policies: Policies::default(),
            store: Arc::new(MemoryStore::default()),
            key_file: None,
        }
    }
}

impl Setup {
    pub(crate) async fn start(self) -> Running {
        let engine = Engine::builder(self.store).settings(self.settings).policies(self.policies).build().unwrap();
        let mut builder = Server::builder(engine.clone()).auth(self.auth).limits(self.limits);
        if let Some(path) = self.key_file {
            builder = builder.key_file(hapax_server::KeyFile::at(path));
        }
        let server = builder.build().unwrap();
        let (public, admin) = (listener().await, listener().await);
        let (address, admin_address) = (at(&public), at(&admin));
        for (listener, is_admin) in [(public, false), (admin, true)] {
            let server = server.clone();
            tokio::spawn(async move {
                if is_admin { server.serve_admin(listener).await } else { server.serve(listener).await }.unwrap();
            });
        }
        Running { server, address, admin: admin_address, engine }
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn at(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

/// Two tenants, each with a client; `acme` also with a reader and an operator; and an administrator.
pub(crate) fn keys() -> Auth {
    Auth::Keys(Keys::from_toml(&key_text()).unwrap())
}

/// The same, as it stands in a file.
pub(crate) fn key_text() -> String {
    let entry = |name: &str, tenant: &str, role: &str| {
        let hash = hash_key(&format!("secret-of-{name}"));
        format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"{tenant}\"\nroles = [\"{role}\"]\n")
    };
    [
        entry("acme-client", "acme", "client"),
        entry("acme-reader", "acme", "reader"),
        entry("acme-operator", "acme", "operator"),
        entry("globex-client", "globex", "operator"),
        entry("root", "ops", "admin"),
    ]
    .concat()
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address).unwrap()
    }

    pub(crate) fn as_key(&self, name: &str) -> Client {
        self.client().api_key(format!("secret-of-{name}"))
    }

    pub(crate) fn root(&self) -> Client {
        Client::new(&self.admin).unwrap().api_key("secret-of-root")
    }
}

/// Status and JSON of an answer.
pub(crate) async fn ask(client: &Client, method: &str, path: &str, body: Value) -> (u16, Value) {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, bytes) = client.raw(method.parse().unwrap(), path, &bytes).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

pub(crate) async fn begin(client: &Client, more: Value) -> (u16, Value) {
    let mut wanted = json!({ "surface": "payments", "key": "order-17", "request": { "amount": 4200 }, "wait_ms": 0 });
    for (name, value) in more.as_object().unwrap() {
        wanted[name] = value.clone();
    }
    ask(client, "POST", "/v1/operations:begin", wanted).await
}

pub(crate) async fn step(client: &Client, ticket: &Value, verb: &str, more: Value) -> (u16, Value) {
    let mut said = json!({ "token": ticket["token"] });
    for (name, value) in more.as_object().unwrap() {
        said[name] = value.clone();
    }
    let path = format!("/v1/operations/{}:{verb}", ticket["operation"].as_str().unwrap());
    ask(client, "POST", &path, said).await
}

pub(crate) async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address.strip_prefix("http://").unwrap()).await.unwrap()
}

/// A reader of events, and what it has read.
pub(crate) struct Feed {
    stream: TcpStream,
    pub(crate) text: String,
}

/// `more`: further header lines.
pub(crate) async fn feed(address: &str, more: &str) -> Feed {
    let mut stream = connect(address).await;
    let request = format!("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    Feed { stream, text: String::new() }
}

impl Feed {
    /// Reads until `wanted` has come so often.
    pub(crate) async fn until(&mut self, times: usize, wanted: &str) {
        // Comments keep a reader alive for ever, so the whole has a limit of its own.
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.text.matches(wanted).count() < times {
            assert!(tokio::time::Instant::now() < until, "no `{wanted}` in {}", self.text);
            assert!(self.more().await, "closed after {}", self.text);
        }
    }

    /// Whether something came, and not the end.
    pub(crate) async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 65_536];
        let most = std::time::Duration::from_secs(20);
        let read = tokio::time::timeout(most, self.stream.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing came after {}", self.text)).unwrap();
        self.text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }
}
