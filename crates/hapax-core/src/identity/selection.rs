use super::pointer::{Pointer, PointerError};

/// Which parts of a JSON body the payload guard looks at: `fields` and `ignore` of a policy.
///
/// With `fields` only those are compared; `ignore` then leaves parts of them out. Server-side overrides belong
/// before this: the selection sees the body that will be acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    fields: Option<Vec<Pointer>>,
    ignore: Vec<Pointer>,
}

impl Selection {
    /// Compare everything: the default, and the safe one.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Compare only these. Their order and repetitions do not matter.
    #[must_use]
    pub fn fields(mut self, fields: impl IntoIterator<Item = Pointer>) -> Self {
        let mut fields: Vec<Pointer> = fields.into_iter().collect();
        fields.sort();
        fields.dedup();
        self.fields = Some(fields);
        self
    }

    /// Leave these out. The whole document is refused: a guard that sees nothing is a guard turned off, and
    /// turning it off has a knob of its own.
    pub fn ignore(mut self, ignore: impl IntoIterator<Item = Pointer>) -> Result<Self, PointerError> {
        self.ignore.extend(ignore);
        if self.ignore.iter().any(|pointer| pointer.tokens().is_empty()) {
            return Err(PointerError::WholeDocument);
        }
        Ok(self)
    }

    /// Whether everything is compared.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.fields.is_none() && self.ignore.is_empty()
    }

    pub(crate) fn kept(&self) -> Option<&[Pointer]> {
        self.fields.as_deref()
    }

    pub(crate) fn ignored(&self) -> &[Pointer] {
        &self.ignore
    }
}
