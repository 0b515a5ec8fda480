//! Every sequence of commands up to a length, from a small alphabet: the rules and the naive model answer alike and
//! end in the same state.
//!
//! Two histories that led both sides to the same place have the same futures, so each place is gone on from once; that
//! is what makes all sequences affordable. `HAPAX_SEQUENCE_LENGTH` makes them longer for a soak run.

use std::collections::HashSet;

use hapax_core::{Effect, Policy, as_read};
use hapax_sim::{
    bridge::{self, Cell, LEASE},
    model::{Begin, Cmd, Knobs, Model, Resolution, Said, Token},
};

#[derive(Clone, Copy, Debug)]
enum Letter {
    Begin {
        nonce: u8,
        print: u8,
        started: bool,
        epoch: Option<(u64, u64)>,
        admitted: bool,
    },
    /// By the token that this nonce was given last.
    By(u8, fn(Token) -> Cmd),
    Cmd(Cmd),
    Wait(i64),
}

fn alphabet(epochs: bool) -> Vec<Letter> {
    let mut letters = Vec::new();
    for nonce in [1, 2] {
        for started in [true, false] {
            letters.push(Letter::Begin { nonce, print: 1, started, epoch: None, admitted: true });
        }
        let verbs: [fn(Token) -> Cmd; 9] = [
            Cmd::Start,
            Cmd::Renew,
            |token| Cmd::Complete(token, 7),
            |token| Cmd::Reject(token, 7),
            |token| Cmd::Fail(token, 9),
            Cmd::FailUnknown,
            Cmd::Release,
            Cmd::ReleaseNoEffect,
            Cmd::Unstart,
        ];
        letters.extend(verbs.map(|verb| Letter::By(nonce, verb)));
        letters.push(Letter::Cmd(Cmd::Disown(nonce)));
    }
    letters.push(Letter::By(1, |token| Cmd::Complete(token, 8)));
    letters.push(Letter::By(1, |token| Cmd::Fail(token, 8)));
    // Tokens of another attempt than the one that this nonce was given.
    letters.push(Letter::By(1, |(attempt, nonce)| Cmd::Complete((attempt + 1, nonce), 7)));
    letters.push(Letter::Cmd(Cmd::Complete((1, 2), 7)));
    letters.push(Letter::Cmd(Cmd::Fail((1, 2), 9)));
    letters.push(Letter::Begin { nonce: 3, print: 2, started: true, epoch: None, admitted: true });
    letters.push(Letter::Begin { nonce: 3, print: 1, started: true, epoch: None, admitted: false });
    if epochs {
        letters.push(Letter::Begin { nonce: 4, print: 1, started: false, epoch: Some((1, 1)), admitted: true });
        letters.push(Letter::Begin { nonce: 5, print: 2, started: false, epoch: Some((2, 2)), admitted: true });
        letters.push(Letter::Begin { nonce: 6, print: 2, started: true, epoch: Some((1, 2)), admitted: true });
        letters.push(Letter::By(4, Cmd::Start));
        letters.push(Letter::By(5, Cmd::Release));
        letters.push(Letter::By(5, Cmd::FailUnknown));
    }
    letters.extend(
        [
            Cmd::Resolve(Resolution::Committed(5)),
            Cmd::Resolve(Resolution::Rejected(5)),
            Cmd::Resolve(Resolution::Open),
            Cmd::ResolveMoved(Resolution::Open),
            Cmd::Expire,
            Cmd::Evict { tombstones_full: false },
            Cmd::Evict { tombstones_full: true },
        ]
        .map(Letter::Cmd),
    );
    letters.extend([LEASE - 1, 1, 40, 100].map(Letter::Wait));
    letters
}

#[derive(Clone)]
struct Place {
    cell: Cell,
    model: Model,
    now: i64,
    /// What each nonce was given last.
    held: [u32; 7],
}

impl Place {
    /// Everything that the future depends on.
    fn key(&self) -> String {
        let mut plain = self.cell.record.clone();
        if let Some(record) = &mut plain {
            // For people only.
            record.past.clear();
            record.attempt.lease = None;
            record.attempt.begun = hapax_core::Anchor::Write;
            record.attempt.fence = hapax_core::Fence::Write;
        }
        format!("{plain:?}{:?}{}{:?}", self.model.op, self.now, self.held)
    }
}

struct Run {
    policy: Policy,
    class: Effect,
    honoured: Option<i64>,
    letters: Vec<Letter>,
    seen: HashSet<(usize, u128)>,
    steps: u64,
}

impl Run {
    fn go(&mut self, place: &Place, left: usize, path: &mut Vec<Letter>) {
        if left == 0 {
            return;
        }
        for number in 0..self.letters.len() {
            let letter = self.letters[number];
            let mut next = place.clone();
            path.push(letter);
            self.step(&mut next, letter, path);
            if self.seen.insert((left, digest(&next.key()))) {
                self.go(&next, left - 1, path);
            }
            path.pop();
        }
    }

    fn step(&mut self, place: &mut Place, letter: Letter, path: &[Letter]) {
        self.steps += 1;
        let cmd = match letter {
            Letter::Wait(time) => {
                place.now += time;
                place.model.pass(place.now);
                return;
            }
            Letter::Begin { nonce, print, started, epoch, admitted } => Cmd::Begin(Begin {
                nonce,
                print,
                class: self.class,
                started,
                epoch,
                admitted,
                room: true,
                honoured: self.honoured,
            }),
            Letter::By(nonce, verb) => verb((place.held[nonce as usize].max(1), nonce)),
            Letter::Cmd(cmd) => cmd,
        };
        let expected = place.model.step(cmd, place.now);
        let step = place.cell.decide(&self.policy, cmd, place.now);
        let got = bridge::said(&step.reply);
        place.cell.store(step.write, place.now);
        let state = place.cell.record.as_ref().and_then(|record| as_read(record, bridge::stamp(place.now)));
        let state = state.map_or_else(|| "Absent".to_owned(), |record| format!("{:?}", record.state.name()));
        let same = got == expected || (cmd == Cmd::Expire && matches!(got, Said::Ok | Said::OkAlready));
        assert!(
            same && state == place.model.name(),
            "the rules and the model part ways after {path:#?}\nmodel: {expected:?}, {}\nrules: {got:?}, {state}\n{:#?}",
            place.model.name(),
            place.cell.record,
        );
        if let Said::Execute((attempt, nonce)) = got {
            place.held[nonce as usize] = attempt;
        }
    }
}

fn digest(text: &str) -> u128 {
    use std::hash::{BuildHasher, Hasher};
    let half = |seed| {
        let mut hasher = foldhash::quality::FixedState::with_seed(seed).build_hasher();
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

fn all_sequences(class: Effect, stale: bool, refuse: bool, epochs: bool, honoured: Option<i64>) {
    let length = std::env::var("HAPAX_SEQUENCE_LENGTH").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let knobs = Knobs { lease: LEASE, success: 100, failure: 60, open: 40, tombstone: 200, stale, refuse };
    let mut run = Run {
        policy: bridge::policy(knobs),
        class,
        honoured,
        letters: alphabet(epochs),
        seen: HashSet::new(),
        steps: 0,
    };
    let start = Place { cell: Cell::default(), model: Model::new(knobs), now: 1_000, held: [0; 7] };
    run.go(&start, length, &mut Vec::new());
    println!("{class} stale={stale} refuse={refuse}: length {length}, {} places, {} steps", run.seen.len(), run.steps);
}

#[test]
fn sequences_of_unsafe_work() {
    all_sequences(Effect::Unsafe, false, false, true, None);
}

#[test]
fn sequences_of_idempotent_work() {
    all_sequences(Effect::Idempotent, false, false, false, None);
}

#[test]
fn sequences_of_irreversible_work_whose_window_closes() {
    all_sequences(Effect::Irreversible, false, true, false, None);
}

#[test]
fn sequences_under_a_stale_lease() {
    all_sequences(Effect::Pure, true, false, true, None);
}

/// A lost call is made again while its provider knows the key, and says of itself that it did nothing: what became of the
/// first is as unknown as before.
#[test]
fn sequences_inside_and_beyond_a_providers_window() {
    all_sequences(Effect::Irreversible, false, false, true, Some(25));
}
