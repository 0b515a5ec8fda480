//! A request's way through the gateway.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hapax_engine::in_place;
use hapax_http::{Asked, Code, Dialect, Guard, Look, NextStep, Peek, Problem};
use http::{HeaderValue, Request, Response, header, request};
use parking_lot::RwLock;

use crate::{
    body::Out,
    execute::{self, Execution, Held},
    forward,
    inbound::{self, Answer, Answering, Inbound, Live, Peer, Places, Stopping},
    outlive::Outlive,
    pass, path,
    refusal::refusal,
    request_body::{self, Inflow, Rest, Why},
    route::Route,
    routing,
    setup::Setup,
    tenant::Whose,
    trouble::Tell,
    upstream_request::host_is_plain,
};

/// What an operator is told while the gateway runs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Protected requests came without any credential. Said once.
    Anonymous,
    /// Protected requests came with nothing but cookies, and nobody has named those that count. Said once.
    ByAllCookies,
    /// The store failed requests, which their callers were told without its words. Said once a second at most: `left_out` failures
    /// before this one were not.
    StoreFailed { error: String, left_out: u64 },
}

/// The gateway. Cloning it gives another handle to the same one.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    setup: RwLock<Arc<Setup>>,
    live: Live,
    tell: Arc<Tell>,
    told_anonymous: AtomicBool,
    told_cookies: AtomicBool,
}

impl Gateway {
    pub fn new(setup: Setup, live: Live, tell: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        let tell: Arc<Tell> = Arc::new(tell);
        setup.trouble.tell_to(&tell);
        let shared = Shared {
            setup: RwLock::new(Arc::new(setup)),
            live,
            tell,
            told_anonymous: AtomicBool::new(false),
            told_cookies: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes connections until it is told to stop. What was taken goes on and counts as live.
    ///
    /// Behind a pointer, so that all of it is compiled here: an async function is otherwise compiled wherever it is
    /// awaited, and everything it awaits with it.
    #[must_use = "nothing is served unless this is awaited"]
    pub fn serve(&self, inbound: Inbound, stopping: Stopping) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(inbound::serve(inbound, self.clone(), self.shared.live.clone(), stopping))
    }

    /// Puts another setup in force, and with it what it was built for: no request takes up the one without the other.
    /// Requests under way keep what they began with.
    ///
    /// Where that fails, all stays as it was. Under other routes, surfaces or tenants a request has another name. What was begun under the one it had is still
    /// known, so that a retry finds it.
    pub fn reload<E>(&self, mut setup: Setup, and: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        setup.trouble.tell_to(&self.shared.tell);
        let mut current = self.shared.setup.write();
        setup.follow(&current);
        and()?;
        *current = Arc::new(setup);
        Ok(())
    }

    #[must_use]
    pub fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.shared.setup.read())
    }

    pub(crate) fn is_in_force(&self, setup: &Arc<Setup>) -> bool {
        Arc::ptr_eq(&self.shared.setup.read(), setup)
    }

    /// Tells the operator, once, of tenants that are not as well known as they should be.
    fn notice(&self, tenant: &str) {
        let (told, notice) = if tenant == Whose::ANONYMOUS {
            (&self.shared.told_anonymous, Notice::Anonymous)
        } else if tenant.starts_with(Whose::BY_ALL_COOKIES) {
            (&self.shared.told_cookies, Notice::ByAllCookies)
        } else {
            return;
        };
        if !told.swap(true, Ordering::AcqRel) {
            (self.shared.tell)(notice);
        }
    }

    /// The answer in its place in memory, where there is one. A client with many streams that takes nothing of what it asked for has
    /// us keep all of it; what was done is recorded, and can be asked for again.
    fn kept(&self, answer: Response<Out>, answering: &Answering) -> Response<Out> {
        if answering.is_alone() {
            return answer;
        }
        match answering.room_for(answer.body().held(), &self.shared.setup.read().answers) {
            Ok(taking) => answer.map(|body| body.taking(taking)),
            Err(_) => {
                let detail = "as many answers wait for their clients to take them as there is room for; send the request again with \
                              the same key";
                let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail);
                Dialect::default().answer(&problem.retry_after(hapax_core::Millis::from_secs(1))).map(Out::whole)
            }
        }
    }

    async fn handle(&self, request: Request<Inflow>, peer: Peer, places: Places) -> Response<Out> {
        let setup = self.setup();
        let (mut head, body) = request.into_parts();
        if let Some(refused) = refused(&head) {
            return refused.map(Out::whole);
        }
        if setup.routing.whose.is_pretended(&head.headers, peer) {
            let detail =
                "the tenant's header is believed of trusted proxies only; send the request through one, or without it";
            return refusal(Code::NoCredential, detail).map(Out::whole);
        }
        let Some(route) = setup.routing.route(&head.method, &head.uri) else {
            let detail = "this place outside is not on the gateway's list; name it under [egress] [HX0058]";
            return refusal(Code::EgressRefused, detail).map(Out::whole);
        };
        if !route.protect {
            return in_place(|| pass::through(head, body, route, &setup, peer)).await;
        }
        let activity = match route.activity(&head) {
            Ok(activity) => activity,
            Err(why) => {
                let problem = Problem::new(Code::KeyInvalid, NextStep::FixRequest, why).nothing_happened();
                return route.guard.problem(&problem).map(Out::whole);
            }
        };
        let most = match route.guard.look(&head) {
            // Known by its place, it needs no key.
            Look::Pass if activity.is_some() && !head.method.is_safe() => route.guard.limits().request_body,
            Look::Pass => return in_place(|| pass::through(head, body, route, &setup, peer)).await,
            Look::Buffer { most } => most,
        };
        let tenant = match setup.routing.tenant(&head, peer) {
            Ok(tenant) => tenant,
            Err(_) if route.guard.only_notes(&head, "no credential") => {
                return in_place(|| pass::through(head, body, route, &setup, peer)).await;
            }
            Err(nobody) => {
                let problem = Problem::new(Code::NoCredential, NextStep::FixRequest, nobody.0);
                return route.guard.problem(&problem).map(Out::whole);
            }
        };
        self.notice(tenant.as_str());
        let read = match request_body::read(Rest::of(body), most, setup.pacing, &setup.room).await {
            Ok(read) => read,
            Err(unread) if route.guard.only_notes(&head, unread.why.name()) => {
                return in_place(|| pass::resumed(head, unread.first, unread.rest, route, &setup, peer)).await;
            }
            Err(unread) => return unreadable(&route.guard, unread.why).map(Out::whole),
        };
        if route.reauthorizes || !setup.earlier.is_empty() {
            head.extensions.insert(peer);
        }
        let caller = routing::caller(route, tenant.clone(), &head, activity);
        let mut asking = match route.guard.ask(&head, read.bytes, &caller) {
            Asked::Ask(asking) => asking,
            Asked::Answer(answer) => return answer.map(Out::whole),
            Asked::Pass(body) => return in_place(|| pass::whole(head, body, route, &setup, peer)).await,
        };
        if let Peek::Answer(answer) = asking.peek(&head).await {
            return answer.map(Out::whole);
        }
        let Ok(place) = places.one() else { return crowded(&route.guard).map(Out::whole) };
        let held = Held { _working: self.shared.live.working(), _place: place, _taking: read.taking };
        let (gateway, route, setup) = (self.clone(), Arc::clone(route), Arc::clone(&setup));
        let execution = Execution { gateway, head, asking, tenant, route, setup, peer, held };
        Outlive::new(|| execute::run(execution)).await
    }
}

impl Answer for Gateway {
    fn answer(
        &self,
        request: Request<Inflow>,
        peer: Peer,
        answering: Answering,
    ) -> impl Future<Output = Response<Out>> + Send {
        let places = answering.places();
        Answered { gateway: self, work: in_place(|| self.handle(request, peer, places)), answering: Some(answering) }
    }
}

/// An answer under way, which its client waits for until the last byte.
struct Answered<'a, F> {
    gateway: &'a Gateway,
    work: Pin<Box<F>>,
    answering: Option<Answering>,
}

impl<F: Future<Output = Response<Out>>> Future for Answered<'_, F> {
    type Output = Response<Out>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.work.as_mut().poll(cx));
        Poll::Ready(match self.answering.take() {
            Some(answering) => self.gateway.kept(answer, &answering).map(|body| body.until_sent(answering)),
            None => answer,
        })
    }
}

/// What no route is asked about.
fn refused(head: &request::Parts) -> Option<Response<Bytes>> {
    if forward::is_upgrade(&head.headers) {
        let detail = "the gateway changes no protocols; send the request without `Upgrade` [HX0059]";
        return Some(refusal(Code::UpgradeRefused, detail));
    }
    if !host_is_plain(&head.headers, &head.uri) {
        let detail = "the request names no host, two of them, or one that is none; send one [HX0059]";
        return Some(refusal(Code::HostRefused, detail));
    }
    if path::is_devious(head.uri.path()) {
        let detail = "the path has segments that mean another path; send it resolved [HX0059]";
        return Some(refusal(Code::PathRefused, detail));
    }
    None
}

fn unreadable(guard: &Guard, why: Why) -> Response<Bytes> {
    match why {
        Why::TooLarge => guard.too_large(),
        Why::TooSlow => too_slow(guard),
        Why::Broken => {
            let detail = "the body did not arrive whole; send the request again with the same key";
            guard.problem(&Problem::new(Code::BrokenRequest, NextStep::RetrySameKey, detail))
        }
        Why::NoRoom => {
            let detail =
                "the gateway reads as many bodies as it has room for; send the request again with the same key";
            busy(guard, detail)
        }
    }
}

/// A body that does not come on is not waited for.
pub(crate) fn too_slow(guard: &Guard) -> Response<Bytes> {
    let detail = "the body took too long; send the request again with the same key";
    let mut answer = guard.problem(&Problem::new(Code::TooSlow, NextStep::RetrySameKey, detail));
    // Whatever else such a connection carries is not read.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// A client that resets its streams has more under way than it may have open.
fn crowded(guard: &Guard) -> Response<Bytes> {
    busy(guard, "as many requests of this connection are under way as may be; send it again with the same key")
}

fn busy(guard: &Guard, detail: &'static str) -> Response<Bytes> {
    let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail);
    guard.problem(&problem.retry_after(hapax_core::Millis::from_secs(1)))
}

/// What to say of an upstream that was certainly not asked this time. Only where the key was `unused` is that all that can
/// have happened: an earlier attempt may have been sent, and have taken effect.
pub(crate) fn not_asked(route: &Route, failure: &crate::outbound::Failure, unused: bool) -> Response<Bytes> {
    use crate::outbound::{Failure, Full};
    let problem = match failure {
        // It is its own requests that it waits for.
        Failure::Full(Full::Tenant(_)) => {
            let detail = "as many requests of this tenant are under way to the upstream as `requests_per_tenant` allows; \
                          send it again with the same key [HX0053]";
            Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail)
                .retry_after(hapax_core::Millis::from_secs(1))
        }
        Failure::Full(Full::Everybody(_)) => {
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
    route.guard.problem(&if unused { problem.nothing_happened() } else { problem })
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("live", &self.shared.live).finish_non_exhaustive()
    }
}
