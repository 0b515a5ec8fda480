//! A real file system that is really full, and one that is really read-only: a small one, mounted for the test. Where
//! mounting is not allowed this is said, and a simulated disk takes its place.

#![allow(clippy::disallowed_methods, reason = "a real disk takes real time")]

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::*;
use bytes::Bytes;
use hapax_core::Version;
use hapax_ledger::{
    Ledger, OpenError, Options, check,
    disk::{Disk, FaultyDisk, RealDisk},
};
use hapax_store::{BodyId, Store, StoreError, Swap};

/// A file system of its own, unmounted in the end.
struct Mounted {
    dir: TempDir,
    /// What it lies in, if it is one in a file.
    image: Option<TempDir>,
}

impl Mounted {
    /// In memory: every page is given out when it is first written.
    fn tmpfs(name: &str) -> Option<Self> {
        let dir = TempDir::new(name);
        fs::create_dir_all(&dir.0).unwrap();
        let done = run("mount", &["-t", "tmpfs", "-o", "size=3m", "tmpfs", dir.0.to_str().unwrap()]);
        told(done).then_some(Self { dir, image: None })
    }

    /// In a file: blocks are given out late, a journal has to be written, a directory takes blocks too.
    fn ext4(name: &str) -> Option<Self> {
        let (dir, image) = (TempDir::new(name), TempDir::new("image"));
        fs::create_dir_all(&dir.0).unwrap();
        fs::write(&image.0, vec![0; 8 << 20]).unwrap();
        let file = image.0.to_str().unwrap();
        let done = run("mkfs.ext4", &["-q", "-F", "-m", "0", file])
            .and_then(|()| run("mount", &["-o", "loop", file, dir.0.to_str().unwrap()]));
        let mounted = told(done);
        if !mounted {
            let _ = fs::remove_file(&image.0);
        }
        mounted.then_some(Self { dir, image: Some(image) })
    }

    fn read_only(&self, read_only: bool) {
        let how = if read_only { "remount,ro" } else { "remount,rw" };
        run("mount", &["-o", how, self.dir.0.to_str().unwrap()]).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run("umount", &[self.dir.0.to_str().unwrap()]);
        if let Some(image) = &self.image {
            let _ = fs::remove_file(&image.0);
        }
    }
}

fn told(mounted: Result<(), String>) -> bool {
    if let Err(why) = &mounted {
        eprintln!("NOT ON A REAL FILE SYSTEM: {why}. Where none can be mounted, a simulated disk takes its place.");
    }
    mounted.is_ok()
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Somebody else's files, which take all the room there is.
trait Neighbour {
    fn fill(&self);
    fn leave(&self);
}

struct Files<'a>(&'a Path);

impl Neighbour for Files<'_> {
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("somebody-elses")).unwrap();
        for size in [64 * 1024, 4096] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn leave(&self) {
        fs::remove_file(self.0.join("somebody-elses")).unwrap();
    }
}

impl Neighbour for FaultyDisk {
    fn fill(&self) {
        self.leave_room(Some(0));
    }

    fn leave(&self) {
        self.leave_room(None);
    }
}

/// Spares are written past the page cache where that can be had, and through it where not.
#[test]
fn a_spare_is_zeros_from_end_to_end_on_every_file_system() {
    let mounted = [Mounted::tmpfs("spare"), Mounted::ext4("spare-ext4")];
    let plain = TempDir::new("spare-here");
    let places = mounted.iter().flatten().map(|mounted| mounted.dir.0.join("ledger")).chain([plain.0.clone()]);
    for path in places {
        let options = || Options::new(&path).segment_bytes(64 << 10, 256 << 10);
        // Looked at when it is closed: until then a spare may be given its number, and be found under another name.
        drop(Ledger::open_with(options().spares(1)).unwrap());
        let spares: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.metadata().unwrap().len() == 256 << 10)
            .collect();
        assert!(!spares.is_empty(), "{}", path.display());
        for spare in spares {
            assert!(fs::read(&spare).unwrap().iter().all(|byte| *byte == 0), "{}", spare.display());
        }
        drop(Ledger::open_with(options()).unwrap());
    }
}

/// A repair writes segments that grow, and are as long as their frames. Twice that was taken for the size of the next one,
/// which cannot be written past the page cache unless it ends with a block: a repaired ledger answered nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repaired_ledger_whose_last_segment_ends_anywhere_can_be_written_to() {
    let (from, to) = (TempDir::new("repair-from"), TempDir::new("repair-to"));
    let ledger = Ledger::open(&from.0).unwrap();
    for number in 0..10 {
        let put = ledger.swap(&id(number), Version::NEVER, Some(envelope(vec![7; 1_000_003]))).await;
        assert!(matches!(put, Ok(Swap::Swapped { .. })), "{put:?}");
    }
    drop(ledger);
    hapax_ledger::repair(&from.0, &to.0).unwrap();
    let lengths = fs::read_dir(&to.0).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(lengths.into_iter().any(|length| length > 2 << 20 && !length.is_multiple_of(4096)), "as in the story");
    let ledger = Ledger::open(&to.0).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !fs::read_dir(&to.0).unwrap().any(|entry| entry.unwrap().file_name() == "00000003.seg") {
        assert!(Instant::now() < end, "no next segment is made ready: {:?}", ledger.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let put = ledger.swap(&id(99), Version::NEVER, Some(envelope(vec![7; 10]))).await;
    assert!(matches!(put, Ok(Swap::Swapped { .. })), "{put:?}");
    assert!(ledger.get(&id(1)).await.unwrap().record.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_others_have_filled_lets_attempts_end_refuses_new_ones_and_is_used_again_when_there_is_room() {
    let mounted = [Mounted::tmpfs("full"), Mounted::ext4("full-ext4")];
    let any = mounted.iter().any(Option::is_some);
    for mounted in mounted.into_iter().flatten() {
        let path = mounted.dir.0.join("ledger");
        full_disk(&path, Arc::new(RealDisk), &Files(&mounted.dir.0)).await;
    }
    if !any {
        let dir = TempDir::new("full-simulated");
        let disk = FaultyDisk::new(Arc::new(RealDisk));
        full_disk(&dir.0, Arc::new(disk.clone()), &disk).await;
    }
}

async fn full_disk(path: &Path, disk: Arc<dyn Disk>, neighbour: &dyn Neighbour) {
    let options = || Options::new(path).segment_bytes(128 << 10, 256 << 10).disk(disk.clone());
    let ledger = Ledger::open_with(options()).unwrap();
    let begin = async |number: u64| ledger.swap(&id(number), Version::NEVER, Some(live(vec![1; 300]))).await;
    let mut under_way = Vec::new();
    for number in 0..40 {
        let Ok(Swap::Swapped { version, .. }) = begin(number).await else { panic!() };
        under_way.push((number, version));
    }
    neighbour.fill();
    // New ones come until they are refused; then a few dozen more, each of which is refused as well.
    let mut refused = 0;
    for number in 1_000.. {
        // A segment this small would be full before the keeper, which looks every tenth of a second, finds no room for the
        // next; one of the usual size is not.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        match begin(number).await {
            Ok(Swap::Swapped { version, .. }) => {
                assert_eq!(refused, 0, "let in again while the disk is full");
                under_way.push((number, version));
            }
            Err(error @ StoreError::Full { .. }) => {
                assert!(error.to_string().contains("[HX0026]"), "{error}");
                refused += 1;
                if refused == 50 {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
        assert!(number < 20_000, "the disk is never full: {:?}", ledger.status());
    }
    let body = ledger.put_body(&id(1), BodyId([1; 32]), Bytes::from(vec![1; 3_000_000])).await;
    assert!(matches!(body, Err(StoreError::Full { .. })), "{body:?}");
    assert_eq!(fs::read_dir(path.join("bodies")).unwrap().count(), 0, "half a body takes room");
    // Those at work can end: the last hundred of them, and the oldest.
    let ending: Vec<_> = under_way.iter().take(40).chain(under_way.iter().rev().take(100)).copied().collect();
    let mut ended = std::collections::BTreeMap::new();
    for (number, version) in ending {
        if ended.contains_key(&number) {
            continue;
        }
        let done = ledger.swap(&id(number), version, Some(envelope(vec![2; 200]))).await;
        let Ok(Swap::Swapped { version, .. }) = done else { panic!("{done:?}, {:?}", ledger.status()) };
        ended.insert(number, version);
    }
    let status = ledger.status();
    assert!(status.tight && status.poisoned.is_none(), "{status:?}");
    // A restart needs no room, and finds them all.
    drop(ledger);
    assert!(check(path).unwrap().is_whole());
    let ledger = Ledger::open_with(options()).unwrap();
    for (number, version) in &under_way {
        let snapshot = ledger.get(&id(*number)).await.unwrap();
        let (version, payload) = ended.get(number).map_or((*version, vec![1; 300]), |version| (*version, vec![2; 200]));
        assert_eq!((snapshot.version, snapshot.record.unwrap().payload), (version, payload.into()), "{number}");
    }
    neighbour.leave();
    let since = Instant::now();
    let mut again = 0;
    for number in 100_000.. {
        match ledger.swap(&id(number), Version::NEVER, Some(live(vec![1; 300]))).await {
            Ok(Swap::Swapped { .. }) => again += 1,
            Err(StoreError::Full { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            other => panic!("{other:?}"),
        }
        if again == 1_000 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(150), "it does not notice: {:?}", ledger.status());
    }
    ledger.put_body(&id(1), BodyId([1; 32]), Bytes::from(vec![1; 300_000])).await.unwrap();
    assert_eq!(ledger.status().poisoned, None);
}

#[test]
fn a_file_system_that_is_mounted_read_only_is_said_to_be() {
    let Some(mounted) = Mounted::tmpfs("read-only") else {
        // Rights do the same for everybody but the superuser; `faults.rs` has the simulated one.
        let dir = TempDir::new("read-only-rights");
        fs::create_dir_all(&dir.0).unwrap();
        let mut rights = fs::metadata(&dir.0).unwrap().permissions();
        rights.set_readonly(true);
        fs::set_permissions(&dir.0, rights).unwrap();
        let opened = Ledger::open(dir.0.join("ledger"));
        assert!(matches!(opened, Ok(_) | Err(OpenError::ReadOnly { .. })), "{opened:?}");
        return;
    };
    let path = mounted.dir.0.join("ledger");
    let options = || Options::new(&path).segment_bytes(64 << 10, 64 << 10);
    mounted.read_only(true);
    let error = Ledger::open_with(options()).err().unwrap();
    assert!(matches!(&error, OpenError::ReadOnly { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem));
    assert!(error.to_string().ends_with("[HX0021]"), "{error}");
    mounted.read_only(false);
    let (ledger, mut stepper) = Ledger::open_stepped(options()).unwrap();
    {
        let id = id(1);
        let mut swap = ledger.swap(&id, Version::NEVER, Some(envelope("x")));
        assert!(poll(swap.as_mut()).is_none());
        stepper.write();
        assert!(matches!(poll(swap.as_mut()), Some(Ok(Swap::Swapped { .. }))));
    }
    drop((ledger, stepper));
    mounted.read_only(true);
    let error = Ledger::open_with(options()).err().unwrap();
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    mounted.read_only(false);
    let ledger = Ledger::open_with(options()).unwrap();
    assert!(now(ledger.get(&id(1))).unwrap().record.is_some());
}

/// A path that is a file, and one whose parent is a file.
#[test]
fn a_path_that_is_no_directory_is_said_to_be_none() {
    let dir = TempDir::new("a-file");
    fs::create_dir_all(&dir.0).unwrap();
    let file = dir.0.join("notes.txt");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("ledger")] {
        let error = Ledger::open(&path).err().unwrap();
        assert!(matches!(error, OpenError::NotALedger { .. }), "{error}");
        assert!(error.to_string().ends_with("[HX0023]"), "{error}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}
