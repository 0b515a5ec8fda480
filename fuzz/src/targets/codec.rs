use hapax_core::{Record, Stamp, Tag, Version, as_read};
use hapax_store::{
    Counted, Envelope, Kind,
    codec::{self, CodecError},
};

use super::{Target, must, variant};
use crate::{corpus, mutate, runner};

/// Pieces that every record is made of.
pub(super) const WORDS: &[&[u8]] =
    &[b"\x00", b"\x01", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xc3\xa4"];

/// A record's bytes, tried as they are and with a checksum that fits.
pub(super) const TARGET: Target = Target {
    name: "codec",
    about: "any bytes as a stored operation; what is read is written as the same bytes",
    words: WORDS,
    seeds: corpus::golden_operations,
    make: mutate::noise,
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let plain = decode(input.to_vec());
    if let Ok(record) = &plain {
        check(record, input)?;
    }
    let forged = forged(input);
    match decode(forged.clone()) {
        Ok(record) => {
            check(&record, &forged)?;
            Ok(runner::hash((variant(&record.state), variant(&record.attempt.end), variant(&record.rules.on_lapse))))
        }
        Err(error) => Ok(runner::hash(error.to_string())),
    }
}

/// Nearly every change is found by the checksum; behind it the reading itself is tried.
pub(super) fn forged(input: &[u8]) -> Vec<u8> {
    let mut forged = input[..input.len().saturating_sub(4)].to_vec();
    let sum = crc32c::crc32c(&forged);
    forged.extend_from_slice(&sum.to_le_bytes());
    forged
}

fn decode(payload: Vec<u8>) -> Result<Record, CodecError> {
    codec::open(&envelope(Kind::OPERATION, payload))
}

/// As a store hands it back.
pub(super) fn envelope(kind: Kind, payload: Vec<u8>) -> Envelope {
    Envelope {
        kind,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: payload.into(),
    }
}

fn check(record: &Record, bytes: &[u8]) -> Result<(), String> {
    must(codec::seal(record).payload == bytes, || format!("is written otherwise than it was read: {record:?}"))?;
    let settled = record.clone().settled(Version(7), Stamp(1_000));
    for now in [0, 1_000, u64::MAX] {
        let _ = as_read(&settled, Stamp(now));
    }
    Ok(())
}
