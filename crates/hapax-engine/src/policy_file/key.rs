//! Where a key is found, as a file says it: `header:NAME`, `query:NAME`, `body:/pointer`, `template:TEXT`, `automatic`.

use hapax_core::identity::{KeySource, Pointer, Template};
use toml::de::DeValue;

use super::{report::short, value};

const FORMS: &str = "write \"header:NAME\", \"query:NAME\", \"body:/pointer\", \"template:{field}\" or \"automatic\"";

pub(super) fn sources(list: &DeValue<'_>) -> Result<Vec<KeySource>, String> {
    let Some(items) = list.as_array() else {
        return Err(format!("needs a list of places; {FORMS}"));
    };
    items.iter().map(|item| source(value::text(item.get_ref())?)).collect()
}

fn source(text: &str) -> Result<KeySource, String> {
    if text == "automatic" {
        return Ok(KeySource::Automatic);
    }
    let Some((place, name)) = text.split_once(':') else {
        return Err(format!("`{}` is no place for a key; {FORMS}", short(text)));
    };
    match place {
        "header" => value::header(name).map(|name| KeySource::Header(name.to_string())),
        "query" if name.is_empty() || name.contains(['&', '=', '#', '%', '+', ' ']) => {
            Err(format!("`{}` is no name of a query parameter; write it as it stands in the address", short(name)))
        }
        "query" => Ok(KeySource::Query(name.to_owned())),
        "body" => Pointer::parse(name).map(KeySource::JsonPointer).map_err(|error| error.to_string()),
        "template" => Template::parse(name).map(KeySource::Template).map_err(|error| error.to_string()),
        _ => Err(format!("`{}` is no place for a key; {FORMS}", short(place))),
    }
}
