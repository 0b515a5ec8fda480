//! Through the gateway as a user runs it, over real sockets: every client, the upstream and the gateway share the machine.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{ADMITTED, FLOODING, KEPT, Keys, ROOM, ROUNDS, Turns};
use crate::{
    sample::quantile,
    scratch::scratch,
    web::{self, BUSY, Requests, Running, Until, crowd, flood},
};

pub(super) fn run(keys: Keys, seconds: f64) -> Result<Turns, String> {
    let place = scratch("flood-gateway");
    let turns = measure(keys, seconds, &place);
    let _gone = std::fs::remove_dir_all(&place);
    turns
}

fn measure(keys: Keys, seconds: f64, place: &Path) -> Result<Turns, String> {
    std::fs::create_dir_all(place).map_err(|error| error.to_string())?;
    let file = place.join("hapax.toml");
    let policy = format!(
        "[default]\n\
         capacity = {{ max_records = {ROOM}, per_tenant = {KEPT}, on_full = \"evict_oldest_final\" }}\n\
         admission = {{ max_in_flight = 1000, per_tenant = {ADMITTED} }}\n"
    );
    std::fs::write(&file, policy).map_err(|error| error.to_string())?;
    let upstream = Running::ourselves("web-server")?;
    let gateway = Running::gateway_with(upstream.address, &place.join("records"), Some(&file))?;
    let turn = Duration::from_secs_f64((seconds / (3 * ROUNDS) as f64).max(0.5));
    let path = match keys {
        Keys::Distinct => "/v1/charges",
        Keys::Busy => BUSY,
    };
    let (mut turns, mut run) = (Turns::default(), 0);
    for _ in 0..ROUNDS {
        let mut business = |flooded: Option<SocketAddr>| {
            run += 1;
            let flood = flooded.map(|address| Flood::of(address, path, run));
            let seen = crowd(gateway.address, 1, &Requests::new(run, web::Keys::Fresh), Until::Time(turn));
            let asked = flood.map_or(Ok(0), Flood::stop)?;
            Ok::<_, String>((quantile(&mut seen?.latencies, 0.99), asked))
        };
        let (alone, _) = business(None)?;
        let (past_us, _) = business(Some(upstream.address))?;
        let (beside, asked) = business(Some(gateway.address))?;
        turns.note(alone, Some(past_us), beside, asked, gateway.resident_mib()?);
    }
    Ok(turns)
}

struct Flood {
    over: Arc<AtomicBool>,
    clients: JoinHandle<Result<u64, String>>,
}

impl Flood {
    fn of(address: SocketAddr, path: &str, run: u64) -> Self {
        let requests = Requests::of("another", path, run, web::Keys::Fresh);
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        Self { over, clients: thread::spawn(move || flood(address, FLOODING, &requests, &ends)) }
    }

    fn stop(self) -> Result<u64, String> {
        self.over.store(true, Relaxed);
        self.clients.join().map_err(|_| "the flood broke off")?
    }
}
