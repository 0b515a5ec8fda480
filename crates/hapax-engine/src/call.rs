//! How a call is put together. Each step leads to the next, so that none can be forgotten: surface, tenant, key.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use hapax_core::{
    Effect, Fingerprint, Id, Millis, Policy, Ties,
    command::Epochs,
    identity::{Grammar, Key, Scope, Surface, Tenant, recipes::native},
    policy::{FingerprintMode, Mode},
    record::About,
};
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    engine::{Engine, Inner},
    error::EngineError,
    told::KeyKind,
};

/// A surface was named; whose call it is comes next.
#[derive(Debug, Clone)]
#[must_use]
pub struct OnSurface {
    engine: Engine,
    surface: Result<Surface, EngineError>,
}

impl OnSurface {
    pub(crate) fn new(engine: Engine, name: &str) -> Self {
        Self { engine, surface: Surface::new(name).map_err(EngineError::from) }
    }

    pub(crate) const fn known(engine: Engine, surface: Surface) -> Self {
        Self { engine, surface: Ok(surface) }
    }

    /// Whose call this is. It comes from the credential, never from the request's body.
    pub fn tenant(self, tenant: impl IntoTenant) -> InScope {
        let ready = self.surface.and_then(|surface| {
            let tenant = tenant.into_tenant()?;
            let about = self.engine.inner.scopes.about(&surface, &tenant);
            Ok(Ready { surface, scope: Scope::of(tenant), about })
        });
        InScope { engine: self.engine, ready }
    }
}

/// Anything that names a tenant.
pub trait IntoTenant {
    fn into_tenant(self) -> Result<Tenant, EngineError>;
}

impl IntoTenant for Tenant {
    fn into_tenant(self) -> Result<Tenant, EngineError> {
        Ok(self)
    }
}

impl IntoTenant for &Tenant {
    fn into_tenant(self) -> Result<Tenant, EngineError> {
        Ok(self.clone())
    }
}

impl IntoTenant for &str {
    fn into_tenant(self) -> Result<Tenant, EngineError> {
        Ok(Tenant::new(self)?)
    }
}

impl IntoTenant for &String {
    fn into_tenant(self) -> Result<Tenant, EngineError> {
        self.as_str().into_tenant()
    }
}

#[derive(Debug, Clone)]
struct Ready {
    surface: Surface,
    scope: Scope,
    about: Arc<About>,
}

/// Surface and tenant are settled. It can be kept and cloned; the policy is looked up at each call, so that a reload
/// reaches it.
#[derive(Debug, Clone)]
#[must_use]
pub struct InScope {
    engine: Engine,
    ready: Result<Ready, EngineError>,
}

impl InScope {
    /// Narrows the scope by a labelled part: the same key under another value is another operation.
    pub fn within(mut self, label: &str, value: &str) -> Self {
        self.ready = self.ready.and_then(|mut ready| {
            ready.scope = ready.scope.with(label, value)?;
            Ok(ready)
        });
        self
    }

    /// Names the intent: the same key in the same scope is the same operation.
    pub fn key(self, key: impl fmt::Display) -> Call {
        let key = Key::shown(key, &Grammar::visible());
        self.made_key(key.map_err(EngineError::from))
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A key that was checked or made elsewhere: from a header, or by a recipe.
    pub fn with_key(self, key: Key) -> Call {
        self.made_key(Ok(key))
    }

    /// The same under a policy that its caller has at hand: the one in force with what the caller's own rules add to it, or one from before. It also
    /// says whether the call is only shadowed.
    pub fn with_key_under(self, key: Key, policy: &Arc<Policy>) -> Call {
        match self.ready {
            Ok(ready) => {
                let prepared = ready.prepared(&self.engine.inner, Arc::clone(policy), key);
                Call::new(self.engine, Ok(prepared))
            }
            Err(error) => Call::new(self.engine, Err(error)),
        }
    }

    fn made_key(self, key: Result<Key, EngineError>) -> Call {
        let policy = match &self.ready {
            Ok(ready) => self.engine.inner.policy(&ready.surface),
            Err(error) => return Call::new(self.engine, Err(error.clone())),
        };
        match (key, policy.mode) {
            (Ok(key), _) => self.with_key_under(key, &policy),
            (Err(error), Mode::Enforce) => Call::new(self.engine, Err(error)),
            (Err(error), Mode::Shadow) => {
                self.with_key_under(native::named("unusable", 1, &[]), &policy).spoiled(error)
            }
        }
    }
}

impl Ready {
    fn prepared(self, inner: &Inner, policy: Arc<Policy>, key: Key) -> Prepared {
        let (surface, scope) = match policy.mode {
            Mode::Enforce => (self.surface, self.about),
            // In shadow mode it is recorded on a surface of its own, which never decides for real.
            Mode::Shadow => {
                let shadow = self.surface.shadow();
                let about = inner.scopes.about(&shadow, self.scope.tenant());
                (shadow, about)
            }
        };
        Prepared {
            id: Id::operation(&surface, &self.scope, &key),
            policy,
            key,
            scope,
            about: OnceLock::new(),
            fingerprint: None,
            effect: Effect::default(),
            lease: None,
            started: true,
            epoch: None,
            wait: Wait::AsPolicy,
            stop: None,
            ties: None,
            owner: None,
            key_kind: KeyKind::Given,
        }
    }
}

/// How long a duplicate of a running call waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    AsPolicy,
    No,
    AtMost(Millis),
}

/// One call, ready to be made.
#[derive(Debug, Clone)]
#[must_use]
pub struct Call {
    pub(crate) engine: Engine,
    pub(crate) prepared: Result<Prepared, EngineError>,
    /// In shadow mode, what runs without a record although the call cannot be made.
    pub(crate) unstopped: Option<Box<Prepared>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) id: Id,
    pub(crate) policy: Arc<Policy>,
    key: Key,
    /// Whose call it is; of its key nothing yet.
    pub(crate) scope: Arc<About>,
    about: OnceLock<Arc<About>>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) effect: Effect,
    pub(crate) lease: Option<Millis>,
    pub(crate) started: bool,
    pub(crate) epoch: Option<Epochs>,
    pub(crate) wait: Wait,
    /// Says when nobody may wait any longer.
    pub(crate) stop: Option<Arc<watch::Receiver<bool>>>,
    pub(crate) ties: Option<Arc<Ties>>,
    /// Who holds the attempt; `None`: this process.
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) key_kind: KeyKind,
}

impl Prepared {
    /// What a record and its events say of this call. Made when the store is first asked: an answer that this process
    /// has at hand needs neither the digest of the key nor a place for it.
    pub(crate) fn about(&self, inner: &Inner) -> &Arc<About> {
        self.about.get_or_init(|| {
            let key_hash = inner.secret.short_digest(&self.key);
            Arc::new(About { key_hash, ..About::clone(&self.scope) })
        })
    }

    /// The same call under the name of another. Who asks stays who asks.
    pub(crate) fn named_like(self, other: Self) -> Self {
        let mut scope = other.scope;
        if scope.principal != self.scope.principal {
            Arc::make_mut(&mut scope).principal.clone_from(&self.scope.principal);
        }
        Self { id: other.id, key: other.key, scope, about: OnceLock::new(), ..self }
    }

    pub(crate) fn tied(&mut self, change: impl FnOnce(&mut Ties)) {
        let ties = Arc::make_mut(self.ties.get_or_insert_default());
        change(ties);
        // What a group may have to undo is kept as long as the group is open.
        ties.held = ties.group.is_some() && ties.compensation.is_some();
    }

    /// Kept until it is let go, whatever its window says.
    pub(crate) fn hold(&mut self) {
        Arc::make_mut(self.ties.get_or_insert_default()).held = true;
    }

    pub(crate) fn group(&self) -> Option<Id> {
        self.ties.as_ref().and_then(|ties| ties.group)
    }
}

impl Call {
    pub(crate) const fn new(engine: Engine, prepared: Result<Prepared, EngineError>) -> Self {
        Self { engine, prepared, unstopped: None }
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut Prepared)) -> Self {
        match (&mut self.prepared, &mut self.unstopped) {
            (Ok(prepared), _) => change(prepared),
            (Err(_), Some(unstopped)) => change(unstopped),
            (Err(_), None) => {}
        }
        self
    }

    /// It cannot be made any more, for this reason. In shadow mode that stops nothing.
    pub(crate) fn spoiled(mut self, error: EngineError) -> Self {
        if let Ok(prepared) = std::mem::replace(&mut self.prepared, Err(error))
            && prepared.policy.mode == Mode::Shadow
        {
            self.unstopped = Some(Box::new(prepared));
        }
        self
    }

    /// What is known of the call, also where it cannot be made and still is not stopped.
    pub(crate) fn known(&self) -> Result<&Prepared, EngineError> {
        match (&self.prepared, &self.unstopped) {
            (Ok(prepared), _) => Ok(prepared),
            (Err(_), Some(unstopped)) => Ok(unstopped),
            (Err(error), None) => Err(error.clone()),
        }
    }

    /// Guards the key by what is asked under it: the same key with another request is a mismatch. The order of
    /// fields and the white space of its JSON do not matter.
    pub fn fingerprint<T: Serialize + ?Sized>(self, request: &T) -> Self {
        let Ok(prepared) = &self.prepared else { return self };
        if prepared.policy.fingerprint.mode == FingerprintMode::Off {
            return self;
        }
        match self.engine.inner.print_of(&prepared.policy, request) {
            Ok(print) => self.fingerprinted(print),
            Err(error) => self.spoiled(error),
        }
    }

    /// A fingerprint that was made elsewhere.
    pub fn fingerprinted(self, print: Fingerprint) -> Self {
        self.set(|prepared| {
            if prepared.policy.fingerprint.mode != FingerprintMode::Off {
                prepared.fingerprint = Some(print);
            }
        })
    }

    /// What is known about doing it twice. Not saying so means that nothing is.
    pub fn effect(self, effect: Effect) -> Self {
        self.set(|prepared| prepared.effect = effect)
    }

    pub fn lease(self, lease: Millis) -> Self {
        self.set(|prepared| prepared.lease = Some(lease))
    }

    /// Who asks, within the tenant; stored beside the record.
    pub fn principal(self, principal: &str) -> Self {
        self.set(|prepared| {
            Arc::make_mut(&mut prepared.scope).principal = Some(principal.into());
            prepared.about = OnceLock::new();
        })
    }

    /// Who holds the attempt, where that is not this process.
    pub fn owner(self, owner: &str) -> Self {
        self.set(|prepared| prepared.owner = Some(owner.into()))
    }

    /// Begin without the effect being under way: *start* comes before it.
    pub fn not_started(self) -> Self {
        self.set(|prepared| prepared.started = false)
    }

    /// The caller's epoch, and its group's current one.
    pub fn epoch(self, caller: u64, current: u64) -> Self {
        self.set(|prepared| prepared.epoch = Some(Epochs { caller, current }))
    }

    pub fn wait(self, wait: Wait) -> Self {
        self.set(|prepared| prepared.wait = wait)
    }

    /// As [`Call::wait`], for a while: how long it waited before comes back.
    pub fn wait_meanwhile(&mut self, wait: Wait) -> Wait {
        self.prepared.as_mut().map_or(wait, |prepared| std::mem::replace(&mut prepared.wait, wait))
    }

    /// Ends the waiting, and nothing else, once this says `true`: as if its time were over.
    pub fn wait_until(self, stop: &Arc<watch::Receiver<bool>>) -> Self {
        self.set(|prepared| prepared.stop = Some(Arc::clone(stop)))
    }

    /// Whether it is only watched, and recorded where nothing is decided.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.known().is_ok_and(|prepared| prepared.policy.mode == Mode::Shadow)
    }

    /// The id of the operation this call is about.
    pub fn id(&self) -> Result<Id, EngineError> {
        self.prepared.as_ref().map(|prepared| prepared.id).map_err(Clone::clone)
    }

    /// Says where the key came from, for metrics; without a word the caller gave it.
    pub fn key_kind(self, kind: KeyKind) -> Self {
        self.set(|prepared| prepared.key_kind = kind)
    }

    /// What logs show of the key: a short digest under the engine's secret.
    pub fn key_hash(&self) -> Result<[u8; 8], EngineError> {
        self.prepared.as_ref().map(|prepared| prepared.about(&self.engine.inner).key_hash).map_err(Clone::clone)
    }
}
