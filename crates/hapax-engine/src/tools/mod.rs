//! Tools: from a tool's declaration to a protected call.
//!
//! A declaration says which arguments name the intent, which change what happens, and which only tell about it: a model
//! that rewords its reason on a retry asks for the same call. Inside a turn the call belongs to the turn's group: the
//! same action in the same conversation attempt happens once, in another conversation it may happen again.

use std::{fmt, future::Future};

use hapax_core::{
    Effect,
    identity::{
        Fingerprint, Intent, IntentError, Key, Pointer, PointerError, Role, Selection, Template, TemplateError,
        canonical,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    call::{Call, IntoTenant},
    classify::Classify,
    engine::Engine,
    error::{EngineError, OnceError},
    group::Turn,
    once::OnceDone,
    ticket::Ticket,
};

/// A tool as its author declares it; also its JSON form.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDeclaration {
    pub name: String,
    /// A template for the business key over `{"args": …}`, such as `order:{args.order_id}`. Without one the identity
    /// arguments are the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// JSON pointers of arguments that name the intent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity: Vec<String>,
    /// JSON pointers of arguments that a model may reword. All others change what happens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrative: Vec<String>,
    /// What is known about doing it twice: the name of an effect class. Nothing said means that nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// What undoes it, and where its input stands in the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<ToolCompensation>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCompensation {
    pub name: String,
    /// A JSON pointer into the outcome; empty for all of it.
    #[serde(default)]
    pub input: String,
}

/// Why a tool cannot be called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError<E> {
    #[error("{0} [HX0095]")]
    Intent(#[from] IntentError),
    #[error("{0} [HX0095]")]
    Template(#[from] TemplateError),
    #[error("{0} [HX0095]")]
    Pointer(#[from] PointerError),
    #[error(
        "tool `{tool}` has the effect `{effect}`; write pure, idempotent, compensatable, irreversible or unsafe [HX0095]"
    )]
    Effect { tool: String, effect: String },
    #[error("the declaration of a tool cannot be read: {0} [HX0095]")]
    Declaration(String),
    #[error(
        "tool `{tool}` has neither `business_key` nor `identity`, so all its calls would be one; declare one of them [HX0095]"
    )]
    NoIdentity { tool: String },
    #[error(transparent)]
    Call(#[from] OnceError<E>),
}

/// A declared tool, checked once.
#[derive(Clone, Debug)]
pub struct Tool {
    declared: ToolDeclaration,
    intent: Option<Intent>,
    template: Option<Template>,
    guarded: Selection,
    effect: Effect,
}

impl Tool {
    /// Reads the JSON form of a declaration.
    pub fn from_json(json: &str) -> Result<Self, ToolError<std::convert::Infallible>> {
        let declared = serde_json::from_str(json).map_err(|error| ToolError::Declaration(error.to_string()))?;
        Self::new(declared)
    }

    pub fn new(declared: ToolDeclaration) -> Result<Self, ToolError<std::convert::Infallible>> {
        let tool = declared.name.clone();
        let effect = match &declared.effect {
            None => Effect::default(),
            Some(name) => {
                Effect::parse(name).ok_or_else(|| ToolError::Effect { tool: tool.clone(), effect: name.clone() })?
            }
        };
        let pointers = |texts: &[String]| texts.iter().map(|text| Pointer::parse(text)).collect::<Result<Vec<_>, _>>();
        let (identity, narrative) = (pointers(&declared.identity)?, pointers(&declared.narrative)?);
        let template = declared.business_key.as_deref().map(Template::parse).transpose()?;
        if identity.is_empty() && template.is_none() {
            return Err(ToolError::NoIdentity { tool });
        }
        let roles = identity.iter().cloned().map(|pointer| (pointer, Role::Identity));
        let roles = roles.chain(narrative.iter().cloned().map(|pointer| (pointer, Role::Narrative)));
        let intent = if identity.is_empty() { None } else { Some(Intent::new(&tool, roles)?) };
        let guarded = Selection::all().ignore(narrative)?;
        Ok(Self { declared, intent, template, guarded, effect })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// The key and the print of one call.
    fn read<E>(&self, engine: &Engine, args: &str) -> Result<(Key, Fingerprint), ToolError<E>> {
        let printer = &engine.inner.printer;
        let intent = self.intent.as_ref().map(|intent| intent.call(args.as_bytes(), printer)).transpose()?;
        match (&self.template, intent) {
            (Some(template), _) => {
                let key = template.key_of_json(format!("{{\"args\":{args}}}").as_bytes())?;
                // The key holds what the template names and nothing else, so all the rest that counts is guarded: two
                // items of one order are not one call because the key names the order.
                let selected = canonical::selected_to_vec(args.as_bytes(), &self.guarded);
                let unreadable = || IntentError::Unreadable { tool: self.declared.name.clone() };
                Ok((key, printer.of_json_bytes(&selected.ok_or_else(unreadable)?)))
            }
            (None, Some(call)) => Ok((call.key, call.fingerprint)),
            (None, None) => Err(ToolError::NoIdentity { tool: self.declared.name.clone() }),
        }
    }

    /// The protected call of this tool with these arguments, in a turn. They are given as the JSON text that they came as,
    /// so that no reader in between has rounded a long number.
    pub fn call_in<E>(&self, engine: &Engine, turn: &Turn, args: &str) -> Result<Call, ToolError<E>> {
        let group = turn.group().to_string();
        Ok(self.prepared(engine, turn.tenant(), Some(&group), args)?.in_turn(turn))
    }

    /// The protected call of this tool with these arguments, outside of any conversation: once for the tenant.
    pub fn call_for<E>(&self, engine: &Engine, tenant: impl IntoTenant, args: &str) -> Result<Call, ToolError<E>> {
        self.prepared(engine, tenant, None, args)
    }

    fn prepared<E>(
        &self,
        engine: &Engine,
        tenant: impl IntoTenant,
        group: Option<&str>,
        args: &str,
    ) -> Result<Call, ToolError<E>> {
        let (key, print) = self.read(engine, args)?;
        let scope = engine.surface("tool").tenant(tenant).within("tool", &self.declared.name);
        let scope = match group {
            Some(group) => scope.within("turn_group", group),
            None => scope,
        };
        let call = scope.with_key(key).fingerprinted(print).effect(self.effect);
        Ok(match &self.declared.compensation {
            Some(compensation) => call.compensated_from_outcome(&compensation.name, &compensation.input),
            None => call,
        })
    }

    /// Runs the tool in a turn, unless this very action was taken in this conversation attempt before. The arguments are
    /// JSON text, as for [`Tool::call_in`].
    pub async fn run<T, E, F, Fut>(
        &self,
        engine: &Engine,
        turn: &Turn,
        args: &str,
        tool: F,
    ) -> Result<OnceDone<T>, ToolError<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Classify + fmt::Display + Send + 'static,
        F: FnOnce(Ticket) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        Ok(self.call_in(engine, turn, args)?.once(tool).await?)
    }
}

impl<E> From<EngineError> for ToolError<E> {
    fn from(error: EngineError) -> Self {
        Self::Call(error.into())
    }
}
