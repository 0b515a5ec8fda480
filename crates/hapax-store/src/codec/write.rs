use std::{cell::Cell, sync::Arc};

use bytes::Bytes;

/// Appends values to a buffer in their stored form.
pub(super) struct Writer(Vec<u8>);

thread_local! {
    /// Each thread writes into the same buffer again and again; what is handed out is cut to its length.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer that has grown beyond this is not kept.
const MOST_KEPT: usize = 64 * 1024;

impl Writer {
    pub(super) fn new() -> Self {
        let mut buffer = BUFFER.take();
        buffer.clear();
        Self(buffer)
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, least significant first.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.fixed(bytes);
    }

    pub(super) fn text(&mut self, text: &Arc<str>) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    pub(super) fn sealed(mut self) -> Bytes {
        let sum = crc32c::crc32c(&self.0);
        self.0.extend_from_slice(&sum.to_le_bytes());
        let sealed = Bytes::from(Box::<[u8]>::from(&self.0[..]));
        if self.0.capacity() <= MOST_KEPT {
            BUFFER.set(self.0);
        }
        sealed
    }
}
