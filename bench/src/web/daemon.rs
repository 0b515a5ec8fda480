//! Pairs of begin and complete over HTTP, durable on the embedded ledger, beside Redis with `appendfsync always` by its own
//! protocol; and how long a daemon takes to be ready on an empty store, and what it holds while nobody asks.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream as Plain},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{sample::quantile, scratch::scratch};

use super::{
    load::read_whole,
    process::{Running, free_address, hapax},
    report::Figures,
};

const CONNECTIONS: [usize; 2] = [64, 256];
const ROUNDS: u64 = 5;
const STARTS: usize = 5;
/// What is recorded as the answer, by either.
const BODY: usize = 1_024;

pub(crate) fn run(seconds: f64) -> Value {
    let place = scratch("daemon");
    let measured = measure(seconds, &place);
    let _gone = fs::remove_dir_all(&place);
    match measured {
        Ok(mut figures) => {
            let cases = ["64", "256", "p99 ms@64", "p99 ms@256", "ready ms", "idle MiB"];
            let mut of = |name: &str| -> serde_json::Map<String, Value> {
                let medians = cases.iter().map(|case| ((*case).to_owned(), figures.median(name, case)));
                medians.filter(|(_, value)| value.is_finite()).map(|(case, value)| (case, json!(value))).collect()
            };
            let (ours, redis) = (of("ours"), of("redis"));
            let ratio = |case: &str| Some(ours.get(case)?.as_f64()? / redis.get(case)?.as_f64()?);
            json!({
                "bench": "daemon", "unit": "pairs/s", "ours": ours, "peers": { "redis": redis },
                "ratios": { "redis@64": ratio("64"), "redis@256": ratio("256") },
            })
        }
        Err(problem) => json!({ "bench": "daemon", "problem": problem }),
    }
}

fn measure(seconds: f64, place: &Path) -> Result<Figures, String> {
    fs::create_dir_all(place).map_err(|error| error.to_string())?;
    let mut figures = Figures::default();
    for number in 0..STARTS {
        let (daemon, ready) = started(&place.join(format!("start-{number}")))?;
        figures.note("ours", "ready ms", ready);
        // Whatever a start needs only for itself has been given back by then.
        std::thread::sleep(Duration::from_millis(500));
        figures.note("ours", "idle MiB", daemon.resident_mib()?);
    }
    let (ours, _) = started(&place.join("ours"))?;
    let redis = redis(place)?;
    let turn = Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.5));
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..ROUNDS {
        for connections in CONNECTIONS {
            for (name, side, address) in [("ours", Side::Hapax, ours.address), ("redis", Side::Redis, redis.address)] {
                let (rate, mut latencies) = pairs(side, address, connections, turn, &next)?;
                figures.note(name, &connections.to_string(), rate);
                figures.note(name, &format!("p99 ms@{connections}"), quantile(&mut latencies, 0.99));
            }
        }
    }
    Ok(figures)
}

/// A daemon on an empty store, and the milliseconds until it says that it is ready.
fn started(store: &Path) -> Result<(Running, f64), String> {
    let address = free_address()?;
    let mut command = Command::new(hapax()?);
    command.args(["serve", "--listen", &address.to_string(), "--admin", "off", "--log", "off"]);
    command.args(["--store", &format!("file:{}", store.display())]).stdout(Stdio::null()).stderr(Stdio::null());
    let since = Instant::now();
    let daemon = Running::unready(address, &mut command)?;
    while !is_ready(address) {
        if since.elapsed() > Duration::from_secs(20) {
            return Err("the daemon does not become ready".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((daemon, since.elapsed().as_secs_f64() * 1e3))
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = Plain::connect(address)?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

/// As durable as the daemon, and set up as one would.
fn redis(place: &Path) -> Result<Running, String> {
    let place = place.join("redis");
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let there = || Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there() {
        let _status = Command::new("apt-get").args(["install", "-y", "-q", "redis-server"]).status();
    }
    let address = free_address()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--daemonize", "no", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]);
    // It would rewrite its log in the background, on a processor of whoever's turn it is then.
    command.args(["--auto-aof-rewrite-percentage", "0"]);
    command.arg("--dir").arg(&place).stdout(Stdio::null()).stderr(Stdio::null());
    Running::at(address, &mut command).map_err(|error| format!("redis is the peer here: {error}"))
}

#[derive(Clone, Copy)]
enum Side {
    Hapax,
    Redis,
}

/// Pairs a second by so many connections, each with one pair under way, and the milliseconds of each pair.
fn pairs(
    side: Side,
    address: SocketAddr,
    connections: usize,
    turn: Duration,
    next: &Arc<AtomicU64>,
) -> Result<(f64, Vec<f64>), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            open.push(stream);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let since = Instant::now();
        let all: Vec<_> = open
            .into_iter()
            .map(|mut stream| {
                let (next, stop) = (Arc::clone(next), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    let mut buffers = Buffers { body: "x".repeat(BODY), ..Buffers::default() };
                    while !stop.load(Relaxed) {
                        let number = next.fetch_add(1, Relaxed);
                        let since = Instant::now();
                        match side {
                            Side::Hapax => over_http(&mut stream, number, &mut buffers).await?,
                            Side::Redis => by_redis(&mut stream, number, &mut buffers).await?,
                        }
                        latencies.push(since.elapsed().as_secs_f64() * 1e3);
                    }
                    Ok::<_, String>(latencies)
                })
            })
            .collect();
        tokio::time::sleep(turn).await;
        stop.store(true, Relaxed);
        let mut latencies = Vec::new();
        for one in all {
            latencies.extend(one.await.map_err(|error| error.to_string())??);
        }
        Ok((latencies.len() as f64 / since.elapsed().as_secs_f64(), latencies))
    })
}

/// Without a benchmark around it.
pub(super) fn pairs_alone(address: SocketAddr, connections: usize, turn: Duration, first: u64) -> Result<f64, String> {
    pairs(Side::Hapax, address, connections, turn, &Arc::new(AtomicU64::new(first))).map(|(rate, _)| rate)
}

#[derive(Default)]
struct Buffers {
    asked: Vec<u8>,
    out: Vec<u8>,
    answer: Vec<u8>,
    body: String,
}

async fn over_http(stream: &mut TcpStream, number: u64, buffers: &mut Buffers) -> Result<(), String> {
    buffers.asked.clear();
    let _infallible = write!(
        buffers.asked,
        r#"{{"surface":"payments","key":"order-{number:016x}","effect":"irreversible","request":{{"amount":1200}}}}"#
    );
    post(stream, "/v1/operations:begin", buffers).await?;
    let member = |name: &[u8]| {
        let start = memchr::memmem::find(&buffers.answer, name)? + name.len();
        let end = memchr::memchr(b'"', &buffers.answer[start..])?;
        std::str::from_utf8(&buffers.answer[start..start + end]).ok().map(str::to_owned)
    };
    let (Some(operation), Some(token)) = (member(br#""operation":""#), member(br#""token":""#)) else {
        return Err(format!("no ticket: {}", String::from_utf8_lossy(&buffers.answer)));
    };
    buffers.asked.clear();
    let _infallible =
        write!(buffers.asked, r#"{{"token":"{token}","outcome":{{"status":200,"body":"{}"}}}}"#, buffers.body);
    post(stream, &format!("/v1/operations/{operation}:complete"), buffers).await
}

async fn post(stream: &mut TcpStream, path: &str, buffers: &mut Buffers) -> Result<(), String> {
    buffers.out.clear();
    let _infallible = write!(
        buffers.out,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        buffers.asked.len()
    );
    buffers.out.extend_from_slice(&buffers.asked);
    stream.write_all(&buffers.out).await.map_err(|error| error.to_string())?;
    read_whole(stream, &mut buffers.answer).await
}

/// Reserved if nobody has it, then its answer in its place: the least that a pair can be.
async fn by_redis(stream: &mut TcpStream, number: u64, buffers: &mut Buffers) -> Result<(), String> {
    let key = format!("order-{number:016x}");
    let reservation = "0".repeat(64);
    let body = std::mem::take(&mut buffers.body);
    for (value, when, kept) in [(reservation.as_str(), "NX", "60000"), (body.as_str(), "XX", "86400000")] {
        command(&["SET", &key, value, when, "PX", kept], &mut buffers.out);
        stream.write_all(&buffers.out).await.map_err(|error| error.to_string())?;
        buffers.answer.clear();
        while !buffers.answer.ends_with(b"\r\n") {
            let read = stream.read_buf(&mut buffers.answer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("redis closed the connection".to_owned());
            }
        }
        if buffers.answer != b"+OK\r\n" {
            return Err(format!("redis said {}", String::from_utf8_lossy(&buffers.answer)));
        }
    }
    buffers.body = body;
    Ok(())
}

fn command(words: &[&str], out: &mut Vec<u8>) {
    out.clear();
    let _infallible = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _infallible = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}
