//! One connection, from its first byte to its last.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::Instant,
};

use crate::{
    answer::{self, Announced, Asked},
    deadline::Deadline,
    grammar::{self, Ending, Head, Length, Violation},
    incoming::{Incoming, Lost, Slot, Wish},
    limits::{Limits, Manners},
    outflow::{Flow, Outflow},
    owed::Owed,
    stop::Stop,
    wire::Wire,
};

/// What was read of a connection to tell the protocols apart.
#[derive(Debug, Default)]
pub struct Ahead {
    pub bytes: Vec<u8>,
    /// When the first of it came.
    pub since: Option<Instant>,
}

/// Serves a connection until one side has enough of it. When `stop` says so it ends after the request that is under way.
///
/// Whoever is seen to leave while it is being answered has the future of its answer dropped. It is seen as long as we listen: not while a body
/// is still to come that nobody asks for, nor behind a next request.
pub async fn serve<IO, S, F, B>(io: IO, ahead: Ahead, manners: &Manners, stop: watch::Receiver<bool>, service: S)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + Unpin,
{
    let mut connection = Connection::new(io, &ahead, manners, stop);
    // An error here is the client's: it left, or was too slow.
    let ended = connection.exchanges(service).await;
    if ended.is_ok() {
        let _gone = connection.part().await;
    }
}

struct Connection<'a, IO> {
    wire: Wire<IO>,
    manners: &'a Manners,
    stop: Stop,
    /// What the other side has not read yet of what it is given.
    owed: Owed,
    reading: Deadline,
    /// Since when the other side is waited for.
    since: Option<Instant>,
    /// What the present request still has to say.
    feed: Option<Feed>,
    /// The other side was not heard to the end of what it says.
    unheard: bool,
}

/// The body of a request that did not come with its head.
struct Feed {
    body: grammar::Body,
    slot: Slot,
    /// It waits to be asked.
    expects: bool,
    /// It is being asked: there was no room to say all of that yet.
    asking: bool,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.slot.give_up();
    }
}

/// What is next on a connection.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once, and mostly is the large one")]
enum Next {
    Head(Head),
    Refused(Violation),
    End,
}

impl<'a, IO: AsyncRead + AsyncWrite + Unpin> Connection<'a, IO> {
    fn new(io: IO, ahead: &Ahead, manners: &'a Manners, stop: watch::Receiver<bool>) -> Self {
        Self {
            wire: Wire::new(io, &ahead.bytes),
            manners,
            stop: Stop::new(stop),
            owed: Owed::default(),
            reading: Deadline::default(),
            since: ahead.since,
            feed: None,
            unheard: false,
        }
    }

    const fn limits(&self) -> &'a Limits {
        &self.manners.limits
    }

    /// One request after the other.
    async fn exchanges<S, F, B>(&mut self, service: S) -> io::Result<()>
    where
        S: Fn(Request<Incoming>) -> F,
        F: Future<Output = Response<B>>,
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let mut ending = Ending::default();
            let head = match poll_fn(|cx| self.poll_head(cx, &mut ending)).await? {
                Next::Head(head) => head,
                Next::Refused(violation) => return self.refuse(violation).await,
                Next::End => return Ok(()),
            };
            let mut asked = Asked::by(&head);
            let response = {
                let mut answer = pin!(service(self.begun(head)));
                poll_fn(|cx| self.poll_answered(cx, answer.as_mut())).await?
            };
            asked.keeps &= !self.stop.is_said() && !answer::closes(response.headers());
            asked.keeps = self.is_heard(asked.keeps).await && asked.keeps;
            let mut keeps = self.send(response, asked).await?;
            // Who has read of it until now reads no more.
            keeps = self.is_heard(keeps).await && keeps;
            self.unheard |= self.feed.take().is_some();
            // Whatever was waited for belonged to this request.
            self.since = None;
            if !keeps {
                // Who has sent more already must not have its answer taken back for it.
                self.unheard |= !self.wire.read.is_empty();
            }
            if !keeps || self.unheard {
                return Ok(());
            }
        }
    }

    /// The next head, as soon as all of it is there.
    fn poll_head(&mut self, cx: &mut Context<'_>, ending: &mut Ending) -> Poll<io::Result<Next>> {
        let limits = self.limits();
        loop {
            let found = match ending.find_next(&mut self.wire.read, limits.head_bytes) {
                Ok(bytes) => bytes.map(|bytes| Head::read(&bytes, limits.headers)),
                Err(violation) => Some(Err(violation)),
            };
            if let Some(head) = found {
                self.since = None;
                return Poll::Ready(Ok(head.map_or_else(Next::Refused, Next::Head)));
            }
            if self.wire.is_over {
                return Poll::Ready(Ok(Next::End));
            }
            let begun = !self.wire.read.is_empty();
            match self.wire.poll_read(cx, 0) {
                Poll::Ready(read) => {
                    read?;
                    // A head has one deadline from its first byte on, however it drips.
                    self.since = self.since.filter(|_| begun);
                }
                Poll::Pending => {
                    if !begun && self.stop.poll(cx).is_ready() {
                        return Poll::Ready(Ok(Next::End));
                    }
                    ready!(self.poll_waited(cx, if begun { limits.head } else { limits.idle }));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }

    /// Ready: nothing came for so long.
    fn poll_waited(&mut self, cx: &mut Context<'_>, most: Duration) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.reading.poll(cx, since + most)
    }

    /// The request, with what there is of its body.
    fn begun(&mut self, head: Head) -> Request<Incoming> {
        let mut body = grammar::Body::new(head.length, self.limits().head_bytes);
        if body.is_over() {
            return head.request.map(|()| Incoming::default());
        }
        // Most bodies are there with their head, and are handed over as they are.
        if let Length::Counted(length) = head.length
            && length <= self.wire.read.len() as u64
            && let Ok(Some(whole)) = body.next(&mut self.wire.read)
        {
            return head.request.map(|()| Incoming::whole(whole));
        }
        let (incoming, slot) = Incoming::coming(head.length);
        // Who has begun to send does not wait any more.
        let expects = head.expects && self.wire.read.is_empty();
        self.feed = Some(Feed { body, slot, expects, asking: false });
        head.request.map(|()| incoming)
    }

    fn poll_answered<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        mut answer: Pin<&mut F>,
    ) -> Poll<io::Result<F::Output>> {
        loop {
            if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                return Poll::Ready(Ok(response));
            }
            // A piece of its body moves the answer on.
            ready!(self.poll_inbound(cx))?;
        }
    }

    /// Brings the request's body on, and notices when the other side has left. Ready: its reader has something new.
    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(feed) = &mut self.feed else { return self.poll_left(cx) };
        if feed.slot.wish(cx) != Wish::Piece {
            return Poll::Pending;
        }
        loop {
            let Some(feed) = &mut self.feed else { return Poll::Ready(Ok(())) };
            match feed.body.next(&mut self.wire.read) {
                Ok(None) if !feed.body.is_over() => {}
                Ok(piece) => {
                    self.since = None;
                    if feed.body.is_over() {
                        feed.slot.put_last(piece, feed.body.trailers());
                        self.feed = None;
                    } else {
                        feed.slot.put(piece);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(violation) => return self.lose(Lost::Malformed(violation)),
            }
            if std::mem::take(&mut feed.expects) {
                self.wire.out().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                feed.asking = true;
            }
            if feed.asking {
                ready!(self.owed.poll_written(cx, &mut self.wire, &self.manners.limits))?;
                feed.asking = false;
            }
            let least = feed.body.least();
            if self.wire.is_over {
                return self.lose(Lost::BrokenOff);
            }
            match self.wire.poll_read(cx, least) {
                Poll::Ready(Ok(_)) => self.since = None,
                Poll::Ready(Err(_)) => return self.lose(Lost::BrokenOff),
                Poll::Pending => {
                    ready!(self.poll_waited(cx, self.limits().body_pause));
                    return self.lose(Lost::TooSlow);
                }
            }
        }
    }

    /// The rest of a body does not come, and nothing else on this connection does.
    fn lose(&mut self, lost: Lost) -> Poll<io::Result<()>> {
        if let Some(feed) = self.feed.take() {
            feed.slot.fail(lost);
        }
        (self.unheard, self.since) = (true, None);
        Poll::Ready(Ok(()))
    }

    /// Listens for the end of a connection whose other side waits for us.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What comes now is the next request, and of that no more is read before its turn.
        if self.unheard || self.wire.is_over || !self.wire.read.is_empty() {
            return Poll::Pending;
        }
        match ready!(self.wire.poll_read(cx, 0)) {
            Ok(0) if !self.manners.half_close => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Whether the request was heard to its end, or is still listened to. A short rest that nobody listens to is read away, where it is
    /// `of_use`.
    async fn is_heard(&mut self, of_use: bool) -> bool {
        match &mut self.feed {
            None => return !self.unheard,
            // It is not asked for its body any more: it would be sent for nothing.
            Some(feed) if feed.expects => (feed.expects, self.unheard) = (false, true),
            Some(feed) if !feed.slot.is_forsaken() => {
                // The rest of the asking goes out with the answer, and nothing waits for it.
                feed.asking = false;
                return true;
            }
            Some(_) if !of_use => return false,
            Some(_) => {
                let (mut left, end) = (self.limits().rest.bytes, Instant::now() + self.limits().rest.time);
                self.unheard = !poll_fn(|cx| self.poll_drained(cx, &mut left, end)).await;
                self.feed = None;
            }
        }
        !self.unheard
    }

    fn poll_drained(&mut self, cx: &mut Context<'_>, left: &mut usize, end: Instant) -> Poll<bool> {
        let Some(feed) = &mut self.feed else { return Poll::Ready(true) };
        loop {
            match feed.body.next(&mut self.wire.read) {
                Ok(Some(piece)) if piece.len() <= *left => {
                    *left -= piece.len();
                    continue;
                }
                Ok(None) if feed.body.is_over() => return Poll::Ready(true),
                Ok(None) if feed.body.least() <= *left as u64 && !self.wire.is_over => {}
                Ok(_) | Err(_) => return Poll::Ready(false),
            }
            match self.wire.poll_read(cx, feed.body.least()) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return self.reading.poll(cx, end).map(|()| false),
            }
        }
    }

    /// Whether the connection is of use afterwards.
    async fn send<B>(&mut self, response: Response<B>, asked: Asked) -> io::Result<bool>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = response.into_parts();
        let (framing, keeps) = answer::begin(self.wire.out(), &head, &body.size_hint(), asked);
        let announced = if asked.trailers { Announced::in_head(&head.headers) } else { None };
        drop(head);
        let mut outflow = Outflow::new(body, framing, announced);
        poll_fn(|cx| self.poll_sent(cx, &mut outflow)).await?;
        Ok(keeps)
    }

    fn poll_sent<B>(&mut self, cx: &mut Context<'_>, outflow: &mut Outflow<B>) -> Poll<io::Result<()>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let flow = outflow.fill(cx, &mut self.wire);
            if let Poll::Ready(written) = self.owed.poll_written(cx, &mut self.wire, &self.manners.limits) {
                written?;
                match flow {
                    Flow::Over => return Poll::Ready(Ok(())),
                    // What was written is all that there will be.
                    Flow::Broken => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                    Flow::Full => continue,
                    Flow::Dry => {}
                }
            }
            ready!(self.poll_inbound(cx))?;
        }
    }

    /// Says what is wrong with a head; nothing after it is looked at.
    async fn refuse(&mut self, violation: Violation) -> io::Result<()> {
        self.unheard = true;
        let (head, body) = (self.manners.refuse)(violation).into_parts();
        answer::begin(self.wire.out(), &head, &SizeHint::with_exact(body.len() as u64), Asked::LAST);
        self.wire.put(body, b"");
        poll_fn(|cx| self.owed.poll_written(cx, &mut self.wire, &self.manners.limits)).await
    }

    /// Leaves. A socket that is closed with something unread in it takes back what was last written; so, where the other side is
    /// still speaking, our side alone is closed at first, and what comes is read away for a moment.
    async fn part(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.owed.poll_shutdown(cx, &mut self.wire, &self.manners.limits)).await?;
        let rest = &self.limits().rest;
        let (mut left, end) = (rest.parting_bytes, Instant::now() + rest.parting);
        while self.unheard && !self.wire.is_over {
            let came = poll_fn(|cx| match self.reading.poll(cx, end) {
                Poll::Ready(()) => Poll::Ready(Ok(0)),
                Poll::Pending => self.wire.poll_read_away(cx),
            });
            let came = came.await?;
            if came == 0 || came > left {
                break;
            }
            left -= came;
        }
        Ok(())
    }
}
