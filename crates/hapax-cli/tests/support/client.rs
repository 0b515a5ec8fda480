use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer, byte for byte as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// A member of a problem document, without a JSON reader: `"name":value`.
    pub fn says(&self, member: &str) -> bool {
        self.text().replace("\": ", "\":").contains(member)
    }
}

/// A connection on which anything can be sent.
pub struct Conn(BufReader<TcpStream>);

impl Conn {
    pub fn to(address: SocketAddr) -> Self {
        Self::try_to(address).unwrap()
    }

    /// For servers that may be gone.
    pub fn try_to(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
        self
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// The next answer; informational ones are passed over.
    pub fn answer(&mut self) -> Answer {
        self.try_answer(false).expect("an answer")
    }

    /// As [`Conn::answer`], to a HEAD: there is no body, whatever the head says.
    pub fn answer_to_head(&mut self) -> Answer {
        self.try_answer(true).expect("an answer")
    }

    pub fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status =
            line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| io::Error::other(line))?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                return Ok((status, headers));
            }
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    pub fn try_answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let (status, headers) = loop {
            let (status, headers) = self.head()?;
            if status >= 200 {
                break (status, headers);
            }
        };
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let mut body = Vec::new();
        if to_head || status == 204 || status == 304 {
        } else if find("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        } else if let Some(length) = find("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut body)?;
        } else {
            self.0.read_to_end(&mut body)?;
        }
        Ok(Answer { status, headers, body })
    }

    /// The next chunk of a chunked body; `None` at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size];
        self.0.read_exact(&mut chunk)?;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            if line == "\r\n" {
                break;
            }
        }
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    /// Whether the other side has closed; what it still said is passed over.
    pub fn closed_within(&mut self, limit: Duration) -> bool {
        let _ = self.0.get_ref().set_read_timeout(Some(limit));
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }

    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

/// A whole request in one write.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: shop.example\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text + "\r\n" + body
}

/// A POST with a key, of the caller that most tests have.
pub fn keyed(path: &str, key: &str, body: &str) -> String {
    let headers = [("Idempotency-Key", key), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    request("POST", path, &headers, body)
}

/// One POST with a key on a connection of its own.
pub fn post(address: SocketAddr, path: &str, key: &str, body: &str) -> Answer {
    Conn::to(address).send(keyed(path, key, body)).answer()
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    Conn::to(address).send(request("GET", path, &[], "")).answer()
}
