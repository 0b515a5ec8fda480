//! One connection, from its first byte to its last.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, sync::Arc};

use hapax_http1::{Ahead, Seat, moved};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::TcpStream,
    runtime::Handle,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    accept::Shared,
    limits::Limits,
    live::Stopping,
    pace::{Answering, Pace},
    watched::Watched,
};
use crate::{body::Out, request_body::Inflow};

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
}

/// What turns requests into answers.
pub(crate) trait Answer: Clone + Send + Sync + 'static {
    /// `answering` is held as long as the client waits for bytes, so it goes with the body. What comes back is small: the server
    /// moves it about.
    fn answer(
        &self,
        request: Request<Inflow>,
        peer: Peer,
        answering: Answering,
    ) -> impl Future<Output = Response<Out>> + Send;
}

/// How HTTP/2 begins where nothing was agreed before.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) async fn serve<A: Answer>(stream: TcpStream, address: SocketAddr, seat: Seat, shared: &Arc<Shared<A>>) {
    hapax_http1::taken(&stream);
    match &shared.tls {
        None => {
            let (mut stream, peer) = (stream, Peer { address, tls: false });
            match begun(&mut stream, shared).await {
                Some((true, ahead)) => {
                    drop(seat);
                    http2_at_home(stream, moved, ahead, peer, shared).await;
                }
                Some((false, ahead)) => http1(stream, ahead, peer, shared).await,
                None => {}
            }
        }
        Some(acceptor) => {
            let peer = Peer { address, tls: true };
            let Ok(Ok(mut stream)) = timeout(shared.limits.head, acceptor.accept(stream)).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                // What it speaks is agreed. Its preface has its time all the same.
                let Some((_, ahead)) = begun(&mut stream, shared).await else { return };
                drop(seat);
                // A socket under TLS stays with the runtime that has greeted it: the two cannot be taken apart any more.
                http2_at_home(stream, Ok, ahead, peer, shared).await;
            } else {
                http1(stream, Ahead::default(), peer, shared).await;
            }
        }
    }
}

/// How a connection begins. None: it does not, or we stop.
async fn begun<A: Answer>(stream: &mut (impl AsyncRead + Unpin), shared: &Shared<A>) -> Option<(bool, Ahead)> {
    let mut stopping = shared.stopping.clone();
    tokio::select! {
        begun = begins_as_http2(stream, &shared.limits) => begun.ok(),
        () = stopping.stopped() => None,
    }
}

/// Reads as much as is needed to know, and hands it on. It has the time of a head, from its first byte on: what turns out to
/// be the beginning of one has no more, and what is none has no time for each of its bytes.
async fn begins_as_http2(stream: &mut (impl AsyncRead + Unpin), limits: &Limits) -> io::Result<(bool, Ahead)> {
    let mut ahead = Ahead { bytes: Vec::with_capacity(PREFACE.len()), since: None };
    let mut end = Instant::now() + limits.idle;
    loop {
        let room = PREFACE.len() - ahead.bytes.len();
        let read = timeout_at(end, (&mut *stream).take(room as u64).read_buf(&mut ahead.bytes)).await;
        if read?? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        end = *ahead.since.get_or_insert_with(Instant::now) + limits.head;
        if !PREFACE.starts_with(&ahead.bytes) {
            return Ok((false, ahead));
        }
        if ahead.bytes.len() == PREFACE.len() {
            return Ok((true, ahead));
        }
    }
}

async fn http1<A: Answer>(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ahead: Ahead,
    peer: Peer,
    shared: &Shared<A>,
) {
    let service = |request: Request<_>| shared.answer.answer(request.map(Inflow::One), peer, Answering::alone());
    hapax_http1::serve(io, ahead, &shared.manners, shared.stopping.word(), service).await;
}

/// Its streams are those of many requests, and go to whoever is free: one runtime of a crew may be one thread.
async fn http2_at_home<A: Answer, IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    io: IO,
    settle: fn(IO) -> io::Result<IO>,
    ahead: Ahead,
    peer: Peer,
    shared: &Arc<Shared<A>>,
) {
    if shared.home.id() == Handle::current().id() {
        return http2(io, ahead, peer, shared).await;
    }
    let at_home = Arc::clone(shared);
    let serving = async move {
        if let Ok(io) = settle(io) {
            http2(io, ahead, peer, &at_home).await;
        }
    };
    let _ended = shared.home.spawn(serving).await;
}

async fn http2<A: Answer>(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ahead: Ahead,
    peer: Peer,
    shared: &Shared<A>,
) {
    let pace = Pace::new(shared.limits.streams);
    let watched = Watched::new(io, ahead.bytes, Arc::clone(&shared.limits));
    let limits = &shared.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(limits.resets)
        .max_local_error_reset_streams(limits.resets)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        // A peer that is gone without a word is found out.
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.reader);
    let service = service_fn(|request: Request<Incoming>| {
        let (answer, answering) = (shared.answer.clone(), pace.answering());
        // Streams are tasks of their own, and live no shorter than what answers them.
        async move { Ok::<_, Infallible>(answer.answer(request.map(Inflow::Two), peer, answering).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(watched), service));
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = over(shared.stopping.clone(), &pace, limits) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = forsaken(&pace, limits) => {}
    }
}

/// Until we stop, or nothing was asked for so long that the connection is only a slot taken, or somebody does not read.
async fn over(mut stopping: Stopping, pace: &Pace, limits: &Limits) {
    let held = async {
        let (mut before, mut since) = (pace.asked(), Instant::now());
        loop {
            sleep(limits.reader.min(limits.idle) / 2).await;
            if pace.stalled(limits.reader) > 0 {
                return;
            }
            let now = pace.asked();
            if now != before || pace.busy() {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= limits.idle {
                return;
            }
        }
    };
    tokio::select! {
        () = stopping.stopped() => {}
        () = held => {}
    }
}

/// No new stream is taken any more, and nobody but those who do not read is left: what they were sent lies in our
/// memory, and only the end of the connection frees it.
async fn forsaken(pace: &Pace, limits: &Limits) {
    let mut left = 2;
    while left > 0 {
        sleep(limits.reader / 2).await;
        let read_from = pace.answering_now().saturating_sub(pace.stalled(limits.reader));
        left = if read_from > 0 { 2 } else { left - 1 };
    }
}
