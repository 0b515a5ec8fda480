//! Memos: computations that may be used again, with the reason why or why not.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Anchor, Body, BodyId, Id, Moment, body_digest,
    identity::{Dependencies, Fingerprint, Surface, Tenant, TurnInput},
    memo::{
        Memo, MemoAsked, MemoVerdict, ReuseDeclaration, ReuseError, ReuseScope, WhyRecompute, WhyReuse, judge_memo,
    },
};

use crate::{call::IntoTenant, engine::Engine, error::EngineError, quota::NoRoom};

const SURFACE: &str = "memo";
/// Values longer than this lie beside their memo.
const INLINE: usize = 16 * 1024;

#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoError {
    #[error("{0} [HX0093]")]
    Declaration(#[from] ReuseError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The answer to a look-up, always with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum MemoAnswer {
    Reuse {
        value: Bytes,
        why: WhyReuse,
    },
    /// It fits as far as can be seen. Look whether it still does before using it.
    Revalidate {
        value: Bytes,
        why: WhyReuse,
    },
    Recompute(WhyRecompute),
}

/// The memos of one tenant under one declaration.
#[derive(Clone, Debug)]
pub struct Memos {
    engine: Engine,
    tenant: Tenant,
    declaration: Arc<ReuseDeclaration>,
}

impl Engine {
    /// Memos of a tenant under `reuse_decl`, in its JSON form.
    pub fn memos(&self, tenant: impl IntoTenant, reuse_decl: &str) -> Result<Memos, MemoError> {
        let declaration = ReuseDeclaration::parse(reuse_decl)?;
        let tenant = tenant.into_tenant()?;
        Ok(Memos { engine: self.clone(), tenant, declaration: Arc::new(declaration) })
    }

    /// `input_fp` of a turn.
    #[must_use]
    pub fn input_fp(&self, input: &TurnInput<'_>) -> Fingerprint {
        self.inner.printer.input_fp(input)
    }

    /// `dep_fp` of what gives inputs their meaning.
    #[must_use]
    pub fn dep_fp(&self, dependencies: &Dependencies<'_>) -> Fingerprint {
        self.inner.printer.dep_fp(dependencies)
    }
}

impl Memos {
    /// Whether what was computed for this input may be used again, and why.
    pub async fn look_up(
        &self,
        phase: &str,
        input: &Fingerprint,
        dependencies: &Fingerprint,
    ) -> Result<MemoAnswer, MemoError> {
        let inner = &self.engine.inner;
        let looked = inner.look_at::<Memo>(&self.id(phase, input)).await.map_err(EngineError::from)?;
        let asked = MemoAsked { phase, input, dependencies };
        let moment = Moment { now: looked.now, wall: inner.wall_now() };
        let (memo, why, revalidate) = match judge_memo(looked.record.as_ref(), &self.declaration, &asked, moment) {
            MemoVerdict::Recompute(why) => return Ok(MemoAnswer::Recompute(why)),
            MemoVerdict::Reuse { memo, why } => (memo, why, false),
            MemoVerdict::Revalidate { memo, why } => (memo, why, true),
        };
        let value = match &memo.value {
            Body::Inline(bytes) => Some(bytes.to_bytes()),
            Body::Empty => Some(Bytes::new()),
            Body::Stored { body, .. } => inner.get_body(*body).await.map_err(EngineError::from)?,
            Body::Uncaptured { .. } | Body::Handle(_) => None,
        };
        Ok(match value {
            // Gone between two reads: as if nothing had been kept.
            None => MemoAnswer::Recompute(WhyRecompute::NotKept),
            Some(value) if revalidate => MemoAnswer::Revalidate { value, why },
            Some(value) => MemoAnswer::Reuse { value, why },
        })
    }

    /// Keeps a computation, unless its phase is never reused. `producer` names the keyed operation that made it, if one
    /// did. Whether it was kept.
    pub async fn keep(
        &self,
        phase: &str,
        input: &Fingerprint,
        dependencies: &Fingerprint,
        value: impl Into<Bytes>,
        producer: Option<Id>,
    ) -> Result<bool, MemoError> {
        let Some(reuse) = self.declaration.of(phase, producer.is_some()) else { return Ok(false) };
        if reuse.scope == ReuseScope::Never {
            return Ok(false);
        }
        self.engine.sweep_from_now_on();
        let inner = &self.engine.inner;
        let (id, surface) = (self.id(phase, input), Surface::new(SURFACE).map_err(EngineError::from)?);
        let policy = inner.policy(&surface);
        let about = self.engine.inner.scopes.about(&surface, &self.tenant);
        // One that replaces another needs no room of its own.
        let _room = match inner.look_at::<Memo>(&id).await.map_err(EngineError::from)?.record {
            Some(_) => None,
            None => Some(inner.room_for(&policy, &about).await.map_err(EngineError::from)??),
        };
        let value = self.laid_out(&id, value.into()).await?;
        let keep = policy.success_retention();
        let replaced = inner.decide(&id, |before: Option<&Memo>, moment| {
            let memo = Memo {
                about: Arc::clone(&about),
                phase: phase.into(),
                input: input.clone(),
                dependencies: dependencies.clone(),
                reuse,
                producer,
                value: value.clone(),
                made: Anchor::Write,
                made_wall: moment.wall,
                keep,
            };
            let left = before.and_then(|before| stored(&before.value)).filter(|body| stored(&value) != Some(*body));
            (Some(memo), left)
        });
        if let Some(body) = replaced.await.map_err(EngineError::from)? {
            // What cannot be dropped now is swept once its memo is gone.
            let _swept_later = inner.in_time("drop_body", inner.store.drop_body(body)).await;
        }
        Ok(true)
    }

    async fn laid_out(&self, id: &Id, value: Bytes) -> Result<Body, MemoError> {
        if value.len() <= INLINE {
            return Ok(Body::Inline(value.into()));
        }
        let digest = body_digest(&value);
        let body = BodyId(Id::derived("hapax.memo.body.v1", &[&id.0, &digest]).0);
        let length = value.len() as u64;
        self.engine.inner.put_body(id, body, value).await.map_err(EngineError::from)?;
        Ok(Body::Stored { body, length, digest })
    }

    /// One memo for a tenant, phase and input. Dependencies are no part of it: the newest computation replaces the older.
    fn id(&self, phase: &str, input: &Fingerprint) -> Id {
        let digests: Vec<u8> =
            input.digests().flat_map(|(scheme, digest)| [&[scheme.0], &digest[..]].concat()).collect();
        Id::derived("hapax.memo.v1", &[self.tenant.as_str().as_bytes(), phase.as_bytes(), &digests])
    }
}

const fn stored(body: &Body) -> Option<BodyId> {
    match body {
        Body::Stored { body, .. } => Some(*body),
        Body::Empty | Body::Inline(_) | Body::Uncaptured { .. } | Body::Handle(_) => None,
    }
}
