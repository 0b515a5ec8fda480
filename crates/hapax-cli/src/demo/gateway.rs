//! The gateway as a process of its own, so that it can be killed like one.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

pub(crate) struct Gateway {
    upstream: SocketAddr,
    address: SocketAddr,
    place: PathBuf,
    child: Child,
}

/// Work whose gateway was killed is taken for lost after this; as a rule it is a minute, which is long to look at.
const CONFIGURATION: &str = "[default]\nlease = \"2s\"\n";

/// As long as a start may take.
const START: Duration = Duration::from_secs(20);

impl Gateway {
    pub(crate) async fn start(upstream: SocketAddr) -> Result<Self, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| error.to_string())?;
        let place = std::env::temp_dir().join(format!("hapax-demo-{}-{}", std::process::id(), address.port()));
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        std::fs::write(place.join("hapax.toml"), CONFIGURATION).map_err(|error| error.to_string())?;
        let child = spawn(upstream, address, &place)?;
        let mut gateway = Self { upstream, address, place, child };
        gateway.ready().await?;
        Ok(gateway)
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// As a crash would: no signal that could be handled, then a start on the same data.
    pub(crate) async fn kill_and_restart(&mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())?;
        self.child = spawn(self.upstream, self.address, &self.place)?;
        self.ready().await
    }

    pub(crate) async fn stop(mut self) {
        let _already_gone = self.child.kill().await;
        let _leftover = std::fs::remove_dir_all(&self.place);
    }

    async fn ready(&mut self) -> Result<(), String> {
        let waiting = async {
            while TcpStream::connect(self.address).await.is_err() {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return Err(format!("the gateway ended with {status}"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        tokio::time::timeout(START, waiting).await.map_err(|_| "the gateway did not become ready".to_owned())?
    }
}

fn spawn(upstream: SocketAddr, address: SocketAddr, place: &std::path::Path) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.args(["gateway", "--upstream", &format!("http://{upstream}"), "--listen", &address.to_string()]);
    command.args(["--store", &format!("file:{}", place.join("data").display())]);
    command.arg("--config").arg(place.join("hapax.toml"));
    // What is set for the user's own gateway is not meant for this one.
    for (name, _) in std::env::vars_os() {
        if ["HAPAX_", "IDEMPOTENCY_"].iter().any(|ours| name.to_string_lossy().starts_with(ours)) {
            command.env_remove(name);
        }
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().map_err(|error| format!("cannot start the gateway: {error}"))
}
