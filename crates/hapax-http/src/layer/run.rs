//! One guarded request from its head to its answer.

use std::{fmt, pin::Pin, sync::Arc};

use bytes::Bytes;
use hapax_engine::Ticket;
use http::{HeaderMap, HeaderValue, Request, Response, Version, header, request, response};
use http_body::Body;
use http_body_util::BodyExt;
use tower_service::Service;

use super::{
    caught::{Caught, Panicked},
    layer::Who,
};
use crate::{
    body::{BodyError, RequestBody, ResponseBody},
    guard::{Answer, Asked, Begin, Guard, Running, mark_unprotected},
    mark::{Deferred, Operation, Streamed},
    pieces::Pieces,
    problem::{Code, NextStep, Problem},
    stream,
};

type Answered<R, E> = Result<Response<ResponseBody<R>>, E>;

pub(super) async fn guarded<S, B, R>(
    mut inner: S,
    guard: Guard,
    who: Arc<Who>,
    head: request::Parts,
    body: B,
    most: usize,
) -> Answered<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: fmt::Display,
{
    let Some(caller) = who(&head) else {
        if guard.only_notes(&head, "no credential") {
            return passed(&mut inner, Request::from_parts(head, RequestBody::through(body))).await;
        }
        let detail = "nobody can say whose request this is; send a credential that the service knows";
        let problem = Problem::new(Code::NoCredential, NextStep::FixRequest, detail);
        return Ok(unread(&head, guard.problem(&problem)));
    };
    let body = match buffered(body, most).await {
        Ok(body) => body,
        Err(Unbuffered::TooLarge(body)) => {
            if guard.only_notes(&head, "too large") {
                return passed(&mut inner, Request::from_parts(head, body)).await;
            }
            return Ok(unread(&head, guard.too_large()));
        }
        Err(Unbuffered::Broken) => {
            let detail = "the request's body broke off; send the request again with the same key";
            let problem = Problem::new(Code::BrokenRequest, NextStep::RetrySameKey, detail);
            return Ok(unread(&head, guard.problem(&problem)));
        }
    };
    let asking = match guard.ask(&head, body, &caller) {
        Asked::Pass(body) => return passed(&mut inner, Request::from_parts(head, RequestBody::whole(body))).await,
        Asked::Answer(answer) => return Ok(answer.map(ResponseBody::whole)),
        Asked::Ask(asking) => asking,
    };
    let body = asking.body().clone();
    match asking.begin(&head).await {
        Begin::Answer(answer) => Ok(answer.map(ResponseBody::whole)),
        Begin::Unprotected { ticket, why } => {
            let answered = passed(&mut inner, told(head, body, ticket)).await;
            answered.map(|mut answer| {
                mark_unprotected(answer.headers_mut(), why);
                answer
            })
        }
        Begin::Run(running) => {
            let request = told(head, body, running.ticket().clone());
            // From here on it is a task of its own: a caller that goes away does not stop it.
            let task = tokio::spawn(run(running, inner, request));
            task.await.unwrap_or_else(|_stopped| Ok(stopped(&guard)))
        }
    }
}

async fn passed<S, B, R>(inner: &mut S, request: Request<RequestBody<B>>) -> Answered<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
{
    Ok(inner.call(request).await?.map(ResponseBody::through))
}

/// The request as the handler gets it.
fn told<B>(mut head: request::Parts, body: Bytes, ticket: Ticket) -> Request<RequestBody<B>> {
    // Overrides may have changed it.
    if let Some(length) = head.headers.get_mut(header::CONTENT_LENGTH) {
        *length = HeaderValue::from(body.len());
    }
    let mut request = Request::from_parts(head, RequestBody::whole(body));
    request.extensions_mut().insert(Operation(ticket));
    request
}

/// An answer to a request whose body was not read to its end: the connection must not go on behind it.
fn unread<R>(head: &request::Parts, mut answer: Answer) -> Response<ResponseBody<R>> {
    if head.version <= Version::HTTP_11 {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer.map(ResponseBody::whole)
}

/// The runtime is going down with the request. What had begun lapses.
fn stopped<R>(guard: &Guard) -> Response<ResponseBody<R>> {
    let detail = "the service stopped while it processed the request; send it again with the same key";
    guard.problem(&Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail)).map(ResponseBody::whole)
}

/// Why there is no whole body, and what is left of it for a handler that is to have it all the same.
enum Unbuffered<B> {
    TooLarge(RequestBody<B>),
    Broken,
}

async fn buffered<B>(body: B, most: usize) -> Result<Bytes, Unbuffered<B>>
where
    B: Body<Data = Bytes>,
{
    let hint = body.size_hint();
    if hint.lower() > most as u64 {
        return Err(Unbuffered::TooLarge(RequestBody::through(body)));
    }
    let mut pieces = Pieces::default();
    if let Some(length) = hint.exact() {
        return match gather(std::pin::pin!(body), most, &mut pieces).await {
            Ok(true) if pieces.len() as u64 == length => Ok(pieces.joined()),
            // Longer than it said it was, or shorter: a stream of HTTP/2 that is reset without an error seems to be at its end.
            Ok(_) | Err(()) => Err(Unbuffered::Broken),
        };
    }
    let mut body = Box::pin(body);
    match gather(body.as_mut(), most, &mut pieces).await {
        Ok(true) => Ok(pieces.joined()),
        Ok(false) => Err(Unbuffered::TooLarge(RequestBody::resumed(pieces.joined(), body))),
        Err(()) => Err(Unbuffered::Broken),
    }
}

/// Whether all of the body came; otherwise it has more than so many bytes.
async fn gather<B>(mut body: Pin<&mut B>, most: usize, pieces: &mut Pieces) -> Result<bool, ()>
where
    B: Body<Data = Bytes>,
{
    while let Some(frame) = body.as_mut().frame().await {
        let Ok(data) = frame.map_err(drop)?.into_data() else { continue };
        pieces.add(data);
        if pieces.len() > most {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn run<S, B, R>(running: Running, mut inner: S, request: Request<RequestBody<B>>) -> Answered<R, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: fmt::Display,
{
    let called = Caught::new(async move { inner.call(request).await });
    match running.during(called).await {
        Some(Ok(Ok(response))) => Ok(answered(running, response).await),
        Some(Ok(Err(error))) => {
            running.unknown().await;
            Err(error)
        }
        Some(Err(Panicked)) => Ok(panicked(running).await.map(ResponseBody::whole)),
        None => Ok(running.lease_lost().map(ResponseBody::whole)),
    }
}

async fn answered<R>(running: Running, response: Response<R>) -> Response<ResponseBody<R>>
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: fmt::Display,
{
    let (head, body) = response.into_parts();
    if head.extensions.get::<Deferred>().is_some() {
        drop(running.deferred());
        return Response::from_parts(head, ResponseBody::through(body));
    }
    let streamed = head.extensions.get::<Streamed>().is_some() || stream::is_stream(&head.headers);
    match body.size_hint().exact() {
        Some(length) if length <= running.most_captured() && !streamed => whole(running, head, body).await,
        Some(_) | None => {
            let orphaned = running.limits().orphaned_stream;
            let body = running.stream(&head, !streamed).pump(body, orphaned);
            Response::from_parts(head, body)
        }
    }
}

/// A short answer is recorded before its first byte leaves.
async fn whole<R>(running: Running, head: response::Parts, body: R) -> Response<ResponseBody<R>>
where
    R: Body<Data = Bytes>,
    R::Error: fmt::Display,
{
    let collect = async { body.collect().await.map_err(BodyError::new) };
    let collected = match running.during(Caught::new(collect)).await {
        Some(Ok(Ok(collected))) => collected,
        Some(Ok(Err(_)) | Err(Panicked)) => return panicked(running).await.map(ResponseBody::whole),
        None => return running.lease_lost().map(ResponseBody::whole),
    };
    let trailers: Option<HeaderMap> = collected.trailers().cloned();
    let answer = running.finish(Response::from_parts(head, collected.to_bytes())).await;
    answer.map(|bytes| ResponseBody::Whole { bytes, trailers })
}

async fn panicked(running: Running) -> Answer {
    let detail =
        "the handler broke off, so whether the request took effect is unknown; the same key says what is known";
    running.no_answer(Code::NoAnswer, detail).await
}
