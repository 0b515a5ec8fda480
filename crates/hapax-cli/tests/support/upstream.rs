use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use super::until;

/// A request as the upstream saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the upstream does with a request.
pub enum Reply {
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, then it closes.
    Last(Vec<u8>),
}

impl Reply {
    pub fn json(status: u16, body: &str) -> Self {
        Self::with(status, &[("Content-Type", "application/json")], body)
    }

    pub fn with(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        Self::Bytes((text + "\r\n" + body).into_bytes())
    }
}

type Handler = dyn Fn(&Asked, usize, &mut TcpStream) -> Reply + Send + Sync;

/// A server that does what it is told, and remembers what it was asked.
pub struct Upstream {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    gone: Arc<AtomicBool>,
}

impl Upstream {
    /// `handler` gets the request and its number, from 0.
    pub fn new(handler: impl Fn(&Asked, usize, &mut TcpStream) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), handler)
    }

    pub fn on(
        listener: TcpListener,
        handler: impl Fn(&Asked, usize, &mut TcpStream) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let gone: Arc<AtomicBool> = Arc::default();
        let (all, open, handler): (_, _, Arc<Handler>) = (asked.clone(), connections.clone(), Arc::new(handler));
        let leaves = gone.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if leaves.load(Ordering::SeqCst) {
                    return;
                }
                stream.set_nodelay(true).unwrap();
                open.lock().unwrap().push(stream.try_clone().unwrap());
                let (all, handler) = (all.clone(), handler.clone());
                std::thread::spawn(move || serve(stream, &all, &handler));
            }
        });
        Self { address, asked, connections, gone }
    }

    /// Answers every request with its number.
    pub fn counting() -> Self {
        Self::new(|_, number, _| Reply::json(201, &format!("{{\"charge\":{number}}}")))
    }

    /// The same, but what is asked for under `/slow` is answered when the test lets it, once for each word.
    pub fn held() -> (Self, mpsc::Sender<()>) {
        let (go, wait) = mpsc::channel();
        let wait = Mutex::new(wait);
        let upstream = Self::new(move |asked, number, _| {
            if asked.path.starts_with("/slow") {
                let _ = wait.lock().unwrap().recv();
            }
            Reply::json(201, &format!("{{\"charge\":{number}}}"))
        });
        (upstream, go)
    }

    /// Sends one event each time it is told, and ends when the teller is gone.
    pub fn events(content_type: &'static str) -> (Self, mpsc::Sender<&'static str>) {
        let (tell, told) = mpsc::channel::<&'static str>();
        let told = Mutex::new(told);
        let upstream = Self::new(move |_, _, stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            while let Ok(event) = told.lock().unwrap().recv() {
                if stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).is_err() {
                    break;
                }
            }
            Reply::Bytes(b"0\r\n\r\n".to_vec())
        });
        (upstream, tell)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// How many connections were ever made.
    pub fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Closes all connections, also those that wait for a request.
    pub fn close_all(&self) {
        for stream in &*self.connections.lock().unwrap() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections and takes no more: whoever comes is refused.
    pub fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
        until("the upstream to be gone", || TcpStream::connect(self.address).is_err());
        self.close_all();
    }
}

fn serve(stream: TcpStream, all: &Mutex<Vec<Asked>>, handler: &Arc<Handler>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let number = {
            let mut all = all.lock().unwrap();
            all.push(asked.clone());
            all.len() - 1
        };
        let done = match handler(&asked, number, &mut writer) {
            Reply::Bytes(bytes) => writer.write_all(&bytes).is_err(),
            Reply::Last(bytes) => {
                let _ = writer.write_all(&bytes);
                true
            }
        };
        if done {
            let _ = writer.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut asked = Asked { method, path, headers, body: Vec::new() };
    if let Some(length) = asked.header("content-length") {
        asked.body.resize(length.parse().ok()?, 0);
        reader.read_exact(&mut asked.body).ok()?;
    } else if asked.header("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            if size == 0 {
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).ok()?;
                    if line == "\r\n" {
                        break;
                    }
                }
                break;
            }
            reader.read_exact(&mut chunk).ok()?;
            asked.body.extend(&chunk[..size]);
        }
    }
    Some(asked)
}
