use std::io;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

/// So many connections wait to be taken, if the system allows it. It drops whoever comes when there is no place, and who is dropped asks again after
/// a second: so a crowd that comes at once has to find room.
const WAITING: i32 = 4_096;

/// So much lies with the system unsent before we are told to wait.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 * 1024;

/// Listens at an address.
pub async fn listening(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    // It listens already, with less room.
    let _as_it_was = socket2::SockRef::from(&listener).listen(WAITING);
    Ok(listener)
}

/// Sets up a connection as it is taken.
///
/// Small answers are not held back for more to come. And what a client has not taken is mostly kept by us: of a buffer of megabytes the
/// system says only when a third is free again, and whoever reads steadily, but slowly, seems not to read at all until then.
pub fn taken(stream: &TcpStream) {
    // Without them it is slower, and no less right.
    let _as_it_was = stream.set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _as_it_was = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whoever finds no place asks again after a second.
    #[tokio::test]
    async fn a_crowd_that_comes_at_once_finds_room() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        if !allowed.is_ok_and(|most| most.trim().parse().is_ok_and(|most: u32| most >= 1_024)) {
            return;
        }
        let listener = listening("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let come = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(900));
        let crowd: Vec<_> = (0..400).map(|_| come()).collect();
        let dropped = crowd.iter().filter(|one| one.is_err()).count();
        assert_eq!(dropped, 0);
    }
}
