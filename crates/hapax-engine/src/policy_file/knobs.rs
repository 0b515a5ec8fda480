//! Each knob by its name, as the policy has it.

use hapax_core::{
    Effect, Policy,
    meaning::Answers,
    policy::{
        Admission, AfterWindow, Capacity, FingerprintMode, GrammarName, Keep, MismatchInFlight, Mode, OnFull,
        OnInFlight, OnLapse, OnMismatch, OnStoreError, OnUncaptured,
    },
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{key, section::Section, suggest, value};

pub(super) const KNOBS: [&str; 23] = [
    "lease",
    "max_attempt",
    "on_in_flight",
    "on_mismatch",
    "mismatch_in_flight",
    "on_lapse",
    "after_window",
    "success",
    "final_failure",
    "retryable_failure",
    "open_retention",
    "tombstone_retention",
    "capacity",
    "admission",
    "on_store_error",
    "best_effort",
    "capture",
    "fingerprint",
    "key",
    "answers",
    "forward_key",
    "mode",
    "sweep",
];

type Value<'i> = Spanned<DeValue<'i>>;

/// The base with what the table changes, under its new name. `also` are the keys that are no knobs.
pub(super) fn read(
    section: &mut Section<'_, '_>,
    table: &DeTable<'_>,
    name: &str,
    base: Policy,
    also: &[&str],
) -> Policy {
    let mut policy = Policy { name: name.into(), ..base.clone() };
    for (key, value) in table {
        let knob = key.get_ref().as_ref();
        if !also.contains(&knob) {
            section.saw(knob, key.span().start);
            turn(section, &mut policy, knob, value);
        }
    }
    section.check(&policy, &base);
    policy
}

fn turn(section: &mut Section<'_, '_>, policy: &mut Policy, knob: &str, value: &Value<'_>) {
    let set = Setter { section, knob, value };
    match knob {
        "lease" => set.to(&mut policy.lease, value::millis),
        "max_attempt" => set.to(&mut policy.max_attempt, |value| unless_none(value, value::millis)),
        "on_in_flight" => set.to(&mut policy.on_in_flight, on_in_flight),
        "on_mismatch" => set.to(&mut policy.on_mismatch, |value| {
            value::choice(value, &[("reject", OnMismatch::Reject), ("observe", OnMismatch::Observe)])
        }),
        "mismatch_in_flight" => set.to(&mut policy.mismatch_in_flight, |value| {
            let words = [("mismatch", MismatchInFlight::Mismatch), ("in_flight", MismatchInFlight::InFlight)];
            value::choice(value, &words).map(Some)
        }),
        "on_lapse" => on_lapse(section, policy, value),
        "after_window" => set.to(&mut policy.after_window, |value| {
            value::choice(value, &[("new", AfterWindow::New), ("refuse", AfterWindow::Refuse)]).map(Some)
        }),
        "success" => set.to(&mut policy.success, value::span),
        "final_failure" => set.to(&mut policy.final_failure, value::treatment),
        "retryable_failure" => set.to(&mut policy.retryable_failure, value::treatment),
        "open_retention" => set.to(&mut policy.open_retention, |value| value::span(value).map(Some)),
        "tombstone_retention" => set.to(&mut policy.tombstone_retention, value::span),
        "capacity" => capacity(section, policy, value),
        "admission" => admission(section, policy, value),
        "on_store_error" => set.to(&mut policy.on_store_error, |value| {
            value::choice(value, &[("fail_closed", OnStoreError::FailClosed), ("fail_open", OnStoreError::FailOpen)])
        }),
        "best_effort" => set.to(&mut policy.best_effort, best_effort),
        "capture" => capture(section, policy, value),
        "fingerprint" => fingerprint(section, policy, value),
        "key" => key_rules(section, policy, value),
        "answers" => set.to(&mut policy.answers, |value| {
            value::choice(value, &Answers::ALL.map(|answers| (answers.name(), answers)))
        }),
        "forward_key" => set.to(&mut policy.forward_key, value::flag),
        "mode" => set.to(&mut policy.mode, |value| {
            value::choice(value, &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)])
        }),
        "sweep" => set.to(&mut policy.sweep, value::millis),
        "retry_gate" => section.wrong(knob, "is not read here: it comes with the queue; remove it".to_owned()),
        "policy" => {
            section.wrong(knob, "a policy starts from a `preset`, not from another policy; name one".to_owned());
        }
        unknown => {
            let hint = match value.get_ref() {
                DeValue::Table(_) => "; a name with a dot is quoted: `[surface.\"a.b\"]`",
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => "",
            };
            section.wrong(unknown, format!("unknown key{}{hint}", suggest::or_one_of(unknown, &KNOBS)));
        }
    }
}

/// A knob that is one value.
struct Setter<'s, 'r, 'a, 't, 'i> {
    section: &'s mut Section<'r, 'a>,
    knob: &'s str,
    value: &'t Value<'i>,
}

impl<'t, 'i> Setter<'_, '_, '_, 't, 'i> {
    fn to<T>(self, place: &mut T, read: impl FnOnce(&'t DeValue<'i>) -> Result<T, String>) {
        if let Some(read) = self.section.take(self.knob, self.value, read) {
            *place = read;
        }
    }
}

/// `"none"` takes a limit away that the base has.
fn unless_none<'t, 'i, T>(
    value: &'t DeValue<'i>,
    read: impl FnOnce(&'t DeValue<'i>) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if value.as_str() == Some("none") { Ok(None) } else { read(value).map(Some) }
}

fn on_in_flight(value: &DeValue<'_>) -> Result<OnInFlight, String> {
    const FORMS: &str = "write \"reject\" or { wait = \"10s\" }";
    match value {
        DeValue::String(text) if text == "reject" => Ok(OnInFlight::Reject),
        DeValue::Table(table) => match (table.get("wait"), table.len()) {
            (Some(most), 1) => Ok(OnInFlight::Wait { most: value::millis(most.get_ref())? }),
            (Some(_) | None, _) => Err(format!("holds `wait` and nothing else; {FORMS}")),
        },
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => Err(FORMS.to_owned()),
    }
}

fn on_lapse(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    let read = |value: &DeValue<'_>| {
        value::choice(value, &[("open", OnLapse::Open), ("in_doubt", OnLapse::InDoubt), ("stale", OnLapse::Stale)])
    };
    let DeValue::Table(table) = value.get_ref() else {
        Setter { section, knob: "on_lapse", value }.to(&mut policy.on_lapse, |value| Ok([Some(read(value)?); 5]));
        return;
    };
    for (key, value) in table {
        let class = key.get_ref().as_ref();
        let knob = format!("on_lapse.{class}");
        section.saw(&knob, key.span().start);
        match Effect::parse(class) {
            Some(effect) => {
                Setter { section, knob: &knob, value }
                    .to(&mut policy.on_lapse[effect as usize], |value| read(value).map(Some));
            }
            None => {
                let known = Effect::ALL.map(Effect::name);
                section.wrong(&knob, format!("unknown effect class{}", suggest::or_one_of(class, &known)));
            }
        }
    }
}

/// Effect classes by name.
fn best_effort(value: &DeValue<'_>) -> value::Read<[bool; 5]> {
    let names = value::texts(value, |name| {
        let known = Effect::ALL.map(Effect::name);
        let unknown = || format!("unknown effect class{}", suggest::or_one_of(name, &known));
        Effect::parse(name).map(|effect| effect.name().into()).ok_or_else(unknown)
    })?;
    Ok(Effect::ALL.map(|effect| names.iter().any(|name| **name == *effect.name())))
}

/// Goes through a table's members; `turn` says whether it knows the name.
fn members(
    section: &mut Section<'_, '_>,
    knob: &'static str,
    value: &Value<'_>,
    known: &[&str],
    mut turn: impl FnMut(Setter<'_, '_, '_, '_, '_>, &str),
) {
    let Some(table) = section.take(knob, value, value::table) else { return };
    for (key, value) in table {
        let member = key.get_ref().as_ref();
        let full = format!("{knob}.{member}");
        section.saw(&full, key.span().start);
        if known.contains(&member) {
            turn(Setter { section, knob: &full, value }, member);
        } else {
            section.wrong(&full, format!("unknown key{}", suggest::or_one_of(member, known)));
        }
    }
}

fn capacity(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    let known = ["max_records", "per_tenant", "max_tombstones", "bytes_per_tenant", "on_full"];
    let mut bytes_per_tenant = policy.capacity.bytes_per_tenant;
    let (mut records, mut tenant, mut stones) = (None, None, None);
    let mut on_full = policy.capacity.on_full;
    members(section, "capacity", value, &known, |set, member| match member {
        "max_records" => set.to(&mut records, |value| value::count(value).map(Some)),
        "per_tenant" => set.to(&mut tenant, |value| value::count(value).map(Some)),
        "max_tombstones" => set.to(&mut stones, |value| value::count(value).map(Some)),
        "bytes_per_tenant" => set.to(&mut bytes_per_tenant, |value| unless_none(value, value::size)),
        _ => set.to(&mut on_full, |value| {
            value::choice(value, &[("reject_new", OnFull::RejectNew), ("evict_oldest_final", OnFull::EvictOldestFinal)])
        }),
    });
    // A new size brings its own shares; the old ones belonged to the old size.
    let sized = records.map_or(policy.capacity, |records| Capacity::of(records, on_full));
    policy.capacity = Capacity {
        per_tenant: tenant.unwrap_or(sized.per_tenant),
        max_tombstones: stones.unwrap_or(sized.max_tombstones),
        bytes_per_tenant,
        on_full,
        ..sized
    };
}

fn admission(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    if value.get_ref().as_str() == Some("none") {
        policy.admission = None;
        return;
    }
    let (mut most, mut tenant) = (None, None);
    members(section, "admission", value, &["max_in_flight", "per_tenant"], |set, member| match member {
        "max_in_flight" => set.to(&mut most, |value| value::small_count(value).map(Some)),
        _ => set.to(&mut tenant, |value| value::small_count(value).map(Some)),
    });
    let before = policy.admission;
    policy.admission = match (most, before) {
        (Some(most), _) => Some(Admission { max_in_flight: most, per_tenant: tenant.unwrap_or(most) }),
        (None, Some(before)) => Some(Admission { per_tenant: tenant.unwrap_or(before.per_tenant), ..before }),
        (None, None) => {
            if tenant.is_some() || value.get_ref().as_table().is_some_and(DeTable::is_empty) {
                section.wrong("admission", "needs `max_in_flight`; add it, or say \"none\"".to_owned());
            }
            None
        }
    };
}

fn capture(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    let known = ["keep", "max_body", "inline", "headers", "on_uncaptured"];
    let mut inline = None;
    let capture = &mut policy.capture;
    members(section, "capture", value, &known, |set, member| match member {
        "keep" => set.to(&mut capture.keep, |value| {
            value::choice(value, &[("whole", Keep::Whole), ("handle", Keep::Handle), ("marker", Keep::Marker)])
        }),
        "max_body" => set.to(&mut capture.max_body, value::size),
        "inline" => set.to(&mut inline, |value| {
            let size = value::size(value)?;
            u32::try_from(size).map(Some).map_err(|_| "may be at most 1MiB".to_owned())
        }),
        "headers" => set.to(&mut capture.headers, |value| value::texts(value, value::header)),
        _ => set.to(&mut capture.on_uncaptured, |value| {
            value::choice(value, &[("refuse", OnUncaptured::Refuse), ("reinvoke", OnUncaptured::Reinvoke)])
        }),
    });
    // Who only lowers `max_body` means both.
    let fitting = u32::try_from(capture.max_body).unwrap_or(u32::MAX);
    capture.inline = inline.unwrap_or(capture.inline.min(fitting));
}

fn fingerprint(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    let rules = &mut policy.fingerprint;
    members(section, "fingerprint", value, &["mode", "fields", "ignore"], |set, member| match member {
        "mode" => set.to(&mut rules.mode, |value| {
            value::choice(
                value,
                &[
                    ("enforce", FingerprintMode::Enforce),
                    ("observe", FingerprintMode::Observe),
                    ("off", FingerprintMode::Off),
                ],
            )
        }),
        "fields" => set.to(&mut rules.fields, |value| value::texts(value, value::pointer)),
        _ => set.to(&mut rules.ignore, |value| value::texts(value, value::inner_pointer)),
    });
}

fn key_rules(section: &mut Section<'_, '_>, policy: &mut Policy, value: &Value<'_>) {
    let rules = &mut policy.key;
    members(section, "key", value, &["source", "required", "grammar", "max_len"], |set, member| match member {
        "source" => set.to(&mut rules.source, |value| key::sources(value).map(Some)),
        "required" => set.to(&mut rules.required, |value| value::flag(value).map(Some)),
        "grammar" => set.to(&mut rules.grammar, |value| {
            value::choice(value, &GrammarName::ALL.map(|grammar| (grammar.name(), grammar))).map(Some)
        }),
        _ => set.to(&mut rules.max_len, |value| value::small_count(value).map(Some)),
    });
}
