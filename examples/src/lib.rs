//! Programs that show Hapax at work; see `examples/`.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Posts JSON under an idempotency key, as `curl` would: the status, whether it was a replay, and the body.
pub async fn post(to: SocketAddr, path: &str, key: &str, json: &str) -> std::io::Result<(String, bool, String)> {
    let mut stream = TcpStream::connect(to).await?;
    let length = json.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer acme\r\ncontent-type: application/json\r\n\
         idempotency-key: {key}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().and_then(|line| line.get(9..12)).unwrap_or("???").to_owned();
    Ok((status, head.to_ascii_lowercase().contains("idempotent-replayed: true"), body.to_owned()))
}
