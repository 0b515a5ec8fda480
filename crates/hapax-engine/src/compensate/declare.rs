//! How an effect says what undoes it.

use bytes::Bytes;
use hapax_core::{Compensation, CompensationInput, Effect};
use serde::Serialize;

use crate::{call::Call, error::EngineError};

impl Call {
    /// Declares what undoes this effect, with an input that is known now. The effect is compensatable by that.
    pub fn compensated_by<T: Serialize + ?Sized>(mut self, name: &str, input: &T) -> Self {
        match serde_json::to_vec(input) {
            Ok(input) => self.compensation(name, CompensationInput::Given(Bytes::from(input))),
            Err(error) => {
                self.prepared = Err(EngineError::Fingerprint(error.to_string()));
                self
            }
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
            prepared.effect = Effect::Compensatable;
            prepared.tied(|ties| ties.compensation = Some(compensation));
        })
    }
}
