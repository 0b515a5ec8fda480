//! The tickets of attempts that callers run.
//!
//! A ticket knows the version of its record, so that its end is one write without a read; and while it is held, its
//! attempt counts as running where a policy limits that. Nothing depends on it being here: a token does the same, with one
//! more read, also after a restart.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hapax_core::{Id, Token};
use hapax_engine::Ticket;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::app::Caller;

const SHARDS: usize = 16;
/// One tenant may hold the fourth part.
const TENANTS_SHARE: usize = 4;
const BETWEEN_PURGES: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Tickets {
    shards: Vec<Mutex<Shard>>,
    most: usize,
}

#[derive(Debug)]
struct Shard {
    held: HashMap<Id, Held, RandomState>,
    by_tenant: HashMap<Arc<str>, usize, RandomState>,
    purge_at: Instant,
}

#[derive(Debug)]
struct Held {
    ticket: Ticket,
    tenant: Arc<str>,
    surface: Arc<str>,
    until: Instant,
}

impl Shard {
    fn remove(&mut self, id: &Id) {
        if let Some(held) = self.held.remove(id) {
            self.one_less(&held.tenant);
        }
    }

    fn purge(&mut self, now: Instant) {
        let gone: Vec<Held> = self.held.extract_if(|_, held| held.until <= now).map(|(_, held)| held).collect();
        for held in gone {
            self.one_less(&held.tenant);
        }
    }

    fn one_less(&mut self, tenant: &str) {
        match self.by_tenant.get_mut(tenant) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(self.by_tenant.remove(tenant)),
        }
    }
}

impl Tickets {
    pub(crate) fn new(most: usize) -> Self {
        let purge_at = Instant::now() + BETWEEN_PURGES;
        let shard = || Mutex::new(Shard { held: HashMap::default(), by_tenant: HashMap::default(), purge_at });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), most: most / SHARDS }
    }

    fn shard(&self, id: &Id) -> &Mutex<Shard> {
        &self.shards[usize::from(id.0[0]) % SHARDS]
    }

    /// A flood of one tenant's fills its own share only: the others' attempts are still held, and counted.
    pub(crate) fn keep(&self, ticket: Ticket, tenant: &str, surface: &str) {
        let (id, now) = (ticket.id(), Instant::now());
        let until = now + ticket.lease().as_std();
        let mut shard = self.shard(&id).lock();
        if now >= shard.purge_at {
            shard.purge_at = now + BETWEEN_PURGES;
            shard.purge(now);
        }
        shard.remove(&id);
        let (tenant, of_tenant) = match shard.by_tenant.get_key_value(tenant) {
            Some((tenant, count)) => (Arc::clone(tenant), *count),
            None => (Arc::from(tenant), 0),
        };
        if shard.held.len() < self.most && of_tenant < self.most.div_ceil(TENANTS_SHARE) {
            shard.by_tenant.insert(Arc::clone(&tenant), of_tenant + 1);
            shard.held.insert(id, Held { ticket, tenant, surface: surface.into(), until });
        }
    }

    /// The ticket of this attempt, if this caller may see it and the token is right.
    pub(crate) fn get(&self, id: &Id, token: Token, caller: &Caller) -> Option<Ticket> {
        let shard = self.shard(id).lock();
        let held = shard.held.get(id)?;
        (caller.sees(&held.tenant, &held.surface) && held.ticket.token() == token).then(|| held.ticket.clone())
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
            shard.remove(id);
        }
    }

    /// How many attempts are held.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().held.len()).sum()
    }
}
