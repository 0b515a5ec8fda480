//! How much of an upstream one tenant takes.
//!
//! A slow endpoint fills all places for as long as it is called, and whoever calls it would shut everybody else out of the
//! fast ones.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use hapax_core::identity::Tenant;
use parking_lot::Mutex;

/// On whose account a request is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Account {
    /// There is one tenant, so nothing has to be left for others.
    Sole,
    Of(Tenant),
    /// Whoever cannot be told apart. They share one account.
    Nobody,
}

/// How many requests each account has under way. It holds no more accounts than there are such requests.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<HashMap<Account, usize, RandomState>>);

impl Shares {
    /// One more on this account, unless it has `most`.
    pub(super) fn take(self: &Arc<Self>, account: &Account, most: usize) -> Option<Share> {
        if *account == Account::Sole {
            return Some(Share(None));
        }
        let mut counts = self.0.lock();
        match counts.get_mut(account) {
            Some(count) if *count >= most => return None,
            Some(count) => *count += 1,
            None if most == 0 => return None,
            None => {
                counts.insert(account.clone(), 1);
            }
        }
        drop(counts);
        Some(Share(Some((Arc::clone(self), account.clone()))))
    }
}

/// One request counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share(Option<(Arc<Shares>, Account)>);

impl Drop for Share {
    fn drop(&mut self) {
        let Some((shares, of)) = &self.0 else { return };
        let mut counts = shares.0.lock();
        if let Some(count) = counts.get_mut(of) {
            *count -= 1;
            if *count == 0 {
                counts.remove(of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_its_share_and_leaves_nothing_behind() {
        let shares = Arc::new(Shares::default());
        let (one, two) = (Account::Of(Tenant::new("one").unwrap()), Account::Of(Tenant::new("two").unwrap()));
        let held: Vec<Share> = (0..3).map(|_| shares.take(&one, 3).unwrap()).collect();
        assert!(shares.take(&one, 3).is_none());
        let others = [&two, &Account::Nobody, &Account::Nobody].map(|other| shares.take(other, 2));
        assert!(others.iter().all(Option::is_some) && shares.take(&Account::Nobody, 2).is_none());
        // Where there is nobody else, nothing is counted.
        assert!((0..10).all(|_| shares.take(&Account::Sole, 0).is_some()));
        drop(held);
        assert_eq!(shares.0.lock().len(), 2);
        let again = shares.take(&one, 3);
        assert!(again.is_some());
        drop((others, again));
        assert!(shares.0.lock().is_empty());
    }
}
