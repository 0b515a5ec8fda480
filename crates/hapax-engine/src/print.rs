use hapax_core::{Fingerprint, Policy, identity::canonical};
use serde::Serialize;

use crate::{engine::Inner, error::EngineError};

impl Inner {
    /// The print of a request, over what the policy selects of it.
    pub(crate) fn print_of<T: Serialize + ?Sized>(
        &self,
        policy: &Policy,
        request: &T,
    ) -> Result<Fingerprint, EngineError> {
        let json = serde_json::to_vec(request).map_err(|error| EngineError::Fingerprint(error.to_string()))?;
        if policy.fingerprint.fields.is_empty() && policy.fingerprint.ignore.is_empty() {
            return Ok(self.printer.of_json_bytes(&json));
        }
        let selection =
            policy.fingerprint.selection([]).map_err(|error| EngineError::Fingerprint(error.to_string()))?;
        let selected = canonical::selected_to_vec(&json, &selection)
            .ok_or_else(|| EngineError::Fingerprint("it cannot be put into canonical form".to_owned()))?;
        Ok(self.printer.of_json_bytes(&selected))
    }
}
