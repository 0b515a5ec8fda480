//! Server-sent events. A reader that comes back says what it saw last; what it missed and is gone is said to be a `gap`.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hapax_core::Millis;
use hapax_engine::{Engine, Gap, Logged};
use tokio::sync::{mpsc, watch};

use crate::{
    app::{App, Asked, Caller, Door},
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

pub(crate) fn events(app: &Arc<App>, asked: Asked) -> Result<Reply, Problem> {
    if asked.query.odd(&["after"]) {
        return Err(Problem::bad_request("the only parameter is `after`, and it is given once"));
    }
    if asked.query.get("after").is_some_and(|after| after.len() > 512) {
        return Err(Problem::bad_request("`after` is the id of an event, and none is longer than 512 bytes"));
    }
    let full = |detail| Problem::too_many(detail, Millis::from_secs(5));
    let place = Arc::clone(&app.readers)
        .try_acquire_owned()
        .map_err(|_| full("as many read events as may; try again when somebody has left"))?;
    let reader = asked.caller.identity.state.reader(app.limits.readers_per_tenant);
    let reader = reader.ok_or_else(|| full("as many of your tenant read events as may; close one first"))?;
    // What cannot be read names no event of ours; all the same it comes from somebody who has been here before.
    let last = asked.headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default());
    let from = match last.or(asked.query.get("after")) {
        // Whoever comes for the first time wants what happens from now on, and the little that is still known.
        None => From::Oldest,
        Some(last) => match number_in(app, &asked.caller, last) {
            Some(number) => From::After(number),
            None => From::Lost,
        },
    };
    let (pieces, body) = mpsc::channel(4);
    let feed = Feed {
        app: Arc::clone(app),
        keys: app.auth_changes.subscribe(),
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

/// The number that an event's id stands for; `None`: it is of another life of the process, or of somebody else's.
fn number_in(app: &App, caller: &Caller, id: &str) -> Option<u64> {
    let (boot, rest) = id.split_once('-')?;
    if boot != app.boot {
        return None;
    }
    if caller.sees_all {
        return rest.parse().ok();
    }
    let bytes = app.seal.open(&["event", &app.boot, caller.tenant()], rest)?;
    bytes.try_into().ok().map(u64::from_be_bytes)
}

struct Feed {
    app: Arc<App>,
    /// Changes when keys do.
    keys: watch::Receiver<u64>,
    engine: Engine,
    boot: String,
    caller: Caller,
    pieces: mpsc::Sender<Bytes>,
    stop: watch::Receiver<bool>,
    _reader: Reader,
}

impl Feed {
    async fn run(mut self, from: From) {
        // The key may have gone between the door and here.
        if !self.may_go_on() {
            return;
        }
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
            let events = self.engine.events();
            let newer =
                if self.caller.sees_all { events.after(last) } else { events.after_of(self.caller.tenant(), last) };
            match newer {
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
                    if !self.send(gap(self.caller.sees_all.then_some(oldest))).await {
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
                _changed = self.keys.changed() => {
                    // Whoever has lost the key reads on no longer than this.
                    if !self.may_go_on() {
                        return;
                    }
                }
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
        for entry in logged.iter().filter(|entry| self.caller.sees(&entry.about.tenant, &entry.about.surface)) {
            let data = serde_json::to_string(&wire(entry, self.caller.sees_all)).unwrap_or_default();
            let id = self.id_of(entry.number);
            let _infallible = write!(text, "id: {}-{id}\nevent: operation\ndata: {data}\n\n", self.boot);
        }
        text
    }

    /// The numbers count everybody's events: a tenant gets them sealed.
    fn id_of(&self, number: u64) -> String {
        if self.caller.sees_all {
            return number.to_string();
        }
        let what = ["event", self.boot.as_str(), self.caller.tenant()];
        self.app.seal.close(&what, &number.to_be_bytes()).unwrap_or_default()
    }

    fn may_go_on(&self) -> bool {
        match self.caller.door {
            // The file's permissions are the credential there.
            Door::Socket => true,
            Door::Public | Door::Admin => self.app.auth.read().holds(&self.caller.identity),
        }
    }
}

fn gap(oldest: Option<u64>) -> String {
    let oldest = oldest.map_or("null".to_owned(), |number| number.to_string());
    format!("event: gap\ndata: {{\"oldest\":{oldest}}}\n\n")
}

pub(crate) fn wire(logged: &Logged, with_tenant: bool) -> EventWire {
    EventWire {
        number: with_tenant.then_some(logged.number),
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
