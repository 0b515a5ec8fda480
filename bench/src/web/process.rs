//! Programs that run beside the measurement, and end with it.

use std::{
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked first: a killed nginx would leave its workers behind.
        let _asked = Command::new("kill").arg(self.child.id().to_string()).status();
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Running {
    /// This program in another role, which prints the address it serves at.
    pub(crate) fn ourselves(role: &str) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = spawn(Command::new(own).arg(role).stdout(Stdio::piped()))?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        let address = line.trim().parse().map_err(|_| format!("`{role}` printed no address but `{line}`"))?;
        Ok(Self { child, address })
    }

    /// A program that was told its address and is ready once it accepts connections.
    pub(crate) fn at(address: SocketAddr, command: &mut Command) -> Result<Self, String> {
        let mut running = Self { child: spawn(command.stdout(Stdio::null()))?, address };
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(format!("{command:?} ended with {status} before it was ready"));
            }
            if Instant::now() > end {
                return Err(format!("{command:?} does not accept connections at {address}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// Started, and nothing more is known of it.
    pub(crate) fn unready(address: SocketAddr, command: &mut Command) -> Result<Self, String> {
        Ok(Self { child: spawn(command)?, address })
    }

    /// The memory that it holds.
    pub(crate) fn resident_mib(&self) -> Result<f64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| "its memory is not known".to_owned())
    }

    /// The gateway as a user would start it, durable on a ledger in `place`.
    pub(crate) fn gateway(upstream: SocketAddr, place: &Path) -> Result<Self, String> {
        Self::gateway_with(upstream, place, None)
    }

    /// The same, with this configuration.
    pub(crate) fn gateway_with(upstream: SocketAddr, place: &Path, file: Option<&Path>) -> Result<Self, String> {
        let address = free_address()?;
        let mut command = Command::new(beside_us("hapax")?);
        if let Some(file) = file {
            command.env("HAPAX_CONFIG", file);
        }
        command.args(["gateway", "--upstream", &format!("http://{upstream}"), "--listen", &address.to_string()]);
        command.args(["--store", &format!("file:{}", place.display())]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self::at(address, &mut command)
    }
}

/// The product.
pub(crate) fn hapax() -> Result<PathBuf, String> {
    beside_us("hapax")
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))
}

/// A program of this workspace, which `cargo xtask bench` has built beside this one.
fn beside_us(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = own.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("there is no {}; start it by cargo xtask bench", path.display())) }
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|error| error.to_string())
}
