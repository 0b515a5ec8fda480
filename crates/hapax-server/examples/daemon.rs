//! A daemon on the embedded ledger, for trying out: `cargo run -p hapax-server --example daemon -- 127.0.0.1:7878 ./data`.

use std::sync::Arc;

use hapax_engine::Engine;
use hapax_ledger::Ledger;
use hapax_server::{Auth, Format, Keys, Level, Limits, Log, Server, audit::Audit};
use tokio::net::{TcpListener, UnixListener};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7878".to_owned());
    let dir = std::path::PathBuf::from(arguments.next().unwrap_or_else(|| "hapax-data".to_owned()));
    let ledger = Arc::new(Ledger::open(&dir)?);
    let engine = Engine::builder(ledger).sweeping(true).build()?;
    let (audit, _opened) = Audit::open(&dir)?;
    let level = std::env::var("LEVEL").ok().and_then(|name| Level::parse(&name)).unwrap_or(Level::Info);
    let mut builder =
        Server::builder(engine).audit(audit).log(Log::to_stderr(level, Format::Json)).limits(Limits::default());
    if let Ok(file) = std::env::var("KEYS") {
        builder = builder.auth(Auth::Keys(Keys::from_toml(&std::fs::read_to_string(file)?)?));
    }
    let server = builder.build()?;
    let socket = dir.join("admin.sock");
    let _ = std::fs::remove_file(&socket);
    let at_socket = UnixListener::bind(&socket)?;
    let listener = TcpListener::bind(&address).await?;
    println!("http://{}", listener.local_addr()?);
    tokio::select! {
        served = server.serve(listener) => served?,
        () = server.serve_socket(at_socket) => {}
        _ = tokio::signal::ctrl_c() => server.stop(),
    }
    Ok(())
}
