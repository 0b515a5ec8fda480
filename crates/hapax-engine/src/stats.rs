use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hapax_core::{Cause, Event};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What this process has counted since it started. Cheap to raise, read by metrics and pages.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),+ }

        /// The counters at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Stats { $($(#[$doc])* pub $name: u64),+ }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Relaxed)),+ }
            }
        }
    };
}

counters! {
    /// Attempts begun.
    executed,
    /// Recorded answers given again, from the gate or the store.
    replayed,
    /// Of these, answered by the gate without asking the store.
    gate_hits,
    /// Callers that waited for another's attempt.
    joined,
    in_flight,
    mismatched,
    in_doubt,
    refused,
    window_closed,
    /// Outcomes and steps refused because their token no longer counts.
    fenced,
    /// Outcomes taken after the lapse.
    late,
    /// Writes that found a lapse or an expiry which nobody had written down.
    lapsed,
    expired,
    evicted,
    probed,
    resolved,
    /// Begins of unknown fate that were taken back.
    disowned,
    /// Store calls tried again.
    store_retries,
    /// Ran without a record because the store was gone and the policy allows it for pure work.
    unrecorded,
    /// What shadow mode would have stopped.
    shadow_stops,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) fn event(&self, event: &Event) {
        if event.late {
            count(&self.late);
        }
        let counter = match event.cause {
            Cause::Begin | Cause::TakeOver => &self.executed,
            Cause::Replay => &self.replayed,
            Cause::InFlight => &self.in_flight,
            Cause::Mismatch => &self.mismatched,
            Cause::InDoubt => &self.in_doubt,
            Cause::Refused => &self.refused,
            Cause::WindowClosed => &self.window_closed,
            Cause::Fenced => &self.fenced,
            Cause::Expire => &self.expired,
            Cause::Evict => &self.evicted,
            Cause::ClaimProbe => &self.probed,
            Cause::Resolve => &self.resolved,
            Cause::Disown => &self.disowned,
            Cause::BeginAgain
            | Cause::Start
            | Cause::Renew
            | Cause::Complete
            | Cause::Reject
            | Cause::Fail
            | Cause::FailUnknown
            | Cause::Release
            | Cause::Unstart
            | Cause::Lapse
            | Cause::LetGo => return,
        };
        count(counter);
    }
}
