//! Server-sent events. A reader that comes back says what it saw last; what it missed and is gone is said to be a `gap`.

use std::{fmt::Write as _, time::Duration};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hapax_core::Millis;
use hapax_engine::{Engine, Gap, Logged};
use tokio::sync::{mpsc, watch};

use crate::{
    app::{App, Asked, Caller},
    auth::Reader,
    http::{Reply, stopped, stream},
    problem::Problem,
    wire::EventWire,
    words,
};

/// A comment at least this often, so that proxies and dead peers are noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events are gathered for so long: many readers must not look at each one.
const GATHER: Duration = Duration::from_millis(50);
/// At most this many events in one piece.
const PIECE: usize = 256;

pub(crate) fn events(app: &App, asked: Asked) -> Result<Reply, Problem> {
    if asked.query.odd(&["after"]) {
        return Err(Problem::bad_request("the only parameter is `after`, and it is given once"));
    }
    let full = |detail| Problem::too_many(detail, Millis::from_secs(5));
    let place = std::sync::Arc::clone(&app.readers)
        .try_acquire_owned()
        .map_err(|_| full("as many read events as may; try again when somebody has left"))?;
    let reader = asked.caller.identity.state.reader(app.limits.readers_per_tenant);
    let reader = reader.ok_or_else(|| full("as many of your tenant read events as may; close one first"))?;
    let last = asked.headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(asked.query.get("after"));
    let from = match last {
        // Whoever comes for the first time wants what happens from now on, and the little that is still known.
        None => From::Oldest,
        Some(last) => match last.split_once('-').map(|(boot, number)| (boot == app.boot, number.parse::<u64>())) {
            Some((true, Ok(number))) => From::After(number),
            Some(_) | None => From::Lost,
        },
    };
    let (pieces, body) = mpsc::channel(4);
    let feed = Feed {
        engine: app.engine.clone(),
        boot: app.boot.clone(),
        caller: asked.caller,
        pieces,
        stop: app.stop.clone(),
        _reader: reader,
    };
    let most = app.limits.reader_time;
    tokio::spawn(async move {
        // It comes back with the number it saw last.
        let _asked_to_come_back = tokio::time::timeout(most, feed.run(from)).await;
        drop(place);
    });
    Ok(stream(body))
}

enum From {
    Oldest,
    After(u64),
    /// What it names is of another life of the process.
    Lost,
}

struct Feed {
    engine: Engine,
    boot: String,
    caller: Caller,
    pieces: mpsc::Sender<Bytes>,
    stop: watch::Receiver<bool>,
    _reader: Reader,
}

impl Feed {
    async fn run(mut self, from: From) {
        // Before the first look, so that nothing falls in between.
        let mut news = self.engine.events().subscribe();
        let mut last = match from {
            From::Oldest => 0,
            From::After(number) => number,
            From::Lost => {
                if !self.send(gap(None)).await {
                    return;
                }
                0
            }
        };
        if !self.send("retry: 2000\n: hapax\n\n".to_owned()).await {
            return;
        }
        loop {
            match self.engine.events().after(last) {
                Ok(logged) => {
                    for piece in logged.chunks(PIECE) {
                        let text = self.written(piece);
                        last = piece.last().map_or(last, |newest| newest.number);
                        if !text.is_empty() && !self.send(text).await {
                            return;
                        }
                    }
                }
                Err(Gap { oldest }) => {
                    if !self.send(gap(Some(oldest))).await {
                        return;
                    }
                    last = oldest.saturating_sub(1);
                    if last == 0 {
                        continue;
                    }
                }
            }
            let mut quiet = false;
            tokio::select! {
                changed = news.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(HEARTBEAT) => quiet = true,
                () = self.pieces.closed() => return,
                () = stopped(&mut self.stop) => return,
            }
            if quiet && !self.send(": still here\n\n".to_owned()).await {
                return;
            }
        }
    }

    async fn send(&self, text: String) -> bool {
        self.pieces.send(Bytes::from(text)).await.is_ok()
    }

    fn written(&self, logged: &[Logged]) -> String {
        let mut text = String::new();
        for entry in logged.iter().filter(|entry| self.caller.sees(&entry.about.tenant)) {
            let data = serde_json::to_string(&wire(entry, self.caller.sees_all)).unwrap_or_default();
            let _infallible = write!(text, "id: {}-{}\nevent: operation\ndata: {data}\n\n", self.boot, entry.number);
        }
        text
    }
}

fn gap(oldest: Option<u64>) -> String {
    let oldest = oldest.map_or("null".to_owned(), |number| number.to_string());
    format!("event: gap\ndata: {{\"oldest\":{oldest}}}\n\n")
}

pub(crate) fn wire(logged: &Logged, with_tenant: bool) -> EventWire {
    EventWire {
        number: logged.number,
        at: logged.wall.0,
        operation: logged.id.to_string(),
        surface: logged.about.surface.to_string(),
        tenant: with_tenant.then(|| logged.about.tenant.to_string()),
        key_hash: HEXLOWER.encode(&logged.about.key_hash),
        cause: words::cause(logged.event.cause).to_owned(),
        from: words::state(logged.event.from).to_owned(),
        to: words::state(logged.event.to).to_owned(),
        attempt: logged.event.attempt,
        late: logged.event.late,
        actor: logged.actor.as_ref().map(ToString::to_string),
    }
}
