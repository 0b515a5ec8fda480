//! A route's rules over the policy in force, worked out once per policy and not once per request.

use std::sync::Arc;

use hapax_core::{
    Policy,
    identity::{Grammar, KeySource, Pointer, Selection, Template},
    meaning::Answers,
    policy::OnUncaptured,
};
use http::HeaderName;

use crate::{
    headers::Kept,
    rules::{KeysPer, Rules, RulesError},
};

/// Where a key may be found, ready to be looked at.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Header(HeaderName),
    Query(String),
    Pointer(Pointer),
    Template(Template),
    Automatic,
}

#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) policy: Arc<Policy>,
    pub(crate) sources: Vec<Source>,
    pub(crate) required: bool,
    pub(crate) grammar: Grammar,
    /// The query parameters that may carry the key; they are no payload.
    pub(crate) query_names: Vec<String>,
    /// `None`: all of the body is compared.
    pub(crate) selection: Option<Selection>,
    pub(crate) kept: Kept,
    /// The policy, with what the dialect and the rules say where the policy does not.
    pub(crate) judging: Arc<Policy>,
    /// Whether the endpoint is part of the scope.
    pub(crate) per_endpoint: bool,
}

impl Resolved {
    pub(crate) fn of(rules: &Rules, policy: Arc<Policy>) -> Result<Self, RulesError> {
        policy.check()?;
        if policy.capture.on_uncaptured == OnUncaptured::Reinvoke {
            return Err(RulesError::Reinvoke);
        }
        let key = rules.key.or(&policy.key).or(&rules.dialect.key_rules());
        let sources = key.source.iter().flatten().filter_map(|source| source_of(source).transpose());
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        if !policy.forward_key {
            stays_behind(&sources)?;
        }
        let automatic = sources.iter().any(|source| matches!(source, Source::Automatic));
        if automatic && key.required == Some(true) {
            return Err(RulesError::NeverMissing);
        }
        let pointers = sources.iter().filter_map(|source| match source {
            Source::Pointer(pointer) => Some(pointer.clone()),
            Source::Header(_) | Source::Query(_) | Source::Template(_) | Source::Automatic => None,
        });
        let query_names = sources.iter().filter_map(|source| match source {
            Source::Query(name) => Some(name.clone()),
            Source::Header(_) | Source::Pointer(_) | Source::Template(_) | Source::Automatic => None,
        });
        let query_names = query_names.collect();
        // A policy with a pointer that is none does not pass its check.
        let selection = policy.fingerprint.selection(pointers).ok().filter(|selection| !selection.is_all());
        Ok(Self {
            required: key.required.unwrap_or(false),
            grammar: key.grammar(),
            query_names,
            selection,
            kept: Kept::by(&policy, &rules.secret_headers),
            judging: judging(&policy, rules),
            per_endpoint: match (rules.keys_per, policy.answers) {
                (KeysPer::Tenant, _) | (KeysPer::AsPreset, Answers::Stripe) => false,
                (KeysPer::Endpoint, _) | (KeysPer::AsPreset, Answers::Standard | Answers::Openwop) => true,
            },
            sources,
            policy,
        })
    }

    /// The headers that may carry the key.
    pub(crate) fn key_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.sources.iter().filter_map(|source| match source {
            Source::Header(name) => Some(name),
            Source::Query(_) | Source::Pointer(_) | Source::Template(_) | Source::Automatic => None,
        })
    }

    /// Whether the body may hold the key, or stand for it.
    pub(crate) fn key_in_body(&self) -> bool {
        self.sources.iter().any(|source| match source {
            Source::Pointer(_) | Source::Template(_) | Source::Automatic => true,
            Source::Header(_) | Source::Query(_) => false,
        })
    }
}

/// A key that is not to be passed on has to come where it can be taken out without changing what the request says.
fn stays_behind(sources: &[Source]) -> Result<(), RulesError> {
    for source in sources {
        match source {
            Source::Query(_) => return Err(RulesError::KeyStays("the query")),
            Source::Pointer(_) => return Err(RulesError::KeyStays("the body")),
            // Made out of the request, the key itself is nowhere in it.
            Source::Header(_) | Source::Template(_) | Source::Automatic => {}
        }
    }
    Ok(())
}

fn judging(policy: &Arc<Policy>, rules: &Rules) -> Arc<Policy> {
    let mismatch_in_flight = policy.mismatch_in_flight.or(Some(rules.dialect.mismatch_in_flight()));
    let max_attempt = policy.max_attempt.or(rules.max_attempt);
    if (mismatch_in_flight, max_attempt) == (policy.mismatch_in_flight, policy.max_attempt) {
        return Arc::clone(policy);
    }
    Arc::new(Policy { mismatch_in_flight, max_attempt, ..Policy::clone(policy) })
}

fn source_of(source: &KeySource) -> Result<Option<Source>, RulesError> {
    Ok(Some(match source {
        KeySource::Header(name) => {
            let parsed = HeaderName::from_bytes(name.as_bytes());
            Source::Header(parsed.map_err(|_| RulesError::HeaderName(name.clone()))?)
        }
        KeySource::Query(name) => Source::Query(name.clone()),
        KeySource::JsonPointer(pointer) => Source::Pointer(pointer.clone()),
        KeySource::Template(template) => Source::Template(template.clone()),
        KeySource::Automatic => Source::Automatic,
        // A source that this version does not know finds nothing.
        _ => return Ok(None),
    }))
}
