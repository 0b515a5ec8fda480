//! The outside world in which effects happen, and which remembers every one of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hapax_core::{Effect, Id, Token};
use hapax_engine::Classified;
use hapax_store::Seeded;
use tokio::sync::oneshot;

use super::{
    history::{History, What},
    process::Death,
};

#[derive(Debug)]
pub(super) struct Provider {
    history: Arc<History>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    applied: BTreeMap<Id, Vec<(Token, String)>>,
    /// Attempts up to this number can no longer act.
    voided: BTreeMap<Id, Vec<Token>>,
    under_way: Vec<(Id, Token)>,
}

/// How the work of one attempt goes.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) id: Id,
    pub(super) effect: Effect,
    pub(super) enforced: bool,
    /// What it answers, apart from the attempt.
    pub(super) text: String,
    before: Duration,
    after: Duration,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Succeeds,
    /// It is done, and the answer never arrives.
    AnswerLost,
    /// It never reaches the provider, and nobody can tell.
    RequestLost,
    FailsForGood,
    FailsForNow,
    NothingHappens,
    Panics,
}

impl Work {
    pub(super) fn draw(dice: &mut Seeded, id: Id, effect: Effect, enforced: bool, text: String, lease: u64) -> Self {
        let fate = match dice.below(20) {
            0 => Fate::AnswerLost,
            1 => Fate::RequestLost,
            2..=3 => Fate::FailsForGood,
            4..=6 => Fate::FailsForNow,
            7 => Fate::NothingHappens,
            8 => Fate::Panics,
            9.. => Fate::Succeeds,
        };
        // Some take longer than their lease: those live on renewals, or act after the lapse.
        let long = if dice.chance(150) { lease * 3 } else { lease / 2 + 1 };
        let before = Duration::from_millis(dice.below(long));
        let after = Duration::from_millis(dice.below(long / 2 + 1));
        Self { id, effect, enforced, text, before, after, fate }
    }

    /// For whoever runs it by hand, where a panic would be the caller's own.
    #[must_use]
    pub(super) fn without_panic(mut self) -> Self {
        if self.fate == Fate::Panics {
            self.fate = Fate::AnswerLost;
        }
        self
    }
}

impl Provider {
    #[must_use]
    pub(super) fn new(history: Arc<History>) -> Self {
        Self { history, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the effect of this attempt answered, if it happened.
    #[must_use]
    pub(super) fn find(&self, id: &Id, token: Token) -> Option<String> {
        let inner = self.inner();
        let applied = inner.applied.get(id)?;
        applied.iter().find(|(by, _)| *by == token).map(|(_, text)| text.clone())
    }

    /// Makes an effect impossible that has not happened.
    pub(super) fn void(&self, id: &Id, token: Token) {
        self.inner().voided.entry(*id).or_default().push(token);
    }

    #[must_use]
    pub(super) fn is_under_way(&self, id: &Id, token: Token) -> bool {
        self.inner().under_way.contains(&(*id, token))
    }

    fn apply(&self, work: &Work, token: Token, text: &str) -> bool {
        let applied = {
            let mut inner = self.inner();
            inner.under_way.retain(|other| *other != (work.id, token));
            let voided = inner.voided.get(&work.id).is_some_and(|tokens| tokens.contains(&token));
            if !voided {
                inner.applied.entry(work.id).or_default().push((token, text.to_owned()));
            }
            !voided
        };
        let (id, effect, enforced) = (work.id, work.effect, work.enforced);
        self.history.log(What::Effect { id, token, effect, applied, enforced });
        self.history.cover(if applied { "effect applied" } else { "effect voided" });
        applied
    }

    /// Does the work of one attempt. The request travels on its own: neither a cancelled nor a crashed caller calls it
    /// back.
    pub(super) async fn perform(
        self: Arc<Self>,
        death: Arc<Death>,
        work: Work,
        token: Token,
    ) -> Result<String, Classified<String>> {
        let text = format!("{}|{}|{:?}", work.text, token.attempt, token.nonce);
        self.history.granted(token);
        death.until(async {}).await;
        let lasting = matches!(work.fate, Fate::Succeeds | Fate::AnswerLost | Fate::Panics);
        let (answer, answered) = oneshot::channel();
        if lasting {
            self.inner().under_way.push((work.id, token));
            let (provider, work, text) = (Arc::clone(&self), work.clone(), text.clone());
            tokio::spawn(async move {
                tokio::time::sleep(work.before).await;
                // Nobody may be left to hear it.
                let _gone = answer.send(provider.apply(&work, token, &text));
            });
        }
        death
            .until(async {
                let applied = if lasting {
                    answered.await.unwrap_or(false)
                } else {
                    tokio::time::sleep(work.before).await;
                    false
                };
                tokio::time::sleep(work.after).await;
                let failed = |kind: &str| format!("{text} {kind}");
                self.history.cover(format!("work {:?}", work.fate));
                match work.fate {
                    // Turned away by the provider: nothing happened, for certain.
                    Fate::Succeeds | Fate::AnswerLost | Fate::Panics if !applied => {
                        Err(Classified::no_effect(failed("voided")))
                    }
                    Fate::Succeeds => Ok(text.clone()),
                    Fate::AnswerLost | Fate::RequestLost => Err(Classified::unknown(failed("unknown"))),
                    Fate::FailsForGood => Err(Classified::lasting(failed("for good"))),
                    Fate::FailsForNow => Err(Classified::retryable(failed("for now"))),
                    Fate::NothingHappens => Err(Classified::no_effect(failed("nothing"))),
                    // Without the noise that a panic of its own would make.
                    Fate::Panics => std::panic::resume_unwind(Box::new("the work panicked")),
                }
            })
            .await
    }
}
