//! The OpenAPI document, made from the table of endpoints and the types on the wire.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    endpoint::{Content, Endpoint, Needs, all},
    once,
    wire::ProblemWire,
};

/// The document of one door: administrators' endpoints are in theirs alone. Pages for people are in neither.
pub(crate) fn document(admin: bool) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<ProblemWire>();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in all().filter(|endpoint| !endpoint.page && (admin || endpoint.needs != Needs::Admin)) {
        let mut operation = json!({
            "operationId": endpoint.name.id(),
            "summary": endpoint.summary,
            "responses": {},
        });
        let mut parameters = Vec::new();
        if endpoint.path.contains("{id}") {
            let id = json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" });
            parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": id }));
        }
        if endpoint.path.contains("{run}") {
            let run = json!({ "type": "string", "minLength": 1, "maxLength": 255 });
            parameters.push(json!({ "name": "run", "in": "path", "required": true, "schema": run }));
        }
        if once::honoured(endpoint) {
            // In words: bare and quoted keys are taken, which no schema of a header says.
            operation["description"] =
                "With an `Idempotency-Key` header it happens once under that key; a repeat gets the \
                                        first answer, with `Idempotent-Replayed: true`."
                    .into();
        }
        for parameter in endpoint.query {
            let schema = (parameter.schema)(&mut generator);
            parameters.push(json!({
                "name": parameter.name, "in": "query", "description": parameter.about, "schema": schema,
            }));
        }
        operation["parameters"] = parameters.into();
        if let Some(request) = endpoint.request {
            let schema = request(&mut generator);
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        if endpoint.takes_text {
            let schema = json!({ "type": "string" });
            // An empty one says nothing, which is allowed: of policies, that all are as they come.
            operation["requestBody"] = json!({ "required": false, "content": { "text/plain": { "schema": schema } } });
        }
        for (status, about, content) in answers(endpoint) {
            let content = match content {
                Content::Json(schema) => json!({ "application/json": { "schema": schema(&mut generator) } }),
                Content::Problem => json!({ "application/problem+json": { "schema": problem } }),
                // A stream of events is no text that a schema could be about.
                Content::Text(kind @ "text/event-stream") => json!({ kind: {} }),
                Content::Text(kind) => json!({ kind: { "schema": { "type": "string" } } }),
            };
            operation["responses"][status.to_string()] = json!({ "description": about, "content": content });
        }
        operation["security"] = match endpoint.needs {
            Needs::Nothing => json!([]),
            Needs::Key(_) | Needs::AnyKey | Needs::Admin => json!([{ "key": [] }]),
        };
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.to_lowercase()] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hapax",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Say a thing as often as you like; it happens once.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// What the endpoint answers itself, and what every endpoint of its kind may.
fn answers(endpoint: &Endpoint) -> Vec<(u16, &'static str, Content)> {
    let mut all = endpoint.answers.to_vec();
    let mut more = |status: u16, about: &'static str| {
        if all.iter().all(|(known, _, _)| *known != status) {
            all.push((status, about, Content::Problem));
        }
    };
    more(404, "There is nothing at this address.");
    if endpoint.needs != Needs::Nothing {
        more(400, "The request cannot be used.");
        more(401, "No valid credential.");
        more(403, "This key may not do that.");
        more(429, "Too many at once.");
        more(503, "The store did not answer; send the same again.");
    }
    if once::honoured(endpoint) {
        more(409, "Another caller is at it under this key.");
        more(410, "It was done too long ago to say how.");
        more(422, "The key was used for another request.");
    }
    if endpoint.request.is_some() || endpoint.takes_text {
        more(408, "The body came too slowly.");
        more(413, "The body is too large.");
        more(415, "The body is not declared as JSON.");
    }
    all
}
