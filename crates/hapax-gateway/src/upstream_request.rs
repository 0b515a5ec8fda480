//! The request as the upstream gets it.

use http::{HeaderMap, Method, Request, Uri, Version, header, request, uri::PathAndQuery};

use crate::{
    body::Out,
    forward::{Forwarder, join_crumbs, via},
    host::is_host,
    inbound::Peer,
    route::{HostHeader, Route},
};

/// Turns a client's head into the upstream's. None: its path cannot be put behind the upstream's base.
pub(crate) fn upstream_request(
    mut head: request::Parts,
    body: Out,
    route: &Route,
    forwarder: &Forwarder,
    peer: Peer,
) -> Option<Box<Request<Out>>> {
    let path = target(&head.uri, route)?;
    let target = route.pool.target();
    let client_host = match head.uri.authority() {
        Some(authority) => header::HeaderValue::from_str(authority.as_str()).ok(),
        None => head.headers.remove(header::HOST),
    };
    forwarder.strip(&mut head.headers);
    join_crumbs(&mut head.headers, head.version);
    route.take_out_ours(&mut head.headers);
    forwarder.trace(&mut head.headers, peer, client_host.as_ref());
    via(&mut head.headers, head.version);
    let host = match route.host {
        HostHeader::Client => client_host.unwrap_or_else(|| target.name.clone()),
        HostHeader::Upstream => target.name.clone(),
    };
    head.headers.insert(header::HOST, host);
    head.uri = Uri::from(path);
    head.version = Version::HTTP_11;
    // What the server noted about the client's connection is not for the upstream's.
    head.extensions.clear();
    // It goes through many hands on its way, and is large.
    Some(Box::new(Request::from_parts(head, body)))
}

fn target(uri: &Uri, route: &Route) -> Option<PathAndQuery> {
    let path = uri.path_and_query()?;
    if route.prefix.is_empty() {
        return route.pool.target().path(path);
    }
    let path = path.as_str().strip_prefix(&route.prefix)?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    route.pool.target().path(&PathAndQuery::try_from(path).ok()?)
}

/// Whether the connection may carry another request after this one. A body where none is usual is what some upstreams
/// leave unread, and what they leave unread they take for the next request.
pub(crate) fn leaves_it_clean(method: &Method, has_body: bool) -> bool {
    let usual = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE | Method::TRACE);
    usual || !has_body
}

/// One host, said in one way, and a host at all.
pub(crate) fn host_is_plain(headers: &HeaderMap, uri: &Uri) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let said = match (uri.authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) => return false,
        (Some(authority), Some(host), None) if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
            return false;
        }
        (Some(authority), _, None) => authority.as_str(),
        (None, Some(host), None) => match host.to_str() {
            Ok(host) => host,
            Err(_) => return false,
        },
        // As in HTTP/1.0.
        (None, None, None) => return true,
    };
    is_host(said)
}
