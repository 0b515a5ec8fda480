//! Requests without a key, known by their content within a stretch of time: `acf.content`.
//!
//! A retry just after the border of two stretches would miss the original. So each request reserves its own stretch first
//! and then looks at the earlier one. Whoever comes after the border finds what was written before it. Only a request that
//! took its key before the border and writes it after the retry has looked is missed: give it a key of its own where a
//! second run does harm.

use hapax_core::{command::Release, identity::recipes::acf::ContentKeys};

use crate::{
    begin::Begun,
    call::{Call, InScope},
    error::EngineError,
};

impl InScope {
    /// Begins under the key of now, unless something is recorded under the earlier one: then that is what it is about, and
    /// the reservation is given back. `call` says the rest of it (effect, fingerprint, waiting) for either key.
    ///
    /// A ticket comes not started: *start* it before its effect.
    pub async fn begin_content(self, keys: &ContentKeys, call: impl Fn(Call) -> Call) -> Result<Begun, EngineError> {
        let engine = self.engine().clone();
        let under = |key: &hapax_core::identity::Key| call(self.clone().with_key(key.clone())).not_started();
        let own = under(&keys.own).begin().await?;
        let (Begun::Execute(ticket), Some(earlier)) = (&own, &keys.earlier) else { return Ok(own) };
        let earlier = under(earlier);
        if earlier.is_unused().await {
            return Ok(own);
        }
        // If it cannot be given back, it lapses before its start, which leaves nothing either.
        let _given_back = ticket.release(&engine, Release::BeforeStart).await;
        earlier.begin().await
    }
}
