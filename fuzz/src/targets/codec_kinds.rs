use bytes::Bytes;
use hapax_store::{
    Envelope, Kind,
    codec::{self, CodecError},
};

use super::{
    Target,
    codec::{WORDS, envelope, forged},
    must,
};
use crate::{corpus, mutate, runner};

/// A kind, and the bytes of a record of it, tried as they are and with a checksum that fits.
pub(super) const TARGET: Target = Target {
    name: "codec-kinds",
    about: "any bytes as a stored group, beats, plan, memo, task, slot, claim or mark; read and written as the same bytes",
    words: WORDS,
    seeds,
    make: mutate::noise,
    run,
};

/// What a golden file of this kind is called, and how its bytes are read and written again.
struct Sort {
    named: &'static str,
    kind: Kind,
    again: fn(&Envelope) -> Result<Bytes, CodecError>,
}

const SORTS: [Sort; 9] = [
    Sort {
        named: "group",
        kind: Kind::GROUP,
        again: |envelope| codec::open_group(envelope).map(|group| codec::seal_group(&group).payload),
    },
    Sort {
        named: "beats",
        kind: Kind::BEAT,
        again: |envelope| codec::open_beats(envelope).map(|beats| codec::seal_beats(&beats).payload),
    },
    Sort {
        named: "plan",
        kind: Kind::PLAN,
        again: |envelope| codec::open_plan(envelope).map(|plan| codec::seal_plan(&plan).payload),
    },
    Sort {
        named: "memo",
        kind: Kind::MEMO,
        again: |envelope| codec::open_memo(envelope).map(|memo| codec::seal_memo(&memo).payload),
    },
    Sort {
        named: "task",
        kind: Kind::TASK,
        again: |envelope| codec::open_task(envelope).map(|task| codec::seal_task(&task).payload),
    },
    Sort {
        named: "key-slot",
        kind: Kind::KEY_SLOT,
        again: |envelope| codec::open_key_slot(envelope).map(|slot| codec::seal_key_slot(&slot).payload),
    },
    Sort {
        named: "claim",
        kind: Kind::CLAIM,
        again: |envelope| codec::open_claim(envelope).map(|claim| codec::seal_claim(&claim).payload),
    },
    Sort {
        named: "mark",
        kind: Kind::MARK,
        again: |envelope| codec::open_mark(envelope).map(|mark| codec::seal_mark(&mark).payload),
    },
    Sort {
        named: "operation",
        kind: Kind::OPERATION,
        again: |envelope| codec::open(envelope).map(|record| codec::seal(&record).payload),
    },
];

/// Every golden file, behind the number of its kind.
fn seeds() -> Vec<Vec<u8>> {
    let numbered = |(name, bytes): (String, Vec<u8>)| {
        let number = SORTS.iter().position(|sort| name.starts_with(sort.named))?;
        Some([&[number as u8], &bytes[..]].concat())
    };
    corpus::golden_kinds().into_iter().filter_map(numbered).collect()
}

fn run(input: &[u8]) -> Result<u64, String> {
    let Some((number, bytes)) = input.split_first() else { return Ok(0) };
    let number = usize::from(*number) % SORTS.len();
    let sort = &SORTS[number];
    let _as_it_is = round(sort, bytes.to_vec())?;
    let read = round(sort, forged(bytes))?;
    Ok(runner::hash((number, read)))
}

/// What reading says; what could be read has to be written as it was.
fn round(sort: &Sort, bytes: Vec<u8>) -> Result<String, String> {
    match (sort.again)(&envelope(sort.kind, bytes.clone())) {
        Ok(again) => {
            must(again == bytes, || format!("a {} is written otherwise than it was read", sort.named))?;
            Ok("read".to_owned())
        }
        Err(error) => Ok(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind without a seed is a kind that is hardly ever read behind its first field.
    #[test]
    fn every_kind_has_a_seed_that_is_read() {
        let seeds = seeds();
        for (number, sort) in SORTS.iter().enumerate() {
            let of_kind: Vec<_> = seeds.iter().filter(|seed| usize::from(seed[0]) == number).collect();
            assert!(!of_kind.is_empty(), "{}", sort.named);
            for seed in of_kind {
                assert_eq!(round(sort, seed[1..].to_vec()), Ok("read".to_owned()), "{}", sort.named);
            }
        }
    }
}
