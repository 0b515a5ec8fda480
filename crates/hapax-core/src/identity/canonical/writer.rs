/// The output, with room made in advance so that the many short spans of a document are copied in one move each.
///
/// A call to `memmove` costs more than copying thirty-two bytes does, and most names and values are shorter than that.
pub(super) struct Writer {
    bytes: Vec<u8>,
    at: usize,
}

/// Copied at once, whatever the span's length; the next span overwrites the surplus.
const CHUNK: usize = 32;

impl Writer {
    pub(super) fn with_room(room: usize) -> Self {
        Self { bytes: vec![0; room + CHUNK], at: 0 }
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.at) {
            *place = byte;
            self.at += 1;
        } else {
            self.slow(&[byte]);
        }
    }

    /// Appends `from[start..end]`.
    #[inline]
    pub(super) fn span(&mut self, from: &[u8], start: u32, end: u32) {
        let (start, end) = (start as usize, end as usize);
        let len = end.saturating_sub(start);
        if len <= CHUNK {
            let source = from.get(start..).and_then(<[u8]>::first_chunk::<CHUNK>);
            let place = self.bytes.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut::<CHUNK>);
            if let (Some(source), Some(place)) = (source, place) {
                *place = *source;
                self.at += len;
                return;
            }
        }
        self.slow(from.get(start..end).unwrap_or_default());
    }

    pub(super) fn slow(&mut self, text: &[u8]) {
        let end = self.at + text.len();
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(text);
            self.at = end;
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.truncate(self.at);
        self.bytes
    }
}
