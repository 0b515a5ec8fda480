use std::{error::Error, fmt};

/// What an error of the effect says about the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// It would fail again: the answer is recorded and given to every retry.
    Final,
    /// Nothing lasting happened, and another attempt may succeed.
    Retryable,
    /// Nothing happened at all: the key is as if it had not been used.
    NoEffect,
    /// It may have happened. What follows is decided by the class of the effect.
    Unknown,
}

/// Tells the engine what an error means. What does not say is taken to be unknown.
pub trait Classify {
    fn classify(&self) -> Failure {
        Failure::Unknown
    }
}

/// An error with its meaning beside it, for errors of others' types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classified<E> {
    pub failure: Failure,
    pub error: E,
}

impl<E> Classified<E> {
    pub const fn lasting(error: E) -> Self {
        Self { failure: Failure::Final, error }
    }

    pub const fn retryable(error: E) -> Self {
        Self { failure: Failure::Retryable, error }
    }

    pub const fn no_effect(error: E) -> Self {
        Self { failure: Failure::NoEffect, error }
    }

    pub const fn unknown(error: E) -> Self {
        Self { failure: Failure::Unknown, error }
    }
}

impl<E> Classify for Classified<E> {
    fn classify(&self) -> Failure {
        self.failure
    }
}

impl<E: fmt::Display> fmt::Display for Classified<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: Error + 'static> Error for Classified<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl Classify for std::io::Error {}
impl Classify for std::convert::Infallible {}
impl Classify for String {}
impl Classify for &str {}
impl Classify for Box<dyn Error + Send + Sync> {}
