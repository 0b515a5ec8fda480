use std::{hint::black_box, sync::Arc};

use hapax_core::{Fingerprint, Outcome, Recorded, Replay, Stamp, WallMillis, identity::Scheme};

use super::kept::Kept;

/// A final answer in as few words as it takes, without its body.
///
/// Of a print only the first half of up to two digests is kept. That is enough to recognise the request; a print that
/// does not match is no verdict here, it only sends the caller to the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) prints: [u64; 4],
    /// When the record expires; `u64::MAX`: never.
    pub(super) expires: u64,
    /// When this entry is no longer believed, on the gate's own clock; `u64::MAX`: never.
    pub(super) until: u64,
    pub(super) decided_wall: u64,
    /// The prints' two schemes, whether it was rejected, whether its body lies elsewhere; above these the attempt.
    pub(super) small: u64,
    /// How long the body is beside the entry, or its number among what the shard keeps elsewhere.
    pub(super) body: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// So many bytes, in the room beside the entry.
    Beside(usize),
    /// Under this number among what the shard keeps elsewhere.
    Elsewhere(usize),
}

/// No scheme has this number.
const NO_SCHEME: u8 = 0;

/// The first half of a digest.
#[inline]
fn half(digest: &[u8; 32]) -> [u64; 2] {
    let (words, _) = digest.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

impl Answer {
    /// `None` for what the gate does not keep. Where its body lies is said later.
    pub(super) fn of<'a>(
        guard: Option<&Fingerprint>,
        replay: &'a Replay,
        until: Option<u64>,
    ) -> Option<(Self, Kept<'a>)> {
        let kept = Kept::of(replay)?;
        let (mut prints, mut schemes) = ([0; 4], [NO_SCHEME; 2]);
        for (at, (scheme, digest)) in guard.iter().flat_map(|guard| guard.digests()).take(2).enumerate() {
            schemes[at] = scheme.0;
            prints[2 * at..2 * at + 2].copy_from_slice(&half(digest));
        }
        let [a, b, c, d] = replay.attempt.to_le_bytes();
        let answer = Self {
            prints,
            expires: replay.expires.map_or(u64::MAX, |at| at.0),
            until: until.unwrap_or(u64::MAX),
            decided_wall: replay.decided_wall.0,
            small: u64::from_le_bytes([schemes[0], schemes[1], replay.rejected.into(), 0, a, b, c, d]),
            body: 0,
        };
        Some((answer, kept))
    }

    pub(super) const fn schemes(&self) -> [Scheme; 2] {
        let [one, other, ..] = self.small.to_le_bytes();
        [Scheme(one), Scheme(other)]
    }

    pub(super) const fn place_body(&mut self, place: Where) {
        let mut small = self.small.to_le_bytes();
        (small[3], self.body) = match place {
            Where::Beside(length) => (0, length as u64),
            Where::Elsewhere(number) => (1, number as u64),
        };
        self.small = u64::from_le_bytes(small);
    }

    #[inline]
    pub(super) const fn body(&self) -> Where {
        let place = self.body as usize;
        if self.small.to_le_bytes()[3] == 0 { Where::Beside(place) } else { Where::Elsewhere(place) }
    }

    /// `here` is the gate's own clock. It is read only where it matters.
    #[inline]
    pub(super) fn expired(&self, now: Stamp, here: impl FnOnce() -> u64) -> bool {
        (self.expires != u64::MAX && self.expires <= now.0) || (self.until != u64::MAX && self.until <= here())
    }

    /// Whether this certainly is the answer to that request; takes the same time wherever the digests differ: all of
    /// their bits are gathered before any is looked at, and the compiler is asked not to see through that.
    #[inline]
    pub(super) fn is_for(&self, print: Option<&Fingerprint>) -> bool {
        let Some(print) = print else { return true };
        let [one, other, ..] = self.small.to_le_bytes();
        if one == NO_SCHEME && other == NO_SCHEME {
            return true;
        }
        let [a, b, c, d] = self.prints;
        for (scheme, digest) in print.digests() {
            let [x, y] = half(digest);
            let differ = if scheme.0 == one {
                (a ^ x) | (b ^ y)
            } else if scheme.0 == other {
                (c ^ x) | (d ^ y)
            } else {
                continue;
            };
            if black_box(differ) == 0 {
                return true;
            }
        }
        false
    }

    #[inline]
    pub(super) fn replay(&self, outcome: Outcome, asked_first: Option<Arc<str>>) -> Replay {
        let [_, _, rejected, _, a, b, c, d] = self.small.to_le_bytes();
        Replay {
            answer: Recorded::Whole(outcome),
            rejected: rejected != 0,
            decided_wall: WallMillis(self.decided_wall),
            expires: (self.expires != u64::MAX).then_some(Stamp(self.expires)),
            attempt: u32::from_le_bytes([a, b, c, d]),
            asked_first,
        }
    }
}
