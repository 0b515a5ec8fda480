use std::sync::Arc;

use hapax_core::identity::Tenant;

/// Who asks, and where. It comes from the credential and the router, never from the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    pub(crate) tenant: Tenant,
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) endpoint: Option<Arc<str>>,
    pub(crate) path: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) activity: Option<Arc<ActivityOf>>,
}

/// The place of a call that a run makes outside: what it is known by instead of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivityOf {
    pub run: String,
    pub node: String,
    pub ordinal: u64,
    /// Stable over retries: `stripe:create-charge`.
    pub provider: String,
    pub business_key: Option<String>,
}

impl Caller {
    #[must_use]
    pub const fn of(tenant: Tenant) -> Self {
        Self { tenant, principal: None, endpoint: None, path: Vec::new(), activity: None }
    }

    /// Who asks, within the tenant: stored beside the record, and compared before an answer is given again.
    #[must_use]
    pub fn principal(mut self, principal: &str) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// The route's template as the router names it, `/v1/runs/{id}`. Without one the path counts as it is.
    #[must_use]
    pub fn endpoint(mut self, template: &str) -> Self {
        self.endpoint = Some(template.into());
        self
    }

    /// A parameter that the router took out of the path.
    #[must_use]
    pub fn path_parameter(mut self, name: &str, value: &str) -> Self {
        self.path.push((name.into(), value.into()));
        self
    }

    /// The request is an activity of a run, and no key is looked for.
    #[must_use]
    pub fn activity(mut self, activity: ActivityOf) -> Self {
        self.activity = Some(Arc::new(activity));
        self
    }

    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

impl From<Tenant> for Caller {
    fn from(tenant: Tenant) -> Self {
        Self::of(tenant)
    }
}
