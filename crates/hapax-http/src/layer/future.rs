use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Response;
use pin_project_lite::pin_project;

use crate::body::ResponseBody;

type Guarded<R, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

pin_project! {
    /// The answer of a guarded service. Dropping it does not stop what has begun.
    #[project = Kind]
    pub enum ResponseFuture<F, R, E> {
        /// Not ours: the handler's own future.
        Pass { #[pin] future: F },
        Guarded { future: Guarded<R, E> },
    }
}

impl<F, R, E> ResponseFuture<F, R, E> {
    pub(super) const fn pass(future: F) -> Self {
        Self::Pass { future }
    }

    pub(super) fn guarded(future: impl Future<Output = Result<Response<ResponseBody<R>>, E>> + Send + 'static) -> Self {
        Self::Guarded { future: Box::pin(future) }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Kind::Pass { future } => {
                future.poll(context).map(|answered| answered.map(|answer| answer.map(ResponseBody::through)))
            }
            Kind::Guarded { future } => future.as_mut().poll(context),
        }
    }
}

impl<F, R, E> std::fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pass { .. } => "ResponseFuture(passed)",
            Self::Guarded { .. } => "ResponseFuture(guarded)",
        })
    }
}
