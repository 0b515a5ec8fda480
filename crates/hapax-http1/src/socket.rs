use tokio::net::TcpStream;

/// So much lies with the system unsent before we are told to wait.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 * 1024;

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
