//! Beats: messages that make one turn, in whatever order and however often they arrive.
//!
//! One record holds the beats of one session, so that it alone decides to which beat a message belongs: two deliveries
//! that overlap are put in an order by its version. Each member points at its beat until the beat's time is over, and a
//! beat that is being answered lives as long as that takes: its operation says so, which somebody has to look at.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Anchor, Millis, Moment, Span, Stamp, WallMillis,
    identity::{Fingerprint, Part, Printer},
    record::About,
};

/// A message of one session, by a digest of its id. Ordered, so that a set has one form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Message(pub [u8; 16]);

/// How many beats a session holds at once.
pub const MOST_BEATS: usize = 256;
/// How many messages a beat may have.
pub const MOST_MESSAGES: usize = 256;

/// One beat. Its number is its name within the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    pub number: u64,
    /// Sorted, no message twice.
    pub members: Vec<Message>,
    /// Nothing is absorbed any more.
    pub sealed: bool,
    /// Its time counts from here: when it was made, absorbed something or was sealed.
    pub since: Anchor,
    pub wall: WallMillis,
}

impl Beat {
    /// The print of the beat: its sorted member set, and nothing else, so that no turn id can tell two alike apart.
    #[must_use]
    pub fn fingerprint(&self, printer: &Printer) -> Fingerprint {
        let members: Vec<u8> = self.members.iter().flat_map(|message| message.0).collect();
        let parts = [("members", Part::Bytes(&members))];
        // One label cannot be there twice.
        printer.tuple(&parts).unwrap_or_else(|_| printer.of_bytes(&members))
    }
}

/// The beats of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beats {
    pub about: Arc<About>,
    pub next: u64,
    pub beats: Vec<Beat>,
    /// How long a beat is remembered after the last change to it.
    pub keep: Millis,
}

impl Beats {
    pub fn settle(&mut self, stamp: Stamp) {
        for beat in &mut self.beats {
            beat.since = beat.since.settled(stamp);
        }
    }

    #[must_use]
    pub fn beat(&self, number: u64) -> Option<&Beat> {
        self.beats.iter().find(|beat| beat.number == number)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BeatCommand {
    /// These messages arrived together.
    Gather { about: Arc<About>, messages: Vec<Message>, keep: Millis },
    /// These belong to an open beat as well.
    Absorb { beat: u64, messages: Vec<Message> },
    /// The beat is complete.
    Seal { beat: u64 },
}

/// The answer to a beat command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum BeatReply {
    /// None of them was known: a new beat.
    New(Beat),
    /// All of them are members of this beat: delivered again.
    Known(Beat),
    /// Some are members of beats, some of none.
    Overlap {
        /// Each message that was found, with its beat.
        found: Vec<(Message, u64)>,
        /// The beats in question.
        beats: Vec<Beat>,
        /// The messages of no beat: they still need an answer.
        unanswered: Vec<Message>,
    },
    /// The beat as it is now. Messages that another beat has already are named and stay there.
    Changed {
        beat: Beat,
        elsewhere: Vec<(Message, u64)>,
    },
    Sealed {
        beat: Beat,
        already: bool,
    },
    /// The time of these sealed beats is over, but they may still be answered: look at their operations, and say it again.
    Judge(Vec<Beat>),
    Refused(NoBeat),
}

/// What was found of sealed beats whose time is over, by their numbers: whether one is being answered, or its answer is
/// still given.
pub type Judged = BTreeMap<u64, bool>;

/// Why there is no beat to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoBeat {
    #[error("no message was given; a beat has at least one")]
    Empty,
    #[error("the session has no such beat, or its time is over; gather the messages anew")]
    Unknown,
    #[error("the beat is sealed; its messages are being answered, so gather the new one by itself")]
    Sealed,
    #[error("the beat would have more than {MOST_MESSAGES} messages; seal it and gather the rest")]
    TooMany,
    #[error("the session holds {MOST_BEATS} beats, as many as it may; try again when one of them is over")]
    Full,
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct BeatStep {
    pub write: Option<Beats>,
    pub reply: BeatReply,
}

/// The beats that still count now, or those of which that has to be found out first.
pub fn beats_as_read<'a>(beats: &'a Beats, judged: &Judged, now: Stamp) -> Result<Vec<&'a Beat>, Vec<Beat>> {
    let (mut live, mut open) = (Vec::new(), Vec::new());
    for beat in &beats.beats {
        let in_time = Span::For(beats.keep).end(beat.since.resolve(Stamp(0))).is_none_or(|over| now < over);
        match (in_time, beat.sealed, judged.get(&beat.number)) {
            (true, _, _) | (false, true, Some(true)) => live.push(beat),
            (false, true, None) => open.push(beat.clone()),
            // Before it is sealed nobody answers it.
            (false, false, _) | (false, true, Some(false)) => {}
        }
    }
    if open.is_empty() { Ok(live) } else { Err(open) }
}

/// The one place where it is decided to which beat a message belongs.
pub fn apply_beat(current: Option<&Beats>, command: &BeatCommand, judged: &Judged, moment: Moment) -> BeatStep {
    let live = match current.map(|beats| beats_as_read(beats, judged, moment.now)) {
        None => Vec::new(),
        Some(Ok(live)) => live,
        Some(Err(open)) => return answer(BeatReply::Judge(open)),
    };
    match command {
        BeatCommand::Gather { about, messages, keep } => {
            let messages = set(messages);
            // Numbers go on from the store's time, so that a number is not given twice although a session was forgotten.
            let fresh = Beats { about: about.clone(), next: moment.now.0, beats: Vec::new(), keep: *keep };
            gather(current.unwrap_or(&fresh), &live, &messages, moment)
        }
        BeatCommand::Absorb { beat, messages } => absorb(current, &live, *beat, &set(messages), moment),
        BeatCommand::Seal { beat } => seal(current, &live, *beat, moment),
    }
}

fn gather(session: &Beats, live: &[&Beat], messages: &[Message], moment: Moment) -> BeatStep {
    if messages.is_empty() {
        return refused(NoBeat::Empty);
    }
    if messages.len() > MOST_MESSAGES {
        return refused(NoBeat::TooMany);
    }
    let (found, unanswered) = sorted_out(live, messages);
    if found.is_empty() {
        if live.len() >= MOST_BEATS {
            return refused(NoBeat::Full);
        }
        let beat = Beat {
            number: session.next,
            members: messages.to_vec(),
            sealed: false,
            since: Anchor::Write,
            wall: moment.wall,
        };
        let mut next = with(session, live, None);
        next.next += 1;
        next.beats.push(beat.clone());
        return BeatStep { write: Some(next), reply: BeatReply::New(beat) };
    }
    let mut beats: Vec<Beat> = Vec::new();
    for (_, number) in &found {
        if beats.iter().all(|beat| beat.number != *number) {
            beats.extend(live.iter().find(|beat| beat.number == *number).map(|beat| Beat::clone(beat)));
        }
    }
    match (beats.len(), unanswered.is_empty()) {
        (1, true) => answer(BeatReply::Known(beats.remove(0))),
        (_, _) => answer(BeatReply::Overlap { found, beats, unanswered }),
    }
}

fn absorb(session: Option<&Beats>, live: &[&Beat], number: u64, messages: &[Message], moment: Moment) -> BeatStep {
    let (Some(session), Some(beat)) = (session, live.iter().find(|beat| beat.number == number)) else {
        return refused(NoBeat::Unknown);
    };
    let (found, new) = sorted_out(live, messages);
    let elsewhere: Vec<_> = found.into_iter().filter(|(_, at)| *at != number).collect();
    if new.is_empty() {
        return answer(BeatReply::Changed { beat: Beat::clone(beat), elsewhere });
    }
    if beat.sealed {
        return refused(NoBeat::Sealed);
    }
    if beat.members.len() + new.len() > MOST_MESSAGES {
        return refused(NoBeat::TooMany);
    }
    let mut grown = Beat { since: Anchor::Write, wall: moment.wall, ..Beat::clone(beat) };
    grown.members.extend(new);
    grown.members.sort_unstable();
    let next = with(session, live, Some(&grown));
    BeatStep { write: Some(next), reply: BeatReply::Changed { beat: grown, elsewhere } }
}

fn seal(session: Option<&Beats>, live: &[&Beat], number: u64, moment: Moment) -> BeatStep {
    let (Some(session), Some(beat)) = (session, live.iter().find(|beat| beat.number == number)) else {
        return refused(NoBeat::Unknown);
    };
    if beat.sealed {
        return answer(BeatReply::Sealed { beat: Beat::clone(beat), already: true });
    }
    let sealed = Beat { sealed: true, since: Anchor::Write, wall: moment.wall, ..Beat::clone(beat) };
    let next = with(session, live, Some(&sealed));
    BeatStep { write: Some(next), reply: BeatReply::Sealed { beat: sealed, already: false } }
}

/// The session with only what still counts, and this beat in place of its older self.
fn with(session: &Beats, live: &[&Beat], changed: Option<&Beat>) -> Beats {
    let beats = live
        .iter()
        .map(|beat| match changed {
            Some(changed) if changed.number == beat.number => changed.clone(),
            Some(_) | None => Beat::clone(beat),
        })
        .collect();
    Beats { about: session.about.clone(), next: session.next, beats, keep: session.keep }
}

type Found = Vec<(Message, u64)>;

fn sorted_out(live: &[&Beat], messages: &[Message]) -> (Found, Vec<Message>) {
    let mut found = Vec::new();
    let mut unanswered = Vec::new();
    for message in messages {
        match live.iter().find(|beat| beat.members.binary_search(message).is_ok()) {
            Some(beat) => found.push((*message, beat.number)),
            None => unanswered.push(*message),
        }
    }
    (found, unanswered)
}

fn set(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    messages.sort_unstable();
    messages.dedup();
    messages
}

const fn answer(reply: BeatReply) -> BeatStep {
    BeatStep { write: None, reply }
}

const fn refused(why: NoBeat) -> BeatStep {
    answer(BeatReply::Refused(why))
}
