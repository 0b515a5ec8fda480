//! Everything that a reload replaces, at once.

use std::sync::Arc;

use http::{Method, Uri};

use crate::{
    buffered::Room, config::Upstream, forward::Forwarder, outbound::Pool, route::Route, tenant::Whose,
    trouble::Trouble, upload::Pacing,
};

#[derive(Debug)]
pub struct Setup {
    /// In the order of the file; the first that matches is it.
    pub(crate) routes: Vec<Arc<Route>>,
    /// For what no route matches.
    pub(crate) otherwise: Arc<Route>,
    /// Fixed places outside, by name.
    pub(crate) egress: Vec<(String, Arc<Route>)>,
    pub(crate) whose: Whose,
    pub(crate) forwarder: Forwarder,
    /// How long a client may take to send a body.
    pub(crate) pacing: Pacing,
    /// For all bodies that are read before they are sent on. A reload keeps it, with what is in it.
    pub(crate) room: Arc<Room>,
    /// What the store says when it fails. A reload keeps it too.
    pub(crate) trouble: Arc<Trouble>,
    /// Each upstream with its connections, so that a reload can keep them.
    pub(crate) pools: Vec<(Upstream, Arc<Pool>)>,
}

/// Where outbound calls are addressed to.
const EGRESS: &str = "/egress/";

impl Setup {
    /// How tenants are told apart, in words.
    #[must_use]
    pub fn tenants(&self) -> String {
        self.whose.said()
    }

    /// Closes connections that lie unused, and says what was not said of the store. To be called now and then.
    pub fn tidy(&self) {
        self.trouble.say();
        for (_, pool) in &self.pools {
            pool.tidy();
        }
    }

    /// The route of a request; none: it is addressed to a place outside that is not on the list.
    pub(crate) fn route(&self, method: &Method, uri: &Uri) -> Option<&Arc<Route>> {
        let path = uri.path();
        if !self.egress.is_empty()
            && let Some(outside) = path.strip_prefix(EGRESS)
        {
            let name = outside.split('/').next().unwrap_or_default();
            return self.egress.iter().find(|(known, _)| known == name).map(|(_, route)| route);
        }
        let fits =
            |route: &&Arc<Route>| route.pattern.as_ref().is_some_and(|pattern| pattern.matched(method, path).is_some());
        Some(self.routes.iter().find(fits).unwrap_or(&self.otherwise))
    }
}
