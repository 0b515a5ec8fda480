//! The subscription alone is lost, while everything else goes on. How it is taken away and given back is each store's own.

use std::time::Duration;

use hapax_core::Version;
use hapax_store::{Store, Watch};
use tokio::time::{Instant, timeout};

use super::PATIENCE;
use crate::sample::{id, number_in, numbered, put};

/// Between two wake-ups of those who have no subscription.
const FALL_BACK: Duration = Duration::from_millis(250);

/// Nobody hears of what others write now. Whoever waits for the first id comes to see it all the same, as soon as the fall-back
/// says, and nobody waits for the subscription first. Says which version is there then.
pub async fn a_subscription_that_is_away_is_made_up_for(
    waiting: &dyn Store,
    watch: &mut dyn Watch,
    writing: &dyn Store,
    before: Version,
) -> Version {
    let others = async {
        for number in 100..110 {
            drop(waiting.watch(&id(number)).await.unwrap());
        }
    };
    timeout(Duration::from_secs(10), others).await.expect("nobody waits two seconds for it");
    let (version, _) = put(writing, &id(1), before, Some(numbered(1))).await;
    // Where nobody else wakes, each of them is the fall-back's.
    let noticed = async {
        for _ in 0..8 {
            watch.changed().await;
        }
        number_in(waiting.get(&id(1)).await.unwrap().record.as_ref())
    };
    let noticed = timeout(Duration::from_secs(10), noticed).await.expect("it is woken every quarter of a second");
    assert_eq!(noticed, Some(1));
    version
}

/// It is back: whoever waits is woken by nothing but writes, and by those at once.
pub async fn a_subscription_that_is_back_wakes_at_once(
    watch: &mut dyn Watch,
    writing: &dyn Store,
    mut version: Version,
) {
    let falls_quiet = async { while timeout(FALL_BACK * 4, watch.changed()).await.is_ok() {} };
    timeout(PATIENCE, falls_quiet).await.expect("nobody is woken for nothing");
    let mut took = Vec::new();
    for number in 2..11 {
        let begun = Instant::now();
        (version, _) = put(writing, &id(1), version, Some(numbered(number))).await;
        timeout(PATIENCE, watch.changed()).await.expect("it is woken");
        took.push(begun.elapsed());
    }
    took.sort();
    assert!(took[took.len() / 2] < FALL_BACK / 2, "as slow as without it: {took:?}");
}
