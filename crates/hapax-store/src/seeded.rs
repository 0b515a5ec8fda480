/// A small generator of numbers that only depend on the seed (splitmix64), so that every random history can be had again.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed in the environment variable `HAPAX_SEED`, or this one.
    #[must_use]
    pub fn seed_or(default: u64) -> u64 {
        std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.trim().parse().ok()).unwrap_or(default)
    }

    #[allow(clippy::should_implement_trait, reason = "an endless one, and no iterator")]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `limit`; zero if that is zero.
    pub const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or(0))
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }
}
