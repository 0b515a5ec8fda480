use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fresh_nonce;
use crate::{client::Client, error::Error, operation::Operation, wanted::Wanted};

/// One epoch of a group: what calls are made in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turn {
    pub group: String,
    pub epoch: u64,
}

/// A member of an older turn that may have started. It is not stopped.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Reported {
    pub operation: String,
    pub effect: String,
    pub epoch: u64,
    pub progress: String,
}

/// A newer turn, and what the older ones had started.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Superseded {
    #[serde(flatten)]
    pub turn: Turn,
    pub already: bool,
    pub started: Vec<Reported>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct May {
    allowed: bool,
    reason: Option<String>,
}

/// A group as it stands.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct GroupView {
    pub group: String,
    pub epoch: u64,
    pub phase: String,
    pub unwinding: bool,
    pub parent: Option<String>,
    pub absorbed: u64,
    pub(crate) may_supersede: May,
}

impl GroupView {
    /// Why it may not be superseded; `None` if it may.
    #[must_use]
    pub fn why_not(&self) -> Option<&str> {
        if self.may_supersede.allowed { None } else { Some(self.may_supersede.reason.as_deref().unwrap_or("refused")) }
    }
}

/// A lineage of calls: a conversation attempt, a run, a saga.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) client: Client,
    pub(crate) id: String,
}

impl Client {
    /// Makes a group, or finds it; either way its current turn.
    pub async fn group(&self, name: &str) -> Result<(Group, Turn), Error> {
        let turn: Turn = self.post("/v1/groups", &json!({ "name": name })).await?;
        Ok((Group { client: self.clone(), id: turn.group.clone() }, turn))
    }

    /// A group by the id that a turn names.
    #[must_use]
    pub fn group_by_id(&self, id: &str) -> Group {
        Group { client: self.clone(), id: id.to_owned() }
    }
}

impl Group {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SUPERSEDE: a newer turn; says what may have started in the older ones.
    pub async fn supersede(&self) -> Result<Superseded, Error> {
        self.say("supersede", json!({ "nonce": fresh_nonce()? })).await
    }

    /// QUEUE: the message that comes next gets a group of its own.
    pub async fn fork(&self, name: &str) -> Result<(Self, Turn), Error> {
        let turn: Turn = self.say("fork", json!({ "name": name })).await?;
        Ok((self.client.group_by_id(&turn.group), turn))
    }

    /// FORCE_COMPLETE: this turn is let finish, whatever comes; the later message gets a group of its own.
    pub async fn force_complete(&self, name: &str) -> Result<(Self, Turn), Error> {
        let turn: Turn = self.say("force_complete", json!({ "name": name })).await?;
        Ok((self.client.group_by_id(&turn.group), turn))
    }

    /// ABSORB: one more message belongs to this turn.
    pub async fn absorb(&self, turn: &Turn) -> Result<(), Error> {
        self.done("absorb", json!({ "epoch": turn.epoch })).await
    }

    /// A commit point: no supersede and no absorb from here on.
    pub async fn commit(&self) -> Result<(), Error> {
        self.done("commit", json!({})).await
    }

    /// Nothing starts in it any more, and what it kept is let go.
    pub async fn close(&self) -> Result<(), Error> {
        self.done("close", json!({})).await
    }

    pub async fn view(&self) -> Result<GroupView, Error> {
        self.client.get(&format!("/v1/groups/{}", self.id)).await
    }

    async fn say<T: serde::de::DeserializeOwned>(&self, verb: &str, said: Value) -> Result<T, Error> {
        self.client.post(&format!("/v1/groups/{}:{verb}", self.id), &said).await
    }

    async fn done(&self, verb: &str, said: Value) -> Result<(), Error> {
        let _done: Value = self.say(verb, said).await?;
        Ok(())
    }
}

/// What undoes an effect, with its input.
#[derive(Serialize)]
struct UndoneBy<'a, T: ?Sized> {
    name: &'a str,
    input: &'a T,
}

impl Operation {
    /// Makes it a member of this turn: once a newer turn has begun it is not started any more.
    pub fn in_turn(self, turn: &Turn) -> Self {
        self.with("turn", turn)
    }

    /// Declares what undoes it, with an input that is known now.
    pub fn compensated_by(self, name: &str, input: &(impl Serialize + ?Sized)) -> Self {
        self.with("compensation", &UndoneBy { name, input })
    }

    /// Declares what undoes it, with an input that its outcome holds: where this JSON pointer points.
    pub fn compensated_from_outcome(self, name: &str, pointer: &str) -> Self {
        self.with("compensation", &json!({ "name": name, "from_outcome": pointer }))
    }
}

impl Client {
    /// A tool, by its declaration; `turn` bounds what counts as the same action.
    ///
    /// The arguments go as they are written. Where a model sent them as text, hand on that text (`&RawValue`): a `Value` has
    /// rounded a long amount already, and two amounts that round alike would be one intent.
    pub fn tool(&self, declaration: &Value, args: &(impl Serialize + ?Sized), turn: Option<&Turn>) -> Operation {
        let wanted = Wanted::default().with("declaration", declaration).with("args", args).with("turn", &turn);
        Operation::at(self.clone(), "/v1/tools:begin", wanted)
    }
}
