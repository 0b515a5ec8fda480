use data_encoding::HEXLOWER;
use serde_json::{Value, json};

/// What a span is to its trace, by the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Something that took time.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) failed: bool,
}

impl Span {
    pub(super) fn json(&self) -> Value {
        let attributes: Vec<Value> = self
            .attributes
            .iter()
            .map(|(name, value)| {
                let value = match (*name, value.parse::<u64>()) {
                    // The conventions want a number here; the protocol writes those as texts.
                    ("http.response.status_code", Ok(number)) => json!({ "intValue": number.to_string() }),
                    _ => json!({ "stringValue": value }),
                };
                json!({ "key": name, "value": value })
            })
            .collect();
        let mut span = json!({
            "traceId": HEXLOWER.encode(&self.trace.to_be_bytes()),
            "spanId": HEXLOWER.encode(&self.id.to_be_bytes()),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": self.start_ns.to_string(),
            "endTimeUnixNano": self.end_ns.to_string(),
            "attributes": attributes,
            "status": { "code": if self.failed { 2 } else { 0 } },
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = HEXLOWER.encode(&parent.to_be_bytes()).into();
        }
        span
    }
}
