//! Memos: computations that may be used again. Never effects: those are operations.
//!
//! Whoever computes declares what may be reused and when; a look-up answers reuse, revalidate or recompute, and why.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{Anchor, Body, Id, Moment, Span, Stamp, WallMillis, identity::Fingerprint, record::About};

/// When the result of a phase may be used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReuseScope {
    /// For the same input.
    SameInput,
    /// For the same input while nothing that gives it its meaning has moved.
    SameInputSameDep,
    Never,
}

impl ReuseScope {
    const ALL: [Self; 3] = [Self::SameInput, Self::SameInputSameDep, Self::Never];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameInput => "same_input",
            Self::SameInputSameDep => "same_input_same_dep",
            Self::Never => "never",
        }
    }
}

/// The declaration of one phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reuse {
    pub scope: ReuseScope,
    /// It may be used, but its user has to look whether it still fits.
    pub requires_revalidate: bool,
}

/// Why a declaration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReuseError {
    #[error("the declaration is no JSON object; write {{\"phase\": {{\"scope\": \"same_input\"}}}}")]
    NoObject,
    #[error("phase `{phase}` has no `scope`; write one of same_input, same_input_same_dep, never")]
    NoScope { phase: String },
    #[error("phase `{phase}` has the scope `{scope}`; write one of same_input, same_input_same_dep, never")]
    UnknownScope { phase: String, scope: String },
    #[error("phase `{phase}` has `{field}`, which means nothing here; a phase has `scope` and `requires_revalidate`")]
    UnknownField { phase: String, field: String },
    #[error("`requires_revalidate` of phase `{phase}` is neither true nor false; write one of them")]
    NoFlag { phase: String },
}

/// What may be reused and when, by phase: `reuse_decl`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReuseDeclaration {
    phases: BTreeMap<String, Reuse>,
}

/// Results of tools: effects may be behind them.
const TOOL_RESULTS: &str = "tool_results";

impl ReuseDeclaration {
    /// Reads the declaration's JSON form. What it does not know it refuses: a misspelt knob must not mean *reuse*.
    pub fn parse(json: &str) -> Result<Self, ReuseError> {
        let Ok(Value::Object(given)) = serde_json::from_str::<Value>(json) else { return Err(ReuseError::NoObject) };
        let mut phases = BTreeMap::new();
        for (phase, declared) in given {
            let reuse = reuse(&phase, &declared)?;
            phases.insert(phase, reuse);
        }
        Ok(Self { phases })
    }

    #[must_use]
    pub fn with(mut self, phase: &str, reuse: Reuse) -> Self {
        self.phases.insert(phase.to_owned(), reuse);
        self
    }

    /// What holds for a phase. One that is not declared is never reused; results of tools are not, unless the
    /// operation that made them is keyed, so that using them again and running it again come to the same.
    #[must_use]
    pub fn of(&self, phase: &str, keyed: bool) -> Option<Reuse> {
        let declared = self.phases.get(phase).copied()?;
        if phase == TOOL_RESULTS && declared.scope == ReuseScope::Never && keyed {
            return Some(Reuse { scope: ReuseScope::SameInputSameDep, ..declared });
        }
        if phase == TOOL_RESULTS && !keyed {
            return Some(Reuse { scope: ReuseScope::Never, ..declared });
        }
        Some(declared)
    }
}

fn reuse(phase: &str, declared: &Value) -> Result<Reuse, ReuseError> {
    let phase = || phase.to_owned();
    let Value::Object(fields) = declared else { return Err(ReuseError::NoScope { phase: phase() }) };
    let mut scope = None;
    let mut requires_revalidate = false;
    for (field, value) in fields {
        match (field.as_str(), value) {
            ("scope", Value::String(name)) => {
                let known = ReuseScope::ALL.into_iter().find(|scope| scope.name() == name);
                let unknown = || ReuseError::UnknownScope { phase: phase(), scope: name.clone() };
                scope = Some(known.ok_or_else(unknown)?);
            }
            ("scope", other) => {
                return Err(ReuseError::UnknownScope { phase: phase(), scope: other.to_string() });
            }
            ("requires_revalidate", Value::Bool(flag)) => requires_revalidate = *flag,
            ("requires_revalidate", _) => return Err(ReuseError::NoFlag { phase: phase() }),
            (other, _) => return Err(ReuseError::UnknownField { phase: phase(), field: other.to_owned() }),
        }
    }
    let scope = scope.ok_or_else(|| ReuseError::NoScope { phase: phase() })?;
    Ok(Reuse { scope, requires_revalidate })
}

/// A kept computation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memo {
    pub about: Arc<About>,
    pub phase: Arc<str>,
    pub input: Fingerprint,
    pub dependencies: Fingerprint,
    pub reuse: Reuse,
    /// The keyed operation that made it, if one did.
    pub producer: Option<Id>,
    pub value: Body,
    pub made: Anchor,
    pub made_wall: WallMillis,
    pub keep: Span,
}

impl Memo {
    pub const fn settle(&mut self, stamp: Stamp) {
        self.made = self.made.settled(stamp);
    }
}

/// Why it has to be computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum WhyRecompute {
    #[error("nothing is kept for this input")]
    NotKept,
    #[error("the phase is not declared as reusable")]
    NotDeclared,
    #[error("the phase is declared as never to be reused")]
    Never,
    #[error("it was made under other dependencies")]
    DependencyMoved,
    #[error("it was made of another input")]
    OtherInput,
    #[error("its time is over")]
    Expired,
}

/// Why it may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum WhyReuse {
    #[error("the input is the same, and no more is asked for")]
    SameInput,
    #[error("the input and all dependencies are the same")]
    SameInputSameDep,
}

/// The answer to a look-up.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum MemoVerdict {
    Reuse {
        memo: Box<Memo>,
        why: WhyReuse,
    },
    /// Fits as far as can be seen; its user has to look.
    Revalidate {
        memo: Box<Memo>,
        why: WhyReuse,
    },
    Recompute(WhyRecompute),
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct MemoAsked<'a> {
    pub phase: &'a str,
    pub input: &'a Fingerprint,
    pub dependencies: &'a Fingerprint,
}

/// The one place where it is decided whether a memo may be used. Both declarations count, the one it was made under and
/// the one of now: whichever allows less.
pub fn judge_memo(
    current: Option<&Memo>,
    declaration: &ReuseDeclaration,
    asked: &MemoAsked<'_>,
    moment: Moment,
) -> MemoVerdict {
    let keyed = current.is_some_and(|memo| memo.producer.is_some());
    let Some(now) = declaration.of(asked.phase, keyed) else {
        return MemoVerdict::Recompute(WhyRecompute::NotDeclared);
    };
    if now.scope == ReuseScope::Never {
        return MemoVerdict::Recompute(WhyRecompute::Never);
    }
    let Some(memo) = current else { return MemoVerdict::Recompute(WhyRecompute::NotKept) };
    if memo.keep.end(memo.made.resolve(Stamp(0))).is_some_and(|over| over <= moment.now) {
        return MemoVerdict::Recompute(WhyRecompute::Expired);
    }
    if *memo.phase != *asked.phase || !memo.input.matches(asked.input) {
        return MemoVerdict::Recompute(WhyRecompute::OtherInput);
    }
    let same_dependencies = memo.dependencies.matches(asked.dependencies);
    let why = match (now.scope, memo.reuse.scope) {
        (ReuseScope::Never, _) | (_, ReuseScope::Never) => return MemoVerdict::Recompute(WhyRecompute::Never),
        (ReuseScope::SameInput, ReuseScope::SameInput) => WhyReuse::SameInput,
        (
            ReuseScope::SameInput | ReuseScope::SameInputSameDep,
            ReuseScope::SameInput | ReuseScope::SameInputSameDep,
        ) => {
            if !same_dependencies {
                return MemoVerdict::Recompute(WhyRecompute::DependencyMoved);
            }
            WhyReuse::SameInputSameDep
        }
    };
    let memo_out = Box::new(memo.clone());
    if now.requires_revalidate || memo.reuse.requires_revalidate {
        MemoVerdict::Revalidate { memo: memo_out, why }
    } else {
        MemoVerdict::Reuse { memo: memo_out, why }
    }
}
