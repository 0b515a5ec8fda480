use http::{HeaderMap, header};

/// Answers whose parts mean something as they come: they are passed on, and their bodies are not kept.
const STREAMS: [&str; 6] = [
    "text/event-stream",
    "application/x-ndjson",
    "application/jsonl",
    "application/json-seq",
    "application/stream+json",
    "multipart/x-mixed-replace",
];

/// Whether the answer calls itself a stream.
#[must_use]
pub fn is_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    STREAMS.iter().any(|stream| essence.eq_ignore_ascii_case(stream)) || is_grpc(essence)
}

fn is_grpc(essence: &str) -> bool {
    essence.get(..16).is_some_and(|start| start.eq_ignore_ascii_case("application/grpc"))
}
