//! The windows of a record, each with what it counts from: for those who judge it by the clock, and for stores that have
//! to find it when one of them is over.

use crate::{
    Anchor, Span, Stamp,
    policy::{AfterWindow, OnLapse},
    record::{Record, State},
};

use super::read::at;

/// A stretch of time from an anchor on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub from: Anchor,
    pub span: Span,
}

impl Window {
    /// When it is over; `None`: never. The record is settled, so that its anchors are moments.
    #[must_use]
    pub fn end(self) -> Option<Stamp> {
        self.span.end(at(self.from))
    }
}

/// What time will do to a record, if nobody else does anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    /// Until here an attempt has its lease. A stale lease has no end that anybody could write down.
    pub lease: Option<Window>,
    /// Until here it reads as what it is.
    pub state: Option<Window>,
    /// Until here anything at all is kept of it.
    pub kept: Option<Window>,
}

/// See [`Windows`].
#[must_use]
pub fn windows(record: &Record) -> Windows {
    let rules = &record.rules;
    match &record.state {
        State::Pending(pending) => {
            let lease = Window { from: pending.lease.from, span: Span::For(pending.lease.length) };
            match rules.on_lapse {
                OnLapse::Stale => Windows::default(),
                OnLapse::Open | OnLapse::InDoubt => Windows { lease: Some(lease), ..Windows::default() },
            }
        }
        State::InDoubt(_) => Windows::default(),
        State::Committed(_) if record.is_held() => Windows::default(),
        State::Open(open) => until(Window { from: open.since, span: rules.open_retention }),
        State::Tombstone(stone) => until(Window { from: stone.decided, span: kept_for(record, stone.retention) }),
        State::Committed(done) | State::Rejected(done) => Windows {
            lease: None,
            state: Some(Window { from: done.decided, span: done.retention }),
            kept: Some(Window { from: done.decided, span: kept_for(record, done.retention) }),
        },
    }
}

const fn until(window: Window) -> Windows {
    Windows { lease: None, state: Some(window), kept: Some(window) }
}

/// How long anything at all is kept of an outcome that is kept whole for so long.
#[must_use]
pub const fn kept_for(record: &Record, retention: Span) -> Span {
    match record.rules.after_window {
        AfterWindow::Refuse => retention.then(record.rules.tombstone_retention),
        AfterWindow::New => retention,
    }
}

/// When the state's own window ends, if it ends: the lease of a pending record is not such a window.
#[must_use]
pub fn window_end(record: &Record) -> Option<Stamp> {
    windows(record).state.and_then(Window::end)
}
