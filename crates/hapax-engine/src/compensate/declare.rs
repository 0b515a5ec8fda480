//! How an effect says what undoes it.

use bytes::Bytes;
use hapax_core::{Compensation, CompensationInput, Effect, group::is_listed};
use serde::Serialize;

use crate::{call::Call, error::EngineError};

impl Call {
    /// Declares what undoes this effect, with an input that is known now. Unless more was said of
    /// the effect, it is compensatable by that.
    pub fn compensated_by<T: Serialize + ?Sized>(self, name: &str, input: &T) -> Self {
        match serde_json::to_vec(input) {
            Ok(input) => self.compensation(name, CompensationInput::Given(Bytes::from(input))),
            Err(error) => self.spoiled(EngineError::Fingerprint(error.to_string())),
        }
    }

    /// Declares what undoes this effect, with an input that its outcome holds: where this JSON pointer points, or all
    /// of it where the pointer is empty.
    pub fn compensated_from_outcome(self, name: &str, pointer: &str) -> Self {
        self.compensation(name, CompensationInput::FromOutcome(pointer.into()))
    }

    fn compensation(self, name: &str, input: CompensationInput) -> Self {
        let compensation = Compensation { name: name.into(), input };
        self.set(|prepared| {
            prepared.effect = undoable(prepared.effect);
            prepared.tied(|ties| ties.compensation = Some(compensation));
        })
    }
}

/// What an effect is once it has an inverse. One that was called irreversible stays so: it can be undone, but what it
/// commits its group to cannot.
pub(crate) const fn undoable(effect: Effect) -> Effect {
    if is_listed(effect) { effect } else { Effect::Compensatable }
}
