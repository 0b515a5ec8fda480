//! Bytes that are too long for one message: a head that says what they are, and pieces.
//!
//! The head is written first and dropped last, so that nothing lies there which no head names.

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};
use data_encoding::BASE64URL_NOPAD;
use hapax_core::{Id, Stamp};

use crate::{
    api::{Held, Lookup},
    error::Failed,
    shared::Shared,
};

const HEADER: &str = "Hapax-Pieces";
/// An answer carries a piece in base 64, and has to fit into a message as well.
const LARGEST: usize = 512 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Named by the rules; they drop it.
    Body,
    /// The rest of a long record; the store drops it.
    Part,
}

impl Kind {
    const fn letter(self) -> &'static str {
        match self {
            Self::Body => "h",
            Self::Part => "p",
        }
    }
}

/// What a head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Whole {
    pub(crate) name: [u8; 32],
    pub(crate) owner: Id,
    pub(crate) stored: Stamp,
    pub(crate) length: u64,
    pieces: u32,
    pub(crate) sequence: u64,
}

impl Shared {
    pub(crate) async fn piece_size(&self) -> Result<usize, Failed> {
        Ok((self.link.client().await?.max_payload() / 2).clamp(1, LARGEST))
    }

    pub(crate) async fn lay_aside(&self, owner: &Id, stored: Stamp, bytes: &Bytes) -> Result<[u8; 32], Failed> {
        let mut name = [0; 32];
        getrandom::fill(&mut name).map_err(|error| Failed::Connecting(error.to_string()))?;
        self.lay(&name, Kind::Part, owner, stored, bytes).await?;
        Ok(name)
    }

    pub(crate) async fn lay(
        &self,
        name: &[u8; 32],
        kind: Kind,
        owner: &Id,
        stored: Stamp,
        bytes: &Bytes,
    ) -> Result<(), Failed> {
        let size = self.piece_size().await?;
        let count = u32::try_from(bytes.len().div_ceil(size)).unwrap_or(u32::MAX);
        let mut head = Vec::with_capacity(52);
        head.extend_from_slice(&owner.0);
        head.extend_from_slice(&stored.0.to_be_bytes());
        head.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        head.extend_from_slice(&count.to_be_bytes());
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, BASE64URL_NOPAD.encode(&head));
        self.publish(self.names.piece(name, kind.letter()), headers, Bytes::new()).await?;
        for (number, start) in (0..bytes.len()).step_by(size).enumerate() {
            let piece = bytes.slice(start..bytes.len().min(start + size));
            self.publish(self.names.piece(name, &number.to_string()), HeaderMap::new(), piece).await?;
        }
        Ok(())
    }

    /// `None` unless all of it is there.
    pub(crate) async fn collect(&self, name: &[u8; 32], kind: Kind) -> Result<Option<Bytes>, Failed> {
        let Some(whole) = self.whole(name, kind).await? else { return Ok(None) };
        let mut bytes = BytesMut::new();
        for number in 0..whole.pieces {
            let held = self.last(&self.names.bodies, &self.names.piece(name, &number.to_string())).await?;
            let Some(piece) = held.and_then(|held| held.payload()) else { return Ok(None) };
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes.len() as u64 == whole.length).then(|| bytes.freeze()))
    }

    async fn whole(&self, name: &[u8; 32], kind: Kind) -> Result<Option<Whole>, Failed> {
        let held = self.last(&self.names.bodies, &self.names.piece(name, kind.letter())).await?;
        Ok(held.and_then(|held| self.read_whole(&held)))
    }

    fn read_whole(&self, held: &Held) -> Option<Whole> {
        let name = self.names.piece_name(&held.subject)?;
        let head = BASE64URL_NOPAD.decode(held.header(HEADER)?.as_bytes()).ok()?;
        let (owner, rest) = head.split_first_chunk::<32>()?;
        let (stored, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        Some(Whole {
            name,
            owner: Id(*owner),
            stored: Stamp(u64::from_be_bytes(*stored)),
            length: u64::from_be_bytes(*length),
            pieces: u32::from_be_bytes(rest.try_into().ok()?),
            sequence: held.seq,
        })
    }

    pub(crate) async fn drop_pieces(&self, name: &[u8; 32], kind: Kind) -> Result<(), Failed> {
        let Some(whole) = self.whole(name, kind).await? else { return Ok(()) };
        for number in 0..whole.pieces {
            self.purge(&self.names.bodies, &self.names.piece(name, &number.to_string()), None).await?;
        }
        self.purge(&self.names.bodies, &self.names.piece(name, kind.letter()), None).await
    }

    /// The next one behind this sequence, in the order they were stored.
    pub(crate) async fn next_whole(&self, kind: Kind, after: u64) -> Result<Option<Whole>, Failed> {
        let heads = self.names.heads(kind.letter());
        let mut from = after + 1;
        loop {
            let lookup = Lookup { seq: Some(from), last_by_subj: None, next_by_subj: Some(&heads) };
            let Some(held) = self.look_up(&self.names.bodies, &lookup).await? else { return Ok(None) };
            if let Some(whole) = self.read_whole(&held) {
                return Ok(Some(whole));
            }
            from = held.seq + 1;
        }
    }
}
