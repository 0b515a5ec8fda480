//! Where a task is in its trace.

use std::{future::Future, sync::Arc};

use http::HeaderMap;
use parking_lot::Mutex;

use super::{
    Tracer,
    parent::Parent,
    span::{Kind, Span},
};

tokio::task_local! {
    static HERE: Here;
}

/// The span that a task is in. Cloning names the same one.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    tracer: Arc<Tracer>,
    trace: u128,
    id: u64,
    parent: Option<u64>,
    notes: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Here {
    /// The span of a request, in its caller's trace or one of its own. `None`: this one is not traced.
    pub(crate) fn of_request(tracer: &Arc<Tracer>, headers: &HeaderMap) -> Option<Self> {
        let parent = Parent::of(headers);
        if !parent.map_or_else(|| tracer.is_chosen(), |parent| parent.sampled) {
            return None;
        }
        let own = || u128::from(tracer.fresh()) << 64 | u128::from(tracer.fresh());
        Some(Self {
            trace: parent.map_or_else(own, |parent| parent.trace),
            id: tracer.fresh(),
            parent: parent.map(|parent| parent.span),
            tracer: Arc::clone(tracer),
            notes: Arc::default(),
        })
    }

    fn child(&self) -> Self {
        Self {
            trace: self.trace,
            id: self.tracer.fresh(),
            parent: Some(self.id),
            tracer: Arc::clone(&self.tracer),
            notes: Arc::default(),
        }
    }

    /// Does the work inside this span, and tells the tracer of it.
    pub(crate) async fn during<F: Future>(
        self,
        name: String,
        kind: Kind,
        work: F,
        failed: impl FnOnce(&F::Output) -> bool,
    ) -> F::Output {
        let start_ns = self.tracer.now_ns();
        let output = HERE.scope(self.clone(), work).await;
        let attributes = std::mem::take(&mut *self.notes.lock());
        self.tracer.take(Span {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            name,
            kind,
            start_ns,
            end_ns: self.tracer.now_ns(),
            attributes,
            failed: failed(&output),
        });
        output
    }

    pub(crate) fn note(&self, name: &'static str, value: impl ToString) {
        self.notes.lock().push((name, value.to_string()));
    }
}

/// Does the work inside a span of its own, where the task is in a trace; otherwise just does it.
pub(crate) async fn spanned<F: Future>(
    name: &str,
    kind: Kind,
    work: F,
    failed: impl FnOnce(&F::Output) -> bool,
) -> F::Output {
    match HERE.try_with(Here::child) {
        Ok(child) => child.during(name.to_owned(), kind, work, failed).await,
        Err(_) => work.await,
    }
}

/// Says something about the span that the task is in, if it is in one.
pub(crate) fn note(name: &'static str, value: impl ToString) {
    let _untraced = HERE.try_with(|here| here.note(name, value));
}
