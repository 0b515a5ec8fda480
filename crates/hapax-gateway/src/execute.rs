//! A request that is ours to run: connection, begin, send, record, answer.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{Millis, identity::Tenant};
use hapax_engine::in_place;
use hapax_http::{Asking, Begin, Code, NextStep, Peek, Problem, Running, is_stream};
use hapax_http1::Deadline;
use http::{Response, Version, request, response};
use tokio::time::Instant;

use crate::{
    body::Out,
    buffered::Taking,
    forward::{strip_response, via},
    gateway::{Gateway, not_asked},
    inbound::{Peer, Place, Working},
    outbound::{Account, Failure, Taken},
    response_body::{Gathered, gather},
    resumed::Resumed,
    route::Route,
    routing::{OtherName, Question, by_other_names},
    setup::Setup,
    upstream_request::{leaves_it_clean, upstream_request},
};

pub(crate) struct Execution {
    pub(crate) gateway: Gateway,
    pub(crate) head: request::Parts,
    pub(crate) asking: Box<Asking>,
    pub(crate) tenant: Tenant,
    pub(crate) route: Arc<Route>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) peer: Peer,
    pub(crate) held: Held,
}

/// What work holds as long as it goes on, also without its client.
#[derive(Debug)]
pub(crate) struct Held {
    /// The process does not end before this does.
    pub(crate) _working: Working,
    /// Its place among the work of its connection.
    pub(crate) _place: Place,
    /// The memory of the request's body.
    pub(crate) _taking: Option<Taking>,
}

pub(crate) async fn run(execution: Execution) -> Response<Out> {
    let Execution { gateway, mut head, mut asking, tenant, route, setup, peer, held } = execution;
    let body = asking.body().clone();
    let mut others = by_other_names(&setup, &route, &head, &body, (peer, &tenant), &asking);
    for other in &mut others {
        if let Peek::Answer(answer) = other.peek(&head).await {
            return answer.map(Out::whole);
        }
        if other.goes_on().await {
            std::mem::swap(&mut other.asking, &mut asking);
        }
    }
    // Whose places with the upstream it takes.
    let account = setup.routing.whose.account_of(tenant);
    let (withheld, alone) = (asking.withheld(), others.is_empty());
    // Pinned where it is made: awaited as it is, each of these large futures would first be copied.
    let (taken, begun) = match pin!(begin(asking, &head, &route, &account, alone)).await {
        Ok(begun) => begun,
        Err(answer) => return answer.map(Out::whole),
    };
    let clean = leaves_it_clean(&head.method, !body.is_empty());
    let begun = match begun {
        Begin::Answer(answer) => {
            route.pool.give_back(taken);
            return answer.map(Out::whole);
        }
        // Who has begun under another name looks after that, as this one does: so one of them sees the other.
        Begin::Run(running) => {
            let other = taken_by(&mut others, &head).await;
            if other.is_none() && gateway.is_in_force(&setup) {
                Ok(running)
            } else {
                route.pool.give_back(taken);
                running.no_effect().await;
                return match other {
                    Some(other) => Box::pin(told_by(other, &head, &route)).await.map(Out::whole),
                    None => begun_anew(Renamed { gateway, head, body, route, peer, held }).await,
                };
            }
        }
        Begin::Unprotected { why, .. } => Err(why),
    };
    for name in withheld {
        head.headers.remove(name);
    }
    let Some(mut request) = upstream_request(head, Out::whole(body), &route, &setup.forwarder, peer) else {
        route.pool.give_back(taken);
        let unused = alone && begun.as_ref().is_ok_and(Running::is_first);
        if let Ok(running) = begun {
            running.no_effect().await;
        }
        return not_asked(&route, &Failure::NotSent("its path is too long".to_owned()), unused).map(Out::whole);
    };
    // The provider sees one key over all attempts: ours.
    if let Some((name, key)) = begun.as_ref().ok().and_then(Running::injected) {
        request.headers_mut().insert(name, key);
    }
    let running = match begun {
        Ok(running) => running,
        Err(why) => {
            let mut answer = match send(taken, request, clean, &route).await {
                Ok(response) => answered(response),
                Err(failure) => no_answer(&route, &failure),
            };
            hapax_http::mark_unprotected(answer.headers_mut(), why);
            return answer;
        }
    };
    let most = running.most_captured();
    // Whoever keeps the lease meanwhile takes it by value: boxed, that is a pointer.
    let exchange = in_place(|| exchanged(taken, request, clean, &route, most));
    let exchanged = pin!(running.during(exchange)).await;
    match exchanged {
        None => running.lease_lost().map(Out::whole),
        Some(Ok((head, Gathered::Whole(body, trailers)))) => {
            let answer = pin!(running.finish(Response::from_parts(head, body))).await;
            answer.map(|body| Out::trailed(body, trailers))
        }
        Some(Ok((head, Gathered::Stream { first, rest }))) => {
            let orphaned = route.guard.limits().orphaned_stream;
            let streaming = running.stream(&head, !is_stream(&head.headers));
            let body = streaming.pump(Resumed { first, rest, held }, orphaned);
            Response::from_parts(head, Out::boxed(body))
        }
        Some(Err(broken)) => failed(running, &route, broken).await.map(Out::whole),
    }
}

/// The first that somebody has begun.
async fn taken_by(others: &mut Vec<OtherName>, head: &request::Parts) -> Option<OtherName> {
    for place in 0..others.len() {
        if !others.get_mut(place)?.is_free(head).await {
            return Some(others.swap_remove(place));
        }
    }
    None
}

/// What became of a request that was begun under another name.
async fn told_by(mut other: OtherName, head: &request::Parts, route: &Route) -> hapax_http::Answer {
    match other.peek(head).await {
        Peek::Answer(answer) => answer,
        // It was given back meanwhile.
        Peek::Begin => changed(route),
    }
}

/// A request that was begun and given back, since its routes had just gone out of force.
struct Renamed {
    gateway: Gateway,
    head: request::Parts,
    body: Bytes,
    route: Arc<Route>,
    peer: Peer,
    held: Held,
}

/// From the start, as the routes in force have it.
fn begun_anew(renamed: Renamed) -> Pin<Box<dyn Future<Output = Response<Out>> + Send>> {
    Box::pin(async move {
        let Renamed { gateway, mut head, body, route, peer, held } = renamed;
        head.extensions.insert(peer);
        let setup = gateway.setup();
        let Some(Question { route, tenant, mut asking }) = setup.routing.question(&head, &body, peer, None) else {
            return changed(&route).map(Out::whole);
        };
        if let Peek::Answer(answer) = asking.peek(&head).await {
            return answer.map(Out::whole);
        }
        run(Execution { gateway, head, asking, tenant, route, setup, peer, held }).await
    })
}

/// Nothing was sent: whoever asks again is told by the routes that are in force then.
fn changed(route: &Route) -> hapax_http::Answer {
    let detail = "the gateway was told of other routes at this moment; send the request again with the same key";
    route
        .guard
        .problem(&Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail).retry_after(Millis::from_secs(1)))
}

/// The request sent, and its answer as far as it has to be known before it goes on. Its head has a time, and all of it has one: one timer does for
/// both, as nearly always neither is met.
async fn exchanged(
    taken: Taken,
    request: Box<http::Request<Out>>,
    clean: bool,
    route: &Route,
    most: u64,
) -> Result<(response::Parts, Gathered), Broken> {
    let (begun, mut late) = (Instant::now(), Deadline::default());
    let head_until = after(begun, route.first_byte.min(route.whole));
    let response = sent_within(&mut late, head_until, taken, request, clean, route).await?;
    let (head, body) = answered(response).into_parts();
    let gathered = within(&mut late, after(begun, route.whole), pin!(gather(&head.headers, body, most))).await;
    match gathered {
        Some(Ok(gathered)) => Ok((head, gathered)),
        Some(Err(error)) => Err(Broken::Body(head, error.to_string())),
        None => Err(Broken::Failed(Failure::TimedOut)),
    }
}

/// None: it took too long.
async fn within<F: Future>(late: &mut Deadline, until: Instant, mut work: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => late.poll(cx, until).map(|()| None),
    })
    .await
}

/// So long from then on, or as good as for ever.
fn after(begun: Instant, most: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
    begun.checked_add(most).unwrap_or_else(|| begun + FOR_EVER)
}

/// First the connection, since what cannot be sent need not be begun. But nobody holds one while it waits for another's
/// attempt: whoever finds the request under way lets go of it, and looks on without.
async fn begin(
    mut asking: Box<Asking>,
    head: &request::Parts,
    route: &Route,
    account: &Account,
    alone: bool,
) -> Result<(Taken, Begin), hapax_http::Answer> {
    for _ in 0..ROUNDS {
        let taken = match route.pool.take(account).await {
            Ok(taken) => taken,
            Err(failure) => return Err(not_asked(route, &failure, alone && asking.is_unused().await)),
        };
        asking = match pin!(asking.begin_at_once(head)).await {
            Ok(begun) => return Ok((taken, begun)),
            Err(asking) => asking,
        };
        route.pool.give_back(taken);
        if let Peek::Answer(answer) = asking.peek(head).await {
            return Err(answer);
        }
    }
    match route.pool.take(account).await {
        Ok(taken) => Ok((taken, Box::pin(asking.begin(head)).await)),
        Err(failure) => Err(not_asked(route, &failure, alone && asking.is_unused().await)),
    }
}

/// How often somebody else may be quicker between a look and a begin before it is waited for as it comes.
const ROUNDS: usize = 8;

/// Why there is no whole answer.
enum Broken {
    Failed(Failure),
    /// Its head came, and its body did not.
    Body(response::Parts, String),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

async fn failed(running: Running, route: &Route, broken: Broken) -> hapax_http::Answer {
    match broken {
        Broken::Failed(failure) if failure.nothing_sent() => {
            let unused = running.is_first();
            running.no_effect().await;
            not_asked(route, &failure, unused)
        }
        Broken::Failed(failure) => {
            let (code, detail) = broke(&failure);
            running.no_answer(code, detail).await
        }
        // What its status means it means also without its last words, as in a stream that breaks off.
        Broken::Body(head, why) => {
            let (code, detail) = broke(&Failure::Broke(why));
            running.broken_answer(&head, code, detail).await
        }
    }
}

const fn broke(failure: &Failure) -> (Code, &'static str) {
    match failure {
        Failure::TimedOut => (Code::GatewayTimeout, "the upstream was sent the request and did not answer in time"),
        Failure::NotConnected(_) | Failure::Full(_) | Failure::NotSent(_) | Failure::Broke(_) => {
            (Code::BadGateway, "the upstream was sent the request and broke off before its answer was whole")
        }
    }
}

/// The answer of a route for work that was not recorded.
pub(crate) fn no_answer(route: &Route, failure: &Failure) -> Response<Out> {
    if failure.nothing_sent() {
        // Nobody has kept account of what was sent before under this key, if there is one.
        return not_asked(route, failure, false).map(Out::whole);
    }
    let (code, detail) = broke(failure);
    let problem = hapax_http::Problem::new(code, hapax_http::NextStep::AskOperator, detail);
    route.guard.problem(&problem).map(Out::whole)
}

/// Sends once, and waits for the head of the answer.
pub(crate) async fn send(
    taken: Taken,
    request: Box<http::Request<Out>>,
    clean: bool,
    route: &Route,
) -> Result<Response<Out>, Failure> {
    let (mut late, until) = (Deadline::default(), after(Instant::now(), route.first_byte));
    sent_within(&mut late, until, taken, request, clean, route).await
}

async fn sent_within(
    late: &mut Deadline,
    until: Instant,
    taken: Taken,
    request: Box<http::Request<Out>>,
    clean: bool,
    route: &Route,
) -> Result<Response<Out>, Failure> {
    let shared = taken.shared();
    let sending = pin!(taken.send(request, clean, &route.pool));
    match within(late, until, sending).await {
        Some(sent) => unchanged(sent?),
        None => {
            if let Some(shared) = shared {
                route.pool.distrust(&shared);
            }
            Err(Failure::TimedOut)
        }
    }
}

/// An answer that still speaks what we speak.
pub(crate) fn unchanged(response: Response<Out>) -> Result<Response<Out>, Failure> {
    if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::Broke("it changed the protocol without being asked".to_owned()));
    }
    Ok(response)
}

/// The upstream's answer as a client of ours gets it.
pub(crate) fn answered(mut response: Response<Out>) -> Response<Out> {
    let version = response.version();
    strip_response(response.headers_mut());
    via(response.headers_mut(), version);
    // What is spoken with the client is between the client and us.
    *response.version_mut() = Version::HTTP_11;
    response.extensions_mut().clear();
    response
}
