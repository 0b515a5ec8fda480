//! Recipes by name: what a configuration or an API call refers to.

use super::key::Key;
use super::recipes::{acf, ad40, cordum, native, openwop};

/// Why a recipe gives no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// No such recipe.
    #[error("there is no recipe `{0}`; use one of those that `Recipe::all` lists")]
    Unknown(String),
    /// A field is missing: never an empty string instead.
    #[error("recipe `{recipe}` needs the field `{field}`; send it")]
    Missing { recipe: &'static str, field: &'static str },
    /// A field that the recipe does not know. Dropping it would make two different intents one.
    #[error("recipe `{recipe}` has no field `{field}`, or it is given twice; send exactly the recipe's fields")]
    Unexpected { recipe: &'static str, field: String },
    /// A field of another kind.
    #[error("recipe `{recipe}` needs {expected} for the field `{field}`; send that")]
    WrongKind { recipe: &'static str, field: &'static str, expected: &'static str },
    /// The parts of an AD-40 key do not fit.
    #[error("recipe `ad40.client` cannot use these fields: {0}")]
    Client(#[from] ad40::ClientKeyError),
}

/// The value of one labelled field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field<'a> {
    /// A text. Where a number is needed, its plain decimal form will do.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// Several texts: message ids, messages.
    List(&'a [&'a str]),
}

/// A named, versioned rule from labelled fields to a key.
#[derive(Clone, Copy)]
pub struct Recipe(&'static Rule);

struct Rule {
    name: &'static str,
    fields: &'static [&'static str],
    make: fn(&Given<'_>) -> Result<Key, RecipeError>,
}

/// Every recipe. A name is never given a second meaning: a changed rule is a new row.
static RULES: [Rule; 13] = [
    Rule {
        name: "openwop.http.v1",
        fields: &["tenant", "endpoint", "key"],
        make: |given| Ok(openwop::http_v1(given.text(0)?, given.text(1)?, given.text(2)?)),
    },
    Rule {
        name: "openwop.activity.v1",
        fields: &["run", "node", "attempt", "provider"],
        make: |given| Ok(openwop::activity_v1(given.text(0)?, given.text(1)?, given.number(2)?, given.text(3)?)),
    },
    Rule {
        name: "openwop.activity.v2",
        fields: &["tenant", "run", "node", "ordinal", "provider"],
        make: |given| {
            let (tenant, run, node) = (given.text(0)?, given.text(1)?, given.text(2)?);
            Ok(openwop::activity_v2(tenant, run, node, given.number(3)?, given.text(4)?))
        },
    },
    Rule {
        name: "cordum.intent",
        fields: &["workflow", "step", "operation"],
        make: |given| Ok(cordum::intent(given.text(0)?, given.text(1)?, given.text(2)?)),
    },
    Rule {
        name: "cordum.saga",
        fields: &["workflow", "job", "topic", "capability", "step"],
        make: |given| {
            let (workflow, job, topic) = (given.text(0)?, given.text(1)?, given.text(2)?);
            Ok(cordum::saga(workflow, job, topic, given.text(3)?, given.number(4)?))
        },
    },
    Rule {
        name: "ad40.client",
        fields: &["client", "sequence", "nonce"],
        make: |given| {
            let nonce = ad40::parse_nonce(given.text(2)?)?;
            Ok(ad40::ClientKey::new(given.text(0)?, given.number(1)?, nonce)?.key())
        },
    },
    Rule { name: "acf.api", fields: &["tenant", "key"], make: |given| Ok(acf::api(given.text(0)?, given.text(1)?)) },
    Rule { name: "acf.turn", fields: &["tenant", "turn"], make: |given| Ok(acf::turn(given.text(0)?, given.text(1)?)) },
    Rule {
        name: "acf.beat",
        fields: &["tenant", "session", "messages"],
        make: |given| Ok(acf::beat(given.text(0)?, given.text(1)?, given.list(2)?)),
    },
    Rule {
        name: "acf.tool",
        fields: &["tool", "business_key", "group"],
        make: |given| Ok(acf::tool(given.text(0)?, given.text(1)?, given.text(2)?)),
    },
    Rule {
        name: "acf.content",
        fields: &["tenant", "customer", "messages", "bucket"],
        make: |given| Ok(acf::content(given.text(0)?, given.text(1)?, given.list(2)?, given.number(3)?)),
    },
    Rule {
        name: "hapax.activity.v1",
        fields: &["tenant", "run", "node", "ordinal", "provider"],
        make: |given| {
            let (tenant, run, node) = (given.text(0)?, given.text(1)?, given.text(2)?);
            Ok(native::activity(tenant, run, node, given.number(3)?, given.text(4)?))
        },
    },
    Rule {
        name: "hapax.saga.v1",
        fields: &["workflow", "job", "topic", "capability", "step?"],
        make: |given| {
            let (workflow, job, topic) = (given.text(0)?, given.text(1)?, given.text(2)?);
            let step = if given.has(4) { Some(given.number(4)?) } else { None };
            Ok(native::saga(workflow, job, topic, given.text(3)?, step))
        },
    },
];

impl Recipe {
    /// The recipe of this name.
    pub fn named(name: &str) -> Result<Self, RecipeError> {
        Self::all().find(|recipe| recipe.name() == name).ok_or_else(|| RecipeError::Unknown(name.to_owned()))
    }

    /// All recipes, for help texts and checks.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(Self)
    }

    /// Its name, version included.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.0.name
    }

    /// The labels it needs; one that ends in `?` may be left out.
    #[must_use]
    pub const fn fields(&self) -> &'static [&'static str] {
        self.0.fields
    }

    /// The key for these labelled fields, in any order.
    pub fn key(&self, fields: &[(&str, Field<'_>)]) -> Result<Key, RecipeError> {
        let given = Given { rule: self.0, fields };
        for (index, (label, _)) in fields.iter().enumerate() {
            let known = self.fields().iter().any(|field| field.trim_end_matches('?') == *label);
            let twice = fields.iter().take(index).any(|(earlier, _)| earlier == label);
            if !known || twice {
                return Err(RecipeError::Unexpected { recipe: self.name(), field: (*label).to_owned() });
            }
        }
        (self.0.make)(&given)
    }
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({})", self.name())
    }
}

/// The fields of one call, asked for by their place in the rule's list.
struct Given<'a> {
    rule: &'static Rule,
    fields: &'a [(&'a str, Field<'a>)],
}

impl<'a> Given<'a> {
    fn label(&self, place: usize) -> &'static str {
        self.rule.fields.get(place).map_or("", |field| field.trim_end_matches('?'))
    }

    fn has(&self, place: usize) -> bool {
        self.field(place).is_ok()
    }

    fn field(&self, place: usize) -> Result<Field<'a>, RecipeError> {
        let label = self.label(place);
        let found = self.fields.iter().find(|(known, _)| *known == label);
        found.map(|(_, field)| *field).ok_or(RecipeError::Missing { recipe: self.rule.name, field: label })
    }

    fn wrong(&self, place: usize, expected: &'static str) -> RecipeError {
        RecipeError::WrongKind { recipe: self.rule.name, field: self.label(place), expected }
    }

    fn text(&self, place: usize) -> Result<&'a str, RecipeError> {
        match self.field(place)? {
            Field::Text(text) => Ok(text),
            Field::Number(_) | Field::List(_) => Err(self.wrong(place, "a text")),
        }
    }

    fn number(&self, place: usize) -> Result<u64, RecipeError> {
        let number = match self.field(place)? {
            Field::Number(number) => Some(number),
            Field::Text(text) => text.parse().ok().filter(|number: &u64| number.to_string() == text),
            Field::List(_) => None,
        };
        number.ok_or_else(|| self.wrong(place, "a whole number"))
    }

    fn list(&self, place: usize) -> Result<&'a [&'a str], RecipeError> {
        match self.field(place)? {
            Field::List(list) => Ok(list),
            Field::Text(_) | Field::Number(_) => Err(self.wrong(place, "a list of texts")),
        }
    }
}
