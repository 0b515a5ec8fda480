//! Other processes that do the same: the test binary itself, started again with one test and a task in its environment.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use crate::{clock, spawner};

const TASK: &str = "HAPAX_TESTKIT_TASK";

/// What this process was started for, if it was started by [`Crew::start`].
pub fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// A line that the parent gets to see. One write, so that lines of several threads do not mix.
pub fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Several processes at once.
#[derive(Debug)]
pub struct Crew(Vec<Child>);

impl Crew {
    /// Starts this binary so many times, each with only the test of this name, which finds its [`task`].
    pub fn start(test: &str, tasks: impl IntoIterator<Item = String>) -> Self {
        Self::with_envs(test, tasks.into_iter().map(|task| (task, Vec::new())))
    }

    /// As [`Crew::start`], for one whose clock is wrong by so many seconds.
    pub fn start_skewed(test: &str, task: String, seconds: i64) -> Self {
        let envs = vec![
            ("LD_PRELOAD".to_owned(), clock::library().display().to_string()),
            ("FAKETIME".to_owned(), format!("{seconds:+}s")),
            ("FAKETIME_DONT_FAKE_MONOTONIC".to_owned(), "1".to_owned()),
        ];
        Self::with_envs(test, [(task, envs)])
    }

    fn with_envs(test: &str, tasks: impl IntoIterator<Item = (String, Vec<(String, String)>)>) -> Self {
        let own = std::env::current_exe().unwrap();
        let start = |(task, envs): (String, Vec<(String, String)>)| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--", "env"]);
            command.args(envs.iter().map(|(name, value)| format!("{name}={value}")));
            command.arg(&own).args([test, "--exact", "--nocapture"]);
            command.env(TASK, task).stdin(Stdio::null()).stdout(Stdio::piped());
            spawner::spawn(command).unwrap()
        };
        Self(tasks.into_iter().map(start).collect())
    }

    /// What each of them said until it ended; one that failed fails the test.
    pub fn finish(mut self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for child in &mut self.0 {
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let said = lines.filter_map(|line| line.strip_prefix('@').map(str::to_owned)).collect();
            let status = child.wait().unwrap();
            assert!(status.success(), "a child ended with {status}; it said {said:?}");
            all.push(said);
        }
        all
    }
}

/// Starts one process with a task and kills it with `kill -9` as soon as it says this word. False: it came to its end
/// without; one that failed fails the test.
pub fn killed_when_it_says(test: &str, task: String, word: &str) -> bool {
    let mut crew = Crew::start(test, [task]);
    let child = &mut crew.0[0];
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    for line in lines {
        if line.strip_prefix('@') == Some(word) {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "the child ended with {status}");
    false
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
