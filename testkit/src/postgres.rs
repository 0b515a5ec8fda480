use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    FakeClock, Server, TempDir,
    server::{Recipe, find, free_port, run},
    wait_until,
};

/// PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A PostgreSQL of its own.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    clock: Option<FakeClock>,
    _dir: TempDir,
}

impl Postgres {
    /// Durable, as it comes.
    pub fn start() -> Self {
        Self::launch(&[], false)
    }

    /// With settings of its own, as `name=value`.
    pub fn with(settings: &[&str]) -> Self {
        Self::launch(settings, false)
    }

    /// Durable, with TLS beside plain connections, with `server.pem` and `server-key.pem` of this directory.
    pub fn with_tls(certificates: &Path) -> Self {
        // It wants the key to be its own, and nobody else's to read.
        let own = TempDir::new("certificates");
        for name in ["server.pem", "server-key.pem"] {
            fs::copy(certificates.join(name), own.join(name)).unwrap();
            run(Command::new("chmod").arg("600").arg(own.join(name)));
        }
        if is_root() {
            run(Command::new("chown").arg("-R").arg(USER).arg(own.path()));
        }
        let file = |setting: &str, name: &str| format!("{setting}={}", own.join(name).display());
        let (certificate, key) = (file("ssl_cert_file", "server.pem"), file("ssl_key_file", "server-key.pem"));
        // Read at the start, so the copies may go.
        // The second address is one that no certificate of the tests names.
        Self::launch(&["ssl=on", "listen_addresses=127.0.0.1,127.0.0.2", &certificate, &key], false)
    }

    /// Quick and forgetful, for what is not about durability.
    pub fn forgetful() -> Self {
        Self::launch(&["fsync=off", "autovacuum=off"], false)
    }

    /// Quick and forgetful, with a user `app` who may make a schema and is asked for this password, by SCRAM. All others are
    /// let in as ever.
    pub fn with_password(password: &str) -> Self {
        let dir = Self::fresh();
        let (rules, own) = (dir.join("data/pg_hba.conf"), "host all app 127.0.0.1/32 scram-sha-256\n");
        // The first line that fits is the one that counts.
        let others = fs::read_to_string(&rules).unwrap();
        fs::write(&rules, format!("{own}{others}")).unwrap();
        let postgres = Self::on(dir, &["fsync=off", "autovacuum=off"], false);
        postgres.say(&format!("CREATE ROLE app LOGIN PASSWORD '{password}'"));
        postgres.say("GRANT CREATE ON DATABASE postgres TO app");
        postgres
    }

    /// With a clock that can be moved; what it writes is not synced.
    pub fn with_clock() -> Self {
        Self::launch(&["fsync=off"], true)
    }

    /// Durable, with a standby without which it acknowledges nothing; and that standby.
    pub fn with_standby() -> (Self, Self) {
        let primary = Self::with(&["synchronous_standby_names=*"]);
        let dir = TempDir::new("standby");
        let (data, root, port) = (dir.join("data"), is_root(), primary.port().to_string());
        if root {
            run(Command::new("chown").arg(USER).arg(dir.path()));
        }
        let mut copy = as_user(root, &program("pg_basebackup"));
        run(copy
            .args(["-h", "127.0.0.1", "-p", &port, "-U", USER, "-R", "-X", "stream", "-c", "fast", "-D"])
            .arg(&data));
        let standby = Self::on(dir, &[], false);
        wait_until("the standby is waited for", || {
            primary.say("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").trim() == "1"
        });
        (primary, standby)
    }

    /// A standby becomes the one that is written to.
    pub fn promote(&self) {
        assert_eq!(self.say("SELECT pg_promote()").trim(), "t");
        wait_until("it may be written to", || self.say("SELECT pg_is_in_recovery()").trim() == "f");
    }

    fn launch(settings: &[&str], faked: bool) -> Self {
        Self::on(Self::fresh(), settings, faked)
    }

    /// The data of an empty cluster.
    fn fresh() -> TempDir {
        let dir = TempDir::new("postgres");
        let (data, root) = (dir.join("data"), is_root());
        // Making a cluster costs a second of work, a copy of one a tenth of it.
        run(Command::new("cp").arg("-r").arg(template(root)).arg(&data));
        run(Command::new("chmod").arg("700").arg(&data));
        if root {
            run(Command::new("chown").arg("-R").arg(USER).arg(dir.path()));
        }
        dir
    }

    /// On the data that lies in this directory.
    fn on(dir: TempDir, settings: &[&str], faked: bool) -> Self {
        let (data, port, root) = (dir.join("data"), free_port(), is_root());
        let clock = faked.then(|| FakeClock::new(dir.path()));
        let mut args = vec!["-D".to_owned(), data.display().to_string(), "-p".to_owned(), port.to_string()];
        let own = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"];
        for setting in own.iter().chain(settings) {
            args.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let recipe = Recipe {
            program: program("postgres"),
            args,
            envs: clock.as_ref().map(FakeClock::envs).unwrap_or_default(),
            user: root.then_some(USER),
            log: dir.join("log"),
            port,
        };
        let mut postgres = Self { server: Server::start(recipe), clock, _dir: dir };
        postgres.wait();
        postgres
    }

    fn wait(&mut self) {
        let (port, isready) = (self.server.port().to_string(), program("pg_isready"));
        self.server.ready(|| {
            let asked = Command::new(&isready).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
            asked.is_ok_and(|status| status.success())
        });
    }

    pub const fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port())
    }

    pub fn clock(&self) -> &FakeClock {
        self.clock.as_ref().expect("started with a clock")
    }

    /// One question with one answer, for tests that look behind the store's back.
    pub fn say(&self, sql: &str) -> String {
        let asked = Command::new(program("psql")).args(["-X", "-q", "-A", "-t", "-c", sql]).arg(self.url()).output();
        let output = asked.unwrap_or_else(|error| panic!("psql: {error}"));
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn kill(&mut self) {
        self.server.kill();
    }

    pub fn pause(&self) {
        self.server.pause();
    }

    pub fn resume(&self) {
        self.server.resume();
    }

    /// On the same data and the same port.
    pub fn restart(&mut self) {
        self.server.launch_again();
        self.wait();
    }
}

/// Debian keeps PostgreSQL's own programs out of the path; the newest version wins.
pub fn program(name: &str) -> PathBuf {
    let mut places: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin").join(name)))
        .collect();
    places.sort();
    places.reverse();
    find(name, &places, "postgresql")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A program of PostgreSQL's, which refuse to run as root.
fn as_user(root: bool, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if root {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

/// An empty cluster, made by whoever comes first and kept for the next test.
fn template(root: bool) -> PathBuf {
    let initdb = program("initdb");
    let version =
        initdb.components().rev().nth(2).map_or_else(String::new, |part| part.as_os_str().to_string_lossy().into());
    let template = std::env::temp_dir().join(format!("hapax-testkit-cluster-{version}-{}", u8::from(root)));
    if template.is_dir() {
        return template;
    }
    let dir = TempDir::new("initdb");
    let fresh = dir.join("data");
    fs::create_dir(&fresh).unwrap();
    if root {
        run(Command::new("chown").arg("-R").arg(USER).arg(dir.path()));
    }
    let mut init = as_user(root, &initdb);
    run(init.arg("-D").arg(&fresh).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"]));
    // Whole or not at all; if another was quicker, its cluster is as good.
    let _ = fs::rename(&fresh, &template);
    template
}
