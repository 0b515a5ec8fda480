//! Segments: the files of the log.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{
    disk::File,
    frame::{Frame, HEADER, Header, Seed},
    journal::Journal,
};

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) file: Arc<dyn File>,
    pub(crate) size: u64,
    /// Not written in advance: as long as what was written to it.
    pub(crate) grows: bool,
    pub(crate) seed: Seed,
    /// The next fresh version when its first frame was written; 0 while it has none.
    pub(crate) first_version: AtomicU64,
    /// The end of the last frame that is durable.
    end: AtomicU64,
    /// A frame of a later segment is durable.
    sealed: AtomicBool,
    hinted: AtomicBool,
    /// What its hint takes on the disk.
    hint_bytes: AtomicU64,
    /// Kept from its first frame on until its hint is written.
    pub(crate) journal: Mutex<Option<Box<Journal>>>,
}

impl Segment {
    pub(crate) fn new(number: u32, file: Arc<dyn File>, size: u64, seed: Seed) -> Self {
        Self {
            number,
            file,
            size,
            grows: false,
            seed,
            first_version: AtomicU64::new(0),
            end: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
            hinted: AtomicBool::new(false),
            hint_bytes: AtomicU64::new(0),
            journal: Mutex::new(None),
        }
    }

    pub(crate) fn growing(self) -> Self {
        Self { grows: true, ..self }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(crate) fn is_hinted(&self) -> bool {
        self.hinted.load(Ordering::Acquire)
    }

    /// With a hint of so many bytes; none if it could not be written.
    pub(crate) fn set_hinted(&self, bytes: u64) {
        self.hint_bytes.store(bytes, Ordering::Relaxed);
        self.hinted.store(true, Ordering::Release);
    }

    /// What it takes on the disk, its hint included.
    pub(crate) fn taken(&self) -> u64 {
        self.size + self.hint_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn first_version(&self) -> u64 {
        self.first_version.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.room(offset, length);
        let read = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The same, if nobody has to wait for a disk. `None`: somebody would.
    pub(crate) fn read_at_once(&self, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = self.room(offset, length);
        let read = self.file.read_at_once(&mut bytes, offset)?;
        Ok(read.map(|read| {
            bytes.truncate(read);
            bytes
        }))
    }

    /// No more than there can be, whatever a damaged length says.
    fn room(&self, offset: u64, length: usize) -> Vec<u8> {
        let there = self.size.max(self.end()).saturating_sub(offset);
        vec![0; length.min(usize::try_from(there).unwrap_or(usize::MAX))]
    }

    /// The bytes of the durable frame at `offset`; `None` at the end, an error if there is no whole frame.
    pub(crate) fn read_frame(&self, offset: u64) -> io::Result<Option<Vec<u8>>> {
        let end = self.end();
        if offset >= end {
            return Ok(None);
        }
        let head = self.read(offset, HEADER)?;
        let length =
            Header::parse(&head).map(|header| u64::from(header.length)).filter(|length| offset + length <= end);
        if let Some(length) = length {
            let bytes = self.read(offset, length as usize)?;
            if Frame::open(&bytes, self.seed, offset).is_some() {
                return Ok(Some(bytes));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} byte {offset}: there is no whole frame", name(self.number)),
        ))
    }
}

pub(crate) fn name(number: u32) -> String {
    format!("{number:08x}.seg")
}

pub(crate) fn hint_name(number: u32) -> String {
    format!("{number:08x}.hint")
}

pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 8).then_some(())?;
    u32::from_str_radix(digits, 16).ok()
}

pub(crate) fn hint_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".hint")?;
    (digits.len() == 8).then_some(())?;
    u32::from_str_radix(digits, 16).ok()
}
