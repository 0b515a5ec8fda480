//! Requests that are none of ours: passed through as they come.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request};
use hyper::body::{Body as _, Incoming};
use tokio::{sync::Notify, time::sleep};

use crate::{
    body::Out,
    execute::{answered, no_answer},
    gateway::not_asked,
    inbound::Peer,
    outbound::Failure,
    route::Route,
    setup::Setup,
    upstream_request::{leaves_it_clean, upstream_request},
};

/// Streams the request to the upstream and the answer back.
pub(crate) async fn through(
    head: request::Parts,
    body: Incoming,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    if body.is_end_stream() {
        return whole(head, Bytes::new(), route, setup, peer).await;
    }
    let uploaded = Arc::new(Notify::new());
    let body = Out::incoming(body).telling(Arc::clone(&uploaded));
    send(head, body, true, Some(uploaded), route, setup, peer).await
}

/// The same for a body that was read already.
pub(crate) async fn whole(
    head: request::Parts,
    body: Bytes,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    let has_body = !body.is_empty();
    send(head, Out::whole(body), has_body, None, route, setup, peer).await
}

async fn send(
    head: request::Parts,
    body: Out,
    has_body: bool,
    uploaded: Option<Arc<Notify>>,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    let clean = leaves_it_clean(&head.method, has_body);
    let Some(request) = upstream_request(head, body, route, &setup.forwarder, peer) else {
        return not_asked(route, &Failure::NotSent("its path is too long".to_owned())).map(Out::whole);
    };
    let taken = match route.pool.take().await {
        Ok(taken) => taken,
        Err(failure) => return not_asked(route, &failure).map(Out::whole),
    };
    let pool = &route.pool;
    let too_late = async {
        // An upload may take its time; the upstream's time runs from its end.
        if let Some(uploaded) = uploaded {
            uploaded.notified().await;
        }
        sleep(pool.timing.first_byte).await;
    };
    let sent = tokio::select! {
        biased;
        sent = taken.send(request, clean, pool) => sent,
        () = too_late => Err(Failure::TimedOut),
    };
    match sent {
        Ok(response) if response.status() == http::StatusCode::SWITCHING_PROTOCOLS => {
            no_answer(route, &Failure::Broke("it changed the protocol without being asked".to_owned()))
        }
        Ok(response) => answered(response),
        Err(failure) => no_answer(route, &failure),
    }
}
