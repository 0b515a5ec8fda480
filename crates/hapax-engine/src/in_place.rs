//! Large futures, made where they are to lie.

use std::{future::Future, pin::Pin};

/// A future in memory of its own. The memory comes first and the future is made there: `Box::pin(work())` makes it on the
/// stack and copies all of it, and the future of a whole request has ten thousand bytes and more of room for what is to
/// come.
#[inline(always)]
pub fn in_place<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}
