//! *What an answer means*, over sockets: effects × presets, and for each a few statuses of every row.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{collections::HashMap, sync::Mutex};

use crate::support::{Dir, Reply, Start, Upstream, post};

const EFFECTS: [&str; 5] = ["pure", "idempotent", "unsafe", "compensatable", "irreversible"];
const PRESETS: [&str; 3] = ["standard", "stripe", "openwop"];
const STATUSES: [u16; 15] = [200, 201, 302, 404, 422, 400, 401, 403, 425, 429, 503, 408, 500, 502, 504];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// It stands: the same answer again, without the upstream.
    Replayed,
    /// The next request runs it.
    RunAgain,
    /// Nobody knows, so nobody runs it.
    InDoubt,
}

fn expected(preset: &str, effect: &str, status: u16) -> Then {
    let unknown = if matches!(effect, "pure" | "idempotent") { Then::RunAgain } else { Then::InDoubt };
    let lasting = matches!(effect, "compensatable" | "irreversible");
    match (preset, status) {
        ("stripe", 408 | 425 | 429) => Then::RunAgain,
        ("stripe", 500..=599) => Then::Replayed,
        ("openwop", 429 | 500..=599) => Then::RunAgain,
        (_, 400 | 401 | 403 | 425 | 429 | 503) => Then::RunAgain,
        (_, 502 | 504) => unknown,
        (_, 408 | 500) if lasting => Then::InDoubt,
        (_, 408 | 500) => Then::RunAgain,
        (_, _) => Then::Replayed,
    }
}

#[test]
fn answers_mean_what_the_table_says_for_every_effect_and_preset() {
    let runs: Mutex<HashMap<String, usize>> = Mutex::default();
    let upstream = Upstream::new(move |asked, _, _| {
        let mut runs = runs.lock().unwrap();
        let run = runs.entry(asked.path.clone()).or_default();
        *run += 1;
        let status = asked.path.rsplit('/').next().unwrap().parse().unwrap();
        Reply::json(if *run == 1 { status } else { 200 }, &format!("{run}"))
    });
    let mut file = String::new();
    for preset in PRESETS {
        file += &format!("[surface.{preset}]\npreset = \"{preset}\"\n");
        for effect in EFFECTS {
            file += &format!(
                "[[route]]\nmatch = \"POST /{preset}/{effect}/{{status}}\"\nsurface = \"{preset}\"\neffect = \"{effect}\"\n"
            );
        }
    }
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file).upstream(upstream.address).go();
    let mut seen = 0;
    for preset in PRESETS {
        for effect in EFFECTS {
            for status in STATUSES {
                let path = format!("/{preset}/{effect}/{status}");
                // Under `stripe` a key is the tenant's, whatever the endpoint.
                let key = format!("{effect}-{status}");
                let first = post(gateway.address, &path, &key, "{}");
                assert_eq!((first.status, first.text().as_str(), first.is_replay()), (status, "1", false), "{path}");
                let again = post(gateway.address, &path, &key, "{}");
                let then = match (again.status, again.is_replay(), again.text().as_str()) {
                    (same, true, "1") if same == status => Then::Replayed,
                    (200, false, "2") => Then::RunAgain,
                    (409, false, _) if again.says("\"code\":\"in_doubt\"") => Then::InDoubt,
                    other => panic!("{path}: {other:?}"),
                };
                assert_eq!(then, expected(preset, effect, status), "{path}");
                if then == Then::RunAgain {
                    // The success replaces what came before it.
                    let third = post(gateway.address, &path, &key, "{}");
                    assert_eq!((third.text().as_str(), third.is_replay()), ("2", true), "{path}");
                }
                seen += 1;
            }
        }
    }
    assert_eq!(seen, EFFECTS.len() * PRESETS.len() * STATUSES.len());
}
