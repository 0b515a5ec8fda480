use std::{
    io,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};

use super::fault::Fault;
use crate::{
    outflow::{Flow, Outflow},
    wire::Wire,
};

/// How far a request has gone out.
#[derive(Debug)]
pub(super) struct Sending<B> {
    stage: Stage<B>,
    /// How much of it the system has taken. If it is nothing, nobody has seen anything of it; nothing else proves that.
    pub(super) sent: u64,
}

#[derive(Debug)]
enum Stage<B> {
    /// There may be more of its body.
    Body(Outflow<B>),
    /// Its body is at its end; what is left of it is to be written.
    Last,
    Over,
    /// Nothing more of it was taken.
    Stuck,
}

impl<B> Default for Sending<B> {
    fn default() -> Self {
        Self { stage: Stage::Over, sent: 0 }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Sending<B> {
    pub(super) const fn new(outflow: Outflow<B>) -> Self {
        Self { stage: Stage::Body(outflow), sent: 0 }
    }

    /// Whether all of it is with the system.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    pub(super) const fn is_stuck(&self) -> bool {
        matches!(self.stage, Stage::Stuck)
    }

    /// Brings it on. Whether there is more to write at once.
    pub(super) fn bring_on<IO>(&mut self, cx: &mut Context<'_>, wire: &mut Wire<IO>) -> Result<bool, Fault>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let flow = match &mut self.stage {
            Stage::Over | Stage::Stuck => return Ok(false),
            Stage::Body(outflow) => outflow.fill(cx, wire),
            Stage::Last => Flow::Over,
        };
        match flow {
            Flow::Full | Flow::Dry => {}
            // The body is let go when all of it was read, since somebody may wait for that.
            Flow::Over => self.stage = Stage::Last,
            Flow::Broken => return Err(Fault::Request),
        }
        match wire.poll_written(cx, &mut self.sent) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(())) => {
                if flow == Flow::Over {
                    self.stage = Stage::Over;
                }
                Ok(flow == Flow::Full)
            }
            Poll::Ready(Err(error)) => self.fail(error).map(|()| false),
        }
    }

    /// Whoever takes no more of a request may have said why, and that is still to be read. Where nothing was taken at all nothing was answered.
    fn fail(&mut self, error: io::Error) -> Result<(), Fault> {
        if self.sent == 0 {
            return Err(Fault::Broken(error));
        }
        self.stage = Stage::Stuck;
        Ok(())
    }
}
