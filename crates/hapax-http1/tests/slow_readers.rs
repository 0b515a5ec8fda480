//! Clients that take their time to read.

use std::time::Duration;

use crate::support::{Client, Out, Pieces, Server, full, millis, patient, with};
use bytes::Bytes;
use hapax_http1::{Ahead, Limits, serve, taken};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LATE: Duration = millis(6_000);
/// On these a client has read exactly what there is room for again.
const ROOM: usize = 1_024;

fn over_room(change: fn(&mut Limits), answer: fn() -> Out) -> (Client<DuplexStream>, JoinHandle<()>) {
    let (near, far) = duplex(ROOM);
    let serving = tokio::spawn(async move {
        let (_stop, stopping) = watch::channel(false);
        serve(far, Ahead::default(), &with(change), stopping, |_| async { answer() }).await;
    });
    (Client::over(near), serving)
}

/// Answers that nobody fetches fill the memory of the server.
#[tokio::test]
async fn who_reads_nothing_is_cut_off() {
    let server = Server::start(with(|limits| limits.reader = millis(300)), |_| async { full(vec![0; 8 << 20]) });
    let mut client = Client::to(&server).await;
    client.send(ASK).await;
    sleep(millis(1_500)).await;
    assert!(client.try_answer().await.is_err(), "all of it was kept");
}

/// A byte now and then is no reading.
#[tokio::test]
async fn who_reads_too_little_is_cut_off() {
    for answer in
        [|| full(vec![0; 1 << 20]), || Pieces::of(std::iter::repeat_n(Bytes::from_static(&[0; 10_000]), 100)).answer()]
    {
        let (mut client, serving) = over_room(
            |limits| {
                limits.reader = millis(300);
                limits.least_read = 100 * ROOM as u64;
            },
            answer,
        );
        client.send(ASK).await;
        let since = Instant::now();
        while !serving.is_finished() {
            client.take(100).await;
            sleep(millis(20)).await;
            assert!(since.elapsed() < LATE, "it goes on");
        }
    }
}

/// Somebody far away with a thin line reads steadily. Its answer takes longer than any limit, and arrives.
#[tokio::test]
async fn who_reads_enough_is_not_cut_off() {
    let (mut client, serving) = over_room(
        |limits| {
            limits.reader = millis(1_500);
            limits.least_read = 4 * ROOM as u64;
        },
        || full(vec![7; 150 * ROOM]),
    );
    client.send(ASK).await;
    client.head().await;
    let since = Instant::now();
    for _ in 0..150 {
        client.take(ROOM).await;
        sleep(millis(20)).await;
    }
    assert!(since.elapsed() > millis(1_500), "it is to take longer than the limit");
    assert!(!serving.is_finished());
}

/// The same over a real connection, of whose buffer the system tells only when a good part of it is free again.
#[tokio::test]
async fn who_reads_steadily_is_not_cut_off_for_the_size_of_a_buffer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    taken(&stream);
    let serving = tokio::spawn(async move {
        let (_stop, stopping) = watch::channel(false);
        let manners = with(|limits| (limits.reader, limits.least_read) = (millis(1_000), 4 * 1_024));
        serve(stream, Ahead::default(), &manners, stopping, |_| async { full(vec![7; 64 << 20]) }).await;
    });
    client.write_all(ASK.as_bytes()).await.unwrap();
    let mut place = vec![0; 32 * 1_024];
    for _ in 0..60 {
        client.read_exact(&mut place).await.unwrap();
        sleep(millis(100)).await;
        assert!(!serving.is_finished(), "it is cut off");
    }
}

/// What is waited for is the server's own answer: its pauses are not held against who reads.
#[tokio::test]
async fn who_waits_for_us_is_not_cut_off() {
    let mut manners = patient();
    (manners.limits.reader, manners.limits.least_read) = (millis(1_500), 1 << 30);
    let server = Server::start(manners, |_| async {
        sleep(millis(1_800)).await;
        full(vec![7; 1 << 20])
    });
    let mut client = Client::to(&server).await;
    for _ in 0..2 {
        client.send(ASK).await;
        let answer = timeout(LATE, client.answer()).await.unwrap();
        assert_eq!(answer.body.len(), 1 << 20);
    }
}
