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

/// How much is being answered on a connection, as its reading side needs to know: a client that waits for us is not
/// idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    answering: AtomicUsize,
    asked: AtomicU64,
    /// Only where many are answered at once.
    streams: Option<Streams>,
}

#[derive(Debug)]
struct Streams {
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
    /// Of a connection with many streams, and so much work for it at once.
    pub(crate) fn of_streams(most: u32) -> Self {
        let work = Arc::new(Semaphore::new(most as usize));
        let streams = Some(Streams { work, owed: Mutex::default(), answers: Room::new(SHARE) });
        Self(Arc::new(Counts { streams, ..Counts::default() }))
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
        let Some(streams) = &self.0.streams else { return 0 };
        streams.owed.lock().values().filter(|since| since.elapsed() >= most).count()
    }

    /// One more request is being answered, until the value is dropped.
    pub(crate) fn answering(&self) -> Answering {
        self.0.answering.fetch_add(1, Ordering::AcqRel);
        let number = self.0.asked.fetch_add(1, Ordering::AcqRel);
        let stream = self.0.streams.is_some().then(|| Box::new(Stream { number, left: Bytes::new() }));
        Answering { pace: self.clone(), stream }
    }
}

#[derive(Debug)]
pub(crate) struct Answering {
    pace: Pace,
    stream: Option<Box<Stream>>,
}

/// One of many answers on a connection.
#[derive(Debug)]
struct Stream {
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

    /// Takes room for an answer that is whole in memory until its client has taken it, where others may be under way beside it. What is
    /// no more than a piece, or more than there could ever be room for, is given in any case.
    pub(crate) fn room_for(&self, bytes: usize, all: &Arc<Room>) -> Result<Option<[Taking; 2]>, NoRoom> {
        let Some(streams) = self.pace.0.streams.as_ref().filter(|_| bytes > Self::PIECE) else { return Ok(None) };
        let (mut share, mut whole) = (streams.answers.empty(), all.empty());
        if bytes <= SHARE {
            share.grow_to(bytes)?;
        }
        if bytes <= all.most() {
            whole.grow_to(bytes)?;
        }
        Ok(Some([share, whole]))
    }

    pub(crate) fn places(&self) -> Places {
        Places(self.pace.0.streams.as_ref().map(|streams| Arc::clone(&streams.work)))
    }

    /// The head is on its way, and the body is for the client to take.
    pub(crate) fn begin(&self) {
        self.owed(Some(Instant::now()));
    }

    /// What was held back of the last piece.
    pub(crate) fn left(&self) -> usize {
        self.stream.as_ref().map_or(0, |stream| stream.left.len())
    }

    /// The next piece of a body, and a note of when it was given out. On a connection with one answer at a time it is
    /// passed on as it is.
    pub(crate) fn piece<E>(
        &mut self,
        cx: &mut Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let Some(stream) = &mut self.stream else { return source(cx) };
        let polled = if stream.left.is_empty() {
            source(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut stream.left)))))
        };
        let given = match polled {
            // Not its client's turn.
            Poll::Pending => {
                self.owed(None);
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
        self.owed(Some(Instant::now()));
        Poll::Ready(given)
    }

    fn owed(&self, since: Option<Instant>) {
        let (Some(streams), Some(stream)) = (&self.pace.0.streams, &self.stream) else { return };
        let mut owed = streams.owed.lock();
        match since {
            Some(since) => owed.insert(stream.number, since),
            None => owed.remove(&stream.number),
        };
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.owed(None);
        self.pace.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}
