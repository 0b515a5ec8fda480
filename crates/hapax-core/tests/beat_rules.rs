//! To which beat a message belongs.

use hapax_core::{
    Millis, Moment, Stamp, WallMillis,
    beat::{Beat, BeatCommand, BeatReply, Beats, Judged, MOST_BEATS, MOST_MESSAGES, Message, NoBeat, apply_beat},
};

use crate::rules_support::about;

const KEEP: Millis = Millis(100);

#[derive(Default)]
struct Session {
    beats: Option<Beats>,
    now: u64,
    judged: Judged,
}

impl Session {
    fn ask(&mut self, command: &BeatCommand) -> BeatReply {
        let moment = Moment { now: Stamp(self.now), wall: WallMillis(0) };
        let step = apply_beat(self.beats.as_ref(), command, &self.judged, moment);
        if let Some(mut next) = step.write {
            next.settle(Stamp(self.now));
            self.beats = Some(next);
        }
        step.reply
    }

    fn gather(&mut self, numbers: &[u64]) -> BeatReply {
        self.ask(&BeatCommand::Gather { about: about(), messages: messages(numbers), keep: KEEP })
    }

    fn new_beat(&mut self, numbers: &[u64]) -> Beat {
        let gathered = self.gather(numbers);
        let BeatReply::New(beat) = gathered else { panic!("{gathered:?}") };
        beat
    }
}

fn message(number: u64) -> Message {
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&number.to_be_bytes());
    Message(digest)
}

fn messages(numbers: &[u64]) -> Vec<Message> {
    numbers.iter().map(|number| message(*number)).collect()
}

/// Every subset of four messages after every other: a message is of one beat, and whoever asks for it is told of that one.
#[test]
fn a_message_belongs_to_one_beat_however_it_arrives() {
    let subset = |bits: u32| (0..4_u64).filter(move |place| bits & (1 << place) != 0).rev().collect::<Vec<_>>();
    for first in 1..16 {
        for second in 1..16 {
            let mut session = Session { now: 1, ..Session::default() };
            let beat = session.new_beat(&subset(first));
            assert_eq!(beat.members.len() as u32, first.count_ones());
            match (session.gather(&subset(second)), second & first, second & !first) {
                (BeatReply::New(other), 0, _) => assert_ne!(other.number, beat.number),
                (BeatReply::Known(known), _, 0) => assert_eq!(known.number, beat.number),
                (BeatReply::Overlap { found, beats, unanswered }, inside, outside) => {
                    assert_eq!(
                        (found.len() as u32, unanswered.len() as u32),
                        (inside.count_ones(), outside.count_ones())
                    );
                    assert!(inside != 0 && outside != 0 && beats.len() == 1);
                }
                (other, _, _) => panic!("{first:b}, {second:b}: {other:?}"),
            }
            let all = session.beats.unwrap();
            for place in 0..4 {
                assert!(all.beats.iter().filter(|beat| beat.members.contains(&message(place))).count() <= 1);
            }
        }
    }
}

/// A sealed beat is being answered: nothing may be added to what its answer is about.
#[test]
fn nothing_is_added_to_a_sealed_beat() {
    let mut session = Session { now: 1, ..Session::default() };
    let beat = session.new_beat(&[1]).number;
    let absorb = |numbers: &[u64]| BeatCommand::Absorb { beat, messages: messages(numbers) };
    assert!(matches!(session.ask(&absorb(&[2])), BeatReply::Changed { beat, .. } if beat.members.len() == 2));
    assert!(matches!(session.ask(&BeatCommand::Seal { beat }), BeatReply::Sealed { already: false, .. }));
    assert!(matches!(session.ask(&BeatCommand::Seal { beat }), BeatReply::Sealed { already: true, .. }));
    assert_eq!(session.ask(&absorb(&[3])), BeatReply::Refused(NoBeat::Sealed));
    // What it has already it is told again.
    assert!(matches!(session.ask(&absorb(&[1, 2])), BeatReply::Changed { beat, .. } if beat.sealed));
}

#[test]
fn a_beat_without_messages_with_too_many_or_of_nobody_is_refused() {
    let mut session = Session { now: 1, ..Session::default() };
    assert_eq!(session.gather(&[]), BeatReply::Refused(NoBeat::Empty));
    let most: Vec<u64> = (0..MOST_MESSAGES as u64).collect();
    let more: Vec<u64> = (0..=MOST_MESSAGES as u64).collect();
    assert_eq!(session.gather(&more), BeatReply::Refused(NoBeat::TooMany));
    let beat = session.new_beat(&most).number;
    let absorb = BeatCommand::Absorb { beat, messages: messages(&more) };
    assert_eq!(session.ask(&absorb), BeatReply::Refused(NoBeat::TooMany));
    for command in [BeatCommand::Seal { beat: beat + 1 }, BeatCommand::Absorb { beat: beat + 1, messages: Vec::new() }]
    {
        assert_eq!(session.ask(&command), BeatReply::Refused(NoBeat::Unknown));
    }
}

/// Without a bound the record of a busy session would grow until no store took it.
#[test]
fn a_session_holds_so_many_beats_and_has_room_again_when_their_time_is_over() {
    let mut session = Session { now: 1, ..Session::default() };
    for number in 0..MOST_BEATS as u64 {
        session.new_beat(&[number]);
    }
    assert_eq!(session.gather(&[u64::MAX]), BeatReply::Refused(NoBeat::Full));
    session.now += KEEP.0;
    session.new_beat(&[u64::MAX]);
    assert_eq!(session.beats.unwrap().beats.len(), 1, "what is over is dropped");
}

/// The time of a sealed beat is over. Whether it may be forgotten only its operation can say, so nothing is decided, and
/// nothing dropped, before somebody has looked.
#[test]
fn a_sealed_beat_is_not_forgotten_before_its_operation_was_looked_at() {
    let mut session = Session { now: 1, ..Session::default() };
    let beat = session.new_beat(&[1, 2]).number;
    let _sealed = session.ask(&BeatCommand::Seal { beat });
    session.now += KEEP.0;
    for numbers in [&[1][..], &[9]] {
        let BeatReply::Judge(open) = session.gather(numbers) else { panic!("{numbers:?}: it was decided") };
        assert_eq!(open.iter().map(|beat| beat.number).collect::<Vec<_>>(), [beat]);
        assert_eq!(session.beats.as_ref().unwrap().beats.len(), 1);
    }
    session.judged.insert(beat, true);
    assert!(matches!(session.gather(&[1]), BeatReply::Known(known) if known.number == beat));
    session.new_beat(&[9]);
    assert_eq!(session.beats.as_ref().unwrap().beats.len(), 2, "a write for another message does not drop it");
    session.judged.insert(beat, false);
    assert_ne!(session.new_beat(&[1]).number, beat);
}

/// A session was forgotten: a number of its earlier life must not lead to a beat of the new.
#[test]
fn a_number_is_not_given_twice_although_a_session_was_forgotten() {
    let mut session = Session { now: 1_000, ..Session::default() };
    let old = session.new_beat(&[1]).number;
    let mut reborn = Session { now: 1_000 + KEEP.0, ..Session::default() };
    assert!(reborn.new_beat(&[1]).number > old);
}
