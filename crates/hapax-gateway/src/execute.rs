//! A request that is ours to run: connection, begin, send, record, answer.

use std::sync::Arc;

use hapax_http::{Asking, Begin, Code, Running, is_stream};
use http::{Response, Version, request};
use tokio::time::timeout;

use crate::{
    body::Out,
    forward::{strip_response, via},
    gateway::not_asked,
    inbound::{Peer, Working},
    outbound::{Failure, Taken},
    response_body::{Gathered, gather},
    resumed::Resumed,
    route::Route,
    setup::Setup,
    upstream_request::{leaves_it_clean, upstream_request},
};

pub(crate) struct Execution {
    pub(crate) head: request::Parts,
    pub(crate) asking: Box<Asking>,
    pub(crate) route: Arc<Route>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) peer: Peer,
    /// The process does not end before this does.
    pub(crate) working: Working,
}

pub(crate) async fn run(execution: Execution) -> Response<Out> {
    let Execution { head, asking, route, setup, peer, working } = execution;
    // First the connection: what cannot be sent need not be begun.
    let taken = match route.pool.take().await {
        Ok(taken) => taken,
        Err(failure) => return not_asked(&route, &failure).map(Out::whole),
    };
    let body = asking.body().clone();
    let begun = asking.begin(&head).await;
    let clean = leaves_it_clean(&head.method, !body.is_empty());
    let running = match begun {
        Begin::Answer(answer) => {
            route.pool.give_back(taken);
            return answer.map(Out::whole);
        }
        Begin::Run(running) => Some(running),
        Begin::Unprotected { .. } => None,
    };
    let Some(mut request) = upstream_request(head, Out::whole(body), &route, &setup.forwarder, peer) else {
        route.pool.give_back(taken);
        if let Some(running) = running {
            running.no_effect().await;
        }
        return not_asked(&route, &Failure::NotSent("its path is too long".to_owned())).map(Out::whole);
    };
    // The provider sees one key over all attempts: ours.
    if let Some((name, key)) = running.as_ref().and_then(Running::injected) {
        request.headers_mut().insert(name, key);
    }
    let Some(running) = running else {
        return match send(taken, request, clean, &route).await {
            Ok(response) => answered(response),
            Err(failure) => no_answer(&route, &failure),
        };
    };
    let most = running.most_captured();
    let work = async {
        let exchanged = async {
            let response = send(taken, request, clean, &route).await?;
            let (head, body) = answered(response).into_parts();
            let gathered = gather(&head.headers, body, most).await;
            gathered.map(|gathered| (head, gathered)).map_err(|error| Failure::Broke(error.to_string()))
        };
        timeout(route.pool.timing.whole, exchanged).await.unwrap_or(Err(Failure::TimedOut))
    };
    match running.during(work).await {
        None => running.lease_lost().map(Out::whole),
        Some(Ok((head, Gathered::Whole(body)))) => {
            running.finish(Response::from_parts(head, body)).await.map(Out::whole)
        }
        Some(Ok((head, Gathered::Stream { first, rest }))) => {
            let orphaned = route.guard.limits().orphaned_stream;
            let streaming = running.stream(&head, !is_stream(&head.headers));
            let body = streaming.pump(Resumed { first, rest, working }, orphaned);
            Response::from_parts(head, Out::boxed(body))
        }
        Some(Err(failure)) => failed(running, &route, &failure).await.map(Out::whole),
    }
}

async fn failed(running: Running, route: &Route, failure: &Failure) -> hapax_http::Answer {
    if failure.nothing_sent() {
        running.no_effect().await;
        return not_asked(route, failure);
    }
    let (code, detail) = broke(failure);
    running.no_answer(code, detail).await
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
        return not_asked(route, failure).map(Out::whole);
    }
    let (code, detail) = broke(failure);
    let problem = hapax_http::Problem::new(code, hapax_http::NextStep::AskOperator, detail);
    route.guard.problem(&problem).map(Out::whole)
}

/// Sends once, and waits for the head of the answer.
pub(crate) async fn send(
    taken: Taken,
    request: http::Request<Out>,
    clean: bool,
    route: &Route,
) -> Result<Response<Out>, Failure> {
    let sent = timeout(route.pool.timing.first_byte, taken.send(request, clean, &route.pool)).await;
    let response = sent.unwrap_or(Err(Failure::TimedOut))?;
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
