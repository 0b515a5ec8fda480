//! The tickets of attempts that callers run.
//!
//! A ticket knows the version of its record, so that its end is one write without a read; and while it is held, its
//! attempt counts as running where a policy limits that. Nothing depends on it being here: a token does the same, with one
//! more read, also after a restart.

use std::{collections::HashMap, sync::Arc};

use hapax_core::{Id, Token};
use hapax_engine::Ticket;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

const SHARDS: usize = 16;
const BETWEEN_PURGES: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Tickets {
    shards: Vec<Mutex<Shard>>,
    most: usize,
}

#[derive(Debug)]
struct Shard {
    held: HashMap<Id, Held>,
    purge_at: Instant,
}

#[derive(Debug)]
struct Held {
    ticket: Ticket,
    tenant: Arc<str>,
    until: Instant,
}

impl Tickets {
    pub(crate) fn new(most: usize) -> Self {
        let purge_at = Instant::now() + BETWEEN_PURGES;
        let shard = || Mutex::new(Shard { held: HashMap::new(), purge_at });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), most: most / SHARDS }
    }

    fn shard(&self, id: &Id) -> &Mutex<Shard> {
        &self.shards[usize::from(id.0[0]) % SHARDS]
    }

    pub(crate) fn keep(&self, ticket: Ticket, tenant: &str) {
        let (id, now) = (ticket.id(), Instant::now());
        let until = now + ticket.lease().as_std();
        let mut shard = self.shard(&id).lock();
        if now >= shard.purge_at {
            shard.purge_at = now + BETWEEN_PURGES;
            shard.held.retain(|_, held| held.until > now);
        }
        if shard.held.len() < self.most {
            shard.held.insert(id, Held { ticket, tenant: tenant.into(), until });
        }
    }

    /// The ticket of this attempt, if it is this tenant's and the token is right.
    pub(crate) fn get(&self, id: &Id, token: Token, tenant: &str) -> Option<Ticket> {
        let shard = self.shard(id).lock();
        let held = shard.held.get(id)?;
        (*held.tenant == *tenant && held.ticket.token() == token).then(|| held.ticket.clone())
    }

    /// Its lease runs anew.
    pub(crate) fn renewed(&self, id: &Id, token: Token, lease: Duration) {
        let mut shard = self.shard(id).lock();
        if let Some(held) = shard.held.get_mut(id).filter(|held| held.ticket.token() == token) {
            held.until = Instant::now() + lease;
        }
    }

    pub(crate) fn drop(&self, id: &Id, token: Token) {
        let mut shard = self.shard(id).lock();
        if shard.held.get(id).is_some_and(|held| held.ticket.token() == token) {
            shard.held.remove(id);
        }
    }

    /// How many attempts are held.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().held.len()).sum()
    }
}
