//! What a key may do in the queue: `a2a.send.<recipient>`, `a2a.recv.<sender>`, `a2a.respond.<sender>`,
//! `a2a.repair.requeue`, `a2a.repair.force_error`, `a2a.compact`.
//!
//! A last part `*` stands for anybody. Each may be narrowed: `a2a.repair.requeue@peer:indexer`, `@task:UUID`, `@lease:ID`.

use hapax_core::task::{GateEntry, LeaseId, Task};

use crate::auth::Role;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Grants(Vec<Grant>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Grant {
    name: String,
    only: Option<(String, String)>,
}

/// What an act is about, for grants that are narrowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reaches {
    peers: Vec<String>,
    task: Option<String>,
    lease: Option<String>,
}

impl Reaches {
    pub(crate) fn of(task: &Task) -> Self {
        Self {
            peers: vec![task.order.sender.key.to_string(), task.order.recipient.key.to_string()],
            task: Some(task.order.id.to_string()),
            lease: task.lease_id().map(|lease: LeaseId| lease.to_string()),
        }
    }

    pub(crate) fn of_entry(entry: &GateEntry) -> Self {
        Self {
            peers: vec![entry.sender.to_string(), entry.recipient.to_string()],
            task: Some(entry.task.to_string()),
            lease: entry.lease.map(|lease: LeaseId| lease.to_string()),
        }
    }

    pub(crate) fn peer(name: &str) -> Self {
        Self { peers: vec![name.to_owned()], ..Self::default() }
    }
}

const VERBS: [&str; 3] = ["a2a.send.", "a2a.recv.", "a2a.respond."];
const WHOLE: [&str; 3] = ["a2a.repair.requeue", "a2a.repair.force_error", "a2a.compact"];

impl Grants {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self::of_role(Role::Admin)
    }

    pub(crate) fn of_role(role: Role) -> Self {
        let peers = VERBS.map(|verb| format!("{verb}*"));
        let names: Vec<String> = match role {
            Role::Reader => Vec::new(),
            Role::Client => peers.to_vec(),
            Role::Operator | Role::Admin => peers.into_iter().chain(WHOLE.map(str::to_owned)).collect(),
        };
        Self(names.into_iter().map(|name| Grant { name, only: None }).collect())
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// As they stand in a key file.
    pub(crate) fn names(&self) -> Vec<String> {
        let scoped = |only: &(String, String)| format!("@{}:{}", only.0, only.1);
        self.0
            .iter()
            .map(|grant| format!("{}{}", grant.name, grant.only.as_ref().map_or_else(String::new, scoped)))
            .collect()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One capability of a key file; `None` where its name is none of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, only) = match text.split_once('@') {
            None => (text, None),
            Some((name, only)) => (name, Some(only.split_once(':')?)),
        };
        let of_peer = VERBS.iter().any(|verb| name.strip_prefix(verb).is_some_and(|peer| !peer.is_empty()));
        let scoped = only.is_none_or(|(what, which)| ["peer", "task", "lease"].contains(&what) && !which.is_empty());
        if !scoped || !(of_peer || WHOLE.contains(&name)) {
            return None;
        }
        let only = only.map(|(what, which)| (what.to_owned(), which.to_owned()));
        Some(Self(vec![Grant { name: name.to_owned(), only }]))
    }

    /// Whether one of them allows this.
    pub(crate) fn allow(&self, name: &str, reaches: &Reaches) -> bool {
        self.0.iter().any(|grant| grant.names(name) && grant.reaches(reaches))
    }

    /// Whether any repair of this is allowed: who may mend a task may look at it.
    pub(crate) fn reaches_repair(&self, reaches: &Reaches) -> bool {
        ["a2a.repair.requeue", "a2a.repair.force_error"].iter().any(|name| self.allow(name, reaches))
    }

    /// The senders whose tasks may be received; `None`: all. Without any, an empty list.
    ///
    /// Tasks are handed out by their sender alone. What is narrowed to anything else cannot be kept to by a lease, and so
    /// allows none.
    pub(crate) fn senders(&self) -> Option<Vec<String>> {
        let mut senders = Vec::new();
        for grant in &self.0 {
            let Some(sender) = grant.name.strip_prefix("a2a.recv.") else { continue };
            match (sender, &grant.only) {
                ("*", None) => return None,
                (sender, None) => senders.push(sender.to_owned()),
                (sender, Some((what, peer))) if what == "peer" && (sender == "*" || sender == peer) => {
                    senders.push(peer.clone());
                }
                (_, Some(_)) => {}
            }
        }
        Some(senders)
    }
}

impl Grant {
    fn names(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => self.name == name,
        }
    }

    fn reaches(&self, reaches: &Reaches) -> bool {
        match &self.only {
            None => true,
            Some((what, which)) => match what.as_str() {
                "peer" => reaches.peers.contains(which),
                "task" => reaches.task.as_ref() == Some(which),
                "lease" => reaches.lease.as_ref() == Some(which),
                _ => false,
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise is wrong")]
mod tests {
    use super::*;

    #[test]
    fn a_grant_reaches_as_far_as_it_says_and_no_further() {
        let about = Reaches {
            peers: vec!["planner".into(), "indexer".into()],
            task: Some("t".into()),
            lease: Some("L1-0".into()),
        };
        let of = |text: &str| Grants::parse(text).unwrap();
        assert!(of("a2a.send.*").allow("a2a.send.indexer", &about));
        assert!(of("a2a.send.indexer").allow("a2a.send.indexer", &about));
        assert!(!of("a2a.send.indexer").allow("a2a.send.indexer2", &about));
        assert!(!of("a2a.send.*").allow("a2a.recv.indexer", &about));
        assert!(of("a2a.repair.requeue@peer:planner").allow("a2a.repair.requeue", &about));
        assert!(!of("a2a.repair.requeue@peer:other").allow("a2a.repair.requeue", &about));
        assert!(of("a2a.repair.requeue@task:t").allow("a2a.repair.requeue", &about));
        assert!(!of("a2a.repair.requeue@lease:L2-0").allow("a2a.repair.requeue", &about));
        for bad in ["a2a.send.", "a2a.repair", "a2a.compact.x", "a2a.repair.requeue@x:y", "a2a.compact@peer:", "read"] {
            assert_eq!(Grants::parse(bad), None, "{bad}");
        }
        assert_eq!(Grants::of_role(Role::Client).senders(), None);
        assert_eq!(of("a2a.recv.planner").senders(), Some(vec!["planner".to_owned()]));
        assert_eq!(Grants::default().senders(), Some(Vec::new()));
    }

    #[test]
    fn a_narrowed_grant_to_receive_never_hands_out_more_than_it_says() {
        let senders = |texts: &[&str]| {
            let mut grants = Grants::default();
            for text in texts {
                grants.extend(Grants::parse(text).unwrap());
            }
            grants.senders()
        };
        let planner = Some(vec!["planner".to_owned()]);
        assert_eq!(senders(&["a2a.recv.*@peer:planner"]), planner);
        assert_eq!(senders(&["a2a.recv.planner@peer:planner"]), planner);
        for narrow in [
            "a2a.recv.planner@task:t",
            "a2a.recv.planner@lease:L1-0",
            "a2a.recv.planner@peer:other",
            "a2a.recv.*@task:t",
            "a2a.recv.*@lease:L1-0",
        ] {
            assert_eq!(senders(&[narrow]), Some(Vec::new()), "{narrow}");
            assert_eq!(senders(&[narrow, "a2a.recv.planner"]), planner, "{narrow} takes nothing away either");
            assert_eq!(senders(&[narrow, "a2a.recv.*"]), None, "{narrow}");
        }
    }
}
