//! A policy file that is misread moves money twice. So: the documented example is read as it says, and everything that
//! could be a slip is refused, with its line and what to write instead.

use hapax_core::{
    Effect, Millis, Policy, Preset, Span,
    identity::{KeySource, Pointer, Surface},
    meaning::Answers,
    policy::{
        Admission, AfterWindow, Capacity, FingerprintMode, GrammarName, Keep, MismatchInFlight, Mode, OnFull,
        OnInFlight, OnLapse, OnUncaptured, Treatment,
    },
};
use hapax_engine::{Policies, PolicyFileError, PolicyFileWarning};
use proptest::prelude::*;

const DOCS: &str = include_str!("../../../docs/policy-file.md");

fn example() -> &'static str {
    let from = DOCS.find("```toml\n").unwrap() + "```toml\n".len();
    let length = DOCS[from..].find("```").unwrap();
    &DOCS[from..from + length]
}

fn of(policies: &Policies, surface: &str) -> Policy {
    Policy::clone(policies.of(&Surface::new(surface).unwrap()))
}

fn read(text: &str) -> (Policies, Vec<PolicyFileWarning>) {
    Policies::from_toml(text).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> PolicyFileError {
    match Policies::from_toml(text) {
        Ok(_) => panic!("was taken: {text}"),
        Err(error) => error,
    }
}

/// The one problem of a file, as it is printed.
fn problem(text: &str) -> String {
    let error = refused(text);
    assert_eq!(error.problems.len(), 1, "{error}");
    error.problems[0].to_string()
}

const fn days(days: u64) -> Span {
    Span::For(Millis::from_days(days))
}

#[test]
fn the_documented_file_means_what_it_says() {
    let (policies, warnings) = read(example());
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["line 61, [surface.search], `mode`: `shadow` decides everything and stops nothing"]
    );

    let money = of(&policies, "payments");
    assert_eq!(&*money.name, "money");
    assert_eq!((money.lease, money.max_attempt), (Millis::from_mins(2), Some(Millis::from_mins(10))));
    assert_eq!(money.on_in_flight, OnInFlight::Reject);
    assert_eq!(money.mismatch_in_flight, Some(MismatchInFlight::InFlight));
    assert_eq!(money.lapse_for(Effect::Idempotent), OnLapse::Open);
    assert_eq!(money.lapse_for(Effect::Unsafe), OnLapse::InDoubt);
    assert_eq!(money.after_window, Some(AfterWindow::Refuse));
    assert_eq!((money.success, money.final_failure), (days(14), Treatment::Replay(days(14))));
    assert_eq!(money.retryable_failure, Treatment::Replay(days(1)));
    assert_eq!((money.open_retention, money.tombstone_retention), (Some(days(1)), days(180)));
    let capacity = Capacity {
        max_records: 5_000_000,
        per_tenant: 250_000,
        max_tombstones: 20_000_000,
        bytes_per_tenant: Some(10 << 30),
        on_full: OnFull::RejectNew,
    };
    assert_eq!(money.capacity, capacity);
    assert_eq!(money.admission, Some(Admission { max_in_flight: 2_000, per_tenant: 100 }));
    assert_eq!((money.capture.keep, money.capture.on_uncaptured), (Keep::Whole, OnUncaptured::Refuse));
    assert_eq!((money.capture.max_body, money.capture.inline), (256 * 1024, 8 * 1024));
    assert_eq!(money.capture.headers.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["content-type", "location"]);
    assert_eq!(money.fingerprint.mode, FingerprintMode::Enforce);
    assert_eq!((money.fingerprint.fields.len(), money.fingerprint.ignore.len()), (3, 1));
    let sources = [
        KeySource::Header("idempotency-key".to_owned()),
        KeySource::JsonPointer(Pointer::parse("/request_id").unwrap()),
    ];
    assert_eq!(money.key.source.as_deref(), Some(&sources[..]));
    assert_eq!(
        (money.key.required, money.key.grammar, money.key.max_len),
        (Some(true), Some(GrammarName::Visible), Some(64))
    );
    assert_eq!(money.answers, Answers::Stripe);
    assert_eq!((money.forward_key, money.mode, money.sweep), (true, Mode::Enforce, Millis::from_secs(5)));

    let refunds = of(&policies, "billing.refunds");
    assert_eq!((&*refunds.name, refunds.success), ("billing.refunds", Span::Forever));
    assert_eq!((refunds.lease, refunds.final_failure), (money.lease, Treatment::Open));
    assert_ne!(refunds.revision, money.revision);

    assert_eq!(of(&policies, "jobs").success, Preset::Job.policy().success);
    assert_eq!(of(&policies, "jobs").retryable_failure, Treatment::Release);
    assert_eq!(of(&policies, "search").lease, Millis::from_secs(45));
    assert_eq!(of(&policies, "search").mode, Mode::Shadow);
    assert_eq!(of(&policies, "anything-else").lease, Millis::from_secs(45));
}

#[test]
fn an_empty_file_is_the_standard_policy_everywhere() {
    let (policies, warnings) = read("");
    assert!(warnings.is_empty());
    assert_eq!(**policies.standard(), Preset::Standard.policy());
}

/// A retention for the results of tasks was all that was wanted. The table started from the default, and with it came the
/// default's lapse: leased tasks ran again by themselves.
#[test]
fn a_retention_for_the_queue_leaves_its_leases_alone() {
    let own = Preset::A2a.policy();
    for file in ["[surface.a2a]\nsuccess = \"30d\"", "[default]\nlease = \"5s\"\n[surface.a2a]\nsuccess = \"30d\""] {
        let (policies, _) = read(file);
        let policy = of(&policies, "a2a");
        assert_eq!((policy.on_lapse, policy.lease), (own.on_lapse, own.lease), "{file}");
        assert_ne!(policy.success, own.success);
    }
}

#[test]
fn every_preset_can_be_named_and_is_left_as_it_is() {
    for preset in Preset::ALL {
        let (policies, warnings) = read(&format!("[surface.x]\npreset = \"{}\"\n", preset.name()));
        assert_eq!(of(&policies, "x"), preset.policy());
        assert!(warnings.is_empty(), "{preset:?}: {warnings:?}");
    }
}

#[test]
fn every_slip_is_refused_with_its_line_and_what_to_write() {
    for (text, expected) in [
        ("[default]\nlease = 60", r#"line 2, [default], `lease`: a bare number has no unit; write "60s" or "60ms""#),
        (
            "[default]\nlease = \"60\"",
            r#"line 2, [default], `lease`: `60` is no length; write a whole number and one of ms, s, m, h, d, such as "90s""#,
        ),
        (
            "[default]\nlease = \"forever\"",
            r#"line 2, [default], `lease`: `forever` is for what is kept; write a length such as "60s""#,
        ),
        ("[default]\nlease = \"0s\"", "line 2, [default], `lease`: 0 would lapse at once; give a length such as 60s"),
        (
            "[default]\nsuccess = 0",
            r#"line 2, [default], `success`: 0 is refused, since it is read both ways; say "forever", or how long"#,
        ),
        (
            "[default]\nsuccess = \"0d\"",
            r#"line 2, [default], `success`: 0 is refused, since it is read both ways; say "forever", or how long"#,
        ),
        ("[default]\nlaese = \"60s\"", "line 2, [default], `laese`: unknown key; did you mean `lease`?"),
        ("[defaults]\nlease = \"60s\"", "line 1, `defaults`: unknown key; did you mean `default`?"),
        ("lease = \"60s\"", "line 1, `lease`: knobs stand in a table; put it under `[default]` or `[surface.NAME]`"),
        (
            "[surface]\nlease = \"60s\"",
            "line 2, [surface], `lease`: this knob belongs to one table; put it under `[surface.NAME]`",
        ),
        (
            "[surface.a.b]\nlease = \"60s\"",
            "line 1, [surface.a], `b`: unknown key; see docs/policy-file.md for the names; a name with a dot is quoted: `[surface.\"a.b\"]`",
        ),
        (
            "[default]\npreset = \"strip\"",
            "line 2, [default], `preset`: there is no preset `strip`; did you mean `stripe`?",
        ),
        (
            "[surface.x]\npolicy = \"monye\"\n[surface.y]\npolicy = \"money\"\n[policy.money]",
            "line 2, [surface.x], `policy`: there is no `[policy.monye]`; did you mean `money`?",
        ),
        (
            "[surface.x]\npolicy = \"a\"\npreset = \"job\"\n[policy.a]",
            "line 2, [surface.x], `policy`: a table starts from a `policy` or from a `preset`; remove one of them",
        ),
        (
            "[surface.x]\npolicy = \"a\"\n[policy.a]\npolicy = \"b\"",
            "line 4, [policy.a], `policy`: a policy starts from a `preset`, not from another policy; name one",
        ),
        (
            "[surface.\"two words\"]\n",
            "line 1, [surface], `two words`: surface holds a character that is not allowed: only letters, digits and `._:/-`",
        ),
        (
            "[default]\non_lapse = { pure = \"opne\" }",
            "line 2, [default], `on_lapse.pure`: `opne` is not known here; did you mean `open`?",
        ),
        (
            "[default]\non_lapse.unsafe = \"open\"",
            "line 2, [default], `on_lapse`: `open` runs unsafe work again without leave; only pure and idempotent work may",
        ),
        (
            "[default]\non_lapse.unsafes = \"in_doubt\"",
            "line 2, [default], `on_lapse.unsafes`: unknown effect class; did you mean `unsafe`?",
        ),
        (
            "[default]\non_in_flight = \"wait\"",
            r#"line 2, [default], `on_in_flight`: write "reject" or { wait = "10s" }"#,
        ),
        (
            "[default]\n\n\n[default.capacity]\nmax_records = 100\nper_tenant = 200",
            "line 6, [default], `capacity.per_tenant`: one tenant cannot keep more than max_records",
        ),
        (
            "[default]\ncapacity = { max_record = 5 }",
            "line 2, [default], `capacity.max_record`: unknown key; did you mean `max_records`?",
        ),
        (
            "[default]\ncapacity.max_records = -5",
            "line 2, [default], `capacity.max_records`: needs a number from 0 up that fits 63 bits",
        ),
        (
            "[default]\nadmission = { per_tenant = 5 }",
            r#"line 2, [default], `admission`: needs `max_in_flight`; add it, or say "none""#,
        ),
        (
            "[default]\ncapture.headers = [\"Set-Cookie\"]",
            "line 2, [default], `capture.headers`: `set-cookie` is never stored: a replay would hand one caller's session to another",
        ),
        (
            "[default]\ncapture.max_body = \"1MB\"",
            r#"line 2, [default], `capture.max_body`: `1MB` is no size; write bytes as a number, or one of B, KiB, MiB, GiB, such as "16KiB""#,
        ),
        (
            "[default]\nfingerprint.fields = [\"amount\"]",
            "line 2, [default], `fingerprint.fields`: JSON pointer `amount` does not begin with `/`; write `/amount` for a member of that name",
        ),
        (
            "[default]\nfingerprint.ignore = [\"/a~b\"]",
            "line 2, [default], `fingerprint.ignore`: JSON pointer `/a~b` has a `~` that is not part of `~0` or `~1`; write `~0` for a tilde",
        ),
        (
            "[default]\nfingerprint.ignore = [\"\"]",
            "line 2, [default], `fingerprint.ignore`: the empty pointer is the whole document; name a member, or set the mode to `off`",
        ),
        (
            "[default]\nforward_key = \"yes\"",
            "line 2, [default], `forward_key`: needs `true` or `false`, and this is a text",
        ),
        (
            "[default]\nkey = { source = [\"cookie:k\"] }",
            "line 2, [default], `key.source`: `cookie` is no place for a key; write \"header:NAME\", \"query:NAME\", \"body:/pointer\", \"template:{field}\" or \"automatic\"",
        ),
        (
            "[default]\nkey = { source = [\"body:\"] }",
            "line 2, [default], `key.source`: the whole body cannot be the key; name a member, such as `/idempotency_key`",
        ),
        (
            "[default]\nkey = { source = [\"automatic\"], required = true }",
            "line 2, [default], `key.required`: a key that is made automatically is never missing; remove one of the two",
        ),
        (
            "[default]\nkey = { grammar = \"visble\" }",
            "line 2, [default], `key.grammar`: `visble` is not known here; did you mean `visible`?",
        ),
        (
            "[default]\nkey = { max_len = 0 }",
            "line 2, [default], `key.max_len`: 0 would refuse every key; leave it out for the grammar's own limit",
        ),
        (
            "[default]\nanswers = \"strip\"",
            "line 2, [default], `answers`: `strip` is not known here; did you mean `stripe`?",
        ),
        (
            "[default]\nretry_gate = true",
            "line 2, [default], `retry_gate`: is not read here: it comes with the queue; remove it",
        ),
        (
            "[default]\nretryable_failure = \"forever\"",
            "line 2, [default], `retryable_failure`: a retryable failure cannot be replayed for ever; give a length",
        ),
        (
            "[default]\nretryable_failure = \"replay\"",
            "line 2, [default], `retryable_failure`: `replay` is not known here; write how long it is replayed, `open` or `release`",
        ),
        ("default = 5", "line 1, `default`: is a table; write `[default]`"),
        ("surface = 5", "line 1, `surface`: holds tables; write `[surface.NAME]`"),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let error = refused(
        "[surface.b]\nlaese = \"1s\"\nlease = 5\n\n[surface.a]\nsuccess = 0\ncapacity = { max_records = 0 }\n\n[policy.p]\nmode = \"off\"\n",
    );
    let lines: Vec<usize> = error.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 6, 7, 10], "{error}");
    assert!(error.to_string().starts_with("the policy file is refused [HX0030]\n  line 2, "), "{error}");
}

#[test]
fn what_is_wrong_with_a_shared_policy_is_told_once() {
    let text = "[policy.p]\nlease = \"0s\"\n[surface.a]\npolicy = \"p\"\n[surface.b]\npolicy = \"p\"\nsweep = \"1s\"\n";
    assert_eq!(problem(text), "line 2, [policy.p], `lease`: 0 would lapse at once; give a length such as 60s");
}

#[test]
fn broken_toml_is_told_with_its_line() {
    let error = refused("[default]\nlease = \n[surface.x\n");
    assert!(error.problems[0].line == 2 && error.problems[0].rule.starts_with("not TOML: "), "{error}");
    let error = refused("[default]\nlease = \"1s\"\nlease = \"2s\"\n");
    assert_eq!(error.problems[0].line, 3, "{error}");
}

#[test]
fn odd_policies_are_taken_and_said_to_be_odd() {
    let text = "[surface.x]\nlease = \"2h\"\nsuccess = \"1h\"\n[policy.unused]\n";
    let warnings: Vec<String> = read(text).1.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 3, [surface.x], `success`: 1h is shorter than the lease of 2h",
            "line 4, [policy], `unused`: no surface uses it",
        ]
    );
}

#[test]
fn a_new_size_brings_its_own_shares() {
    let (policies, _) = read("[default]\ncapacity = { max_records = 1_000 }\ncapture.max_body = 1000\n");
    let policy = policies.standard();
    assert_eq!(policy.capacity, Capacity::of(1_000, OnFull::RejectNew));
    assert_eq!((policy.capture.max_body, policy.capture.inline), (1_000, 1_000));
}

#[test]
fn bytes_have_a_limit_of_their_own() {
    let (policies, _) = read(
        "[default]\ncapacity = { bytes_per_tenant = \"2GiB\" }\n[surface.x]\ncapacity = { max_records = 50 }\n\
         [surface.y]\ncapacity = { bytes_per_tenant = \"none\" }\n",
    );
    assert_eq!(policies.standard().capacity.bytes_per_tenant, Some(2 << 30));
    let sized = Capacity { bytes_per_tenant: Some(2 << 30), ..Capacity::of(50, OnFull::RejectNew) };
    assert_eq!(of(&policies, "x").capacity, sized, "a new number of records says nothing of bytes");
    assert_eq!(of(&policies, "y").capacity.bytes_per_tenant, None);
    let given = |value: &str| problem(&format!("[default]\ncapacity = {{ {value} }}\n"));
    let zero = "line 2, [default], `capacity.bytes_per_tenant`: 0 would refuse everything; leave it out for no limit";
    assert_eq!(given("bytes_per_tenant = 0"), zero);
    assert!(given("bytes_per_tenant = \"2 gigs\"").contains("is no size"));
    assert!(given("byte_per_tenant = 7").ends_with("unknown key; did you mean `bytes_per_tenant`?"));
}

#[test]
fn a_limit_of_the_base_can_be_taken_away() {
    let (policies, _) = read(
        "[default]\nmax_attempt = \"1h\"\nadmission = { max_in_flight = 5 }\n[surface.x]\nmax_attempt = \"none\"\nadmission = \"none\"\n",
    );
    assert_eq!(policies.standard().admission, Some(Admission { max_in_flight: 5, per_tenant: 5 }));
    assert_eq!((of(&policies, "x").max_attempt, of(&policies, "x").admission), (None, None));
}

#[test]
fn a_file_beyond_all_measure_is_refused_unread() {
    let error = refused(&"#".repeat(Policies::MOST_FILE_BYTES + 1));
    assert!(error.to_string().contains("1048577 bytes"), "{error}");
    let many = format!("[default]\n{}", (0..50_000).map(|n| format!("k{n} = 1\n")).collect::<String>());
    let error = refused(&many);
    assert_eq!((error.problems.len(), error.more), (100, 49_900));
}

proptest! {
    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        let _ = Policies::from_toml(&text);
    }

    #[test]
    fn a_broken_example_never_panics(at in any::<prop::sample::Index>(), with in "[\\[\\]{}=.,\"'0-9a-z\n -]{0,6}", cut in 0_usize..8) {
        let text = example();
        let at = at.index(text.len());
        let end = (at + cut).min(text.len());
        let _ = Policies::from_toml(&format!("{}{with}{}", &text[..at], &text[end..]));
    }
}
