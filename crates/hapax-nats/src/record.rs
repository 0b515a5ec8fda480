//! One record: read from its leader, written where the server finds the sequence that is expected.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use hapax_core::{Id, Stamp, Version};
use hapax_store::{Envelope, Snapshot, StoreError, Swap, wire};

use crate::{
    api::{Held, Refusal},
    error::{Call, Failed},
    head::{self, Head},
    pieces::Kind,
    shared::Shared,
};

const GET: Call = Call::Read("get");
const SWAP: Call = Call::Write("swap");
/// A removal may be forgotten between a conflict and the look at it, a long record replaced between its two halves.
const TRIES: usize = 4;

impl Shared {
    pub(crate) async fn read(self: &Arc<Self>, call: Call, id: &Id) -> Result<Snapshot, StoreError> {
        let subject = self.names.record(id);
        for _ in 0..TRIES {
            let now = self.now(call).await?;
            let held = self.last(&self.names.records, &subject).await.map_err(|failed| self.failed(call, failed))?;
            let Some(held) = held else {
                return Ok(Snapshot { record: None, version: Version::NEVER, stamp: Stamp(0), now });
            };
            let head = self.head_of(&held, id)?;
            let Some(record) = self.envelope_of(call, &held, &head, id).await? else { continue };
            let version = Version(held.seq);
            self.stamps.lock().put(*id, version, head.stamp);
            return Ok(Snapshot { record, version, stamp: head.stamp, now: now.max(head.stamp) });
        }
        Err(self.corrupt(format!("the record {id}"), "a part of it is missing"))
    }

    fn head_of(&self, held: &Held, id: &Id) -> Result<Head, StoreError> {
        let head = held.header(head::NAME).and_then(|text| Head::decode(&text));
        head.ok_or_else(|| {
            let place = format!("the record {id}, sequence {}", held.seq);
            self.corrupt(place, "its header is missing, or newer than this program")
        })
    }

    /// `None` if its parts are gone, which they are once it was replaced.
    async fn envelope_of(
        &self,
        call: Call,
        held: &Held,
        head: &Head,
        id: &Id,
    ) -> Result<Option<Option<Envelope>>, StoreError> {
        if head.listed.is_none() {
            return Ok(Some(None));
        }
        let place = || format!("the record {id}, sequence {}", held.seq);
        let bytes = match &head.part {
            None => held.payload().ok_or_else(|| self.corrupt(place(), "it is not in base 64"))?,
            Some(part) => {
                let found = self.collect(part, Kind::Part).await.map_err(|failed| self.failed(call, failed))?;
                let Some(bytes) = found else { return Ok(None) };
                bytes
            }
        };
        match wire::decode(&bytes) {
            Ok(envelope) => Ok(Some(Some(envelope))),
            Err(error) => Err(self.corrupt(place(), error.to_string())),
        }
    }

    pub(crate) async fn write(
        self: &Arc<Self>,
        id: &Id,
        expected: Version,
        next: Option<Envelope>,
    ) -> Result<Swap, StoreError> {
        let count = next.as_ref().map_or(0, |envelope| envelope.entries.len());
        if count > Envelope::MOST_ENTRIES {
            let most = Envelope::MOST_ENTRIES;
            return Err(self.unsupported(format!("{count} index entries in one record, at most {most} are kept")));
        }
        for _ in 0..TRIES {
            // No write is stamped before what it replaces.
            let before = match self.stamp_of(id, expected) {
                Some(stamp) => stamp,
                None if expected == Version::NEVER => Stamp(0),
                None => {
                    let held = self.read(Call::Read("swap"), id).await?;
                    if held.version != expected {
                        return Ok(Swap::Conflict(held));
                    }
                    held.stamp
                }
            };
            let stamp = self.now(Call::Read("swap")).await?.max(before);
            match self.put(id, expected, stamp, next.as_ref()).await {
                Ok(sequence) => {
                    let version = Version(sequence);
                    self.stamps.lock().put(*id, version, stamp);
                    self.waiters.wake(id);
                    return Ok(Swap::Swapped { version, stamp });
                }
                Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::WRONG_SEQUENCE => {}
                Err(failed) => return Err(self.failed(SWAP, failed)),
            }
            let held = self.read(GET, id).await?;
            if held.version != expected {
                return Ok(Swap::Conflict(held));
            }
        }
        let reason =
            "`swap`: the record is refused at the very version it is read at; check who else writes to its bucket";
        Err(StoreError::Unavailable { store: self.name.clone(), reason: reason.into() })
    }

    async fn put(&self, id: &Id, expected: Version, stamp: Stamp, next: Option<&Envelope>) -> Result<u64, Failed> {
        let mut head = Head::of(stamp, next);
        let mut payload = next.map(|envelope| Bytes::from(wire::encode(envelope))).unwrap_or_default();
        if payload.len() > self.piece_size().await? {
            let part = self.lay_aside(id, stamp, &payload).await?;
            head.part = Some(part);
            payload = Bytes::new();
        }
        let mut headers = HeaderMap::new();
        headers.insert(head::NAME, head.encode());
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.0.to_string());
        if next.is_none() {
            // So that other programs that read the bucket see a removal too.
            headers.insert("KV-Operation", "DEL");
        }
        let stored = self.publish(self.names.record(id), headers, payload).await;
        if let (Some(part), Err(Failed::Refused(_))) = (&head.part, &stored) {
            // Nobody names it. What cannot be dropped now is swept later.
            let _left_for_the_sweep = self.drop_pieces(part, Kind::Part).await;
        }
        stored
    }
}
