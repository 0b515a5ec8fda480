//! Passes an answer on while it comes, and records its end before the end is sent.
//!
//! The pump is a task of its own: a caller that goes away does not stop it, so the handler's stream is read to its end
//! and the outcome is recorded. Nothing is held back but the end mark: the end itself, the last bytes of a body whose
//! length was announced, and trailers.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use crate::{
    body::{BodyError, ResponseBody},
    guard::{Cut, Streaming},
};

/// How many pieces may wait for a slow caller.
const WAITING: usize = 8;

enum Piece {
    Frame(Frame<Bytes>),
    Broken(BodyError),
    End,
}

/// The caller's end of a pump.
pub struct Pumped {
    pieces: mpsc::Receiver<Piece>,
    /// What is still to come, where the handler has announced a length.
    left: Option<u64>,
    over: bool,
}

impl fmt::Debug for Pumped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pumped").field("left", &self.left).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Pumped {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let piece = match self.pieces.poll_recv(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(piece) => piece,
        };
        Poll::Ready(match piece {
            Some(Piece::Frame(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.left = self.left.map(|left| left.saturating_sub(length));
                Some(Ok(frame))
            }
            Some(Piece::Broken(error)) => {
                self.over = true;
                Some(Err(error))
            }
            Some(Piece::End) => {
                self.over = true;
                None
            }
            // The pump is gone without a word: this must not look like an end.
            None => {
                self.over = true;
                Some(Err(BodyError::new(Cut)))
            }
        })
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Streaming {
    /// Passes the body on in a task of its own, and gives what the caller is to read. A caller that goes away does not
    /// stop it; without a caller it is read on for `orphaned` at most.
    pub fn pump<B>(self, body: B, orphaned: Duration) -> ResponseBody<B>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: fmt::Display,
    {
        let length = body.size_hint().exact();
        let (sender, pieces) = mpsc::channel(WAITING);
        tokio::spawn(kept(self, body, sender, length, orphaned));
        ResponseBody::Pumped { pumped: Pumped { pieces, left: length, over: false } }
    }
}

/// Pumps while the lease is kept.
async fn kept<B>(streaming: Streaming, body: B, to: mpsc::Sender<Piece>, length: Option<u64>, orphaned: Duration)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    let lease = streaming.running().lease();
    if lease.during(pump(streaming, body, &to, length, orphaned)).await.is_none() {
        // Somebody else may run it now, so this answer must not end as if it stood.
        send(&to, Piece::Broken(BodyError::new(Cut))).await;
    }
}

async fn pump<B>(mut streaming: Streaming, body: B, to: &mpsc::Sender<Piece>, length: Option<u64>, orphaned: Duration)
where
    B: Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut came = 0_u64;
    let mut held = Vec::new();
    let mut alone_until = None;
    loop {
        let frame = match next(body.as_mut(), to, &mut alone_until, orphaned).await {
            Some(frame) => frame,
            // Nobody has listened for so long that it will hardly ever end.
            None => return streaming.broken().await,
        };
        match frame {
            Some(Ok(frame)) => {
                let data = frame.data_ref();
                if let Some(bytes) = data {
                    streaming.push(bytes);
                    came = came.saturating_add(bytes.len() as u64);
                }
                // With these its reader could take the answer for whole, so its end has to be recorded first.
                let marks_the_end = data.is_none() || length.is_some_and(|length| came >= length);
                if marks_the_end {
                    held.push(frame);
                } else {
                    send(to, Piece::Frame(frame)).await;
                }
            }
            Some(Err(error)) => {
                streaming.broken().await;
                return send(to, Piece::Broken(error)).await;
            }
            None => break,
        }
    }
    match streaming.end().await {
        Ok(()) => {
            for frame in held {
                send(to, Piece::Frame(frame)).await;
            }
            send(to, Piece::End).await;
        }
        Err(cut) => send(to, Piece::Broken(BodyError::new(cut))).await,
    }
}

/// The next frame. `None`: the caller is gone, and so is the time that is given to a stream without one.
async fn next<B>(
    mut body: Pin<&mut B>,
    to: &mpsc::Sender<Piece>,
    alone_until: &mut Option<Instant>,
    orphaned: Duration,
) -> Option<Option<Result<Frame<Bytes>, BodyError>>>
where
    B: Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let mut frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context).map_err(BodyError::new));
    if alone_until.is_none() {
        tokio::select! {
            biased;
            frame = &mut frame => return Some(frame),
            () = to.closed() => *alone_until = Some(Instant::now() + orphaned),
        }
    }
    match alone_until {
        Some(until) => timeout_at(*until, frame).await.ok(),
        None => Some(frame.await),
    }
}

/// A caller that has gone away misses it; that is all.
async fn send(to: &mpsc::Sender<Piece>, piece: Piece) {
    let _gone = to.send(piece).await;
}
