use std::{
    fs,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{spawner, wait_until as until};

/// How a server is started: the same line again after it was killed.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) envs: Vec<(String, String)>,
    /// Some servers refuse to run as root.
    pub(crate) user: Option<&'static str>,
    pub(crate) log: PathBuf,
    pub(crate) port: u16,
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    recipe: Recipe,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start(recipe: Recipe) -> Self {
        let mut server = Self { recipe, child: None };
        server.launch();
        server
    }

    pub const fn port(&self) -> u16 {
        self.recipe.port
    }

    fn launch(&mut self) {
        let recipe = &self.recipe;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = recipe.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        // Its own environment must not reach setpriv, which still runs as somebody else.
        command.args(["--", "env"]).args(recipe.envs.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(&recipe.program).args(&recipe.args);
        let log = fs::OpenOptions::new().create(true).append(true).open(&recipe.log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(spawner::spawn(command).expect("setpriv starts it (Debian package util-linux)"));
    }

    /// Waits until it answers as `ready` says, or fails with what it has logged.
    pub(crate) fn ready(&mut self, ready: impl Fn() -> bool) {
        let patience = Instant::now() + Duration::from_secs(60);
        while !ready() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            if ended.is_some() || Instant::now() > patience {
                panic!("{:?} did not come up ({ended:?}):\n{}", self.recipe.program, self.log());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.recipe.log).unwrap_or_default()
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// `kill -9`, and everything that it had started.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid() else { return };
        let family = family(pid);
        signal("KILL", &family);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        until("its children are gone", || family.iter().all(|pid| !alive(*pid)));
    }

    /// Told by this signal to stop, and waited for.
    pub fn stop(&mut self, name: &str) {
        let Some(mut child) = self.child.take() else { return };
        let pid = child.id();
        stop(name, pid);
        let _ = child.wait();
    }

    /// Stands still, with everything that it had started, and keeps its connections.
    pub fn pause(&self) {
        let family = family(self.pid().expect("it runs"));
        signal("STOP", &family);
        until("it stands still", || family.iter().all(|pid| matches!(state(*pid), Some('T' | 'Z') | None)));
    }

    pub fn resume(&self) {
        signal("CONT", &family(self.pid().expect("it runs")));
    }

    pub(crate) fn launch_again(&mut self) {
        self.kill();
        self.launch();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for a condition, not for a time.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Nobody else is given it while this process looks for one, and servers bind at once.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The program, or the test fails with what installs it.
pub(crate) fn find(name: &str, places: &[PathBuf], package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = places.to_vec();
    all.extend(std::env::split_paths(&path).map(|dir| dir.join(name)));
    all.into_iter().find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("{name} is not installed; `apt-get install {package}`, or `cargo xtask test`, which installs it")
    })
}

pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
}

fn signal(name: &str, pids: &[u32]) {
    // Those that ended meanwhile do not matter.
    let _ = Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
}

/// Tells a server by this signal to stop, and waits until it has.
pub(crate) fn stop(name: &str, pid: u32) {
    signal(name, &[pid]);
    until("it has stopped", || !alive(pid));
}

/// The state letter and the parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let mut text = String::new();
    fs::File::open(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?.read_to_string(&mut text).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn state(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

fn alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// The process and its descendants.
fn family(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}
