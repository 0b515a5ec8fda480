/// Why a store could not answer.
///
/// The difference that matters is between *not done* and *not known*: after [`StoreError::Unknown`] the write may have
/// been applied, or may still be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("{store} is unavailable: {reason}; nothing was written, try again")]
    Unavailable { store: String, reason: String },
    #[error("{store} did not say whether the write happened: {reason}; read again before anything else")]
    Unknown { store: String, reason: String },
    #[error("{store} is full: {reason}; nothing was written, free room or raise the limit")]
    Full { store: String, reason: String },
    #[error("{store} holds damaged data at {place}: {reason}")]
    Corrupt { store: String, place: String, reason: String },
    #[error("{store} cannot do that: {reason}")]
    Unsupported { store: String, reason: String },
}

impl StoreError {
    /// Whether asking again may help. Damage, a full disk or a missing feature does not go away by itself.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// Whether it may be otherwise later: also a disk that is full now may have room then.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        self.is_passing() || matches!(self, Self::Full { .. })
    }

    /// Whether the write may have been applied all the same.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}
