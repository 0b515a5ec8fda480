//! One kind of request: how it is guarded and where it goes.

use std::{sync::Arc, time::Duration};

use hapax_core::identity::Tenant;
use hapax_http::{ActivityOf, Caller, Guard};
use http::{HeaderMap, HeaderName, Method, Uri, request};

use crate::{outbound::Pool, path, pattern::Pattern};

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
    /// From sending to the head of the answer, and to the end of one that is recorded whole.
    pub(crate) first_byte: Duration,
    pub(crate) whole: Duration,
    pub(crate) host: HostHeader,
    /// What stands before the path here and not there.
    pub(crate) prefix: String,
    /// The name of a place outside, where this leads to one.
    pub(crate) outside: Option<String>,
}

/// What a run says about a call that it makes outside.
const RUN: HeaderName = HeaderName::from_static("hapax-run");
const NODE: HeaderName = HeaderName::from_static("hapax-node");
const ORDINAL: HeaderName = HeaderName::from_static("hapax-ordinal");
/// What the call does, in a name that stays; the method and the path if left out.
const ACTION: HeaderName = HeaderName::from_static("hapax-action");
const BUSINESS_KEY: HeaderName = HeaderName::from_static("hapax-business-key");
const OURS: [HeaderName; 5] = [RUN, NODE, ORDINAL, ACTION, BUSINESS_KEY];

impl Route {
    /// The same, under the policy of now when others come to be in force.
    pub(crate) fn as_it_was(&self) -> Self {
        Self {
            pattern: self.pattern.clone(),
            guard: self.guard.as_it_was(),
            protect: self.protect,
            reauthorizes: self.reauthorizes,
            pool: Arc::clone(&self.pool),
            first_byte: self.first_byte,
            whole: self.whole,
            host: self.host,
            prefix: self.prefix.clone(),
            outside: self.outside.clone(),
        }
    }

    /// The activity that a request is, where it is one: a call outside that names its run and node. An error says what
    /// about it cannot be read.
    pub(crate) fn activity(&self, head: &request::Parts) -> Result<Option<ActivityOf>, &'static str> {
        let Some(outside) = &self.outside else { return Ok(None) };
        let text = |name: &HeaderName| match head.headers.get(name) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Ok(text) if !text.is_empty() && text.len() <= 255 => Ok(Some(text)),
                Ok(_) | Err(_) => Err("a header that begins with `hapax-` has from 1 to 255 visible characters"),
            },
        };
        let (run, node) = match (text(&RUN)?, text(&NODE)?) {
            (None, None) => return Ok(None),
            (Some(run), Some(node)) => (run.to_owned(), node.to_owned()),
            (Some(_), None) | (None, Some(_)) => return Err("an activity has both `hapax-run` and `hapax-node`"),
        };
        let ordinal = match text(&ORDINAL)? {
            None => 0,
            Some(text) => text.parse().map_err(|_| "`hapax-ordinal` is a number")?,
        };
        let action = match text(&ACTION)? {
            Some(action) => action.to_owned(),
            None => format!("{} {}", head.method, head.uri.path()),
        };
        let business_key = text(&BUSINESS_KEY)?.map(str::to_owned);
        Ok(Some(ActivityOf { run, node, ordinal, provider: format!("{outside}:{action}"), business_key }))
    }

    /// Takes out what is said to us and not to the place outside.
    pub(crate) fn take_out_ours(&self, headers: &mut HeaderMap) {
        if self.outside.is_some() {
            for name in &OURS {
                headers.remove(name);
            }
        }
    }

    /// Who asks, and where.
    pub(crate) fn caller(&self, tenant: Tenant, method: &Method, uri: &Uri) -> Caller {
        let caller = Caller::of(tenant);
        let Some(pattern) = &self.pattern else { return caller };
        let routed = path::as_routed(uri.path());
        let found = pattern.matched(method, uri.path()).or_else(|| pattern.matched(method, &routed));
        let found = found.unwrap_or_default();
        let caller = caller.endpoint(pattern.template());
        found.into_iter().fold(caller, |caller, (name, value)| caller.path_parameter(name, value))
    }
}
