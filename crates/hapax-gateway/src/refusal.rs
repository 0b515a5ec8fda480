//! What the gateway itself refuses, before any route has a say.

use bytes::Bytes;
use hapax_http::{Code, Dialect, NextStep, Problem};
use http::{HeaderValue, Response, header};

/// No route is known, so neither is its dialect: it is said as where nothing is set up. Such a request never ran.
pub(crate) fn refusal(code: Code, detail: &'static str) -> Response<Bytes> {
    let problem = Problem::new(code, NextStep::FixRequest, detail).nothing_happened();
    let mut response = Dialect::default().answer(&problem);
    // Whatever else such a connection carries is not read.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
