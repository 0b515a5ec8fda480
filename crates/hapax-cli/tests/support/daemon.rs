use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use super::{Dir, until};

/// `hapax serve`, as a user runs it, on ports that are free.
pub struct Daemon {
    pub child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    pub fn command(dir: &Dir, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
            command.env_remove(name);
        }
        command.env_remove("TOKIO_WORKER_THREADS");
        command.current_dir(dir.path()).args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    pub fn start(dir: &Dir, more: &[&str]) -> Self {
        Self::start_with(dir, more, &[])
    }

    /// With these in its environment.
    pub fn start_with(dir: &Dir, more: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::go(Self::command(dir, more).envs(environment.iter().copied()))
    }

    /// What [`Self::command`] has put together, and whatever was added to it.
    pub fn go(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, lines) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut daemon = Self { child, said };
        until("the daemon to start", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "it ended: {:?}", daemon.said());
            daemon.said().iter().any(|line| line.contains("  admin "))
        });
        daemon
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The address on the line of the greeting that begins so: `hapax serve on`, `admin`, `gateway`.
    pub fn url(&self, line: &str) -> Option<String> {
        let said = self.said();
        let line = said.iter().find(|said| said.trim_start().starts_with(line))?;
        let at = line.find("http")?;
        Some(line[at..].split([' ', ',']).next()?.trim_end_matches('/').to_owned())
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the daemon said: {:#?}", self.said());
        }
    }
}
