//! The requests that all of them get.

/// How many bytes of body each request carries.
const BODY: usize = 1_024;

/// Which key a request carries.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// Each request a key of its own: all are first executions.
    Fresh,
    /// So many keys in turn: all are duplicates once they were executed.
    Among(u64),
}

/// Requests that differ in their key alone.
#[derive(Clone)]
pub(crate) struct Requests {
    before: Vec<u8>,
    after: Vec<u8>,
    run: u64,
    keys: Keys,
}

impl Requests {
    /// `run` keeps the keys of one turn apart from those of another.
    pub(crate) fn new(run: u64, keys: Keys) -> Self {
        Self::of("one-customer", "/v1/charges", run, keys)
    }

    pub(crate) fn of(customer: &str, path: &str, run: u64, keys: Keys) -> Self {
        let filler = "x".repeat(BODY - r#"{"amount":1200,"note":""}"#.len());
        let body = format!(r#"{{"amount":1200,"note":"{filler}"}}"#);
        let before = format!(
            "POST {path} HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n\
             Authorization: Bearer of-{customer}\r\nIdempotency-Key: "
        );
        let after = format!("\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
        Self { before: before.into_bytes(), after, run, keys }
    }

    pub(crate) fn write(&self, number: u64, into: &mut Vec<u8>) {
        use std::io::Write as _;
        let key = match self.keys {
            Keys::Fresh => number,
            Keys::Among(most) => number % most,
        };
        into.clear();
        into.extend_from_slice(&self.before);
        let _infallible = write!(into, "order-{:08x}-{key:016x}", self.run);
        into.extend_from_slice(&self.after);
    }
}
