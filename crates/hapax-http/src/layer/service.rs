use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

use super::{future::ResponseFuture, layer::Who, run};
use crate::{
    body::{RequestBody, ResponseBody},
    guard::{Guard, Look},
};

/// The service that [`super::Layer`] makes.
#[derive(Clone)]
pub struct Service<S> {
    inner: S,
    guard: Guard,
    who: Arc<Who>,
}

impl<S> Service<S> {
    pub(super) const fn new(inner: S, guard: Guard, who: Arc<Who>) -> Self {
        Self { inner, guard, who }
    }
}

impl<S, B, R> tower_service::Service<Request<B>> for Service<S>
where
    S: tower_service::Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: fmt::Display,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, body) = request.into_parts();
        match self.guard.look(&head) {
            Look::Pass => {
                let request = Request::from_parts(head, RequestBody::through(body));
                ResponseFuture::pass(self.inner.call(request))
            }
            Look::Buffer { most } => {
                // The one that is ready goes with the request; its clone gets ready for the next.
                let next = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, next);
                let (guard, who) = (self.guard.clone(), Arc::clone(&self.who));
                ResponseFuture::guarded(run::guarded(inner, guard, who, head, body, most))
            }
        }
    }
}

impl<S> fmt::Debug for Service<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("guard", &self.guard).finish_non_exhaustive()
    }
}
