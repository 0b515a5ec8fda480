use std::{fmt, sync::Arc};

use hapax_engine::Engine;
use http::request;

use super::service::Service;
use crate::{
    caller::Caller,
    guard::Guard,
    rules::{Rules, RulesError},
};

pub(super) type Who = dyn Fn(&request::Parts) -> Option<Caller> + Send + Sync;

/// Makes any HTTP service safe to retry.
///
/// ```
/// use hapax_engine::Engine;
/// use hapax_http::{Caller, Layer, Rules};
/// use hapax_core::identity::{Surface, Tenant};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(std::sync::Arc::new(hapax_store::MemoryStore::default())).build()?;
/// let rules = Rules::on(Surface::new("http")?);
/// // Whose request it is comes from the credential that your own layers have checked.
/// let layer = Layer::new(engine, rules, |request| request.extensions.get::<Tenant>().cloned())?;
/// # let _ = layer;
/// # Ok(())
/// # }
/// ```
///
/// Leaving out whose request it is does not compile:
///
/// ```compile_fail,E0061
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = hapax_engine::Engine::builder(std::sync::Arc::new(hapax_store::MemoryStore::default())).build()?;
/// let rules = hapax_http::Rules::on(hapax_core::identity::Surface::new("http")?);
/// let layer = hapax_http::Layer::new(engine, rules)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Layer {
    guard: Guard,
    who: Arc<Who>,
}

impl Layer {
    /// `who` says whose request it is: a [`Tenant`](hapax_core::identity::Tenant), or a [`Caller`] with principal, route
    /// template and path parameters. `None` is answered with 401.
    pub fn new<C: Into<Caller>>(
        engine: impl Into<Engine>,
        rules: Rules,
        who: impl Fn(&request::Parts) -> Option<C> + Send + Sync + 'static,
    ) -> Result<Self, RulesError> {
        let who = move |head: &request::Parts| who(head).map(Into::into);
        Ok(Self { guard: Guard::new(engine.into(), rules)?, who: Arc::new(who) })
    }

    /// The steps that this layer is made of.
    #[must_use]
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Service<S> {
        Service::new(inner, self.guard.clone(), Arc::clone(&self.who))
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").field("guard", &self.guard).finish_non_exhaustive()
    }
}
