//! What operators did: an append-only log of its own, each row chained to the one before by its hash, with signed
//! checkpoints.
//!
//! Signatures are Ed25519 and not HMAC, so that whoever checks a chain needs no secret and could not have forged it. One
//! line is one row: the row's hash, a blank, and its JSON; the hash covers the JSON byte for byte, so that nothing has to
//! be put into a normal form. `docs/audit-format.md` has the bytes.

mod files;
mod lock;
mod log;
mod open;
mod row;
mod sign;
mod turn;
mod verify;
mod walk;

pub use log::{Audit, AuditError, AuditOptions, Opened};
pub use row::{Action, Row};
pub use sign::Signer;
pub use verify::{BadRow, Verified, verify};
