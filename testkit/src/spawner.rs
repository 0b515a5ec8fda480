//! Children die with this process, also if it is killed: the kernel sees to that (`setpriv --pdeathsig`).
//!
//! It watches the thread that started the child, though, and the threads of tests come and go. So all children are
//! started by one thread that stays.

use std::{
    io,
    process::{Child, Command},
    sync::{OnceLock, mpsc},
    thread,
};

type Job = (Command, mpsc::SyncSender<io::Result<Child>>);

pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::SyncSender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = mpsc::sync_channel::<Job>(16);
        thread::spawn(move || {
            for (mut command, reply) in queue {
                let _ = reply.send(command.spawn());
            }
        });
        jobs
    });
    let (reply, answer) = mpsc::sync_channel(1);
    spawner.send((command, reply)).expect("the spawner stays as long as the process");
    answer.recv().expect("the spawner answers")
}
