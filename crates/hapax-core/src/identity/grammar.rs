use super::key::KeyError;

/// Which keys callers may send. Part of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grammar {
    alphabet: Alphabet,
    least: usize,
    most: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alphabet {
    Visible,
    Unreserved,
}

impl Grammar {
    /// The default: 1–255 visible ASCII characters, which every known client satisfies.
    #[must_use]
    pub const fn visible() -> Self {
        Self { alphabet: Alphabet::Visible, least: 1, most: 255 }
    }

    /// OpenWOP 2: 22–128 of letters, digits and `._~-`; 22 characters hold 128 random bits.
    #[must_use]
    pub const fn openwop2() -> Self {
        Self { alphabet: Alphabet::Unreserved, least: 22, most: 128 }
    }

    /// The grammar a configuration names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "visible" | "default" => Some(Self::visible()),
            "openwop2" => Some(Self::openwop2()),
            _ => None,
        }
    }

    /// The same with another upper bound (`key.max_len`), never below the lower one.
    #[must_use]
    pub const fn with_max_len(mut self, most: usize) -> Self {
        self.most = if most < self.least { self.least } else { most };
        self
    }

    pub(crate) const fn allowed(&self) -> &'static str {
        match self.alphabet {
            Alphabet::Visible => "visible ASCII characters, without spaces",
            Alphabet::Unreserved => "letters, digits and `._~-`",
        }
    }

    /// Whether the key obeys.
    pub(crate) fn check(&self, key: &[u8]) -> Result<(), KeyError> {
        let len = key.len();
        if len == 0 {
            return Err(KeyError::Empty);
        }
        if len > self.most {
            return Err(KeyError::TooLong { len, most: self.most });
        }
        if len < self.least {
            return Err(KeyError::TooShort { len, least: self.least });
        }
        let fits = |byte: &u8| match self.alphabet {
            Alphabet::Visible => byte.is_ascii_graphic(),
            Alphabet::Unreserved => byte.is_ascii_alphanumeric() || b"._~-".contains(byte),
        };
        match key.iter().position(|byte| !fits(byte)) {
            Some(index) => Err(KeyError::BadCharacter { position: index + 1, allowed: self.allowed() }),
            None => Ok(()),
        }
    }
}

impl Default for Grammar {
    fn default() -> Self {
        Self::visible()
    }
}
