use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use super::{LONG, Server, millis};

/// The most that is read at once.
const MOST: usize = 16 * 1024;

/// Raw bytes in both directions.
pub(crate) struct Client<IO = TcpStream> {
    pub(crate) io: IO,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<String>,
}

impl Answer {
    pub(crate) fn says(&self, line: &str) -> bool {
        self.head.lines().any(|one| one == line)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) async fn to(server: &Server) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(32 * 1024).unwrap();
        let stream = socket.connect(server.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Client<IO> {
    pub(crate) fn over(io: IO) -> Self {
        Self { io, read: Vec::new() }
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        timeout(LONG, self.io.write_all(bytes.as_ref())).await.expect("nobody reads this")
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.unwrap();
    }

    /// Each piece in a packet of its own, as far as that can be arranged.
    pub(crate) async fn send_slowly<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        for piece in pieces {
            self.send(piece).await;
            sleep(millis(2)).await;
        }
    }

    /// Says that nothing more comes from here.
    pub(crate) async fn finish(&mut self) {
        self.io.shutdown().await.unwrap();
    }

    /// Waits for more to read, and takes no more than this. False: there is none.
    async fn more(&mut self, most: usize) -> io::Result<bool> {
        let mut buffer = vec![0; most.min(MOST)];
        let count = timeout(LONG, self.io.read(&mut buffer)).await.expect("nothing comes, and no end")?;
        self.read.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    /// Waits for more of something that is not all there.
    async fn need_more(&mut self, most: usize) -> Result<(), String> {
        match self.more(most).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("ended after {} bytes", self.read.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn need(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.read.len() < length {
            self.need_more(length - self.read.len()).await?;
        }
        let rest = self.read.split_off(length);
        Ok(std::mem::replace(&mut self.read, rest))
    }

    async fn until(&mut self, mark: &[u8]) -> Result<String, String> {
        loop {
            if let Some(at) = self.read.windows(mark.len()).position(|window| window == mark) {
                let text = self.need(at + mark.len()).await?;
                return Ok(String::from_utf8(text[..at].to_vec()).unwrap());
            }
            self.need_more(MOST).await?;
        }
    }

    /// The next answer. An error is whatever makes it less than whole.
    pub(crate) async fn try_answer(&mut self) -> Result<Answer, String> {
        let mut answer = self.try_head().await?;
        if answer.says("transfer-encoding: chunked") {
            loop {
                let size = usize::from_str_radix(&self.until(b"\r\n").await?, 16).unwrap();
                if size == 0 {
                    break;
                }
                answer.body.extend(self.need(size).await?);
                assert_eq!(self.need(2).await?, b"\r\n", "after a chunk");
            }
            loop {
                match self.until(b"\r\n").await? {
                    line if line.is_empty() => break,
                    line => answer.trailers.push(line),
                }
            }
        } else {
            let length = answer.value("content-length").expect("it has a length").parse().unwrap();
            answer.body = self.need(length).await?;
        }
        Ok(answer)
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.unwrap()
    }

    async fn try_head(&mut self) -> Result<Answer, String> {
        let head = self.until(b"\r\n\r\n").await?;
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap().parse().unwrap();
        Ok(Answer { status, head, body: Vec::new(), trailers: Vec::new() })
    }

    /// The head alone, of an answer that has no more.
    pub(crate) async fn head(&mut self) -> Answer {
        self.try_head().await.unwrap()
    }

    /// Whether nothing at all was said for this long.
    pub(crate) async fn hears_nothing_for(&mut self, time: std::time::Duration) -> bool {
        self.read.is_empty() && timeout(time, self.io.read_u8()).await.is_err()
    }

    /// So many bytes and no more.
    pub(crate) async fn take(&mut self, length: usize) -> Vec<u8> {
        self.need(length).await.unwrap()
    }

    /// What comes up to the end of the connection, which is an orderly one.
    pub(crate) async fn read_out(&mut self) -> Vec<u8> {
        while self.more(MOST).await.expect("a reset takes back what was said") {}
        std::mem::take(&mut self.read)
    }

    /// Waits for the end, orderly or not, and tells what was said before it.
    pub(crate) async fn closed(&mut self) -> Vec<u8> {
        while self.more(MOST).await.unwrap_or(false) {}
        std::mem::take(&mut self.read)
    }
}
