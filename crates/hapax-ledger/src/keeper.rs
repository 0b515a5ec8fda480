//! The keeper: what has to be done beside the requests. Makes segments ready, writes hints, cleans.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hapax_core::Millis;

use crate::{
    clean::{Cleaned, Cleaner},
    hint,
    index::PASSED_ON,
    log::is_full,
    patience::Patience,
    segment,
    shared::Shared,
    sudden_end::SuddenEnd,
};

const BETWEEN: Duration = Duration::from_millis(100);
/// How far ahead records on their way out must be known.
const AHEAD: Millis = Millis::from_secs(2);

#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    cleaner: Cleaner,
    patience: Patience,
    /// With the room for bodies.
    body_patience: Patience,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, cleaner: Cleaner::default(), patience: Patience::default(), body_patience: Patience::default() }
    }

    pub(crate) fn run(mut self, closed: impl Fn() -> bool) {
        let shared = self.shared.clone();
        let sudden_end = SuddenEnd::of("keeper", shared.clone(), &shared.queue);
        while !closed() {
            match self.turn() {
                Cleaned::Some => {}
                Cleaned::Waiting => self.cleaner.wait(BETWEEN),
                Cleaned::Nothing => std::thread::park_timeout(BETWEEN),
            }
        }
        sudden_end.expected();
    }

    /// Does what there is to do. [`Cleaned::Nothing`]: there was nothing.
    pub(crate) fn turn(&mut self) -> Cleaned {
        if self.shared.poison.why().is_some() {
            return Cleaned::Nothing;
        }
        match self.work() {
            Ok(cleaned) => cleaned,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    self.shared.damaged(error);
                    self.distrust_hint();
                } else {
                    self.shared.poison(format!("keeping the log failed: {error}"));
                }
                Cleaned::Nothing
            }
        }
    }

    fn work(&mut self) -> io::Result<Cleaned> {
        let shared = &self.shared;
        shared.time.watch_wall();
        self.make_ready()?;
        self.look_for_room();
        self.write_hints();
        let shared = &self.shared;
        let soon = shared.time.now().plus(AHEAD);
        let covered = shared.index.books().going.covers(soon);
        if !covered {
            shared.index.refill_going(shared.memory, soon);
        }
        // First what goes by itself: it would be a pity to carry it.
        let gone = shared.index.pass_on(&mut shared.index.books(), shared.time.now(), shared.memory, PASSED_ON);
        if !gone {
            return Ok(Cleaned::Some);
        }
        self.cleaner.turn(&self.shared)
    }

    fn make_ready(&mut self) -> io::Result<()> {
        let Shared { log, time, counters, .. } = &*self.shared;
        let retired = counters.retired.load(Ordering::Relaxed);
        if log.has_ready() || !self.patience.is_over(time.now(), retired) {
            return Ok(());
        }
        match log.make_ready() {
            // The writer knows, and lets only those on who are at work.
            Err(error) if is_full(&error) => {
                self.patience.in_vain(time.now(), retired);
                Ok(())
            }
            done => {
                self.patience.is_rewarded();
                done
            }
        }
    }

    /// A body did not fit, and nobody who is at work has tried another since.
    fn look_for_room(&mut self) {
        let Shared { bodies, time, counters, .. } = &*self.shared;
        let retired = counters.retired.load(Ordering::Relaxed);
        if !bodies.is_tight() || !self.body_patience.is_over(time.now(), retired) {
            return;
        }
        if bodies.has_room() {
            self.body_patience.is_rewarded();
        } else {
            self.body_patience.in_vain(time.now(), retired);
        }
    }

    /// The segment under cleaning is damaged, and its hint knows nothing of it. Without the hint the next start reads the
    /// segment itself, and refuses with the place, instead of running until the cleaning comes by again.
    fn distrust_hint(&self) {
        let log = &self.shared.log;
        if let Some(oldest) = log.oldest() {
            // The disk is in a bad way: if this fails, the next start is as wise as this one was.
            let _ = log.disk.remove(&log.dir.join(segment::hint_name(oldest.number)));
            let _ = log.disk.sync_dir(&log.dir);
        }
    }

    /// A hint that could not be written is only missed at the next start.
    fn write_hints(&self) {
        for segment in self.shared.log.all() {
            if segment.is_sealed() && !segment.is_hinted() {
                segment.set_hinted(hint::write(&self.shared.log, &self.shared.index, &segment).unwrap_or(0));
            }
        }
    }
}
