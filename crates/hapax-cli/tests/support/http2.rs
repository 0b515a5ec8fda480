use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// HTTP/2 by hand: what no client library would do.
pub struct Http2 {
    stream: TcpStream,
    read: Vec<u8>,
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A head, each line as a literal that nobody remembers.
pub fn head(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        assert!(name.len() < 127 && value.len() < 127);
        block.push(0);
        block.push(name.len() as u8);
        block.extend(name.bytes());
        block.push(value.len() as u8);
        block.extend(value.bytes());
    }
    block
}

pub fn ask(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    head(&[&[(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")], more].concat())
}

/// All of a POST with a key and without a body, of the caller that most tests have.
pub fn keyed(stream: u32, path: &str, key: &str) -> Vec<u8> {
    let more = [("idempotency-key", key), ("authorization", "Bearer one"), ("content-length", "0")];
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &ask("POST", path, &more))
}

impl Http2 {
    /// With the given settings, each a number and a value.
    pub fn to(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut this = Self { stream, read: Vec::new() };
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(number, value)| [number.to_be_bytes().to_vec(), value.to_be_bytes().to_vec()].concat())
            .collect();
        this.send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &payload)[..]].concat()).unwrap();
        this
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next frame, if one comes soon. Settings and pings are answered as a living client answers them. An error: the
    /// connection is over.
    pub fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some(frame) = self.raw()? else { return Ok(None) };
        if frame.flags & ACK == 0 && (frame.kind == SETTINGS || frame.kind == PING) {
            let payload: &[u8] = if frame.kind == PING { &frame.payload } else { &[] };
            let answer = self::frame(frame.kind, ACK, 0, payload);
            self.send(&answer)?;
        }
        Ok(Some(frame))
    }

    fn raw(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if self.read.len() >= 9 {
                let length = u32::from_be_bytes([0, self.read[0], self.read[1], self.read[2]]) as usize;
                if self.read.len() >= 9 + length {
                    let rest = self.read.split_off(9 + length);
                    let whole = std::mem::replace(&mut self.read, rest);
                    let stream = u32::from_be_bytes([whole[5], whole[6], whole[7], whole[8]]);
                    return Ok(Some(Frame { kind: whole[3], flags: whole[4], stream, payload: whole[9..].to_vec() }));
                }
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.read.extend(&piece[..count]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lives on politely until a frame of interest comes (`Some`), or the connection ends (`None`).
    pub fn until(&mut self, what: &str, interest: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let start = Instant::now();
        loop {
            match self.next() {
                Ok(Some(frame)) if interest(&frame) => return Some(frame),
                Ok(_) => assert!(start.elapsed() < Duration::from_secs(30), "waited too long for: {what}"),
                Err(_) => return None,
            }
        }
    }
}
