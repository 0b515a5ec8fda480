//! Who serves which connection.
//!
//! What belongs to a connection, its buffers, its request, the future of its answer, lies in the cache of the processor that touched it last.
//! A runtime of several threads lets whoever is free go on with a request, at each of its steps, and each time all of that goes from one
//! processor to another. So a connection may belong to one of several runtimes, from its first byte to its last.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{net::TcpStream, runtime::Handle};

/// The runtimes that share the connections. Without any, whoever takes a connection serves it.
#[derive(Clone, Debug, Default)]
pub struct Crew(Arc<[Member]>);

#[derive(Debug)]
struct Member {
    runtime: Handle,
    connections: AtomicUsize,
}

impl Crew {
    pub fn new(runtimes: impl IntoIterator<Item = Handle>) -> Self {
        Self(runtimes.into_iter().map(|runtime| Member { runtime, connections: AtomicUsize::new(0) }).collect())
    }

    /// A place for a connection, with whoever has the fewest of them.
    #[must_use]
    pub fn seat(&self) -> Seat {
        let fewest = self.0.iter().enumerate().min_by_key(|(_, member)| member.connections.load(Ordering::Relaxed));
        let Some((number, member)) = fewest else { return Seat(None) };
        member.connections.fetch_add(1, Ordering::Relaxed);
        Seat(Some((self.clone(), number)))
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub struct Seat(Option<(Crew, usize)>);

impl Seat {
    fn member(&self) -> Option<&Member> {
        let (crew, number) = self.0.as_ref()?;
        crew.0.get(*number)
    }

    /// Where the connection's task belongs: the present runtime, where there is no crew.
    #[must_use]
    pub fn runtime(&self) -> Handle {
        self.member().map_or_else(Handle::current, |member| member.runtime.clone())
    }

    /// The connection as a matter of the runtime that this is called on, and not of the one that has taken it.
    pub fn settle(&self, stream: TcpStream) -> io::Result<TcpStream> {
        if self.0.is_some() { moved(stream) } else { Ok(stream) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(member) = self.member() {
            member.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Lets the present runtime look after a connection that another one looked after.
pub fn moved(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        runtime::{Builder, Runtime},
    };

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn a_connection_goes_to_whoever_has_the_fewest() {
        let (one, two, taking) = (runtime(), runtime(), runtime());
        let ids = [one.handle().id(), two.handle().id()];
        let crew = Crew::new([one.handle().clone(), two.handle().clone()]);
        let mut seats: Vec<Seat> = (0..6).map(|_| crew.seat()).collect();
        let with = |seats: &[Seat], id| seats.iter().filter(|seat| seat.runtime().id() == id).count();
        assert_eq!(ids.map(|id| with(&seats, id)), [3, 3]);
        seats.retain(|seat| seat.runtime().id() != ids[0]);
        seats.extend((0..3).map(|_| crew.seat()));
        assert_eq!(ids.map(|id| with(&seats, id)), [3, 3], "who has left makes room");
        let _inside = taking.enter();
        assert_eq!(Crew::default().seat().runtime().id(), taking.handle().id(), "without a crew it stays");
    }

    /// The runtime that has taken it is gone, and it is served all the same.
    #[test]
    fn a_connection_that_has_moved_needs_nobody_else() {
        let (taking, serving) = (runtime(), runtime());
        let seat = Crew::new([serving.handle().clone()]).seat();
        let (theirs, ours) = taking.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (theirs, listener.accept().await.unwrap().0)
        });
        let served = seat.runtime().spawn(async move {
            let mut ours = seat.settle(ours).unwrap();
            let mut asked = [0; 4];
            ours.read_exact(&mut asked).await.unwrap();
            ours.write_all(&asked).await.unwrap();
        });
        serving.block_on(async {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            taking.shutdown_background();
            theirs.set_nonblocking(true).unwrap();
            let mut theirs = TcpStream::from_std(theirs).unwrap();
            theirs.write_all(b"once").await.unwrap();
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"once");
            served.await.unwrap();
        });
    }
}
