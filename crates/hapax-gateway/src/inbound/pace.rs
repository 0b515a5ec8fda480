use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::buffered::{NoRoom, Room, Taking};

/// How much is being answered on a connection with many streams, as those need to know who decide when it ends.
#[derive(Clone, Debug)]
pub(crate) struct Pace(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    answering: AtomicUsize,
    asked: AtomicU64,
    /// Work that goes on for this connection. A stream that its client resets is gone, its work is not.
    work: Arc<Semaphore>,
    /// Since when a stream's client owes us reading: it was given a piece, and nobody has asked for the next.
    owed: Mutex<HashMap<u64, Instant>>,
    /// Its share of the room for answers that wait.
    answers: Arc<Room>,
}

/// So much of what waits may be one connection's.
const SHARE: usize = 32 << 20;

impl Pace {
    /// With so much work at once.
    pub(crate) fn new(most: u32) -> Self {
        Self(Arc::new(Counts {
            answering: AtomicUsize::default(),
            asked: AtomicU64::default(),
            work: Arc::new(Semaphore::new(most as usize)),
            owed: Mutex::default(),
            answers: Room::new(SHARE),
        }))
    }

    pub(crate) fn busy(&self) -> bool {
        self.answering_now() > 0
    }

    pub(crate) fn answering_now(&self) -> usize {
        self.0.answering.load(Ordering::Acquire)
    }

    /// How many requests there were so far.
    pub(crate) fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::Acquire)
    }

    /// How many streams have not been read from for so long.
    pub(crate) fn stalled(&self, most: Duration) -> usize {
        self.0.owed.lock().values().filter(|since| since.elapsed() >= most).count()
    }

    /// One more request is being answered, until the value is dropped.
    pub(crate) fn answering(&self) -> Answering {
        self.0.answering.fetch_add(1, Ordering::AcqRel);
        let number = self.0.asked.fetch_add(1, Ordering::AcqRel);
        Answering(Some(Box::new(Stream { pace: self.clone(), number, left: Bytes::new() })))
    }
}

/// Held until a client has its answer. Empty where a connection has one answer at a time, and knows by itself.
#[derive(Debug)]
pub(crate) struct Answering(Option<Box<Stream>>);

/// One of many answers on a connection.
#[derive(Debug)]
struct Stream {
    pace: Pace,
    number: u64,
    /// What was too much for one piece.
    left: Bytes,
}

/// A connection has as much work under way as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crowded;

/// The places of a connection for work that may outlive its request.
#[derive(Debug)]
pub(crate) struct Places(Option<Arc<Semaphore>>);

impl Places {
    pub(crate) fn one(&self) -> Result<Place, Crowded> {
        let permit = match &self.0 {
            None => None,
            Some(work) => Some(Arc::clone(work).try_acquire_owned().map_err(|_| Crowded)?),
        };
        Ok(Place { _permit: permit })
    }
}

/// The place of one piece of work among those of its connection.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Answering {
    /// As much as a client is given at once: it has to take so much in the time for readers.
    const PIECE: usize = 16 * 1024;

    pub(crate) const fn alone() -> Self {
        Self(None)
    }

    pub(crate) const fn is_alone(&self) -> bool {
        self.0.is_none()
    }

    /// Takes room for an answer that is whole in memory until its client has taken it, where others may be under way beside it. What is
    /// no more than a piece, or more than there could ever be room for, is given in any case.
    pub(crate) fn room_for(&self, bytes: usize, all: &Arc<Room>) -> Result<Option<[Taking; 2]>, NoRoom> {
        let Some(stream) = self.0.as_ref().filter(|_| bytes > Self::PIECE) else { return Ok(None) };
        let (mut share, mut whole) = (stream.pace.0.answers.empty(), all.empty());
        if bytes <= SHARE {
            share.grow_to(bytes)?;
        }
        if bytes <= all.most() {
            whole.grow_to(bytes)?;
        }
        Ok(Some([share, whole]))
    }

    pub(crate) fn places(&self) -> Places {
        Places(self.0.as_ref().map(|stream| Arc::clone(&stream.pace.0.work)))
    }

    /// The head is on its way, and the body is for the client to take.
    pub(crate) fn begin(&self) {
        if let Some(stream) = &self.0 {
            stream.owes_since(Instant::now());
        }
    }

    /// What was held back of the last piece.
    pub(crate) fn left(&self) -> usize {
        self.0.as_ref().map_or(0, |stream| stream.left.len())
    }

    /// The next piece of a body, and a note of when it was given out. On a connection with one answer at a time it is
    /// passed on as it is.
    pub(crate) fn piece<E>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let Some(stream) = &mut self.0 else { return source(cx) };
        let polled = if stream.left.is_empty() {
            source(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut stream.left)))))
        };
        let given = match polled {
            // Not its client's turn.
            Poll::Pending => {
                stream.owes_nothing();
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(mut data) if data.len() > Self::PIECE => {
                    stream.left = data.split_off(Self::PIECE);
                    Some(Ok(Frame::data(data)))
                }
                Ok(data) => Some(Ok(Frame::data(data))),
                Err(other) => Some(Ok(other)),
            },
            Poll::Ready(ended) => ended,
        };
        stream.owes_since(Instant::now());
        Poll::Ready(given)
    }
}

impl Stream {
    fn owes_since(&self, since: Instant) {
        self.pace.0.owed.lock().insert(self.number, since);
    }

    fn owes_nothing(&self) {
        self.pace.0.owed.lock().remove(&self.number);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.owes_nothing();
        self.pace.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}
