//! How one input becomes the next.

use hapax_store::Seeded;

/// Longer inputs are cut: what matters shows in small ones, and small ones are fast.
const LONGEST: usize = 8 * 1024;

pub(crate) fn mutate(input: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&[u8]], random: &mut Seeded) {
    for _ in 0..=random.below(6) {
        once(input, pool, words, random);
    }
    input.truncate(LONGEST);
}

fn once(input: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&[u8]], random: &mut Seeded) {
    let at = place(input.len(), random);
    match random.below(13) {
        0 => *input = noise(random),
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.next().to_le_bytes()[0];
            }
        }
        // Lengths and counts are small numbers, so a step of one is worth trying.
        3 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = if random.chance(500) { byte.wrapping_add(1) } else { byte.wrapping_sub(1) };
            }
        }
        4 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'\n', b'0', b'9']).unwrap_or(&0);
            }
        }
        5 => drop(input.drain(range(input.len(), random))),
        6 => {
            let piece = input[range(input.len(), random)].to_vec();
            insert(input, at, &piece);
        }
        7 => insert(input, at, &noise(random)),
        8 | 9 => {
            if let Some(word) = random.pick(words) {
                insert(input, at, word);
            }
        }
        // The front of this and the back of another.
        10 => {
            if let Some(other) = random.pick(pool) {
                input.truncate(at);
                input.extend_from_slice(&other[place(other.len(), random)..]);
            }
        }
        // Nesting and repetition, deep enough to meet every limit.
        11 => {
            let piece = match random.pick(words) {
                Some(word) if random.chance(700) => word.to_vec(),
                Some(_) | None => input[range(input.len(), random)].to_vec(),
            };
            let times = usize::try_from(random.below(300)).unwrap_or(0);
            insert(input, at, &piece.iter().copied().take(64).collect::<Vec<u8>>().repeat(times));
        }
        _ => input.truncate(at),
    }
}

fn place(length: usize, random: &mut Seeded) -> usize {
    usize::try_from(random.below(length as u64 + 1)).unwrap_or(0)
}

fn range(length: usize, random: &mut Seeded) -> std::ops::Range<usize> {
    let (one, other) = (place(length, random), place(length, random));
    let longest = if random.chance(800) { 16 } else { LONGEST };
    one.min(other)..one.max(other).min(one.min(other) + longest)
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(input.splice(at..at, piece.iter().copied()));
}

pub(crate) fn noise(random: &mut Seeded) -> Vec<u8> {
    (0..random.below(24)).map(|_| random.next().to_le_bytes()[0]).collect()
}
