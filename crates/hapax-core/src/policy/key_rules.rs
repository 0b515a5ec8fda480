use crate::identity::{Grammar, KeySource};

/// Which keys a policy names by a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GrammarName {
    /// 1–255 visible ASCII characters.
    Visible,
    /// 22–128 of letters, digits and `._~-`.
    Openwop2,
}

impl GrammarName {
    pub const ALL: [Self; 2] = [Self::Visible, Self::Openwop2];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Openwop2 => "openwop2",
        }
    }

    #[must_use]
    pub const fn grammar(self) -> Grammar {
        match self {
            Self::Visible => Grammar::visible(),
            Self::Openwop2 => Grammar::openwop2(),
        }
    }
}

/// Where keys come from and what they look like. Whatever is left out is as the caller's dialect has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRules {
    /// In order: the first that has a key is read, and all that carry one have to agree.
    pub source: Option<Vec<KeySource>>,
    pub required: Option<bool>,
    pub grammar: Option<GrammarName>,
    pub max_len: Option<u32>,
}

impl KeyRules {
    /// These rules, and where they are silent the others.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self {
            source: self.source.clone().or_else(|| others.source.clone()),
            required: self.required.or(others.required),
            grammar: self.grammar.or(others.grammar),
            max_len: self.max_len.or(others.max_len),
        }
    }

    /// What a key has to look like.
    #[must_use]
    pub fn grammar(&self) -> Grammar {
        let grammar = self.grammar.unwrap_or(GrammarName::Visible).grammar();
        match self.max_len {
            Some(most) => grammar.with_max_len(most as usize),
            None => grammar,
        }
    }
}
