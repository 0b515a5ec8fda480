//! A failure as a document, for programs: what the daemon answered, or the same form for what the command itself could not do.

use serde_json::{Value, json};

use crate::failure::{Failure, meaning, with_code};

/// Nothing where a report was the document, or nobody can read one.
pub(crate) fn of(failure: &Failure) -> Option<Value> {
    let is_told = matches!(
        failure,
        Failure::Told(_)
            | Failure::Output(_)
            | Failure::Damaged(_)
            | Failure::NoStore(_)
            | Failure::Differs(_)
            | Failure::ChargedTwice(_)
    );
    (!is_told).then(|| said(failure))
}

/// The same, where there was no report.
pub(crate) fn said(failure: &Failure) -> Value {
    if let Some(answer) = failure.refusal().and_then(|refusal| serde_json::to_value(refusal).ok()) {
        return answer;
    }
    let words = failure.words();
    // Of several lines the first is the message, and the rest is where.
    let (first, rest) = words.split_once('\n').unwrap_or((&words, ""));
    let (message, code) = with_code(first);
    own(format!("{message}\n{rest}").trim_end(), code, failure.code())
}

/// What stands on the command line cannot be read.
pub(crate) fn of_the_words(error: &clap::Error) -> Value {
    let words = error.render().to_string();
    let first = words.split("\n\n").next().unwrap_or_default();
    own(first.trim_start_matches("error: ").trim(), None, 2)
}

fn own(detail: &str, code: Option<&str>, exit_code: u8) -> Value {
    let mut document = json!({ "title": meaning(exit_code), "detail": detail, "exit_code": exit_code });
    if let Some(code) = code {
        document["type"] = format!("https://github.com/hapax-rs/hapax/blob/main/docs/errors/{code}.md").into();
        document["code"] = code.into();
    }
    document
}
