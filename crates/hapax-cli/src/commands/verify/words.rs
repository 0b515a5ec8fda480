//! What was found, for people.

use hapax::{Durability, conformance};
use hapax_store::Level;

use super::{Tried, live::Woken};

pub(super) const fn level(level: Level) -> &'static str {
    match level {
        Level::Basic => "basic",
        Level::Full => "full",
    }
}

/// What may be relied on, one sentence each.
pub(super) fn promises(tried: &Tried, durability: &Durability) -> Vec<String> {
    let Some(woken) = tried.live.woken.filter(|_| tried.failures() == 0) else {
        return vec!["Nothing: it does not keep the contract that all promises rest on.".to_owned()];
    };
    let mut said = vec![
        match woken {
            Woken::ByStore | Woken::NowAndThen => "One key runs once, whoever asks, from however many processes.",
            Woken::InProcess => "One key runs once, whoever asks, in the one process that has this store.",
        }
        .to_owned(),
        "A write whose answer is lost is recognised; a write that lands late changes nothing.".to_owned(),
    ];
    said.push(match woken {
        Woken::ByStore => "Whoever waits is woken by the store, also from another process.".to_owned(),
        Woken::InProcess => "Whoever waits is woken by the store.".to_owned(),
        Woken::NowAndThen => format!(
            "Whoever waits for another process finds out by reading every so often, here {} after the write: the store's \
             wake-ups do not come through. Let this user subscribe (docs/stores.md says to what), and give an address that is no \
             pooler's; of PostgreSQL, ?listen=HOST:PORT past it.",
            ms(tried.live.wake_us)
        ),
    });
    said.push(match durability {
        Durability::Durable => {
            "What was acknowledged is still there after the server's process is killed and its machine loses power, if its \
             disk keeps what it says it has kept."
                .to_owned()
        }
        Durability::DurableIf(reason) => format!("What was acknowledged is still there after a crash, if {reason}."),
        Durability::BestEffort(reason) => format!(
            "What was acknowledged may be lost: {reason}. Work that must not run twice is refused here unless the policy \
             allows it by name (best_effort)."
        ),
    });
    match tried.level {
        Level::Full => {}
        Level::Basic => said.push(
            "Operations, joining, activities, memos and the bus guard run here. Groups, the queue and a run's effects need a \
             store of level full: PostgreSQL, Redis or the embedded ledger."
                .to_owned(),
        ),
    }
    said
}

pub(super) fn report(tried: &Tried, shown: &str, durability: &Durability) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!("{shown}, level {}", level(tried.level)));
    line(format!("  promises   {durability}"));
    line(format!("  contract   {}", counted(&tried.suite)));
    line(format!("  faults     {}", counted(&tried.faults)));
    line(match &tried.live.problem {
        None => "  engine     one run for each key, sixteen callers, two engines".to_owned(),
        Some(why) => format!("  engine     FAILED: {why}"),
    });
    let live = &tried.live;
    line(format!("  medians    read {}, write {}, wake-up {}", ms(live.read_us), ms(live.write_us), ms(live.wake_us)));
    for checked in tried.suite.checks.iter().chain(&tried.faults.checks) {
        match &checked.verdict {
            conformance::Verdict::Passed => {}
            conformance::Verdict::Failed(why) => line(format!("  FAILED     {}: {why}", checked.name)),
            conformance::Verdict::Skipped(why) => line(format!("  left out   {}: {why}", checked.name)),
        }
    }
    line(String::new());
    line("What may be relied on:".to_owned());
    for promise in promises(tried, durability) {
        line(format!("- {promise}"));
    }
    line(String::new());
    line(
        "Not tried here: killing the server, cutting its network, failing over. Its settings were read, not its disk."
            .to_owned(),
    );
    text
}

fn counted(report: &conformance::Report) -> String {
    let (all, failed, skipped) = (report.checks.len(), report.failures().count(), report.skipped().count());
    let passed = all - failed - skipped;
    match (failed, skipped) {
        (0, 0) => format!("all {passed} passed"),
        (0, _) => format!("{passed} passed, {skipped} left out"),
        (_, _) => format!("{failed} FAILED, {passed} passed, {skipped} left out"),
    }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds for people")]
fn ms(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1_000.0)
}
