use hapax_core::{
    Fingerprint, Policy,
    identity::{Pointer, Selection, canonical},
};
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
        let selection = selection(policy)?;
        let selected = canonical::selected_to_vec(&json, &selection)
            .ok_or_else(|| EngineError::Fingerprint("it cannot be put into canonical form".to_owned()))?;
        Ok(self.printer.of_json_bytes(&selected))
    }
}

fn selection(policy: &Policy) -> Result<Selection, EngineError> {
    let pointers =
        |texts: &[std::sync::Arc<str>]| texts.iter().map(|text| Pointer::parse(text)).collect::<Result<Vec<_>, _>>();
    let wrong = |error: hapax_core::identity::PointerError| EngineError::Fingerprint(error.to_string());
    let fields = pointers(&policy.fingerprint.fields).map_err(wrong)?;
    let ignore = pointers(&policy.fingerprint.ignore).map_err(wrong)?;
    // No fields named means all of them. A selection of none would guard nothing.
    let all = Selection::all();
    let selected = if fields.is_empty() { all } else { all.fields(fields) };
    selected.ignore(ignore).map_err(wrong)
}
