//! What a customer wants, and what goes wrong on the way.

/// One intent: it should be charged once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) number: u32,
    pub(crate) amount: u32,
    pub(crate) trouble: Trouble,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    /// The shop takes longer than its customers wait.
    Slow,
    /// The shop refuses the first request before it did anything.
    Busy,
    /// The shop charges, then drops the connection.
    DiesAfterwards,
    /// Two requests at once.
    DoubleClick,
    /// A second request under the same key, for another amount.
    ChangesMind,
}

/// How often each trouble comes, in the order of a dozen customers.
const DOZEN: [Trouble; 12] = [
    Trouble::Nothing,
    Trouble::DoubleClick,
    Trouble::Slow,
    Trouble::Nothing,
    Trouble::Busy,
    Trouble::DoubleClick,
    Trouble::ChangesMind,
    Trouble::Nothing,
    Trouble::Slow,
    Trouble::Nothing,
    Trouble::DiesAfterwards,
    Trouble::DoubleClick,
];

impl Order {
    /// The same seed gives the same customers.
    pub(crate) fn crowd(orders: u32, seed: u64) -> Vec<Self> {
        let mut state = seed;
        let order = |number| {
            let drawn = draw(&mut state);
            let trouble = DOZEN.get((drawn % 12) as usize).copied().unwrap_or(Trouble::Nothing);
            Self { number, amount: 500 + (drawn >> 32) as u32 % 9_500, trouble }
        };
        (1..=orders).map(order).collect()
    }

    pub(crate) fn key(self) -> String {
        format!("order-{:05}", self.number)
    }

    pub(crate) fn body(self, amount: u32) -> String {
        format!(r#"{{"order":{},"amount":{amount}}}"#, self.number)
    }
}

/// Splitmix: small, and good enough to spread troubles.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
