use std::future::pending;

use crate::{BoxFuture, Watch};

/// The watch of [`super::Fault::LostWatch`].
#[derive(Debug)]
pub(super) struct LostWatch;

impl Watch for LostWatch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }
}
