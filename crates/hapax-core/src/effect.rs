use std::fmt;

/// What is known about doing the work twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Effect {
    /// Changes nothing.
    Pure,
    /// Changes the same thing the same way, however often.
    Idempotent,
    /// Can be undone by another effect.
    Compensatable,
    /// Cannot be undone.
    Irreversible,
    /// Nothing is known, so nothing is assumed.
    #[default]
    Unsafe,
}

impl Effect {
    pub const ALL: [Self; 5] = [Self::Pure, Self::Idempotent, Self::Compensatable, Self::Irreversible, Self::Unsafe];

    /// Whether a second run does no harm.
    #[must_use]
    pub const fn may_rerun(self) -> bool {
        match self {
            Self::Pure | Self::Idempotent => true,
            Self::Compensatable | Self::Irreversible | Self::Unsafe => false,
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Compensatable => "compensatable",
            Self::Irreversible => "irreversible",
            Self::Unsafe => "unsafe",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.name() == text)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
