//! What all requests share, and how one finds its way.

use std::{
    fmt,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use data_encoding::BASE64;
use hapax_core::{Millis, identity::Tenant};
use hapax_engine::{Engine, Providers, in_place};
use hapax_http::Guard;
use hapax_http1::Incoming;
use http::{HeaderMap, Request, header};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use crate::{
    a2a, agents, api,
    audit::Audit,
    auth::{Auth, Capability, Identity, KeyFile},
    counted::Counted,
    endpoint::{self, Endpoint, Found, Name, Needs},
    http::{Bodies, BodyRoom, Handler, Peer, Query, Reply, Sent, problem, segment},
    limits::Limits,
    log::{Level, Log},
    metrics::{Gauge, Metrics},
    once, page,
    problem::Problem,
    reload::Reloader,
    seal::Seal,
    tickets::Tickets,
    trace::{self, Here, Kind, Tracer},
    trouble::Trouble,
};

/// Where a request came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// Tenants.
    Public,
    /// Administrators, over the network.
    Admin,
    /// Whoever may open the socket in the data directory: the file's permissions are the credential.
    Socket,
}

/// Numbers that somebody else knows.
pub(crate) type Gauges = Arc<dyn Fn() -> Vec<Gauge> + Send + Sync>;

pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) tickets: Tickets,
    pub(crate) limits: Arc<Limits>,
    pub(crate) auth: RwLock<Arc<Auth>>,
    /// Changes with the keys, so that whoever listens can ask whether they still may.
    pub(crate) auth_changes: watch::Sender<u64>,
    /// Who everybody is where nobody shows a key.
    pub(crate) anonymous: Arc<Identity>,
    pub(crate) metrics: Metrics,
    pub(crate) counted: Counted,
    /// When the store was last asked at `/readyz` what it promises.
    pub(crate) asked_promise: Mutex<Option<Instant>>,
    pub(crate) log: Log,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) audit: Arc<Audit>,
    /// What keeps repeated changes from happening twice.
    pub(crate) once: Guard,
    /// Where keys are written down, if they come from a file.
    pub(crate) key_file: RwLock<Option<KeyFile>>,
    /// Tells the events of this process from those of an earlier one.
    pub(crate) boot: String,
    pub(crate) csrf: [u8; 32],
    pub(crate) gauges: Option<Gauges>,
    pub(crate) providers: Providers,
    /// Policies come with the file alone.
    pub(crate) policies_by_file: bool,
    /// Who reads the process's files again when it is asked for.
    pub(crate) reloader: Option<Reloader>,
    pub(crate) queue: a2a::LazyQueue,
    pub(crate) document: OnceLock<Bytes>,
    pub(crate) admin_document: OnceLock<Bytes>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) readers: Arc<Semaphore>,
    /// Bytes of bodies in flight.
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) seal: Seal,
    pub(crate) stop: watch::Receiver<bool>,
    /// The same, for calls that wait for another's attempt.
    pub(crate) until_stop: Arc<watch::Receiver<bool>>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Who asks, and how far they see.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Arc<Identity>,
    /// Behind the administrators' door, and nobody's tenant was named.
    pub(crate) sees_all: bool,
    pub(crate) door: Door,
}

impl Caller {
    pub(crate) fn sees(&self, tenant: &str, surface: &str) -> bool {
        let is_theirs = self.sees_all || self.identity.tenant.as_str() == tenant;
        is_theirs && self.identity.may_use(surface) && crate::a2a::sees_operations_of(&self.identity, surface)
    }

    /// Whether this came by one of the administrators' doors: what is done then is written down.
    pub(crate) fn is_administrator(&self) -> bool {
        match self.door {
            Door::Public => false,
            Door::Admin | Door::Socket => true,
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        self.identity.tenant.as_str()
    }
}

/// One request on its way.
pub(crate) struct Asked {
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Query,
    pub(crate) id: Option<hapax_core::Id>,
    /// The name of a run.
    pub(crate) run: Option<String>,
    pub(crate) body: Sent,
}

/// One door of the app.
#[derive(Clone, Debug)]
pub(crate) struct AtDoor {
    pub(crate) app: Arc<App>,
    pub(crate) door: Door,
}

impl Handler for AtDoor {
    async fn handle(&self, request: Box<Request<Incoming>>, peer: Option<Peer>) -> Reply {
        let here = self.app.tracer.as_ref().and_then(|tracer| Here::of_request(tracer, request.headers()));
        let reply = match here {
            None => self.app.route(self.door, peer, request).await.unwrap_or_else(|refused| problem(&refused)),
            Some(here) => Box::pin(self.traced(here, peer, request)).await,
        };
        self.app.metrics.answered(reply.status().as_u16());
        reply
    }
}

impl AtDoor {
    /// The same, inside a span that is named after the endpoint: the address itself may hold anything.
    async fn traced(&self, here: Here, peer: Option<Peer>, request: Box<Request<Incoming>>) -> Reply {
        let method = request.method().as_str().to_owned();
        let route = match endpoint::find(&method, request.uri().path(), self.door != Door::Public) {
            Found::Endpoint(endpoint, _) => endpoint.path,
            Found::Methods(_) | Found::Nothing => "unknown",
        };
        here.note("http.request.method", &method);
        here.note("http.route", route);
        let notes = here.clone();
        let work = Box::pin(async move {
            let reply = self.app.route(self.door, peer, request).await.unwrap_or_else(|refused| problem(&refused));
            notes.note("http.response.status_code", reply.status().as_u16());
            reply
        });
        let failed = |reply: &Reply| reply.status().is_server_error();
        here.during(format!("{method} {route}"), Kind::Server, work, failed).await
    }
}

impl App {
    /// New keys from now on, however they came. Who is still there keeps the counters of before.
    pub(crate) fn set_auth(&self, mut auth: Auth) {
        {
            let mut current = self.auth.write();
            if let (Auth::Keys(keys), Auth::Keys(earlier)) = (&mut auth, &**current) {
                keys.go_on_from(earlier);
            }
            *current = Arc::new(auth);
        }
        self.auth_changes.send_modify(|number| *number += 1);
    }

    async fn route(
        self: &Arc<Self>,
        door: Door,
        peer: Option<Peer>,
        request: Box<Request<Incoming>>,
    ) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let found = endpoint::find(head.method.as_str(), head.uri.path(), door != Door::Public);
        if let Found::Endpoint(Endpoint { needs: Needs::Nothing, name, .. }, _) = &found {
            return self.public(*name, door).await;
        }
        // Who is not known learns nothing, not even which addresses there are.
        let caller = self.authenticate(door, &head.headers, peer).inspect_err(|_| {
            self.metrics.unauthenticated.fetch_add(1, Relaxed);
        })?;
        let (endpoint, id) = match found {
            Found::Endpoint(endpoint, id) => (endpoint, id),
            Found::Methods(methods) => return Err(Problem::no_such_method(methods.join(", "))),
            Found::Nothing => return Err(Problem::no_such_endpoint()),
        };
        if !caller.identity.state.admit() {
            let detail = "your tenant sends more requests a second than it may";
            return Err(Problem::too_many(detail, Millis::from_secs(1)));
        }
        match endpoint.needs {
            Needs::Nothing | Needs::AnyKey => {}
            Needs::Key(capability) if caller.identity.can(capability) => {}
            Needs::Key(capability) => {
                let detail = match capability {
                    Capability::Operate => "it needs the capability `operate`, which the role `client` has",
                    Capability::Read => "it needs the capability `read`, which the role `reader` has",
                    Capability::Resolve => "it needs the capability `resolve`, which the role `operator` has",
                    Capability::Metrics => "it needs the capability `metrics`",
                    Capability::Admin => "it needs the capability `admin`",
                };
                return Err(Problem::forbidden(detail));
            }
            // Found at the administrators' doors only.
            Needs::Admin => {}
        }
        // An id that is none cannot be known: the same answer as for one that nobody has.
        let run = match id.filter(|_| endpoint.path.contains("{run}")) {
            None => None,
            Some(text) => Some(segment(text).ok_or_else(|| Problem::bad_request("the address cannot be read"))?),
        };
        let id = match id.filter(|_| run.is_none()) {
            None => None,
            Some(text) => Some(hapax_core::Id::parse(text).ok_or_else(Problem::unknown_operation)?),
        };
        let Some(query) = Query::parse(head.uri.query()) else {
            return Err(Problem::bad_request("the query cannot be read"));
        };
        // What the body takes is given back when the answer is there: until then it is held somewhere.
        let room = Arc::new(BodyRoom::new(&self.bodies, &caller.identity.state));
        let body = Sent::Coming(body, Arc::clone(&room));
        if once::wanted(endpoint, &head.headers) {
            let asked = Box::new(Asked { caller, headers: head.headers.clone(), query, id, run, body });
            // Rare, and large: the usual request does not carry its weight.
            return Box::pin(once::answer(self, endpoint, &head, asked)).await;
        }
        let asked = Box::new(Asked { caller, headers: head.headers, query, id, run, body });
        let reader = endpoint.page.then(|| asked.caller.clone());
        let answered = self.answer(endpoint.name, asked).await;
        drop(room);
        match (answered, reader) {
            // Whoever looks at the page reads sentences, not JSON.
            (Err(problem), Some(reader)) => Ok(page::refused(&reader, &problem)),
            (answered, _) => answered,
        }
    }

    async fn public(&self, name: Name, door: Door) -> Result<Reply, Problem> {
        match name {
            Name::Health => Ok(api::health()),
            Name::Ready => api::ready(self).await,
            Name::OpenApi => Ok(api::openapi(self, door)),
            Name::OpenWop => Ok(api::openwop(self)),
            Name::PageStyle => Ok(page::style()),
            Name::PageScript => Ok(page::script()),
            Name::Begin
            | Name::Start
            | Name::Renew
            | Name::Complete
            | Name::Reject
            | Name::Fail
            | Name::Release
            | Name::Resolve
            | Name::ExplainKey
            | Name::List
            | Name::Explain
            | Name::Doubt
            | Name::Events
            | Name::Policies
            | Name::SetPolicies
            | Name::Reload
            | Name::Keys
            | Name::AddKey
            | Name::RevokeKey
            | Name::Audit
            | Name::Metrics
            | Name::Page
            | Name::PageFragment
            | Name::PageOperation
            | Name::PageResolve
            | Name::A2a(_)
            | Name::Agents(_) => Err(Problem::no_such_endpoint()),
        }
    }

    /// What is decided. Its caller is told that the store failed, the log why.
    ///
    /// Behind a pointer, or what was asked would be moved from one future to the next, and have room in each.
    pub(crate) async fn answer(self: &Arc<Self>, name: Name, asked: Box<Asked>) -> Result<Reply, Problem> {
        let answered = if self.tracer.is_none() {
            self.decided(name, asked).await
        } else {
            Box::pin(self.traced(name, asked)).await
        };
        if let Err(Problem { cause: Some(cause), .. }) = &answered {
            self.trouble.met(cause);
        }
        answered
    }

    /// Inside a span of its own.
    async fn traced(self: &Arc<Self>, name: Name, asked: Box<Asked>) -> Result<Reply, Problem> {
        if let Some(id) = asked.id {
            trace::note("hapax.operation", id);
        }
        let decision = format!("decide {name:?}").to_lowercase();
        let failed = |decided: &Result<Reply, Problem>| decided.as_ref().is_err_and(|p| p.status.is_server_error());
        trace::spanned(&decision, Kind::Internal, self.decided(name, asked), failed).await
    }

    async fn decided(self: &Arc<Self>, name: Name, asked: Box<Asked>) -> Result<Reply, Problem> {
        // What is asked a thousand times a second does not carry the room of what is asked now and then: that is set apart.
        match name {
            Name::Begin => api::begin(self, asked).await,
            Name::Start | Name::Renew | Name::Complete | Name::Reject | Name::Fail | Name::Release => {
                api::step(self, name, asked).await
            }
            Name::Resolve => in_place(|| api::resolve(self, *asked)).await,
            Name::ExplainKey => in_place(|| api::explain_key(self, *asked)).await,
            Name::List => in_place(|| api::list(self, *asked)).await,
            Name::Explain => in_place(|| api::explain(self, *asked)).await,
            Name::Doubt => in_place(|| api::doubt(self, *asked)).await,
            Name::Events => api::events(self, *asked),
            Name::Policies => Ok(api::policies(self, &asked.caller)),
            Name::SetPolicies => in_place(|| api::set_policies(self, *asked)).await,
            Name::Reload => in_place(|| api::reload(self, &asked)).await,
            Name::Keys => api::keys(self),
            Name::AddKey => in_place(|| api::add_key(self, *asked)).await,
            Name::RevokeKey => in_place(|| api::revoke_key(self, *asked)).await,
            Name::Audit => api::audit(self, &asked),
            Name::Metrics => in_place(|| api::metrics(self, &asked.caller)).await,
            Name::Page => in_place(|| page::show(self, &asked)).await,
            Name::PageFragment => in_place(|| page::fragment(self, &asked)).await,
            Name::PageOperation => in_place(|| page::operation(self, *asked)).await,
            Name::PageResolve => in_place(|| page::resolve(self, *asked)).await,
            Name::A2a(act) => in_place(|| a2a::answer(self, act, *asked)).await,
            Name::Agents(name) => in_place(|| agents::answer(self, name, *asked)).await,
            Name::Health | Name::Ready | Name::OpenApi | Name::OpenWop | Name::PageStyle | Name::PageScript => {
                self.public(name, asked.caller.door).await
            }
        }
    }

    /// Who asks. A missing, a malformed and an unknown credential get the same answer.
    fn authenticate(&self, door: Door, headers: &HeaderMap, peer: Option<Peer>) -> Result<Caller, Problem> {
        let auth = Arc::clone(&self.auth.read());
        let identity = match (door, &*auth) {
            (Door::Socket, Auth::None | Auth::Keys(_)) => match peer {
                // Whoever the kernel says it is: that is who stands in the audit log.
                Some(Peer::User(uid)) => {
                    Arc::new(Identity { name: format!("uid {uid}").into(), ..Identity::clone(&self.anonymous) })
                }
                Some(Peer::Host(_)) | None => Arc::clone(&self.anonymous),
            },
            (Door::Public | Door::Admin, Auth::None) => {
                if !is_for_loopback(headers) {
                    // A page on the internet whose name was made to point here.
                    return Err(Problem::forbidden("without keys, only requests to a loopback address are taken"));
                }
                Arc::clone(&self.anonymous)
            }
            (Door::Public | Door::Admin, Auth::Keys(keys)) => {
                let identity =
                    presented(headers).and_then(|key| keys.find(&key)).ok_or_else(Problem::unauthenticated)?;
                if door == Door::Admin && !identity.can(Capability::Admin) {
                    return Err(Problem::unauthenticated());
                }
                identity
            }
        };
        match door {
            Door::Public => match headers.get("hapax-tenant") {
                // Ignoring it would answer about another tenant than the one that was meant.
                Some(named) if named.as_bytes() != identity.tenant.as_str().as_bytes() => Err(Problem::forbidden(
                    "a tenant is named at the administrators' door only; here the key says whose it is",
                )),
                Some(_) | None => Ok(Caller { identity, sees_all: false, door }),
            },
            Door::Admin | Door::Socket => as_named(identity, headers, door),
        }
    }

    pub(crate) fn say(&self, level: Level, event: &str, fields: &[(&str, &str)]) {
        self.log.say(level, event, fields);
    }
}

/// Administrators may act for a tenant, which they name in a header; otherwise they see all of them.
fn as_named(identity: Arc<Identity>, headers: &HeaderMap, door: Door) -> Result<Caller, Problem> {
    let Some(named) = headers.get("hapax-tenant") else { return Ok(Caller { identity, sees_all: true, door }) };
    let named = named.to_str().ok().and_then(|name| Tenant::new(name).ok());
    let tenant = named.ok_or_else(|| Problem::bad_request("the header `hapax-tenant` does not name a tenant"))?;
    Ok(Caller { identity: Arc::new(Identity { tenant, ..Identity::clone(&identity) }), sees_all: false, door })
}

/// The key that came along: as a bearer token, or as the password of a browser's dialogue.
fn presented(headers: &HeaderMap) -> Option<Vec<u8>> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().as_bytes().to_vec());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = BASE64.decode(rest.trim().as_bytes()).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        return Some(pair[colon + 1..].to_vec());
    }
    None
}

fn is_for_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().is_some_and(|address| address == "::1");
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_loopback = |address: std::net::Ipv4Addr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_made_to_point_here_is_not_loopback() {
        let host = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, name.parse().unwrap());
            is_for_loopback(&headers)
        };
        for good in ["localhost", "localhost:7878", "127.0.0.1:7878", "127.8.8.8", "[::1]:7878"] {
            assert!(host(good), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example:7878", "127.0.0.1.evil.example", "[fe80::1]", "10.0.0.1"] {
            assert!(!host(bad), "{bad}");
        }
    }
}
