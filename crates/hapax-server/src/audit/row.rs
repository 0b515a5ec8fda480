use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The first row: names the chain and the key that signs it.
    Genesis,
    /// The first row of every later file: names chain and key again, and signs all rows before it.
    Continued,
    Started,
    Stopped,
    /// An operator is about to decide a doubt.
    Resolve,
    /// The decision was not taken: the state had moved.
    ResolveRefused,
    /// An administrator is about to begin an operation, or to say how it ended.
    Operate,
    /// A group is about to be undone.
    Unwind,
    /// A person says that an effect was undone by other means.
    SeenTo,
    /// A person lets an inverse be tried again.
    RetryInverse,
    PolicyChange,
    KeysChange,
    /// The change of keys did not happen: the file could not be written, or had moved.
    KeysChangeFailed,
    /// Answers were given up to make room.
    Eviction,
    /// A signed statement about all rows before it.
    Checkpoint,
    /// Rows that were kept as long as they should be are let go, up to a number.
    LetGo,
    /// The end of the file was not whole and was cut off.
    TornTail,
    Repair,
    /// A lease is about to be taken back.
    A2aRepair,
    /// It was not: the task had moved.
    A2aRepairRefused,
    /// One pass of the retry scheduler.
    A2aAutoRetrySchedulerScan,
    /// A person lets the retry gate act.
    A2aRetryStale,
    A2aCompact,
    Import,
}

/// One row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// From 1, without holes.
    pub n: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    pub actor: String,
    pub action: Action,
    /// What it was done to: an operation's id, for instance.
    pub subject: String,
    pub detail: serde_json::Value,
    /// The hash of the row before; of the first row, zeros.
    pub prev: String,
}

pub(super) type Hash = [u8; 32];

pub(super) fn hash_of(json: &[u8]) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"hapax.audit.v1\0");
    hash.update(json);
    hash.finalize().into()
}

/// The line of a row, and its hash.
pub(super) fn line_of(row: &Row) -> Result<(String, Hash), serde_json::Error> {
    let json = serde_json::to_string(row)?;
    let hash = hash_of(json.as_bytes());
    Ok((format!("{} {json}\n", HEXLOWER.encode(&hash)), hash))
}

/// A line that is whole: its row, and its hash as recomputed.
pub(super) fn read_line(line: &[u8]) -> Result<(Row, Hash), &'static str> {
    let (hex, json) = line.split_at_checked(64).ok_or("the line is too short")?;
    let json = json.strip_prefix(b" ").ok_or("no blank follows the hash")?;
    let said = HEXLOWER.decode(hex).map_err(|_| "the hash is not hexadecimal")?;
    let hash = hash_of(json);
    if said != hash {
        return Err("the row does not match its hash");
    }
    let row = serde_json::from_slice(json).map_err(|_| "the row is not a row")?;
    Ok((row, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads a log a year later has the document and nothing else. A row that it does not name explains nothing.
    #[test]
    fn every_kind_of_row_is_in_the_document() {
        let document = include_str!("../../../../docs/audit-format.md");
        let mut next = Some(Action::Genesis);
        while let Some(action) = next {
            let name = serde_json::to_string(&action).unwrap_or_default().replace('"', "`");
            assert!(document.contains(&name), "{name} is not in docs/audit-format.md");
            // One leads to the next, so that a new one cannot be left out.
            next = match action {
                Action::Genesis => Some(Action::Continued),
                Action::Continued => Some(Action::Started),
                Action::Started => Some(Action::Stopped),
                Action::Stopped => Some(Action::Resolve),
                Action::Resolve => Some(Action::ResolveRefused),
                Action::ResolveRefused => Some(Action::Operate),
                Action::Operate => Some(Action::Unwind),
                Action::Unwind => Some(Action::SeenTo),
                Action::SeenTo => Some(Action::RetryInverse),
                Action::RetryInverse => Some(Action::PolicyChange),
                Action::PolicyChange => Some(Action::KeysChange),
                Action::KeysChange => Some(Action::KeysChangeFailed),
                Action::KeysChangeFailed => Some(Action::Eviction),
                Action::Eviction => Some(Action::Checkpoint),
                Action::Checkpoint => Some(Action::LetGo),
                Action::LetGo => Some(Action::TornTail),
                Action::TornTail => Some(Action::Repair),
                Action::Repair => Some(Action::A2aRepair),
                Action::A2aRepair => Some(Action::A2aRepairRefused),
                Action::A2aRepairRefused => Some(Action::A2aAutoRetrySchedulerScan),
                Action::A2aAutoRetrySchedulerScan => Some(Action::A2aRetryStale),
                Action::A2aRetryStale => Some(Action::A2aCompact),
                Action::A2aCompact => Some(Action::Import),
                Action::Import => None,
            };
        }
    }
}
