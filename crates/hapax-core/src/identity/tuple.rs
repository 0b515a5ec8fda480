use super::fingerprint::{Fingerprint, Scheme};
use super::frame::Sink;
use super::printer::Printer;

/// A label was given twice, so that the tuple has no one meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label `{label}` is given twice; give each value of a fingerprint its own label")]
pub struct DuplicateLabel {
    /// The label in question.
    pub label: String,
}

/// One value of a labelled tuple. Kinds are told apart: the text `1` is not the number 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part<'a> {
    /// A text.
    Text(&'a str),
    /// Bytes, such as another digest.
    Bytes(&'a [u8]),
    /// A number, such as a version.
    Number(u64),
    /// Texts whose order counts, such as messages.
    List(&'a [&'a str]),
}

impl Part<'_> {
    fn write(self, sink: &mut impl Sink) {
        match self {
            Self::Text(text) => {
                sink.pour(&[1]);
                sink.frame(text.as_bytes());
            }
            Self::Bytes(bytes) => {
                sink.pour(&[2]);
                sink.frame(bytes);
            }
            Self::Number(number) => {
                sink.pour(&[3]);
                sink.number(number);
            }
            Self::List(items) => {
                sink.pour(&[4]);
                sink.number(items.len() as u64);
                for item in items {
                    sink.frame(item.as_bytes());
                }
            }
        }
    }
}

fn write(sink: &mut impl Sink, sorted: &[(&str, Part<'_>)]) {
    sink.frame(b"hapax.tuple.v1");
    sink.number(sorted.len() as u64);
    for (label, part) in sorted {
        sink.frame(label.as_bytes());
        part.write(sink);
    }
}

/// What a conversation turn was asked: equal inputs may reuse what was made of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnInput<'a> {
    /// Whose conversation.
    pub tenant: &'a str,
    /// Which agent.
    pub agent: &'a str,
    /// Which session.
    pub session: &'a str,
    /// Over which channel.
    pub channel: &'a str,
    /// What was said, normalised, in order.
    pub messages: &'a [&'a str],
}

/// The versions of everything that gives an input its meaning: where one moved on, nothing made before may be reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependencies<'a> {
    /// Version of the scenario set.
    pub scenario_set: &'a str,
    /// Version of the rules.
    pub rules: &'a str,
    /// Version of the knowledge base.
    pub knowledge_base: &'a str,
    /// Version of the agent's configuration.
    pub agent_config: &'a str,
    /// Version of the tool registry.
    pub tool_registry: &'a str,
}

impl Printer {
    /// The fingerprint of a labelled tuple: the order of labels does not matter, any value does.
    pub fn tuple(&self, parts: &[(&str, Part<'_>)]) -> Result<Fingerprint, DuplicateLabel> {
        let mut sorted = parts.to_vec();
        sorted.sort_by_key(|(label, _)| *label);
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(DuplicateLabel { label: pair[0].0.to_owned() }),
            None => Ok(self.print(Scheme::TUPLE_V1, |hash| write(hash, &sorted))),
        }
    }

    /// `input_fp`: the fingerprint of a turn's inputs.
    #[must_use]
    pub fn input_fp(&self, input: &TurnInput<'_>) -> Fingerprint {
        // Sorted by label, as `tuple` would.
        let sorted = [
            ("agent", Part::Text(input.agent)),
            ("channel", Part::Text(input.channel)),
            ("messages", Part::List(input.messages)),
            ("session", Part::Text(input.session)),
            ("tenant", Part::Text(input.tenant)),
        ];
        self.print(Scheme::TUPLE_V1, |hash| write(hash, &sorted))
    }

    /// `dep_fp`: the fingerprint of what gives inputs their meaning.
    #[must_use]
    pub fn dep_fp(&self, dependencies: &Dependencies<'_>) -> Fingerprint {
        let sorted = [
            ("agent_config", Part::Text(dependencies.agent_config)),
            ("knowledge_base", Part::Text(dependencies.knowledge_base)),
            ("rules", Part::Text(dependencies.rules)),
            ("scenario_set", Part::Text(dependencies.scenario_set)),
            ("tool_registry", Part::Text(dependencies.tool_registry)),
        ];
        self.print(Scheme::TUPLE_V1, |hash| write(hash, &sorted))
    }
}
