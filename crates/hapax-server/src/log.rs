//! Structured lines for people and machines. Keys appear only as their short hash, bodies and secrets never.
//!
//! A line is handed to a thread of its own: a log that nobody reads must not stop requests. What does not fit is counted.

use std::{
    fmt::Write as _,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{SyncSender, sync_channel},
    },
};

use hapax_engine::{SystemWallClock, WallClock};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" => Self::Warn,
            "error" => Self::Error,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Json,
}

/// Where lines go. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Log {
    least: Option<Level>,
    format: Format,
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
}

/// Lines that may wait to be written.
const ROOM: usize = 8_192;

impl Log {
    /// Says nothing.
    #[must_use]
    pub fn silent() -> Self {
        Self { least: None, format: Format::Text, lines: None, lost: Arc::default() }
    }

    /// Writes to standard error from `least` on.
    #[must_use]
    pub fn to_stderr(least: Level, format: Format) -> Self {
        let (lines, written) = sync_channel::<String>(ROOM);
        let writer = std::thread::Builder::new().name("hapax-log".to_owned()).spawn(move || {
            for line in written {
                // Without a standard error there is nowhere to say so.
                let _unheard = std::io::stderr().lock().write_all(line.as_bytes());
            }
        });
        let lines = writer.is_ok().then_some(lines);
        Self { least: Some(least), format, lines, lost: Arc::default() }
    }

    #[must_use]
    pub fn is_on(&self, level: Level) -> bool {
        self.least.is_some_and(|least| level >= least) && self.lines.is_some()
    }

    /// One line.
    pub fn say(&self, level: Level, event: &str, fields: &[(&str, &str)]) {
        let Some(lines) = self.lines.as_ref().filter(|_| self.is_on(level)) else { return };
        let now = SystemWallClock.now().0;
        let line = match self.format {
            Format::Text => text(now, level, event, fields),
            Format::Json => json(now, level, event, fields),
        };
        if lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lines that did not fit.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

fn text(now: u64, level: Level, event: &str, fields: &[(&str, &str)]) -> String {
    let mut line = format!("{} {:<5} {event}", crate::words::time(now), level.name());
    for (name, value) in fields {
        let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"=".contains(&byte));
        let _infallible = if plain { write!(line, " {name}={value}") } else { write!(line, " {name}={value:?}") };
    }
    line.push('\n');
    line
}

fn json(now: u64, level: Level, event: &str, fields: &[(&str, &str)]) -> String {
    let mut map = serde_json::Map::new();
    map.insert("at".to_owned(), now.into());
    map.insert("level".to_owned(), level.name().into());
    map.insert("event".to_owned(), event.into());
    for (name, value) in fields {
        map.insert((*name).to_owned(), (*value).into());
    }
    format!("{}\n", serde_json::Value::Object(map))
}
