//! What is written is read; what was not written is an error, and never a panic.

use crate::codec_support::{any_outcome, any_record, decode, samples};
use hapax_store::{Kind, codec};
use proptest::prelude::*;

/// Bytes with a checksum that fits, as a bug elsewhere or a forger would leave them.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_written_is_read(record in any_record()) {
        let sealed = codec::seal(&record);
        let read = codec::open(&sealed);
        prop_assert_eq!(read.as_ref(), Ok(&record));
        prop_assert_eq!(codec::seal(&record), sealed);
    }

    /// Of an answer that is kept at hand nothing is lost, and a piece of it is none.
    #[test]
    fn a_sealed_answer_is_the_same_to_the_byte(outcome in any_outcome(), first in prop::option::of("[a-z]{0,9}"), at in any::<prop::sample::Index>()) {
        let first = first.map(std::sync::Arc::from);
        let sealed = codec::seal_answer(&outcome, first.as_ref());
        prop_assert!(codec::open_answer(&sealed.slice(..at.index(sealed.len()))).is_err());
        prop_assert_eq!(codec::open_answer(&sealed), Ok((outcome, first)));
    }

    #[test]
    fn two_records_never_share_their_bytes(one in any_record(), other in any_record()) {
        let equal = codec::seal(&one).payload == codec::seal(&other).payload;
        let tags = |record: &hapax_core::Record| (record.about.surface_tag, record.about.tenant_tag);
        prop_assert_eq!(equal && tags(&one) == tags(&other), one == other);
    }

    #[test]
    fn any_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(decode(bytes).is_err());
    }

    #[test]
    fn one_record_has_one_form(record in any_record(), at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..4), cut in 0_usize..4) {
        // Behind the checksum's back: whatever is still read as a record is written as exactly these bytes.
        let sealed = codec::seal(&record).payload;
        let body = &sealed[..sealed.len() - 4];
        let at = at.index(body.len());
        let end = (at + cut).min(body.len());
        let forged = resealed([&body[..at], &with, &body[end..]].concat());
        if let Ok(read) = decode(forged.clone()) {
            prop_assert_eq!(codec::seal(&read).payload, forged);
        }
    }
}

#[test]
fn forged_goldens_never_panic_and_keep_one_form() {
    for (name, record) in samples() {
        let sealed = codec::seal(&record).payload;
        let body = &sealed[..sealed.len() - 4];
        for at in 1..body.len() {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff, body[at].wrapping_add(1), body[at] ^ 0x80] {
                let mut forged = body.to_vec();
                forged[at] = value;
                let forged = resealed(forged);
                if let Ok(read) = decode(forged.clone()) {
                    assert_eq!(codec::seal(&read).payload, forged, "{name}: byte {at} = {value:#04x}");
                }
            }
        }
    }
}

#[test]
fn a_length_that_lies_allocates_nothing() {
    // A surface's name of 2^63 bytes, in a record that is twelve bytes long.
    for length in [&[0xff, 0xff, 0xff, 0xff, 0x7f][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]] {
        assert!(decode(resealed([&[1][..], length, b"x"].concat())).is_err());
    }
}

#[test]
fn another_kind_of_record_is_no_operation() {
    for (_, record) in samples() {
        let mut sealed = codec::seal(&record);
        sealed.kind = Kind::GROUP;
        assert!(codec::open(&sealed).is_err());
    }
}

/// A record without any lease is not of the format that has them: it would have two forms.
#[test]
fn leases_of_nobody_are_refused() {
    let mut tested = 0;
    for (name, record) in samples().into_iter().filter(|(_, record)| record.past.is_empty()) {
        let sealed = codec::seal(&record).payload;
        // Of format 1, it ends with *no extensions*; now it says that leases follow, and there is none.
        let Some((0, body)) = sealed[..sealed.len() - 4].split_last().filter(|_| sealed[0] == 1) else { continue };
        let forged = [&[4][..], &body[1..], &[4, 0]].concat();
        let refused = decode(resealed(forged)).unwrap_err();
        assert_eq!(refused, codec::CodecError::Invalid { what: "lease" }, "{name}");
        tested += 1;
    }
    assert!(tested > 20, "{tested} samples were of format 1");
}
