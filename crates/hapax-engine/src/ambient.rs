//! What the engine takes from outside: wall time and randomness. Both are injected, so that a test can own them.

use std::fmt;

use hapax_core::{Nonce, WallMillis};
use parking_lot::Mutex;

/// Wall time, for people only. No rule looks at it.
pub trait WallClock: Send + Sync + fmt::Debug + 'static {
    fn now(&self) -> WallMillis;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWallClock;

impl WallClock for SystemWallClock {
    #[allow(clippy::disallowed_methods, reason = "this is the edge where wall time enters")]
    fn now(&self) -> WallMillis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Where nonces and jitter come from.
pub trait Entropy: Send + Sync + fmt::Debug + 'static {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;

    /// A nonce that nobody has seen before.
    fn nonce(&self) -> Result<Nonce, EntropyError> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(Nonce(bytes))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the machine has no randomness to give: {0}; nothing was begun, try again")]
pub struct EntropyError(pub String);

/// The operating system's generator, read in larger pieces: one call to it serves many nonces.
#[derive(Debug)]
pub struct SystemEntropy(Mutex<Pool>);

#[derive(Debug)]
struct Pool {
    bytes: [u8; 1024],
    left: usize,
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self(Mutex::new(Pool { bytes: [0; 1024], left: 0 }))
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let mut pool = self.0.lock();
        if bytes.len() > pool.left {
            getrandom::fill(&mut pool.bytes).map_err(|error| EntropyError(error.to_string()))?;
            pool.left = pool.bytes.len();
        }
        let from = pool.left.checked_sub(bytes.len());
        let Some(from) = from else {
            return getrandom::fill(bytes).map_err(|error| EntropyError(error.to_string()));
        };
        let until = pool.left;
        bytes.copy_from_slice(&pool.bytes[from..until]);
        // Handed out bytes are forgotten: a nonce is a secret of its owner.
        pool.bytes[from..until].fill(0);
        pool.left = from;
        Ok(())
    }
}

/// A generator whose whole future follows from its seed. For tests: its nonces can be guessed.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let mut state = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = *state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
