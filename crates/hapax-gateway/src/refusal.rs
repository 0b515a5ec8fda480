//! What the gateway itself refuses, before any route has a say.

use bytes::Bytes;
use hapax_http::{Code, Dialect, NextStep, Problem};
use hapax_http1::grammar::Violation;
use http::{HeaderValue, Response, header};

/// No route is known, so neither is its dialect: it is said as where nothing is set up. Such a request never ran.
pub(crate) fn refusal(code: Code, detail: &'static str) -> Response<Bytes> {
    closing(Problem::new(code, NextStep::FixRequest, detail))
}

/// A head that is not read any further.
pub(crate) fn head_refused(violation: Violation) -> Response<Bytes> {
    if violation == Violation::TooLong {
        let detail = "the request's line and headers are more than is read of them; send shorter or fewer [HX0059]";
        return refusal(Code::HeadTooLarge, detail);
    }
    let detail = format!("{violation}; send the request in its plain form [HX0059]");
    closing(Problem::new(Code::HeadRefused, NextStep::FixRequest, detail))
}

fn closing(problem: Problem) -> Response<Bytes> {
    let mut response = Dialect::default().answer(&problem.nothing_happened());
    // Whatever else such a connection carries is not read.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
