//! Everything that a reload replaces, at once.

use std::sync::Arc;

use crate::{
    buffered::Room, config::Upstream, forward::Forwarder, outbound::Pool, routing::Routing, trouble::Trouble,
    upload::Pacing,
};

#[derive(Debug)]
pub struct Setup {
    pub(crate) routing: Arc<Routing>,
    /// Those before it, the latest first: a request that was begun under the name it had then is not begun again.
    pub(crate) earlier: Vec<Arc<Routing>>,
    pub(crate) forwarder: Forwarder,
    /// How long a client may take to send a body.
    pub(crate) pacing: Pacing,
    /// For all bodies that are read before they are sent on. A reload keeps it, with what is in it.
    pub(crate) room: Arc<Room>,
    /// The same for answers that wait for their clients to take them.
    pub(crate) answers: Arc<Room>,
    /// What the store says when it fails. A reload keeps it too.
    pub(crate) trouble: Arc<Trouble>,
    /// Each upstream with its connections, so that a reload can keep them.
    pub(crate) pools: Vec<(Upstream, Arc<Pool>)>,
}

/// So many are remembered. A request that is retried after as many reloads has waited for a long time.
const EARLIER: usize = 4;

impl Setup {
    /// How tenants are told apart, in words.
    #[must_use]
    pub fn tenants(&self) -> String {
        self.routing.whose.said()
    }

    /// Closes connections that lie unused, and says what was not said of the store. To be called now and then.
    pub fn tidy(&self) {
        self.trouble.say();
        for (_, pool) in &self.pools {
            pool.tidy();
        }
        for pool in self.earlier.iter().flat_map(|routing| routing.pools()) {
            pool.tidy();
        }
    }

    /// Takes the place of another. To be called before the policies of the other go out of force.
    pub(crate) fn follow(&mut self, before: &Self) {
        let latest = Arc::new(before.routing.as_it_was());
        let mut earlier: Vec<Arc<Routing>> = Vec::new();
        for routing in std::iter::once(&latest).chain(&before.earlier) {
            // What names requests as this one does, or as one that is listed, needs no place of its own.
            let known = |other: &Routing| other.names == routing.names;
            if earlier.len() < EARLIER && !known(&self.routing) && !earlier.iter().any(|other| known(other)) {
                earlier.push(Arc::clone(routing));
            }
        }
        self.earlier = earlier;
    }
}
