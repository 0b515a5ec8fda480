//! One kind of request: how it is guarded and where it goes.

use std::sync::Arc;

use hapax_core::identity::Tenant;
use hapax_http::{Caller, Guard};
use http::{Method, Uri};

use crate::{outbound::Pool, pattern::Pattern};

/// Which `Host` the upstream sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostHeader {
    /// The client's, as if we were not there.
    #[default]
    Client,
    /// The upstream's own name, which virtual hosts elsewhere need.
    Upstream,
}

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) pattern: Option<Pattern>,
    pub(crate) guard: Guard,
    /// Off: everything is passed through, keys or not.
    pub(crate) protect: bool,
    /// The upstream is asked before an answer is given again, and wants to know who asks.
    pub(crate) reauthorizes: bool,
    pub(crate) pool: Arc<Pool>,
    pub(crate) host: HostHeader,
    /// What stands before the path here and not there.
    pub(crate) prefix: String,
}

impl Route {
    /// Who asks, and where.
    pub(crate) fn caller(&self, tenant: Tenant, method: &Method, uri: &Uri) -> Caller {
        let caller = Caller::of(tenant);
        let Some(pattern) = &self.pattern else { return caller };
        let found = pattern.matched(method, uri.path()).unwrap_or_default();
        let caller = caller.endpoint(pattern.template());
        found.into_iter().fold(caller, |caller, (name, value)| caller.path_parameter(name, value))
    }
}
