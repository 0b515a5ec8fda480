//! Random numbers for tests: one seed, printed, one history.

/// xorshift64*; the seed is printed, and taken back from `HAPAX_SEED`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn from_env(what: &str) -> Self {
        let given = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            let _ = getrandom::fill(&mut bytes);
            u64::from_le_bytes(bytes)
        });
        println!("{what}: HAPAX_SEED={seed}");
        Self::new(seed)
    }

    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { (self.next() >> 11) % end }
    }
}
