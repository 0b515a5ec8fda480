use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::until;

/// A directory that is gone after the test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("gateway-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a gateway is started.
pub struct Start<'d> {
    dir: &'d Dir,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl<'d> Start<'d> {
    /// In a directory of its own, with its records there.
    pub fn at(dir: &'d Dir) -> Self {
        Self { dir, args: Vec::new(), env: Vec::new() }
    }

    pub fn arg(mut self, name: &str, value: impl ToString) -> Self {
        self.args.extend([name.to_owned(), value.to_string()]);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn upstream(self, upstream: impl std::fmt::Display) -> Self {
        self.arg("--upstream", format!("http://{upstream}"))
    }

    /// With this `hapax.toml`.
    pub fn file(self, text: &str) -> Self {
        self.dir.write("hapax.toml", text);
        self
    }

    pub fn command(&self) -> Command {
        let mut command = super::command::command(self.dir.path(), &["gateway"]);
        command.args(&self.args).envs(self.env.iter().cloned());
        if !self.args.iter().any(|arg| arg == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub fn go(self) -> Gateway {
        let mut child = self.command().spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, lines) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut gateway = Gateway { child, said, address: ([127, 0, 0, 1], 0).into() };
        let mut address = None;
        until("the gateway to start", || {
            assert!(gateway.child.try_wait().unwrap().is_none(), "it ended: {:?}", gateway.said());
            address = gateway.said().iter().find_map(|line| {
                let place = line.strip_prefix("hapax gateway on ")?.split_once("://")?.1;
                place.split(',').next()?.parse().ok()
            });
            address.is_some() && gateway.said().iter().any(|line| line.contains("  routes"))
        });
        gateway.address = address.unwrap();
        gateway
    }

    /// For starts that must fail: the exit code and what was said.
    pub fn fails(self) -> (i32, String) {
        let output = self.command().output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A gateway, as a user runs it.
pub struct Gateway {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    pub address: SocketAddr,
}

impl Gateway {
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub fn wait_for(&self, words: &str) {
        until(words, || self.said().iter().any(|line| line.contains(words)));
    }

    /// `kill -9`: no warning, no last words.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([format!("-{name}"), pid]).status().unwrap().success());
    }

    pub fn wait(mut self) -> ExitStatus {
        let mut status = None;
        until("the gateway to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// What it has in memory right now.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the gateway said: {:#?}", self.said());
        }
    }
}
