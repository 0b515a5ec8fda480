//! What to say where the upstream was not asked, by the limit that kept us from it.

use bytes::Bytes;
use hapax_http::{Code, NextStep, Problem};
use http::Response;

use crate::{
    gateway,
    outbound::{Failure, Full},
    route::Route,
};

/// As [`gateway::not_asked`]; and whoever has its share is told that it is its own requests that it waits for.
pub(crate) fn not_asked(route: &Route, failure: &Failure, unused: bool) -> Response<Bytes> {
    match failure {
        Failure::Full(Full::Tenant(_)) => {
            let detail = "as many requests of this tenant are under way to the upstream as `requests_per_tenant` allows; \
                          send it again with the same key [HX0053]";
            let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail)
                .retry_after(hapax_core::Millis::from_secs(1));
            route.guard.problem(&if unused { problem.nothing_happened() } else { problem })
        }
        Failure::Full(Full::Everybody(_))
        | Failure::NotConnected(_)
        | Failure::NotSent(_)
        | Failure::Broke(_)
        | Failure::TimedOut => gateway::not_asked(route, failure, unused),
    }
}
