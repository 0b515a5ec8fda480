use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use crate::{client::Client, error::Error, wanted::Wanted};

/// What a computation was made of.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Input {
    pub agent: String,
    pub session: String,
    pub channel: String,
    /// What was said, normalised, in order.
    pub messages: Vec<String>,
}

/// The versions of what gives inputs their meaning.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Dependencies {
    pub scenario_set: String,
    pub rules: String,
    pub knowledge_base: String,
    pub agent_config: String,
    pub tool_registry: String,
}

/// The answer to a look-up, always with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum MemoAnswer<T> {
    Reuse {
        value: T,
        reason: String,
    },
    /// Look whether it still fits before using it.
    Revalidate {
        value: T,
        reason: String,
    },
    Recompute {
        reason: String,
    },
}

#[derive(Deserialize)]
struct Looked {
    answer: String,
    reason: String,
    value: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Kept {
    kept: bool,
}

/// Memos under one declaration.
#[derive(Clone, Debug)]
pub struct Memos {
    client: Client,
    declared: Value,
}

impl Client {
    /// Memos under `reuse_decl`, in its JSON form.
    #[must_use]
    pub fn memos(&self, reuse_decl: Value) -> Memos {
        Memos { client: self.clone(), declared: reuse_decl }
    }
}

impl Memos {
    /// Whether what was computed for this input may be used again, and why.
    pub async fn look_up<T: DeserializeOwned>(
        &self,
        phase: &str,
        input: &Input,
        on: &Dependencies,
    ) -> Result<MemoAnswer<T>, Error> {
        let said = json!({ "reuse_decl": self.declared, "phase": phase, "input": input, "dependencies": on });
        let Looked { answer, reason, value } = self.client.post("/v1/memos:look_up", &said).await?;
        let value = match value {
            None => return Ok(MemoAnswer::Recompute { reason }),
            Some(value) => serde_json::from_str(value.get()).map_err(|error| Error::Unexpected(error.to_string()))?,
        };
        Ok(match answer.as_str() {
            "reuse" => MemoAnswer::Reuse { value, reason },
            "revalidate" => MemoAnswer::Revalidate { value, reason },
            // What is not understood is not used.
            _ => MemoAnswer::Recompute { reason },
        })
    }

    /// Keeps a computation; `producer` names the operation that made it, if one did. Whether it was kept.
    pub async fn keep(
        &self,
        phase: &str,
        input: &Input,
        on: &Dependencies,
        value: &impl Serialize,
        producer: Option<&str>,
    ) -> Result<bool, Error> {
        let said = Wanted::default().with("reuse_decl", &self.declared).with("phase", phase).with("input", input);
        let said = said.with("dependencies", on).with("value", value).with("producer", &producer);
        Ok(self.client.post::<Kept>("/v1/memos:keep", &said.whole()?).await?.kept)
    }
}
