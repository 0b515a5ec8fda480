//! What the store says when it fails, for the operator: a notice now and then, however many requests it fails.

use std::sync::{Arc, OnceLock};

use hapax_engine::EngineError;
use hapax_http::NowAndThen;

use crate::gateway::Notice;

pub(crate) type Tell = dyn Fn(Notice) + Send + Sync;

#[derive(Default)]
pub(crate) struct Trouble {
    /// Known as soon as there is a gateway.
    tell: OnceLock<Arc<Tell>>,
    met: NowAndThen<EngineError>,
}

impl Trouble {
    pub(crate) fn tell_to(&self, tell: &Arc<Tell>) {
        let _as_before = self.tell.set(Arc::clone(tell));
    }

    pub(crate) fn met(&self, error: &EngineError) {
        self.met.add(error.clone());
        self.say();
    }

    /// Tells what there is to tell, if it is time. To be called now and then, for what was last.
    pub(crate) fn say(&self) {
        let Some((error, left_out)) = self.met.due() else { return };
        if let Some(tell) = self.tell.get() {
            tell(Notice::StoreFailed { error: error.to_string(), left_out });
        }
    }
}

impl std::fmt::Debug for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trouble").finish_non_exhaustive()
    }
}
