//! A crowd of clients, each with one connection that it keeps.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    daemon,
    request::{Keys, Requests},
};

/// What a crowd has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Of each request, in milliseconds.
    pub(crate) latencies: Vec<f64>,
    pub(crate) replays: usize,
    pub(crate) took: Duration,
}

impl Seen {
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}

/// When a crowd stops.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Time(Duration),
    Requests(u64),
}

/// Lets so many clients send as fast as they are answered. Any answer but 200 ends the measurement with its text.
pub(crate) fn crowd(address: SocketAddr, clients: usize, requests: &Requests, until: Until) -> Result<Seen, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let next = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let most = match until {
            Until::Time(_) => u64::MAX,
            Until::Requests(most) => most,
        };
        let mut connections = Vec::with_capacity(clients);
        for _ in 0..clients {
            connections.push(TcpStream::connect(address).await.map_err(|error| error.to_string())?);
        }
        let start = Instant::now();
        let all: Vec<_> = connections
            .into_iter()
            .map(|connection| {
                let (requests, next, stop) = (requests.clone(), Arc::clone(&next), Arc::clone(&stop));
                tokio::spawn(async move { client(connection, &requests, &next, most, &stop).await })
            })
            .collect();
        if let Until::Time(turn) = until {
            tokio::time::sleep(turn).await;
            stop.store(true, Relaxed);
        }
        let mut seen = Seen::default();
        for one in all {
            let (latencies, replays) = one.await.map_err(|error| error.to_string())??;
            seen.latencies.extend(latencies);
            seen.replays += replays;
        }
        seen.took = start.elapsed();
        Ok(seen)
    })
}

/// A crowd without a benchmark around it: `first` executions or `replay` of ten thousand keys through a gateway, or `pairs`
/// at a daemon.
pub(crate) fn alone(address: &str, what: &str, clients: &str, seconds: &str) -> String {
    let asked = || -> Result<f64, String> {
        let address = address.parse().map_err(|_| format!("`{address}` is not an address"))?;
        let clients = clients.parse().map_err(|_| format!("`{clients}` is not a number of clients"))?;
        let seconds = seconds.parse().map_err(|_| format!("`{seconds}` is not a number of seconds"))?;
        let turn = Duration::from_secs_f64(seconds);
        // Another run's keys are not asked for again.
        let run = u64::from(std::process::id());
        let keys = match what {
            "first" => Keys::Fresh,
            "replay" => Keys::Among(10_000),
            "pairs" => return daemon::pairs_alone(address, clients, turn, run << 32),
            other => return Err(format!("`{other}` is none of `first`, `replay` and `pairs`")),
        };
        Ok(crowd(address, clients, &Requests::new(run, keys), Until::Time(turn))?.rate())
    };
    asked().map_or_else(|problem| problem, |rate| format!("{rate:.0} a second"))
}

/// Lets so many clients send as fast as they are answered, whatever they are answered, until it is over: how many requests
/// there were.
pub(crate) fn flood(
    address: SocketAddr,
    clients: usize,
    requests: &Requests,
    over: &Arc<AtomicBool>,
) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let next = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..clients {
            let (requests, next, over) = (requests.clone(), Arc::clone(&next), Arc::clone(over));
            all.spawn(async move {
                let mut connection = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
                let (mut out, mut answer) = (Vec::new(), Vec::new());
                while !over.load(Relaxed) {
                    requests.write(next.fetch_add(1, Relaxed), &mut out);
                    connection.write_all(&out).await.map_err(|error| format!("sending a request: {error}"))?;
                    read_answer(&mut connection, &mut answer).await?;
                }
                Ok::<_, String>(())
            });
        }
        all.join_all().await.into_iter().collect::<Result<(), String>>()
    })?;
    Ok(next.load(Relaxed))
}

async fn client(
    mut connection: TcpStream,
    requests: &Requests,
    next: &AtomicU64,
    most: u64,
    stop: &AtomicBool,
) -> Result<(Vec<f64>, usize), String> {
    connection.set_nodelay(true).map_err(|error| error.to_string())?;
    let (mut latencies, mut replays) = (Vec::new(), 0);
    let (mut out, mut answer) = (Vec::new(), Vec::new());
    while !stop.load(Relaxed) {
        let number = next.fetch_add(1, Relaxed);
        if number >= most {
            break;
        }
        requests.write(number, &mut out);
        let start = Instant::now();
        connection.write_all(&out).await.map_err(|error| format!("sending a request: {error}"))?;
        replays += usize::from(read_answer(&mut connection, &mut answer).await?.done(&answer)?.replayed);
        latencies.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((latencies, replays))
}

/// Reads one answer whole, into `answer`.
pub(crate) async fn read_whole(connection: &mut TcpStream, answer: &mut Vec<u8>) -> Result<(), String> {
    read_answer(connection, answer).await?.done(answer).map(drop)
}

/// Reads one answer whole, whatever its status.
async fn read_answer(connection: &mut TcpStream, answer: &mut Vec<u8>) -> Result<Head, String> {
    answer.clear();
    let head = loop {
        read_more(connection, answer).await?;
        if let Some(head) = Head::of(answer)? {
            break head;
        }
    };
    while answer.len() < head.whole {
        read_more(connection, answer).await?;
    }
    Ok(head)
}

/// What a client wants to know of an answer before its body. It costs as little as it can: on two cores that all of them
/// share, the client's own time is taken from whoever answers.
struct Head {
    /// How many bytes head and body have together.
    whole: usize,
    status: Option<u16>,
    replayed: bool,
}

impl Head {
    /// `None`: more is to come.
    fn of(answer: &[u8]) -> Result<Option<Self>, String> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(end) = head.parse(answer).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let value = |name: &str| head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let length = value("content-length").and_then(|length| std::str::from_utf8(length.value).ok()?.parse().ok());
        let length: usize = length.ok_or("an answer without a Content-Length")?;
        let replayed = value("idempotent-replayed").is_some_and(|header| header.value == b"true");
        Ok(Some(Self { whole: end + length, status: head.code, replayed }))
    }

    fn done(self, answer: &[u8]) -> Result<Self, String> {
        if self.status == Some(200) {
            return Ok(self);
        }
        Err(format!("an answer other than 200:\n{}", String::from_utf8_lossy(answer)))
    }
}

async fn read_more(connection: &mut TcpStream, answer: &mut Vec<u8>) -> Result<(), String> {
    match connection.read_buf(answer).await {
        Ok(0) => Err("the connection was closed before the answer was whole".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("reading an answer: {error}")),
    }
}
