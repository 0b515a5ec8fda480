//! The present moment, as answers state it.

use std::{
    cell::Cell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const LENGTH: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

thread_local! {
    /// Written once a second: putting a date in words costs more than all else in the head of an answer.
    static LAST: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [b' '; LENGTH])) };
}

pub(crate) fn now() -> [u8; LENGTH] {
    #[allow(clippy::disallowed_methods, reason = "an answer states the real time, and nothing is decided by it")]
    let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (known, text) = LAST.get();
    if known == second {
        return text;
    }
    let fresh = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
    let mut text = [b' '; LENGTH];
    for (to, from) in text.iter_mut().zip(fresh.bytes()) {
        *to = from;
    }
    LAST.set((second, text));
    text
}
