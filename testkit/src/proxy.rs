//! A wire between a client and a server that can be cut, slowed and lose answers.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

#[derive(Debug, Default)]
struct Mood {
    /// Connections are not accepted.
    down: AtomicBool,
    /// The next answer to anything asked from now on is lost, and its connection with it.
    lose_answer: AtomicBool,
    answers_lost: AtomicU64,
    delay_ms: AtomicU64,
    /// Pieces that clients sent: the round trips of whoever sends one at a time.
    asked: AtomicU64,
    /// Requests that were held up and have reached the server in the end.
    late: AtomicU64,
}

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mood: Arc<Mood>,
    cut: watch::Sender<u64>,
    holding: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// In front of a server on this port.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, (cut, cuts)) = (Arc::new(Mood::default()), watch::channel(0));
        let (holding, held) = watch::channel(false);
        let own = mood.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !own.down.load(SeqCst) {
                    tokio::spawn(carry(client, port, own.clone(), cuts.clone(), held.clone()));
                }
            }
        });
        Self { address, mood, cut, holding, accepting }
    }

    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends all connections; new ones are taken.
    pub fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Ends all connections and takes none until it is mended.
    pub fn down(&self) {
        self.mood.down.store(true, SeqCst);
        self.cut();
    }

    pub fn mend(&self) {
        self.mood.down.store(false, SeqCst);
    }

    /// The next request reaches the server; its answer does not reach the client, whose connection ends.
    pub fn lose_next_answer(&self) {
        self.mood.lose_answer.store(true, SeqCst);
    }

    pub fn answers_lost(&self) -> u64 {
        self.mood.answers_lost.load(SeqCst)
    }

    /// Every answer takes so much longer.
    pub fn delay(&self, by: Duration) {
        self.mood.delay_ms.store(u64::try_from(by.as_millis()).unwrap(), SeqCst);
    }

    /// Requests sent from now on stay here, whatever becomes of their client, until they are let go.
    pub fn hold(&self) {
        self.holding.send_replace(true);
    }

    pub fn let_go(&self) {
        self.holding.send_replace(false);
    }

    /// How many requests that were held have been answered by the server since.
    pub fn late(&self) -> u64 {
        self.mood.late.load(SeqCst)
    }

    pub fn asked(&self) -> u64 {
        self.mood.asked.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn carry(
    mut client: TcpStream,
    port: u16,
    mood: Arc<Mood>,
    mut cuts: watch::Receiver<u64>,
    mut held: watch::Receiver<bool>,
) {
    cuts.mark_unchanged();
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut doomed = false;
    loop {
        tokio::select! {
            _ = cuts.changed() => return,
            read = client.read(&mut from_client) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                mood.asked.fetch_add(1, SeqCst);
                doomed |= mood.lose_answer.swap(false, SeqCst);
                let was_held = *held.borrow();
                if was_held && held.wait_for(|held| !held).await.is_err() {
                    return;
                }
                if server.write_all(&from_client[..length]).await.is_err() {
                    return;
                }
                if was_held {
                    // Its client may be gone; that it has arrived shows in the answer.
                    let answer = server.read(&mut from_server).await.unwrap_or(0);
                    mood.late.fetch_add(1, SeqCst);
                    if client.write_all(&from_server[..answer]).await.is_err() {
                        return;
                    }
                }
            }
            read = server.read(&mut from_server) => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { return };
                if doomed {
                    mood.answers_lost.fetch_add(1, SeqCst);
                    return;
                }
                let delay = mood.delay_ms.load(SeqCst);
                if delay > 0 {
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                }
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
