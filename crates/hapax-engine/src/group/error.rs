use hapax_core::{Id, group::WhyNot};

use crate::{error::EngineError, quota::NoRoom};

/// Why a group did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error("group {group} refuses: {why} [HX0090]")]
    Refused { group: Id, why: WhyNot },
    #[error("{store} keeps no index of groups (level basic); use memory, file, redis or postgres for them [HX0091]")]
    Level { store: String },
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Engine(#[from] EngineError),
}
