//! All endpoints, as values. The router and the OpenAPI document both read this table, so neither knows one that the
//! other does not.

use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{
    a2a, agents,
    api::Revoke,
    auth::{ApiKey, Capability},
    wire,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Name {
    Begin,
    Start,
    Renew,
    Complete,
    Reject,
    Fail,
    Release,
    Resolve,
    ExplainKey,
    List,
    Explain,
    Doubt,
    Events,
    Policies,
    SetPolicies,
    Reload,
    Keys,
    AddKey,
    RevokeKey,
    Audit,
    Metrics,
    Health,
    Ready,
    OpenApi,
    OpenWop,
    Page,
    PageFragment,
    PageOperation,
    PageResolve,
    PageStyle,
    PageScript,
    /// The queue between agents.
    A2a(a2a::Act),
    /// Groups, activities, beats, memos, compensation, jobs.
    Agents(agents::Name),
}

impl Name {
    /// What it is called in the document.
    pub(crate) fn id(self) -> String {
        match self {
            Self::A2a(act) => format!("A2a{act:?}"),
            Self::Agents(name) => format!("{name:?}"),
            Self::Begin
            | Self::Start
            | Self::Renew
            | Self::Complete
            | Self::Reject
            | Self::Fail
            | Self::Release
            | Self::Resolve
            | Self::ExplainKey
            | Self::List
            | Self::Explain
            | Self::Doubt
            | Self::Events
            | Self::Policies
            | Self::SetPolicies
            | Self::Reload
            | Self::Keys
            | Self::AddKey
            | Self::RevokeKey
            | Self::Audit
            | Self::Metrics
            | Self::Health
            | Self::Ready
            | Self::OpenApi
            | Self::OpenWop
            | Self::Page
            | Self::PageFragment
            | Self::PageOperation
            | Self::PageResolve
            | Self::PageStyle
            | Self::PageScript => format!("{self:?}"),
        }
    }
}

/// Who may come in at which door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Anybody.
    Nothing,
    Key(Capability),
    /// Anybody with a key; the endpoint itself asks what the key may, once it knows what it is about.
    AnyKey,
    /// Only behind the administrators' door.
    Admin,
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

#[derive(Clone, Copy)]
pub(crate) enum Content {
    Json(SchemaOf),
    Problem,
    Text(&'static str),
}

pub(crate) struct Endpoint {
    pub(crate) name: Name,
    pub(crate) method: &'static str,
    /// `{id}` stands for the id of an operation or a group, `{run}` for the name of a run.
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    pub(crate) summary: &'static str,
    pub(crate) request: Option<SchemaOf>,
    /// The request is a text and no JSON.
    pub(crate) takes_text: bool,
    pub(crate) query: &'static [Parameter],
    pub(crate) answers: &'static [(u16, &'static str, Content)],
    /// Not for programs: left out of the document.
    pub(crate) page: bool,
}

pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) schema: SchemaOf,
}

pub(crate) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "maxLength": 512 })
}

fn surface(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._:/-]+$" })
}

fn state(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "enum": crate::words::STATES.map(crate::words::state) })
}

fn page_size(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": crate::limits::PAGE })
}

fn rows(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 256 })
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

const CURSOR: Parameter =
    Parameter { name: "cursor", about: "Where to go on: `next` of the page before.", schema: text };
const LIMIT: Parameter = Parameter { name: "limit", about: "How many at most; 50 if left out.", schema: page_size };
const ROWS: Parameter = Parameter { name: "limit", about: "How many at most; 50 if left out.", schema: rows };
const AFTER: Parameter =
    Parameter { name: "after", about: "As `Last-Event-ID`, for whoever cannot send headers.", schema: text };
const SURFACE: Parameter = Parameter { name: "surface", about: "Only of this surface.", schema: surface };
const STATE: Parameter = Parameter { name: "state", about: "Only in this state.", schema: state };

const STEP: &[(u16, &str, Content)] = &[
    (200, "It is as the caller said.", Content::Json(schema::<wire::StepAnswer>)),
    (400, "The request cannot be used.", Content::Problem),
    (404, "There is nothing at this address.", Content::Problem),
    (409, "The token no longer counts, or it was decided otherwise.", Content::Problem),
];

pub(crate) const fn endpoint(
    name: Name,
    method: &'static str,
    path: &'static str,
    needs: Needs,
    summary: &'static str,
) -> Endpoint {
    Endpoint {
        name,
        method,
        path,
        needs,
        summary,
        request: None,
        takes_text: false,
        query: &[],
        answers: &[],
        page: false,
    }
}

const fn step(name: Name, path: &'static str, summary: &'static str, request: SchemaOf) -> Endpoint {
    let plain = endpoint(name, "POST", path, Needs::Key(Capability::Operate), summary);
    Endpoint { request: Some(request), answers: STEP, ..plain }
}

const fn page(name: Name, method: &'static str, path: &'static str, needs: Needs) -> Endpoint {
    Endpoint { page: true, ..endpoint(name, method, path, needs, "") }
}

/// The busiest first.
pub(crate) static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        request: Some(schema::<wire::BeginRequest>),
        answers: &[
            (200, "Run it, or the recorded answer.", Content::Json(schema::<wire::Verdicts>)),
            (400, "The request cannot be used.", Content::Problem),
            (409, "In flight, in doubt, superseded, or done too long ago.", Content::Problem),
            (422, "The key was used for another request.", Content::Problem),
        ],
        ..endpoint(
            Name::Begin,
            "POST",
            "/v1/operations:begin",
            Needs::Key(Capability::Operate),
            "Ask for the right to run something once.",
        )
    },
    step(
        Name::Complete,
        "/v1/operations/{id}:complete",
        "It succeeded; this is the answer from now on.",
        schema::<wire::FinishRequest>,
    ),
    step(Name::Start, "/v1/operations/{id}:start", "The effect is about to begin.", schema::<wire::TokenRequest>),
    step(Name::Renew, "/v1/operations/{id}:renew", "Still at it: more time.", schema::<wire::RenewRequest>),
    step(
        Name::Reject,
        "/v1/operations/{id}:reject",
        "It failed for good; this is the answer from now on.",
        schema::<wire::FinishRequest>,
    ),
    step(Name::Fail, "/v1/operations/{id}:fail", "It failed, and may be tried again.", schema::<wire::FailRequest>),
    step(
        Name::Release,
        "/v1/operations/{id}:release",
        "Give it back: nothing happened.",
        schema::<wire::ReleaseRequest>,
    ),
    Endpoint {
        needs: Needs::Key(Capability::Resolve),
        ..step(
            Name::Resolve,
            "/v1/operations/{id}:resolve",
            "Decide what nobody else can. It is written to the audit log first.",
            schema::<wire::ResolveRequest>,
        )
    },
    Endpoint {
        request: Some(schema::<wire::ExplainRequest>),
        answers: &[
            (200, "What is known.", Content::Json(schema::<wire::ExplanationWire>)),
            (400, "The request cannot be used.", Content::Problem),
            (404, "Nothing of yours is known under this key.", Content::Problem),
        ],
        ..endpoint(
            Name::ExplainKey,
            "POST",
            "/v1/operations:explain",
            Needs::Key(Capability::Read),
            "Everything that is known about the operation behind a key.",
        )
    },
    Endpoint {
        query: &[SURFACE, STATE, CURSOR, LIMIT],
        answers: &[
            (200, "A page.", Content::Json(schema::<wire::OperationPage>)),
            (400, "A parameter cannot be used.", Content::Problem),
        ],
        ..endpoint(Name::List, "GET", "/v1/operations", Needs::Key(Capability::Read), "Operations, page by page.")
    },
    Endpoint {
        answers: &[
            (200, "What is known.", Content::Json(schema::<wire::ExplanationWire>)),
            (404, "Nothing of yours has this id.", Content::Problem),
        ],
        ..endpoint(
            Name::Explain,
            "GET",
            "/v1/operations/{id}",
            Needs::Key(Capability::Read),
            "Everything that is known about one operation.",
        )
    },
    Endpoint {
        query: &[CURSOR, LIMIT],
        answers: &[
            (200, "A page.", Content::Json(schema::<wire::OperationPage>)),
            (400, "A parameter cannot be used.", Content::Problem),
        ],
        ..endpoint(Name::Doubt, "GET", "/v1/doubt", Needs::Key(Capability::Read), "What nobody knows the end of.")
    },
    Endpoint {
        query: &[AFTER],
        answers: &[
            (200, "Events as they happen; `gap` where some were missed.", Content::Text("text/event-stream")),
            (400, "The request cannot be used.", Content::Problem),
        ],
        ..endpoint(
            Name::Events,
            "GET",
            "/v1/events",
            Needs::Key(Capability::Read),
            "Server-sent events; resume with `Last-Event-ID`.",
        )
    },
    Endpoint {
        answers: &[(200, "The policies in force.", Content::Json(schema::<wire::PolicyList>))],
        ..endpoint(Name::Policies, "GET", "/v1/policies", Needs::Key(Capability::Read), "The policies in force.")
    },
    Endpoint {
        takes_text: true,
        answers: &[
            (
                200,
                "It is in force until the process starts anew or reads its files again; what is odd about it.",
                Content::Json(anything),
            ),
            (400, "The file cannot be used.", Content::Problem),
        ],
        ..endpoint(
            Name::SetPolicies,
            "PUT",
            "/v1/policies",
            Needs::Admin,
            "Put a policy file in force until the next start or reload.",
        )
    },
    Endpoint {
        answers: &[
            (200, "What the process was started with was read again, and is in force.", Content::Json(anything)),
            (400, "It cannot be used; all stays as it was.", Content::Problem),
        ],
        ..endpoint(
            Name::Reload,
            "POST",
            "/v1/reload",
            Needs::Admin,
            "Read the process's own files again, as SIGHUP does.",
        )
    },
    Endpoint {
        answers: &[(200, "The keys.", Content::Json(anything))],
        ..endpoint(Name::Keys, "GET", "/v1/keys", Needs::Admin, "The keys in force, without anything to use them by.")
    },
    Endpoint {
        request: Some(schema::<ApiKey>),
        answers: &[
            (200, "It is in force.", Content::Json(anything)),
            (409, "It cannot be added to the file, or there is none.", Content::Problem),
        ],
        ..endpoint(Name::AddKey, "POST", "/v1/keys", Needs::Admin, "Put one more key in force, by its hash.")
    },
    Endpoint {
        request: Some(schema::<Revoke>),
        answers: &[
            (200, "It is not in force any more.", Content::Json(anything)),
            (409, "It cannot be taken out of the file, or there is none.", Content::Problem),
        ],
        ..endpoint(Name::RevokeKey, "POST", "/v1/keys:revoke", Needs::Admin, "Take a key out of force, by its name.")
    },
    Endpoint {
        query: &[ROWS],
        answers: &[(200, "Rows, oldest first.", Content::Json(anything))],
        ..endpoint(Name::Audit, "GET", "/v1/audit", Needs::Admin, "The newest rows of the audit log.")
    },
    Endpoint {
        answers: &[(200, "Prometheus' text form.", Content::Text("text/plain"))],
        ..endpoint(Name::Metrics, "GET", "/metrics", Needs::Key(Capability::Metrics), "Counters of this process.")
    },
    Endpoint {
        answers: &[(200, "The process is there.", Content::Json(anything))],
        ..endpoint(Name::Health, "GET", "/healthz", Needs::Nothing, "Whether the process is there.")
    },
    Endpoint {
        answers: &[
            (200, "It can be used, and what the store promises.", Content::Json(anything)),
            (503, "The store does not answer, or does not keep its promise.", Content::Problem),
        ],
        ..endpoint(
            Name::Ready,
            "GET",
            "/readyz",
            Needs::Nothing,
            "Whether it can be used, with the store's durability.",
        )
    },
    Endpoint {
        answers: &[(200, "This document.", Content::Json(anything))],
        ..endpoint(Name::OpenApi, "GET", "/openapi.json", Needs::Nothing, "This document.")
    },
    Endpoint {
        answers: &[(200, "What this host promises.", Content::Json(anything))],
        ..endpoint(Name::OpenWop, "GET", "/.well-known/openwop", Needs::Nothing, "The capability document.")
    },
    page(Name::Page, "GET", "/", Needs::Key(Capability::Read)),
    page(Name::PageFragment, "GET", "/page/live", Needs::Key(Capability::Read)),
    page(Name::PageOperation, "GET", "/page/operation", Needs::Key(Capability::Read)),
    page(Name::PageResolve, "POST", "/page/resolve", Needs::Key(Capability::Resolve)),
    page(Name::PageStyle, "GET", "/page/style.css", Needs::Nothing),
    page(Name::PageScript, "GET", "/page/live.js", Needs::Nothing),
];

/// Every endpoint there is.
pub(crate) fn all() -> impl Iterator<Item = &'static Endpoint> {
    ENDPOINTS.iter().chain(a2a::ENDPOINTS).chain(agents::ENDPOINTS)
}

/// Where an address leads.
pub(crate) enum Found<'p> {
    Endpoint(&'static Endpoint, Option<&'p str>),
    /// The address is known, with other methods.
    Methods(Vec<&'static str>),
    Nothing,
}

/// At the tenants' door the administrators' endpoints are not there.
pub(crate) fn find<'p>(method: &str, path: &'p str, admin: bool) -> Found<'p> {
    let asked = if method == "HEAD" { "GET" } else { method };
    let mut methods = Vec::new();
    for row in TABLE.iter() {
        let Some(id) = row.matches(path) else { continue };
        if !admin && row.endpoint.needs == Needs::Admin {
            continue;
        }
        if row.endpoint.method == asked {
            return Found::Endpoint(row.endpoint, id);
        }
        methods.push(row.endpoint.method);
    }
    if methods.is_empty() { Found::Nothing } else { Found::Methods(methods) }
}

/// The table as requests are held against it: each template split where its id stands.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| all().map(Row::of).collect());

struct Row {
    endpoint: &'static Endpoint,
    before: &'static str,
    /// What follows the id; `None`: there is none in this address.
    after: Option<&'static str>,
}

impl Row {
    fn of(endpoint: &'static Endpoint) -> Self {
        let path = endpoint.path;
        match path.split_once("{id}").or_else(|| path.split_once("{run}")) {
            Some((before, after)) => Self { endpoint, before, after: Some(after) },
            None => Self { endpoint, before: path, after: None },
        }
    }

    /// The id in the path, where the template has one.
    fn matches<'p>(&self, path: &'p str) -> Option<Option<&'p str>> {
        let Some(after) = self.after else { return (self.before == path).then_some(None) };
        let id = path.strip_prefix(self.before)?.strip_suffix(after)?;
        (!id.is_empty() && !id.contains([':', '/'])).then_some(Some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_found_by_its_own_address_and_no_other_takes_it() {
        for endpoint in all() {
            let path = endpoint.path.replace("{id}", &"a".repeat(64)).replace("{run}", "run-1");
            match find(endpoint.method, &path, true) {
                Found::Endpoint(found, _) => assert_eq!(found.name, endpoint.name, "{path}"),
                Found::Methods(_) | Found::Nothing => panic!("{path} leads nowhere"),
            }
        }
        assert!(matches!(find("GET", "/v1/operations/", true), Found::Nothing));
        assert!(matches!(find("POST", "/v1/operations/a:b:start", true), Found::Nothing));
        assert!(matches!(find("GET", "/v1/audit", false), Found::Nothing));
        assert!(matches!(find("DELETE", "/v1/operations", true), Found::Methods(_)));
    }
}
