//! Another site's page may make a visitor's browser send a form here, with the visitor's credential. It cannot read our
//! page, so it does not know what our forms carry.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::{
    app::{App, Caller},
    problem::Problem,
};

pub(super) fn token(app: &App, caller: &Caller) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&app.csrf) else { return String::new() };
    mac.update(b"hapax.csrf.v1\0");
    // The key itself and for whom it acts: two keys may be called the same.
    mac.update(&caller.identity.digest.unwrap_or_default());
    mac.update(if caller.sees_all { &[] } else { caller.tenant().as_bytes() });
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

pub(super) fn check(app: &App, caller: &Caller, shown: &str) -> Result<(), Problem> {
    let expected = token(app, caller);
    if !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(shown.as_bytes())) {
        return Ok(());
    }
    Err(Problem::forbidden("the form is not from this page, or from before a restart; load the page again"))
}

/// Browsers say where a form comes from.
pub(crate) fn came_from_here(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("sec-fetch-site").and_then(|site| site.to_str().ok()) {
        None | Some("same-origin") => Ok(()),
        Some(_) => Err(Problem::forbidden("the form was sent by another site")),
    }
}
