//! Requests that are none of ours: passed through as they come.

use std::sync::Arc;

use bytes::Bytes;
use hapax_http::{Code, Guard, NextStep, Problem};
use http::{HeaderValue, Response, header, request};
use tokio::time::sleep;

use crate::{
    body::Out,
    execute::{answered, no_answer, unchanged},
    gateway::{not_asked, too_slow},
    inbound::Peer,
    outbound::Failure,
    request_body::{Inflow, Rest},
    route::Route,
    setup::Setup,
    upload::{Cut, Fate, Upload},
    upstream_request::{leaves_it_clean, upstream_request},
};

/// Streams the request to the upstream and the answer back.
pub(crate) async fn through(
    head: request::Parts,
    body: Inflow,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    if body.is_end_stream() {
        return whole(head, Bytes::new(), route, setup, peer).await;
    }
    resumed(head, Bytes::new(), Rest::of(body), route, setup, peer).await
}

/// The same for a body of which the beginning was read already.
pub(crate) async fn resumed(
    head: request::Parts,
    first: Bytes,
    rest: Rest,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    let upload = Upload::new(first, rest, setup.pacing);
    let fate = upload.fate();
    send(head, Out::upload(upload), true, Some(fate), route, setup, peer).await
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
    upload: Option<Arc<Fate>>,
    route: &Arc<Route>,
    setup: &Setup,
    peer: Peer,
) -> Response<Out> {
    let clean = leaves_it_clean(&head.method, has_body);
    let account = setup.routing.whose.account(&head, peer);
    let Some(request) = upstream_request(head, body, route, &setup.forwarder, peer) else {
        return not_asked(route, &Failure::NotSent("its path is too long".to_owned()), false).map(Out::whole);
    };
    let taken = match route.pool.take(&account).await {
        Ok(taken) => taken,
        Err(failure) => return not_asked(route, &failure, false).map(Out::whole),
    };
    let (pool, shared) = (&route.pool, taken.shared());
    let too_late = async {
        // An upload may take its time; the upstream's time runs from its end.
        if let Some(upload) = &upload {
            upload.ended().await;
        }
        sleep(route.first_byte).await;
    };
    let sent = tokio::select! {
        biased;
        sent = taken.send(request, clean, pool) => sent.and_then(unchanged),
        () = too_late => {
            if let Some(shared) = &shared {
                pool.distrust(shared);
            }
            Err(Failure::TimedOut)
        }
    };
    let failure = match sent {
        Ok(response) => return answered(response),
        Err(failure) => failure,
    };
    // Without the rest of the request there is nothing that the upstream could have answered.
    match upload.and_then(|upload| upload.cut()) {
        Some(Cut::TooSlow) => too_slow(&route.guard).map(Out::whole),
        Some(Cut::Broken) => broken(&route.guard).map(Out::whole),
        None => no_answer(route, &failure),
    }
}

/// A body that cannot be read to its end. What came of it before was sent on.
fn broken(guard: &Guard) -> Response<Bytes> {
    let detail = "the body did not arrive whole; send the request again";
    let mut answer = guard.problem(&Problem::new(Code::BrokenRequest, NextStep::RetrySameKey, detail));
    // Where the next request would begin nobody can say.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}
