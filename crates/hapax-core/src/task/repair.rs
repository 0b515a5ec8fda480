//! What a person or the retry gate does to a lease, and how a fence tells which of the two repairs it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::WallMillis;

use super::LeaseId;

/// Why it is safe to hand it out again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairPosture {
    /// The task says of itself that a second run does no harm.
    Idempotent,
    /// A person takes it upon themselves.
    OperatorAccepted,
}

impl RepairPosture {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idempotent => "idempotent",
            Self::OperatorAccepted => "operator_accepted",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Idempotent, Self::OperatorAccepted].into_iter().find(|posture| posture.name() == text)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "repair", rename_all = "snake_case")]
pub enum RepairKind {
    Requeue {
        posture: RepairPosture,
        /// The retry gate did it, not a person.
        auto: bool,
    },
    ForceError {
        message: String,
    },
}

/// One repair, as the task remembers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    pub kind: RepairKind,
    pub lease: LeaseId,
    pub actor: Arc<str>,
    pub reason: Arc<str>,
    pub wall: WallMillis,
}

#[derive(Serialize, Deserialize)]
struct Fence {
    #[serde(flatten)]
    kind: RepairKind,
    reason: String,
}

impl RepairKind {
    /// What a fence writes as its reason into the deciding operation: which repair it is, readable for people too.
    #[must_use]
    pub fn to_fence(&self, reason: &Arc<str>) -> String {
        let fence = Fence { kind: self.clone(), reason: reason.to_string() };
        serde_json::to_string(&fence).unwrap_or_default()
    }

    /// Reads a fence back. What somebody else wrote there, with other tools, is a requeue that a person answers for.
    #[must_use]
    pub fn of_fence(text: &Arc<str>) -> (Self, Arc<str>) {
        match serde_json::from_str::<Fence>(text) {
            Ok(fence) => (fence.kind, fence.reason.into()),
            Err(_) => (Self::Requeue { posture: RepairPosture::OperatorAccepted, auto: false }, Arc::clone(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_says_which_repair_it_is() {
        let reason: Arc<str> = "the \"worker\" is gone\n".into();
        for kind in [
            RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: true },
            RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false },
            RepairKind::ForceError { message: "given up: {\"repair\":\"requeue\"}".into() },
        ] {
            let fence: Arc<str> = kind.to_fence(&reason).into();
            assert_eq!(RepairKind::of_fence(&fence), (kind, Arc::clone(&reason)), "{fence}");
        }
        let foreign: Arc<str> = "looked at the provider's log".into();
        let read = RepairKind::of_fence(&foreign);
        assert_eq!(read, (RepairKind::Requeue { posture: RepairPosture::OperatorAccepted, auto: false }, foreign));
    }
}
