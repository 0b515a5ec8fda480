//! Lists, page by page. Each page looks at a bounded number of records, whoever's they are.

use data_encoding::HEXLOWER;
use hapax_core::{Stamp, StateName, Tag, identity::Surface};
use hapax_engine::advice;
use hapax_store::{Changes, Cursor, Index, StoreError};

use crate::{
    app::{App, Asked, Caller},
    http::{Query, Reply, answer},
    problem::{Problem, store_down},
    records::{self, Seen},
    wire::{OperationPage, OperationRow},
    words,
};

const USUAL_PAGE: usize = 50;

/// What is wanted.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) surface: Option<Surface>,
    pub(crate) state: Option<StateName>,
    pub(crate) limit: usize,
    pub(crate) after: Option<Cursor>,
}

pub(crate) async fn list(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let filter = filter(app, &asked.caller, &asked.query, &["surface", "state", "cursor", "limit"])?;
    Ok(answer(&rows(app, &asked.caller, filter).await?))
}

pub(crate) async fn doubt(app: &App, asked: Asked) -> Result<Reply, Problem> {
    let filter = filter(app, &asked.caller, &asked.query, &["cursor", "limit"])?;
    Ok(answer(&rows(app, &asked.caller, Filter { state: Some(StateName::InDoubt), ..filter }).await?))
}

/// What is pending: the page shows the oldest.
pub(crate) const fn pending(limit: usize) -> Filter {
    Filter { surface: None, state: Some(StateName::Pending), limit, after: None }
}

fn filter(app: &App, caller: &Caller, query: &Query, known: &[&str]) -> Result<Filter, Problem> {
    let wrong = |detail: &'static str| Problem::bad_request(detail);
    if query.odd(known) {
        return Err(wrong("a parameter is not known here, or is given twice; /openapi.json names those that are"));
    }
    let surface = query.get("surface").map(Surface::new).transpose();
    let state = query.get("state").map(|name| {
        words::STATES.into_iter().find(|state| words::state(*state) == name).ok_or_else(|| {
            Problem::bad_request(format!("`state` is one of {}", words::STATES.map(words::state).join(", ")))
        })
    });
    let limit = match query.get("limit").map(str::parse::<usize>) {
        None => USUAL_PAGE,
        Some(Ok(limit)) if (1..=app.limits.page).contains(&limit) => limit,
        Some(_) => return Err(Problem::bad_request(format!("`limit` is from 1 to {}", app.limits.page))),
    };
    let after = query.get("cursor").map(|text| opened(app, caller, text)).transpose()?;
    Ok(Filter {
        surface: surface.map_err(|error| Problem::bad_request(error.to_string()))?,
        state: state.transpose()?,
        limit,
        after,
    })
}

/// A place in the store names others' operations: what a caller carries is sealed, and for that tenant alone.
pub(crate) fn closed(app: &App, caller: &Caller, cursor: &Cursor) -> Option<String> {
    app.seal.close(&["cursor", whose(caller)], &cursor.0)
}

pub(crate) fn opened(app: &App, caller: &Caller, text: &str) -> Result<Cursor, Problem> {
    let bytes = app.seal.open(&["cursor", whose(caller)], text);
    bytes.map(|bytes| Cursor(bytes.into())).ok_or_else(|| Problem::bad_request(BAD_CURSOR))
}

/// No tenant has an empty name.
fn whose(caller: &Caller) -> &str {
    if caller.sees_all { "" } else { caller.tenant() }
}

const BAD_CURSOR: &str = "`cursor` is not one that a page before has given; start without it";

pub(crate) async fn rows(app: &App, caller: &Caller, filter: Filter) -> Result<OperationPage, Problem> {
    let mut after = filter.after.clone();
    let mut items = Vec::new();
    let mut looked_at = 0;
    loop {
        let want = (filter.limit - items.len()).clamp(1, 256);
        let (found, next) = piece(app, caller, &filter, after.as_ref(), want).await?;
        looked_at += want;
        for seen in found {
            if wanted(caller, &filter, &seen) {
                items.push(row(caller, &seen));
            }
        }
        let done = items.len() >= filter.limit || looked_at >= app.limits.looked_at;
        match next {
            None => return Ok(OperationPage { items, next: None }),
            Some(next) if done => {
                // Without a place to go on, the page would look like the end.
                let next = closed(app, caller, &next)
                    .ok_or_else(|| store_down("a place in the list that cannot be sealed"))?;
                return Ok(OperationPage { items, next: Some(next) });
            }
            Some(next) => after = Some(next),
        }
    }
}

/// A few records from the index that fits best, and where to go on.
async fn piece(
    app: &App,
    caller: &Caller,
    filter: &Filter,
    after: Option<&Cursor>,
    want: usize,
) -> Result<(Vec<Seen>, Option<Cursor>), Problem> {
    let store = app.engine.store();
    let failed = |error: StoreError| {
        // A cursor that this store never gave.
        let bad_cursor = matches!(error, StoreError::Unsupported { .. });
        if bad_cursor { Problem::bad_request(BAD_CURSOR) } else { hapax_engine::EngineError::from(error).into() }
    };
    if filter.state == Some(StateName::InDoubt) {
        return doubts(app, after, want, failed).await;
    }
    let index = match (&filter.surface, filter.state) {
        (Some(surface), _) if !caller.sees_all => Some(Index::TenantAge(Tag::tenant(surface, &caller.identity.tenant))),
        (_, Some(StateName::Pending)) => Some(Index::LeaseEnd { until: Stamp(u64::MAX) }),
        _ => None,
    };
    match index {
        Some(index) => {
            let page = store.scan(index, after, want).await.map_err(failed)?;
            let mut found = Vec::with_capacity(page.items.len());
            for id in &page.items {
                found.extend(records::read(&app.engine, id).await?);
            }
            Ok((found, page.next))
        }
        None => match store.changes(after, want).await.map_err(failed)? {
            Changes::Page { items, next } => {
                let end = items.is_empty();
                let found = items.iter().filter_map(|change| Seen::of(change.id, &change.snapshot)).collect();
                Ok((found, (!end).then_some(next)))
            }
            Changes::Gap { .. } => Err(Problem::bad_request("`cursor` is too old; start without it")),
        },
    }
}

/// A lapse is a doubt from its moment on, whether or not the sweeper has written it down: first the leases that are over,
/// then what is written as a doubt. The cursor's first byte says where it stands.
async fn doubts(
    app: &App,
    after: Option<&Cursor>,
    want: usize,
    failed: impl Fn(StoreError) -> Problem,
) -> Result<(Vec<Seen>, Option<Cursor>), Problem> {
    const LAPSED: u8 = b'L';
    const WRITTEN: u8 = b'D';
    let store = app.engine.store();
    let (place, inner) = match after.and_then(|cursor| cursor.0.split_first()) {
        None => (LAPSED, None),
        Some((place, rest)) => (*place, (!rest.is_empty()).then(|| Cursor(bytes::Bytes::copy_from_slice(rest)))),
    };
    let index = match place {
        LAPSED => Index::LeaseEnd { until: store.now().unwrap_or(Stamp(u64::MAX)) },
        WRITTEN => Index::InDoubt,
        _ => return Err(Problem::bad_request(BAD_CURSOR)),
    };
    let page = store.scan(index, inner.as_ref(), want).await.map_err(&failed)?;
    let mut found = Vec::with_capacity(page.items.len());
    for id in &page.items {
        found.extend(records::read(&app.engine, id).await?);
    }
    let tagged = |place: u8, rest: &[u8]| Some(Cursor([&[place], rest].concat().into()));
    let next = match (page.next, place) {
        (Some(next), place) => tagged(place, &next.0),
        (None, LAPSED) => tagged(WRITTEN, &[]),
        (None, _) => None,
    };
    Ok((found, next))
}

fn wanted(caller: &Caller, filter: &Filter, seen: &Seen) -> bool {
    caller.sees(&seen.record.about.tenant, &seen.record.about.surface)
        && filter.surface.as_ref().is_none_or(|surface| surface.as_str() == &*seen.record.about.surface)
        && filter.state.is_none_or(|state| state == seen.record.state.name())
}

fn row(caller: &Caller, seen: &Seen) -> OperationRow {
    let record = &seen.record;
    let state = record.state.name();
    let next = advice(record, seen.now);
    OperationRow {
        operation: seen.id.to_string(),
        surface: record.about.surface.to_string(),
        tenant: caller.sees_all.then(|| record.about.tenant.to_string()),
        key_hash: HEXLOWER.encode(&record.about.key_hash),
        state: words::state(state).to_owned(),
        effect: record.effect.name().to_owned(),
        attempt: record.attempt.number,
        owner: record.attempt.owner.to_string(),
        begun_at: record.attempt.begun_wall.0,
        version: seen.version.0,
        ends_in_ms: seen.ends_in_ms(),
        next: words::advice(next).to_owned(),
    }
}
