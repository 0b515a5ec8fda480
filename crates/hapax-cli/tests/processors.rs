//! Threads that run requests keep to a processor each, and only they do. There are two for each processor: one that serves connections, and
//! one of the program's own.

#![cfg(target_os = "linux")]

use std::{collections::BTreeSet, fs, process::Command};

use crate::support::{Daemon, Dir, Reply, Start, Upstream, command::json, post, until};

/// What a thread may run on, as the kernel writes it: `0-3`, `2`.
fn places_of_threads(process: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // One that has just ended has none.
    threads.filter_map(|thread| places(&thread.ok()?.path().join("status").to_string_lossy())).collect()
}

fn places(status: &str) -> Option<String> {
    let status = fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// Those of this process, which it gives to what it starts.
fn everywhere() -> String {
    places("/proc/self/status").unwrap()
}

/// How many processors that is.
fn counted(places: &str) -> usize {
    let numbers = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1
    };
    places.split(',').map(numbers).sum()
}

/// Those that serve connections.
fn serving(process: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "hapax-serving").count()
}

fn keepers(process: u32) -> Vec<String> {
    places_of_threads(process).into_iter().filter(|places| counted(places) == 1).collect()
}

/// Two threads behind each other on one processor while another stands still: that is where the system left them.
#[test]
fn each_thread_that_runs_requests_keeps_to_a_processor() {
    // Where the machine's time is shared out, there are fewer threads than processors.
    let (many, workers) = (counted(&everywhere()), std::thread::available_parallelism().unwrap().get());
    if many == 1 || many != workers {
        return;
    }
    let dir = Dir::new();
    let daemon = Daemon::start(&dir, &[]);
    let different = || keepers(daemon.child.id()).into_iter().collect::<BTreeSet<_>>();
    until("its threads to settle, each in a place of its own", || {
        different().len() == many && keepers(daemon.child.id()).len() == 2 * many
    });
    assert_eq!(serving(daemon.child.id()), many);

    // An administrator's step is written down by a thread that one of them has started.
    let before = places_of_threads(daemon.child.id()).len();
    let (mut number, mut after) = (0, Vec::new());
    until("a thread to be started", || {
        number += 1;
        json(dir.path(), &["op", "begin", "jobs", &format!("k{number}"), "--tenant", "acme", "--json"]);
        after = places_of_threads(daemon.child.id());
        after.len() > before
    });
    let others = after.iter().filter(|places| counted(places) > 1);
    assert!(others.clone().count() >= after.len() - 2 * many, "others go where there is room: {after:?}");
    assert!(others.into_iter().all(|places| *places == everywhere()), "{after:?}");
}

#[test]
fn a_gateway_does_so_too() {
    let (many, workers) = (counted(&everywhere()), std::thread::available_parallelism().unwrap().get());
    if many == 1 || many != workers {
        return;
    }
    let upstream = Upstream::new(|_, _, _| Reply::json(201, "{}"));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    until("its threads to settle", || keepers(gateway.id()).len() == 2 * many);
    assert_eq!(serving(gateway.id()), many);
    let all = places_of_threads(gateway.id());
    assert!(all.len() > 2 * many, "its ledger has threads too: {all:?}");
    assert!(all.iter().all(|places| counted(places) == 1 || *places == everywhere()), "{all:?}");
}

/// Nobody knows better than the system where one thread of several processors is best off.
#[test]
fn fewer_threads_than_processors_go_where_there_is_room() {
    if counted(&everywhere()) == 1 {
        return;
    }
    let dir = Dir::new();
    let daemon = Daemon::start_with(&dir, &[], &[("TOKIO_WORKER_THREADS", "1")]);
    json(dir.path(), &["op", "begin", "jobs", "k1", "--tenant", "acme", "--json"]);
    assert_eq!(keepers(daemon.child.id()), Vec::<String>::new());
    assert_eq!(serving(daemon.child.id()), 0);
}

/// Whoever starts it on some processors only, as `taskset` does, keeps the others.
#[test]
fn what_it_was_not_given_is_not_used() {
    let everywhere = everywhere();
    let first = everywhere.split(['-', ',']).next().unwrap();
    let tried = Command::new("taskset").args(["--cpu-list", first, "true"]).status();
    if counted(&everywhere) == 1 || !tried.is_ok_and(|status| status.success()) {
        return;
    }
    let dir = Dir::new();
    let inner = Daemon::command(&dir, &[]);
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", first]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(dir.path()).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let daemon = Daemon::go(command.stderr(std::process::Stdio::piped()));
    json(dir.path(), &["op", "begin", "jobs", "k2", "--tenant", "acme", "--json"]);
    let all = places_of_threads(daemon.child.id());
    assert!(all.iter().all(|places| places == first), "{all:?}");
}
