//! Bodies beside the log: who waits for whom, and what is asked of the disk for it.

#![allow(clippy::disallowed_methods, reason = "real threads take real time")]

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::common::*;
use bytes::Bytes;
use hapax_ledger::{
    Ledger, Options,
    disk::{Disk, File, Held, Mode, RecordingDisk},
};
use hapax_store::{BodyId, BodyInfo, Store};
use parking_lot::{Condvar, Mutex};

/// A wait that only a failing test sees the end of.
const FAR_TOO_LONG: Duration = Duration::from_secs(50);

/// What is asked of the directory of bodies, by whom; and syncs of bodies that wait to be let through.
#[derive(Clone, Debug, Default)]
struct WatchedDisk {
    inner: RecordingDisk,
    seen: Arc<Mutex<Vec<(&'static str, String)>>>,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    waiting: usize,
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    disk: WatchedDisk,
}

impl WatchedDisk {
    fn saw(&self, path: &Path, what: &'static str) {
        if path.components().any(|part| part.as_os_str() == "bodies") {
            let thread = std::thread::current().name().unwrap_or("").to_owned();
            self.seen.lock().push((what, thread));
        }
    }

    fn count(&self, what: &str) -> usize {
        self.seen.lock().iter().filter(|(seen, _)| *seen == what).count()
    }

    fn forget(&self) {
        self.seen.lock().clear();
    }

    fn shut(&self, shut: bool) {
        self.gate.0.lock().shut = shut;
        self.gate.1.notify_all();
    }

    async fn somebody_waits(&self) {
        while self.gate.0.lock().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A test that fails must not leave a thread waiting.
struct Opened(WatchedDisk);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.shut(false);
    }
}

impl Disk for WatchedDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.saw(dir, "list");
        self.inner.list(dir)
    }
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        if mode == Mode::Read {
            self.saw(path, "read");
        }
        Ok(Arc::new(WatchedFile { inner: self.inner.open(path, mode)?, path: path.to_owned(), disk: self.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.saw(dir, "sync_dir");
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>> {
        self.inner.lock(path)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        if self.path.components().any(|part| part.as_os_str() == "bodies") {
            self.disk.saw(&self.path, "sync");
            let (gate, moved) = &*self.disk.gate;
            let mut gate = gate.lock();
            gate.waiting += 1;
            while gate.shut {
                moved.wait(&mut gate);
            }
            gate.waiting -= 1;
        }
        self.inner.sync()
    }
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

fn open(disk: &WatchedDisk) -> Arc<Ledger> {
    Arc::new(Ledger::open_with(options(disk)).unwrap())
}

fn options(disk: &WatchedDisk) -> Options {
    small("/l").disk(Arc::new(disk.clone()))
}

fn body(number: u8) -> BodyId {
    BodyId([number; 32])
}

fn text(number: u8) -> Bytes {
    Bytes::from(vec![number; 100 + usize::from(number)])
}

async fn all(ledger: &Ledger, limit: usize) -> BTreeMap<BodyId, BodyInfo> {
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let page = ledger.bodies(after.as_ref(), limit).await.unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items.into_iter().map(|info| (info.body, info)));
        match page.next {
            None => return all,
            next => after = next,
        }
    }
}

/// A body's sync takes its time. The sweep, and whoever wants another body, must not stand in line behind it.
#[tokio::test]
async fn lists_and_reads_of_bodies_wait_for_no_put_under_way() {
    let disk = WatchedDisk::default();
    let ledger = open(&disk);
    ledger.put_body(&id(1), body(1), text(1)).await.unwrap();
    let _opened_in_the_end = Opened(disk.clone());
    disk.shut(true);
    let putting = ledger.clone();
    let put = tokio::spawn(async move { putting.put_body(&id(2), body(2), text(2)).await });
    disk.somebody_waits().await;
    let listed = tokio::time::timeout(FAR_TOO_LONG, all(&ledger, 10)).await.expect("the list waits for a put");
    assert_eq!(listed.into_keys().collect::<Vec<_>>(), [body(1)], "only what is durable");
    let read = tokio::time::timeout(FAR_TOO_LONG, ledger.get_body(body(1))).await.expect("a read waits for a put");
    assert_eq!(read.unwrap(), Some(text(1)));
    assert!(!put.is_finished(), "answered before its sync");
    disk.shut(false);
    put.await.unwrap().unwrap();
    assert_eq!(all(&ledger, 10).await.len(), 2);
}

#[tokio::test]
async fn bodies_that_come_together_share_one_sync_of_their_directory() {
    let disk = WatchedDisk::default();
    let ledger = open(&disk);
    let _opened_in_the_end = Opened(disk.clone());
    disk.shut(true);
    disk.forget();
    let putting = ledger.clone();
    let first = tokio::spawn(async move { putting.put_body(&id(0), body(0), text(0)).await });
    disk.somebody_waits().await;
    let ids: Vec<_> = (0..=40).map(id).collect();
    let mut others: Vec<_> =
        (1..=40).map(|at: u8| ledger.put_body(&ids[usize::from(at)], body(at), text(at))).collect();
    assert!(others.iter_mut().all(|put| poll(put.as_mut()).is_none()), "answered before its sync");
    disk.shut(false);
    for put in others {
        put.await.unwrap();
    }
    first.await.unwrap().unwrap();
    assert_eq!(disk.count("sync"), 41, "each is synced");
    assert_eq!(disk.count("sync_dir"), 2, "one for the first, one for all others");
    for at in 0..=40 {
        assert_eq!(ledger.get_body(body(at)).await.unwrap(), Some(text(at)));
    }
}

/// Put, dropped and put again, all at once: each in its turn.
#[tokio::test]
async fn what_is_asked_of_one_body_happens_in_the_order_it_was_asked() {
    let disk = WatchedDisk::default();
    let ledger = open(&disk);
    let _opened_in_the_end = Opened(disk.clone());
    disk.shut(true);
    let putting = ledger.clone();
    let first = tokio::spawn(async move { putting.put_body(&id(9), body(9), text(9)).await });
    disk.somebody_waits().await;
    let owner = id(1);
    let mut asked = vec![
        ledger.put_body(&owner, body(1), text(1)),
        ledger.put_body(&owner, body(2), text(2)),
        ledger.drop_body(body(1)),
        ledger.put_body(&owner, body(1), text(7)),
        ledger.drop_body(body(2)),
    ];
    assert!(asked.iter_mut().all(|asked| poll(asked.as_mut()).is_none()));
    disk.shut(false);
    for one in asked {
        one.await.unwrap();
    }
    first.await.unwrap().unwrap();
    assert_eq!(ledger.get_body(body(1)).await.unwrap(), Some(text(7)));
    assert_eq!(ledger.get_body(body(2)).await.unwrap(), None);
    assert_eq!(all(&ledger, 1).await.into_keys().collect::<Vec<_>>(), [body(1), body(9)]);
}

/// The sweep lists all bodies, page by page, again and again.
#[tokio::test]
async fn a_sweep_reads_no_directory_and_no_body_twice() {
    let disk = WatchedDisk::default();
    let ledger = open(&disk);
    for at in 0..50 {
        ledger.put_body(&id(u64::from(at)), body(at), text(at)).await.unwrap();
    }
    ledger.drop_body(body(3)).await.unwrap();
    let before = all(&ledger, 7).await;
    drop(ledger);
    let ledger = open(&disk);
    disk.forget();
    for sweep in 0..3 {
        let listed = all(&ledger, 7).await;
        assert_eq!(listed, before, "sweep {sweep}");
        assert_eq!((disk.count("list"), disk.count("read")), (0, 49), "sweep {sweep}");
    }
    assert_eq!(before.len(), 49);
    assert_eq!((before[&body(5)].owner, before[&body(5)].length), (id(5), 105));
}

/// An executor's thread that waits for a disk serves nobody else.
#[tokio::test]
async fn no_body_is_read_or_listed_on_the_callers_thread() {
    let disk = WatchedDisk::default();
    open(&disk).put_body(&id(1), body(1), text(1)).await.unwrap();
    let ledger = open(&disk);
    disk.forget();
    assert_eq!(all(&ledger, 10).await.len(), 1);
    assert_eq!(ledger.get_body(body(1)).await.unwrap(), Some(text(1)));
    ledger.put_body(&id(2), body(2), text(2)).await.unwrap();
    ledger.drop_body(body(1)).await.unwrap();
    let seen = disk.seen.lock().clone();
    assert!(seen.len() >= 5, "{seen:?}");
    for (what, thread) in seen {
        let expected = if what == "read" { "hapax-reader" } else { "hapax-bodies" };
        assert_eq!(thread, expected, "{what}");
    }
}
