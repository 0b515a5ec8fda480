//! By which name a request is known: its route, and whose it is.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::identity::Tenant;
use hapax_engine::{SystemWallClock, WallClock as _};
use hapax_http::{ActivityOf, Asked, Asking, Caller, Look, Peek};
use http::{Method, Uri, request};

use crate::{inbound::Peer, outbound::Pool, path, route::Route, setup::Setup, tenant::Whose};

#[derive(Debug)]
pub(crate) struct Routing {
    /// In the order of the file; the first that matches is it.
    pub(crate) routes: Vec<Arc<Route>>,
    /// For what no route matches.
    pub(crate) otherwise: Arc<Route>,
    /// Fixed places outside, by name.
    pub(crate) egress: Vec<(String, Arc<Route>)>,
    pub(crate) whose: Whose,
    /// How tenants are told apart, in so far as it says who sees what.
    pub(crate) apart: Box<str>,
    /// All that gives requests their names.
    pub(crate) names: Box<str>,
}

/// Where outbound calls are addressed to.
const EGRESS: &str = "/egress/";

impl Routing {
    /// The route of a request; none: it is addressed to a place outside that is not on the list.
    pub(crate) fn route(&self, method: &Method, uri: &Uri) -> Option<&Arc<Route>> {
        let path = uri.path();
        if !self.egress.is_empty()
            && let Some(outside) = path.strip_prefix(EGRESS)
        {
            let name = outside.split('/').next().unwrap_or_default();
            return self.egress.iter().find(|(known, _)| known == name).map(|(_, route)| route);
        }
        if self.routes.is_empty() {
            return Some(&self.otherwise);
        }
        let routed = path::as_routed(path);
        let fits = |route: &&Arc<Route>| {
            let spelt =
                |path: &str| route.pattern.as_ref().is_some_and(|pattern| pattern.matched(method, path).is_some());
            spelt(path) || (*routed != *path && spelt(&routed))
        };
        Some(self.routes.iter().find(fits).unwrap_or(&self.otherwise))
    }

    pub(crate) fn tenant(&self, head: &request::Parts, peer: Peer) -> Result<Tenant, crate::tenant::Nobody> {
        self.whose.tenant(&head.headers, &head.uri, peer, SystemWallClock.now().0 / 1_000)
    }

    /// The question that a whole request is here; none: it is not protected here, or is refused. `tenant`: whose it is, where that is
    /// known already.
    pub(crate) fn question(
        &self,
        head: &request::Parts,
        body: &Bytes,
        peer: Peer,
        tenant: Option<&Tenant>,
    ) -> Option<Question> {
        let route = self.route(&head.method, &head.uri).filter(|route| route.protect)?;
        let activity = route.activity(head).ok()?;
        if activity.is_none() && route.guard.look(head) == Look::Pass {
            return None;
        }
        let tenant = match tenant {
            Some(tenant) => tenant.clone(),
            None => self.tenant(head, peer).ok()?,
        };
        let caller = caller(route, tenant.clone(), head, activity);
        match route.guard.ask(head, body.clone(), &caller) {
            Asked::Ask(asking) => Some(Question { route: Arc::clone(route), tenant, asking }),
            Asked::Pass(_) | Asked::Answer(_) => None,
        }
    }

    /// The same, when others come to be in force: requests keep the names that they have here.
    pub(crate) fn as_it_was(&self) -> Self {
        let was = |route: &Arc<Route>| Arc::new(route.as_it_was());
        Self {
            routes: self.routes.iter().map(was).collect(),
            otherwise: was(&self.otherwise),
            egress: self.egress.iter().map(|(name, route)| (name.clone(), was(route))).collect(),
            whose: self.whose.clone(),
            apart: self.apart.clone(),
            names: self.names.clone(),
        }
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        let outside = self.egress.iter().map(|(_, route)| route);
        self.routes.iter().chain([&self.otherwise]).chain(outside).map(|route| &route.pool)
    }
}

/// Who asks, and where.
pub(crate) fn caller(route: &Route, tenant: Tenant, head: &request::Parts, activity: Option<ActivityOf>) -> Caller {
    let caller = route.caller(tenant, &head.method, &head.uri);
    match activity {
        Some(activity) => caller.activity(activity),
        None => caller,
    }
}

/// A request as one routing has it.
pub(crate) struct Question {
    pub(crate) route: Arc<Route>,
    pub(crate) tenant: Tenant,
    pub(crate) asking: Box<Asking>,
}

/// A request by another name that it had.
pub(crate) struct OtherName {
    pub(crate) asking: Box<Asking>,
    /// Whether its answer may be shown: tenants were told apart as they are now, and nobody is asked now who was not asked then. If not,
    /// several callers of now may have been one then.
    pub(crate) shown: bool,
}

impl OtherName {
    /// Whether nobody has begun it, without waiting for anybody.
    pub(crate) async fn is_free(&mut self, head: &request::Parts) -> bool {
        if self.shown {
            return self.asking.is_free().await;
        }
        matches!(self.asking.peek_unseen(head).await, Peek::Begin)
    }

    pub(crate) async fn peek(&mut self, head: &request::Parts) -> Peek {
        if self.shown { self.asking.peek(head).await } else { self.asking.peek_unseen(head).await }
    }

    /// Whether it was run under this name and may be run again: then under the same name, so that whoever is sent our key is sent the
    /// same one.
    pub(crate) async fn goes_on(&self) -> bool {
        self.shown && !self.asking.is_unused().await
    }
}

/// A request by the other names that it had before: what was begun under one of them is not begun again.
pub(crate) fn by_other_names(
    setup: &Setup,
    route: &Route,
    head: &request::Parts,
    body: &Bytes,
    (peer, tenant): (Peer, &Tenant),
    asking: &Asking,
) -> Vec<OtherName> {
    let mut others: Vec<OtherName> = Vec::new();
    // What is only shadowed is stopped by nothing, and stops nothing.
    if asking.is_shadow() {
        return others;
    }
    for routing in &setup.earlier {
        let same_tenants = routing.apart == setup.routing.apart;
        let Some(then) = routing.question(head, body, peer, Some(tenant).filter(|_| same_tenants)) else { continue };
        let known = |other: &OtherName| other.asking.operation() == then.asking.operation();
        if then.asking.operation() != asking.operation() && !then.asking.is_shadow() && !others.iter().any(known) {
            let shown = same_tenants && (then.route.reauthorizes || !route.reauthorizes);
            others.push(OtherName { asking: then.asking, shown });
        }
    }
    others
}
