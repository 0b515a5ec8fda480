//! The connections to one upstream.

use std::{
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::timeout;

use super::{
    connect::{Connector, Protocol},
    exchange::{Line, Taken},
    failure::{Failure, Full},
    link::Link,
    shared::{Shared, Stream},
    shares::{Account, Shares},
    shelves::Shelves,
    target::Target,
};

/// How long an upstream may take, and how much of it we take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timing {
    pub connect: Duration,
    /// From sending to the head of the answer.
    pub first_byte: Duration,
    /// From sending to the end of an answer that is recorded.
    pub whole: Duration,
    /// How long a connection lies unused before it is not trusted any more. Upstreams close idle connections, and a
    /// request that meets the closing leaves its sender in doubt; so this is shorter than any of them is.
    pub idle: Duration,
    /// How long an answer may fall silent between two pieces before it counts as broken off.
    pub body_idle: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Requests at once on one HTTP/2 connection. More than the upstream takes would wait in a queue of which nobody can
    /// say whether they were sent, so this is what every upstream takes (RFC 9113, 6.5.2).
    pub streams: usize,
    /// Requests of one tenant at once; half of what there is room for where nothing is said.
    pub per_tenant: Option<usize>,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            first_byte: Duration::from_secs(60),
            whole: Duration::from_secs(120),
            idle: Duration::from_secs(3),
            body_idle: Duration::from_secs(120),
            connections: 1_024,
            streams: 100,
            per_tenant: None,
        }
    }
}

pub(crate) struct Pool {
    connector: Connector,
    pub(crate) timing: Timing,
    /// Connections of one request at a time, which nobody uses.
    idle: Shelves,
    /// The connections that requests share, where HTTP/2 is spoken.
    shared: Mutex<Vec<Shared>>,
    /// Held while such a connection is made: a crowd makes one, not one each.
    sharing: tokio::sync::Mutex<()>,
    /// The upstream was heard to speak HTTP/1.1, so there is nothing to share.
    alone: AtomicBool,
    /// It was heard to speak HTTP/2, or is known to, so a connection is room for many.
    many: AtomicBool,
    open: Arc<AtomicUsize>,
    shares: Arc<Shares>,
}

impl Pool {
    pub(crate) fn new(
        target: Target,
        protocol: Protocol,
        timing: Timing,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Arc<Self> {
        let alone = match protocol {
            Protocol::Http1 => true,
            Protocol::Http2 => false,
            Protocol::Auto => !target.tls,
        };
        Arc::new(Self {
            connector: Connector::new(target, protocol, tls),
            timing,
            idle: Shelves::default(),
            shared: Mutex::default(),
            sharing: tokio::sync::Mutex::default(),
            alone: AtomicBool::new(alone),
            many: AtomicBool::new(protocol == Protocol::Http2),
            open: Arc::default(),
            shares: Arc::default(),
        })
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.connector.target
    }

    /// A connection that was good a moment ago, or a fresh one, if this account may have one more.
    pub(crate) async fn take(&self, account: &Account) -> Result<Taken, Failure> {
        let most = self.most_of_one();
        let share = self.shares.take(account, most).ok_or(Failure::Full(Full::Tenant(most)))?;
        Ok(Taken { line: self.line().await?, share })
    }

    /// How many requests one tenant may have under way. As many as there is room for are no share: then it is the room that
    /// is missing, and that is said.
    fn most_of_one(&self) -> usize {
        let Timing { connections, streams, .. } = self.timing;
        let room = if self.many.load(Ordering::Acquire) { connections.saturating_mul(streams) } else { connections };
        let most = self.timing.per_tenant.unwrap_or_else(|| room.div_ceil(2));
        if most < room { most } else { usize::MAX }
    }

    async fn line(&self) -> Result<Line, Failure> {
        // Where one request at a time is spoken, there is nothing to share.
        if self.many.load(Ordering::Acquire)
            && let Some(stream) = self.shared()
        {
            return Ok(Line::Shared(stream));
        }
        while let Some(mut link) = self.idle.take(self.timing.idle) {
            if poll_fn(|cx| Poll::Ready(link.is_fit(cx))).await {
                return Ok(Line::Own(link));
            }
        }
        if self.alone.load(Ordering::Acquire) {
            return self.fresh().await;
        }
        let Ok(one) = timeout(self.timing.connect, self.sharing.lock()).await else {
            return Err(Failure::NotConnected("it took too long".to_owned()));
        };
        let line = match self.shared() {
            Some(stream) => Ok(Line::Shared(stream)),
            None => self.fresh().await,
        };
        drop(one);
        line
    }

    /// A connection that nobody has used.
    pub(super) async fn fresh(&self) -> Result<Line, Failure> {
        let most = self.timing.connections;
        let place = Place::of(&self.open, most).ok_or(Failure::Full(Full::Everybody(most)))?;
        let connecting = timeout(self.timing.connect, self.connector.connect(place, self.timing.streams)).await;
        let line = connecting.map_err(|_| Failure::NotConnected("it took too long".to_owned()))??;
        match &line {
            Line::Shared(stream) => {
                self.many.store(true, Ordering::Release);
                self.shared.lock().push(stream.connection.clone());
            }
            Line::Own(_) => self.alone.store(true, Ordering::Release),
        }
        Ok(line)
    }

    /// A stream of a connection that has room for one more.
    fn shared(&self) -> Option<Stream> {
        let mut shared = self.shared.lock();
        shared.retain(|connection| !connection.is_closed());
        shared.iter().find_map(Shared::stream)
    }

    /// An answer stayed away, so nobody else is sent where it was awaited: a connection that is dead without a word would
    /// put all of them in doubt. What is under way on it may still come to its end.
    pub(crate) fn distrust(&self, suspect: &Shared) {
        self.shared.lock().retain(|connection| !connection.is(suspect));
    }

    /// A connection that was not used after all.
    pub(crate) fn give_back(&self, taken: Taken) {
        match taken.line {
            Line::Own(link) => self.put(link),
            // It is everybody's already.
            Line::Shared(_) => {}
        }
    }

    pub(super) fn put(&self, link: Box<Link>) {
        self.idle.put(link);
    }

    /// Closes what lies unused for too long. Without it a quiet gateway would keep connections that its upstream has
    /// long closed.
    pub(crate) fn tidy(&self) {
        self.idle.tidy(self.timing.idle);
        // A crowd may have made several of these; one is enough for whoever comes next.
        let mut first = true;
        self.shared.lock().retain(|connection| std::mem::take(&mut first) || connection.is_busy(self.timing.streams));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("target", self.target()).finish_non_exhaustive()
    }
}

/// One of the connections that may be open.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    fn of(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(open));
        // Counted first: if it was one too many, dropping it takes it back.
        (open.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tokio::{
        io::AsyncReadExt as _,
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{body::Out, outbound::wire::Wire};

    /// The connection looks fit until something is written to it, and then takes not one byte. The upstream has seen
    /// nothing, which is certain here and nowhere else: so the attempt may be given back as one that did nothing.
    #[tokio::test]
    async fn a_write_that_fails_before_its_first_byte_has_sent_nothing() {
        for body in [&b""[..], b"{}"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let ours = std::net::TcpStream::connect(address).unwrap();
            let (mut theirs, _) = listener.accept().await.unwrap();
            ours.shutdown(std::net::Shutdown::Write).unwrap();
            ours.set_nonblocking(true).unwrap();
            let wire = Wire::Plain(TcpStream::from_std(ours).unwrap());
            let place = Place::of(&Arc::default(), 1).unwrap();
            let target = format!("http://{address}").parse().unwrap();
            let pool = Pool::new(target, Protocol::Http1, Timing::default(), None);
            let link = Box::new(Link::new(wire, place));
            let request = Request::post("/pay").header("host", "a").body(Out::whole(body.into())).unwrap();
            let Err((failure, _)) = link.exchange(Box::new(request), true, &pool).await else {
                panic!("it was answered")
            };
            assert!(matches!(failure, Failure::NotSent(_)) && failure.nothing_sent(), "{failure}");
            let mut seen = Vec::new();
            theirs.read_to_end(&mut seen).await.unwrap();
            assert!(seen.is_empty(), "{seen:?}");
        }
    }
}
