//! Ten thousand at once, on real sockets: what they may hold is bounded, whoever gets nothing is told so, and everybody
//! else is served.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use crate::support::Dir;
use hapax_client::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::timeout,
};

const WANTED: usize = 10_000;
/// What the process needs for itself.
const SPARE: u64 = 500;
/// Far longer than anything takes here; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Two crowds in one process would be one of twenty thousand.
static ONE_CROWD: Mutex<()> = Mutex::const_new(());

/// As many as were wanted, if this process may open so many files; otherwise as many as it may.
fn crowd() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = WANTED as u64 + SPARE;
    let most = limit.maximum.unwrap_or(wanted).min(wanted);
    if limit.current.is_some_and(|current| current < most) {
        let _as_it_was = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    let crowd = WANTED.min((now - SPARE.min(now)) as usize);
    if crowd < WANTED {
        eprintln!("this machine allows {now} open files: the crowd is {crowd} instead of {WANTED}");
    }
    assert!(crowd > 2_000, "a limit of {now} open files leaves no crowd; raise it with `ulimit -n`");
    crowd
}

/// The head of an answer and what came with it. The connection stays open.
async fn asked(address: String, text: String, entering: Arc<Semaphore>) -> (TcpStream, String) {
    // Not all at the door in one moment: the system's own queue is shorter.
    let turn = entering.acquire().await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    drop(turn);
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "closed after {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
    (stream, String::from_utf8_lossy(&answer).into_owned())
}

/// A daemon of its own, with keys for two tenants and an administrator.
struct Running {
    child: Child,
    address: String,
    admin: String,
    _dir: Dir,
}

impl Running {
    fn start(settings: &str) -> Self {
        let dir = Dir::new();
        let entry = |name: &str, tenant: &str, role: &str| {
            let hash = hapax_server::hash_key(&format!("secret-of-{name}"));
            format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"{tenant}\"\nroles = [\"{role}\"]\n")
        };
        let keys = [("acme", "acme", "client"), ("globex", "globex", "client"), ("root", "ops", "admin")];
        dir.write("keys.toml", &keys.map(|(name, tenant, role)| entry(name, tenant, role)).concat());
        dir.write("hapax.toml", &format!("[server]\nkeys = \"keys.toml\"\n{settings}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
            command.env_remove(name);
        }
        command.current_dir(dir.path()).args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let mut child = command.args(["--log", "warn"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut place = |start: &str| loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some(rest) = line.trim_start().strip_prefix(start) {
                let address = rest.trim_start().trim_start_matches("http://");
                break address.split(['/', ' ', '\n']).next().unwrap().to_owned();
            }
        };
        let (address, admin) = (place("hapax serve on"), place("admin"));
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        Self { child, address, admin, _dir: dir }
    }

    fn as_key(&self, name: &str) -> Client {
        Client::new(&format!("http://{}", self.address)).unwrap().api_key(format!("secret-of-{name}"))
    }

    async fn metric(&self, name: &str) -> usize {
        let root = Client::new(&format!("http://{}", self.admin)).unwrap().api_key("secret-of-root");
        let (_, page) = root.raw("GET".parse().unwrap(), "/metrics", &[]).await.unwrap();
        let page = String::from_utf8_lossy(&page).into_owned();
        let line = page.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    let body = body.to_string();
    let asked = client.raw("POST".parse().unwrap(), path, body.as_bytes());
    let (status, bytes) = timeout(PATIENCE, asked).await.expect("others are served").unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

fn order(key: &str) -> Value {
    json!({ "surface": "payments", "key": key, "request": { "amount": 4200 }, "lease_ms": 600_000, "wait_ms": 60_000 })
}

async fn complete(client: &Client, ticket: &Value) {
    let path = format!("/v1/operations/{}:complete", ticket["operation"].as_str().unwrap());
    let (status, told) = post(client, &path, json!({ "token": ticket["token"], "outcome": { "body": "paid" } })).await;
    assert_eq!(status, 200, "{told}");
}

/// One tenant opens ten thousand streams of events and never reads. It gets its share; the rest is told so and when to come
/// back; others read and work as if nothing were.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_readers_get_a_share_and_the_rest_is_told() {
    let _alone = ONE_CROWD.lock().await;
    let crowd = crowd();
    let share = 256;
    let daemon = Running::start("");
    let entering = Arc::new(Semaphore::new(100));
    let request = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret-of-acme\r\n\r\n";
    let mut all = JoinSet::new();
    for _ in 0..crowd {
        all.spawn(asked(daemon.address.clone(), request.to_owned(), Arc::clone(&entering)));
    }
    let mut reading = Vec::new();
    let mut refused = Vec::new();
    while let Some(done) = timeout(PATIENCE, all.join_next()).await.expect("everybody is answered") {
        let (stream, head) = done.unwrap();
        if head.starts_with("HTTP/1.1 200") {
            reading.push(stream);
        } else {
            assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 5"), "{head}");
            refused.push(stream);
        }
    }
    assert_eq!((reading.len(), refused.len()), (share, crowd - share));
    assert_eq!(daemon.metric("hapax_event_readers").await, share);

    // Somebody else reads, and both work, while all of them stay.
    let other = request.replace("secret-of-acme", "secret-of-globex");
    let (_stays, head) = asked(daemon.address.clone(), other, Arc::clone(&entering)).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for name in ["acme", "globex"] {
        let client = daemon.as_key(name);
        let (status, ticket) = post(&client, "/v1/operations:begin", order("any")).await;
        assert_eq!(status, 200, "{ticket}");
        complete(&client, &ticket).await;
    }
    // Who leaves makes room.
    drop(reading.split_off(share / 2));
    let back = async {
        loop {
            let (stream, head) = asked(daemon.address.clone(), request.to_owned(), Arc::clone(&entering)).await;
            if head.starts_with("HTTP/1.1 200") {
                break stream;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, back).await.expect("a place becomes free");
}

/// Ten thousand callers ask for one operation that somebody is at. So many as may wait; the others are told at once that it
/// is in flight; all who waited get the answer, and meanwhile others begin and complete.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiting_callers_are_bounded_and_others_are_served() {
    let _alone = ONE_CROWD.lock().await;
    let crowd = crowd();
    let most = 1_000;
    let daemon = Running::start(&format!("begins_per_tenant = {most}\n"));
    let owner = daemon.as_key("acme");
    let (_, ticket) = post(&owner, "/v1/operations:begin", order("order-17")).await;
    let body = order("order-17").to_string();
    let request = format!(
        "POST /v1/operations:begin HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret-of-acme\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let entering = Arc::new(Semaphore::new(100));
    let mut all = JoinSet::new();
    for _ in 0..crowd {
        all.spawn(asked(daemon.address.clone(), request.clone(), Arc::clone(&entering)));
    }
    let mut told = Vec::new();
    let mut count = |done: Option<Result<(TcpStream, String), tokio::task::JoinError>>| {
        let (stream, head) = done.expect("some are left").unwrap();
        told.push((head.split(' ').nth(1).unwrap().to_owned(), stream));
    };
    // Those who find no place are answered while the others wait.
    for _ in 0..crowd - most {
        count(timeout(PATIENCE, all.join_next()).await.expect("whoever may not wait is told at once"));
    }
    let waiting = daemon.metric("hapax_waiting").await;
    assert!(waiting <= most, "{waiting} wait");
    for name in ["acme", "globex"] {
        let client = daemon.as_key(name);
        let (status, other) = post(&client, "/v1/operations:begin", order("another")).await;
        assert_eq!(status, 200, "{other}");
        complete(&client, &other).await;
    }
    complete(&owner, &ticket).await;
    for _ in 0..most {
        count(timeout(PATIENCE, all.join_next()).await.expect("whoever waited gets the answer"));
    }
    let of = |status: &str| told.iter().filter(|(known, _)| known == status).count();
    assert_eq!(of("200") + of("409"), crowd);
    assert!(
        of("200") <= most && of("200") >= waiting && waiting > 0,
        "{} were told, {waiting} of {most} waited",
        of("200")
    );
    assert_eq!(daemon.metric("hapax_waiting").await, 0);
}
