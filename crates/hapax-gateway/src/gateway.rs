//! A request's way through the gateway.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use hapax_engine::{SystemWallClock, WallClock as _};
use hapax_http::{Asked, Code, Guard, Look, NextStep, Peek, Problem};
use http::{Request, Response, StatusCode, request};
use hyper::body::Incoming;
use parking_lot::RwLock;

use crate::{
    body::Out,
    execute::{self, Execution},
    forward,
    inbound::{Answer, Answering, Live, Peer},
    outlive::Outlive,
    pass, path,
    refusal::refusal,
    request_body::{self, Unread},
    route::Route,
    setup::Setup,
    tenant::Whose,
    upstream_request::host_is_plain,
};

/// What an operator is told while the gateway runs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Protected requests came without any credential. Said once.
    Anonymous,
}

/// The gateway. Cloning it gives another handle to the same one.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    setup: RwLock<Arc<Setup>>,
    live: Live,
    tell: Box<dyn Fn(Notice) + Send + Sync>,
    told_anonymous: AtomicBool,
}

impl Gateway {
    pub fn new(setup: Setup, live: Live, tell: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        let shared = Shared {
            setup: RwLock::new(Arc::new(setup)),
            live,
            tell: Box::new(tell),
            told_anonymous: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Puts another setup in force. Requests under way keep what they began with.
    pub fn reload(&self, setup: Setup) {
        *self.shared.setup.write() = Arc::new(setup);
    }

    #[must_use]
    pub fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.shared.setup.read())
    }

    async fn handle(&self, request: Request<Incoming>, peer: Peer) -> Response<Out> {
        let setup = self.setup();
        let (head, body) = request.into_parts();
        if let Some(refused) = refused(&head) {
            return refused.map(Out::whole);
        }
        let Some(route) = setup.route(&head.method, &head.uri) else {
            let detail = "this place outside is not on the gateway's list; name it under [egress] [HX0058]";
            return refusal(StatusCode::FORBIDDEN, "egress_refused", detail).map(Out::whole);
        };
        if !route.protect {
            return pass::through(head, body, route, &setup, peer).await;
        }
        let activity = match route.activity(&head) {
            Ok(activity) => activity,
            Err(why) => return refusal(StatusCode::BAD_REQUEST, "activity_refused", why).map(Out::whole),
        };
        let most = match route.guard.look(&head) {
            // Known by its place, it needs no key.
            Look::Pass if activity.is_some() && !head.method.is_safe() => route.guard.limits().request_body,
            Look::Pass => return pass::through(head, body, route, &setup, peer).await,
            Look::Buffer { most } => most,
        };
        let tenant = match setup.whose.tenant(&head.headers, peer, SystemWallClock.now().0 / 1_000) {
            Ok(tenant) => tenant,
            Err(nobody) => {
                let problem = Problem::new(Code::NoCredential, NextStep::FixRequest, nobody.0).nothing_happened();
                return route.guard.problem(&problem).map(Out::whole);
            }
        };
        if tenant.as_str() == Whose::ANONYMOUS && !self.shared.told_anonymous.swap(true, Ordering::AcqRel) {
            (self.shared.tell)(Notice::Anonymous);
        }
        let body = match request_body::read(body, most, setup.body).await {
            Ok(body) => body,
            Err(unread) => return unreadable(&route.guard, unread).map(Out::whole),
        };
        let caller = route.caller(tenant, &head.method, &head.uri);
        let caller = match activity {
            Some(activity) => caller.activity(activity),
            None => caller,
        };
        let asking = match route.guard.ask(&head, body, &caller) {
            Asked::Ask(asking) => asking,
            Asked::Answer(answer) => return answer.map(Out::whole),
            Asked::Pass(body) => return pass::whole(head, body, route, &setup, peer).await,
        };
        if let Peek::Answer(answer) = asking.peek(&head).await {
            return answer.map(Out::whole);
        }
        let execution = Execution {
            head,
            asking,
            route: Arc::clone(route),
            setup: Arc::clone(&setup),
            peer,
            working: self.shared.live.working(),
        };
        Outlive::new(execute::run(execution)).await
    }
}

impl Answer for Gateway {
    async fn answer(&self, request: Request<Incoming>, peer: Peer, answering: Answering) -> Response<Out> {
        self.handle(request, peer).await.map(|body| body.until_sent(answering))
    }
}

/// What no route is asked about.
fn refused(head: &request::Parts) -> Option<Response<Bytes>> {
    if forward::is_upgrade(&head.headers) {
        let detail = "the gateway changes no protocols; send the request without `Upgrade` [HX0059]";
        return Some(refusal(StatusCode::NOT_IMPLEMENTED, "upgrade_refused", detail));
    }
    if !host_is_plain(&head.headers, &head.uri) {
        let detail = "the request names two hosts; send one [HX0059]";
        return Some(refusal(StatusCode::BAD_REQUEST, "host_refused", detail));
    }
    if path::is_devious(head.uri.path()) {
        let detail = "the path has segments that mean another path; send it resolved [HX0059]";
        return Some(refusal(StatusCode::BAD_REQUEST, "path_refused", detail));
    }
    None
}

fn unreadable(guard: &Guard, unread: Unread) -> Response<Bytes> {
    match unread {
        Unread::TooLarge => guard.too_large(),
        Unread::TooSlow => {
            let detail = "the body took too long; send it again with the same key";
            refusal(StatusCode::REQUEST_TIMEOUT, "too_slow", detail)
        }
        Unread::Broken => {
            let detail = "the body did not arrive whole; send the request again with the same key";
            let problem = Problem::new(Code::BrokenRequest, NextStep::RetrySameKey, detail).nothing_happened();
            guard.problem(&problem)
        }
    }
}

/// What to say of an upstream that was certainly not asked.
pub(crate) fn not_asked(route: &Route, failure: &crate::outbound::Failure) -> Response<Bytes> {
    use crate::outbound::Failure;
    let problem = match failure {
        Failure::Full(_) => {
            let detail = "too many requests are under way to the upstream; send it again with the same key";
            Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail)
                .retry_after(hapax_core::Millis::from_secs(1))
        }
        Failure::NotConnected(_) | Failure::NotSent(_) | Failure::Broke(_) | Failure::TimedOut => {
            let detail = "the upstream cannot be reached, so nothing was sent to it; send the request again with the \
                          same key";
            Problem::new(Code::BadGateway, NextStep::RetrySameKey, detail)
        }
    };
    route.guard.problem(&problem.nothing_happened())
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("live", &self.shared.live).finish_non_exhaustive()
    }
}
