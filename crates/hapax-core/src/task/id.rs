//! The names of a task and of its leases.

use std::fmt;

use crate::{Id, Token};

/// A UUID that the sender chose: sending it again is the same task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub [u8; 16]);

impl TaskId {
    /// Reads a UUID in its usual form; hyphens are optional.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = match text.len() {
            32 => !text.contains('-'),
            36 => text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23)),
            _ => false,
        };
        if !well_formed {
            return None;
        }
        let digits: String = text.chars().filter(|digit| *digit != '-').collect();
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// A random UUID (version 4) made of these bits.
    #[must_use]
    pub const fn random(mut bits: [u8; 16]) -> Self {
        bits[6] = bits[6] & 0x0f | 0x40;
        bits[8] = bits[8] & 0x3f | 0x80;
        Self(bits)
    }

    /// Where the record of this task lies. The tenant is part of it: equal ids of two tenants never meet.
    #[must_use]
    pub fn record(&self, tenant: &str) -> Id {
        Id::derived("hapax.a2a.task.v1", &[tenant.as_bytes(), &self.0])
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = data_encoding::HEXLOWER.encode(&self.0);
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        write!(f, "{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names one lease to people, without the token that acts for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId {
    attempt: u32,
    digest: [u8; 8],
}

impl LeaseId {
    #[must_use]
    pub fn of(task: &TaskId, token: Token) -> Self {
        let name = Id::derived("hapax.a2a.lease.v1", &[&task.0, &token.attempt.to_be_bytes(), &token.nonce.0]);
        let mut digest = [0; 8];
        digest.copy_from_slice(&name.0[..8]);
        Self { attempt: token.attempt, digest }
    }

    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (attempt, digest) = text.strip_prefix('L')?.split_once('-')?;
        let digest = data_encoding::HEXLOWER_PERMISSIVE.decode(digest.as_bytes()).ok()?;
        Some(Self { attempt: attempt.parse().ok()?, digest: digest.try_into().ok()? })
    }

    #[must_use]
    pub const fn parts(self) -> (u32, [u8; 8]) {
        (self.attempt, self.digest)
    }

    #[must_use]
    pub const fn from_parts(attempt: u32, digest: [u8; 8]) -> Self {
        Self { attempt, digest }
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}-{}", self.attempt, data_encoding::HEXLOWER.encode(&self.digest))
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How the owner of a deciding operation is written down, so that whoever reads it knows whose attempt it is.
#[must_use]
pub fn owner_of(task: &TaskId, worker: &str) -> String {
    format!("task {task} {worker}")
}

/// The task whose attempt this owner's is.
#[must_use]
pub fn task_of_owner(owner: &str) -> Option<TaskId> {
    TaskId::parse(owner.strip_prefix("task ")?.split(' ').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nonce;

    #[test]
    fn ids_read_back_and_nothing_else_does() {
        let id = TaskId::random([7; 16]);
        assert_eq!(TaskId::parse(&id.to_string()), Some(id));
        assert_eq!(TaskId::parse(&id.to_string().replace('-', "").to_uppercase()), Some(id));
        for wrong in ["", "x", "00000000-0000-0000-0000-00000000000", "0000000000000000-0000-0000-000000000000", "é"] {
            assert_eq!(TaskId::parse(wrong), None, "{wrong}");
        }
        let token = Token { attempt: 3, nonce: Nonce([9; 16]) };
        let lease = LeaseId::of(&id, token);
        assert_eq!(LeaseId::parse(&lease.to_string()), Some(lease));
        assert!(!lease.to_string().contains("0909"), "the nonce is not told");
        assert_eq!(task_of_owner(&owner_of(&id, "worker 1")), Some(id));
        assert_eq!(task_of_owner("process 17"), None);
    }
}
