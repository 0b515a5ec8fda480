//! What is in force, and where each value came from: the file, then the environment, then flags; the later wins.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hapax::{Policies, Providers, Span};
use hapax_engine::gate::GateSize;
use hapax_engine::policy_file::{PolicyFileWarning, Report, Section, value};
use toml::de::{DeTable, DeValue};

use super::{alias, args::ServeArgs, queue};
use crate::failure::Failure;

/// One value, and who said so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    pub(crate) value: String,
    pub(crate) from: String,
}

/// Every knob of `serve` with its default. Their names are the file's keys, and with `HAPAX_` the environment's.
pub(super) const KNOBS: [(&str, &str); 21] = [
    ("listen", "127.0.0.1:7878"),
    ("admin", "127.0.0.1:7879"),
    ("store", crate::store::DEFAULT),
    ("data", crate::store::DATA),
    ("durability", "any"),
    ("keys", "none"),
    ("log", "info"),
    ("log_format", "text"),
    ("connections", "16384"),
    ("body_bytes", "2097152"),
    ("readers", "1024"),
    ("readers_per_tenant", "256"),
    ("reader_seconds", "3600"),
    ("begins_per_tenant", "4096"),
    ("waiters", "10000"),
    ("tls_certificate", "none"),
    ("tls_key", "none"),
    ("otlp", "off"),
    ("otlp_one_in", "1"),
    ("audit_file_bytes", "16777216"),
    ("audit_keep", "forever"),
];

const FILE: &str = "hapax.toml";
/// Other readers' tables.
pub(super) const OTHERS: [&str; 9] =
    ["server", "a2a", "idempotency", "gateway", "limits", "upstream", "egress", "route", "provider"];

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) knobs: BTreeMap<&'static str, Given>,
    pub(crate) policies: Policies,
    /// What is known about providers that activities call.
    pub(crate) providers: Providers,
    pub(crate) warnings: Vec<PolicyFileWarning>,
    /// What the seeds' names mean here, where that is not quite what it was there.
    pub(crate) notes: Vec<String>,
    pub(crate) file: Option<PathBuf>,
    /// What the seeds' names changed.
    pub(crate) aliases: Vec<(String, Given)>,
    /// How many answers this process keeps at hand, where somebody said so.
    gate_entries: Option<u64>,
    /// The seed's variables for the queue, as they were given.
    pub(crate) seed: BTreeMap<String, String>,
    /// Where a gateway on its own has its records.
    gateway: Option<Whereabouts>,
}

/// Where records are, and who said so.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pub(crate) store: Given,
    pub(crate) data: Given,
}

impl Whereabouts {
    /// Where the file of a gateway on its own says. Whatever it leaves out is as usual.
    fn of_gateway(text: &str, shown: &str) -> Option<Self> {
        let root = text.parse::<toml::Table>().ok()?;
        let said = |name: &str| root.get("gateway")?.get(name)?.as_str();
        let from = format!("file, {shown}, [gateway]");
        let (data, store) = match (said("data"), said("store")) {
            (None, None) => return None,
            (data, store) => (data.unwrap_or(crate::store::DATA), store),
        };
        let store = store.map_or_else(|| format!("file:{data}"), str::to_owned);
        Some(Self { store: given(&store, &from), data: given(data, &from) })
    }

    /// Where nobody has said anything to a daemon and none was ever here, it is the gateway's.
    fn or(self, gateway: Option<Self>) -> Self {
        let is_unsaid = self.store.from == "default" && self.data.from == "default";
        let is_used = || std::path::Path::new(&self.data.value).exists();
        match gateway {
            Some(gateway) if is_unsaid && !is_used() => gateway,
            Some(_) | None => self,
        }
    }
}

impl Settings {
    pub(crate) fn read(args: &ServeArgs) -> Result<Self, Failure> {
        let (file, text) = text_of(args)?;
        Self::merged(args, file, &text, &environment()?)
    }

    /// A file by itself, without the variables of whoever asks.
    pub(super) fn of_file(args: &ServeArgs) -> Result<Self, Failure> {
        let (file, text) = text_of(args)?;
        Self::merged(args, file, &text, &BTreeMap::new())
    }

    /// What is set otherwise than it was, and is read at the start alone; keys and policies are read again by a reload.
    pub(super) fn differing(&self, was: &Self) -> Vec<&'static str> {
        let differs = |name: &&'static str| **name != *"keys" && self.get(name) != was.get(name);
        self.knobs.keys().copied().filter(differs).collect()
    }

    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let of = |name: &str| self.knobs.get(name).cloned().unwrap_or_else(|| given("", "default"));
        Whereabouts { store: of("store"), data: of("data") }.or(self.gateway.clone())
    }

    fn merged(
        args: &ServeArgs,
        file: Option<PathBuf>,
        text: &str,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, Failure> {
        let shown = file.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let read = Policies::from_toml_beside(text, &OTHERS, |root, report| in_file(root, report, &shown));
        let ((mut policies, (in_file, seed)), warnings) =
            read.map_err(|error| Failure::File { path: file.clone().unwrap_or_default(), error })?;
        let mut knobs: BTreeMap<&'static str, Given> =
            KNOBS.iter().chain(&queue::KNOBS).map(|(name, value)| (*name, given(value, "default"))).collect();
        knobs.extend(in_file);
        unknown_variables(environment)?;
        for (name, _) in KNOBS.into_iter().chain(queue::KNOBS) {
            let variable = format!("HAPAX_{}", name.to_uppercase());
            if let Some(value) = environment.get(&variable) {
                knobs.insert(name, given(value, &format!("environment, {variable}")));
            }
        }
        queue::aliases(&mut knobs, environment)?;
        let flags = [
            ("listen", &args.listen),
            ("admin", &args.admin),
            ("store", &args.store),
            ("data", &args.data),
            ("durability", &args.durability),
            ("keys", &args.keys),
            ("log", &args.log),
            ("log_format", &args.log_format),
            ("tls_certificate", &args.tls_certificate),
            ("tls_key", &args.tls_key),
        ];
        for (name, value) in flags {
            if let Some(value) = value {
                knobs.insert(name, given(value, &format!("flag, --{}", name.replace('_', "-"))));
            }
        }
        // Without a word about the store it is the data directory.
        if let (Some(store), Some(data)) = (knobs.get("store"), knobs.get("data"))
            && store.from == "default"
        {
            let store = given(&format!("file:{}", data.value), &data.from.clone());
            knobs.insert("store", store);
        }
        let applied = alias::apply(&mut policies, text, &seed, environment)?;
        let mut notes: Vec<String> = applied.warning.into_iter().collect();
        if let Some(store) = knobs.get("store") {
            let (prefixed, note) = alias::prefixed(store, &seed)?;
            notes.extend(note);
            if let Some(store) = prefixed {
                knobs.insert("store", store);
            }
        }
        let providers = Providers::beside(text).map_err(|error| Failure::Setting {
            name: "provider".to_owned(),
            from: shown.clone(),
            rule: error.to_string(),
        })?;
        let seed = environment.iter().filter(|(name, _)| name.starts_with("COVENANT_A2A_"));
        let seed = seed.map(|(name, value)| (name.clone(), value.clone())).collect();
        let settings = Self {
            knobs,
            policies,
            providers,
            warnings,
            notes,
            file,
            aliases: applied.said,
            gate_entries: applied.gate_entries,
            seed,
            gateway: Whereabouts::of_gateway(text, &shown),
        };
        settings.check()?;
        Ok(settings)
    }

    pub(crate) fn gate(&self) -> GateSize {
        alias::gate_of(self.gate_entries)
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.knobs.get(name).map_or("", |given| given.value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Result<usize, Failure> {
        let given = self.knobs.get(name);
        let value = given.and_then(|given| given.value.replace('_', "").parse().ok()).filter(|value| *value > 0);
        let value = value.ok_or_else(|| self.wrong(name, "a number from 1 on"))?;
        match most(name) {
            most if value as u64 > most => Err(self.wrong(name, &format!("at most {most}"))),
            _ => Ok(value),
        }
    }

    /// A length of time, or `forever`.
    pub(crate) fn span(&self, name: &str) -> Result<Span, Failure> {
        let text = DeValue::String(self.get(name).to_owned().into());
        value::span(&text).map_err(|rule| {
            let from = self.knobs.get(name).map_or_else(String::new, |given| given.from.clone());
            Failure::Setting { name: name.to_owned(), from, rule }
        })
    }

    pub(super) fn wrong(&self, name: &str, rule: &str) -> Failure {
        let from = self.knobs.get(name).map_or_else(String::new, |given| given.from.clone());
        Failure::Setting { name: name.to_owned(), from, rule: rule.to_owned() }
    }

    fn check(&self) -> Result<(), Failure> {
        for (name, default) in KNOBS {
            if default.parse::<u64>().is_ok() {
                self.number(name)?;
            }
        }
        self.span("audit_keep")?;
        queue::check(self)?;
        let wrong = |name: &str, rule: &str| self.wrong(name, rule);
        for name in ["listen", "admin"] {
            let address = self.get(name);
            if !is_address(address) && (name, address) != ("admin", "off") {
                return Err(wrong(name, ADDRESS));
            }
        }
        if self.get("data").is_empty() {
            return Err(wrong("data", "name a directory, such as ./hapax-data"));
        }
        crate::store::is_url(self.get("store"))?;
        if !["debug", "info", "warn", "error", "off"].contains(&self.get("log")) {
            return Err(wrong("log", "debug, info, warn, error or off"));
        }
        if !["any", "durable"].contains(&self.get("durability")) {
            return Err(wrong("durability", "any or durable"));
        }
        if (self.get("tls_certificate") == "none") != (self.get("tls_key") == "none") {
            return Err(wrong("tls_key", "certificate and key come together; name both, or neither"));
        }
        if !["text", "json"].contains(&self.get("log_format")) {
            return Err(wrong("log_format", "text or json"));
        }
        Ok(())
    }
}

pub(crate) const ADDRESS: &str = "write it as HOST:PORT, such as 127.0.0.1:7878";

/// Whether somebody could listen there; whether we can is seen when we do.
pub(crate) fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Beyond these nothing could hold what a count allows, or the machine counts it.
fn most(name: &str) -> u64 {
    match name {
        "body_bytes" => 1 << 30,
        "audit_file_bytes" => 1 << 40,
        // Ten years.
        "reader_seconds" => 315_360_000,
        "otlp_one_in" => 1_000_000_000,
        "a2a_max_tasks" | "a2a_max_tasks_per_tenant" => 1_000_000_000_000,
        _ => 10_000_000,
    }
}

/// The variables that are ours to read. What others have in theirs may be no text; ours has to be.
pub(crate) fn environment() -> Result<BTreeMap<String, String>, Failure> {
    const OURS: [&str; 3] = ["HAPAX_", "IDEMPOTENCY_", "COVENANT_A2A_"];
    let mut found = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.into_string().ok().filter(|name| OURS.iter().any(|ours| name.starts_with(ours))) else {
            continue;
        };
        let Ok(value) = value.into_string() else {
            let rule = "it is no text in UTF-8; set it anew, or unset it".to_owned();
            return Err(Failure::Setting { name, from: "environment".to_owned(), rule });
        };
        found.insert(name, value);
    }
    Ok(found)
}

fn text_of(args: &ServeArgs) -> Result<(Option<PathBuf>, String), Failure> {
    let file = args.config.clone().or_else(|| Path::new(FILE).is_file().then(|| PathBuf::from(FILE)));
    let text = match &file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|error| Failure::NoFile { path: path.clone(), error })?,
    };
    Ok((file, text))
}

/// Where `serve` would have its records here. A slip elsewhere in the file is no reason not to reach a process that runs, least of
/// all for the command that has it read the file again.
pub(crate) fn whereabouts(args: &ServeArgs) -> Result<Whereabouts, Failure> {
    let failure = match Settings::read(args) {
        Ok(settings) => return Ok(settings.whereabouts()),
        Err(failure) => failure,
    };
    let ((file, text), environment) = (text_of(args)?, environment()?);
    let is_of_the_file = matches!(&failure, Failure::File { .. })
        || matches!(&failure, Failure::Setting { from, .. } if from.starts_with("file"));
    let shown = file.map_or_else(String::new, |path| path.display().to_string());
    let server = text.parse::<toml::Table>().ok().filter(|_| is_of_the_file);
    let Some(server) = server.map(|root| root.get("server").cloned()) else { return Err(failure) };
    let of = |name: &str, flag: &Option<String>| {
        let variable = format!("HAPAX_{}", name.to_uppercase());
        let in_file = server.as_ref().and_then(|server| server.get(name)?.as_str().map(str::to_owned));
        let in_file = in_file.map(|value| given(&value, &format!("file, {shown}, [server]")));
        let in_environment = environment.get(&variable).map(|value| given(value, &format!("environment, {variable}")));
        flag.as_ref().map(|value| given(value, &format!("flag, --{name}"))).or(in_environment).or(in_file)
    };
    let data = of("data", &args.data).unwrap_or_else(|| given(crate::store::DATA, "default"));
    let own = || given(&format!("file:{}", data.value), &data.from);
    let store = of("store", &args.store).unwrap_or_else(own);
    Ok(Whereabouts { store, data }.or(Whereabouts::of_gateway(&text, &shown)))
}

pub(super) fn given(value: &str, from: &str) -> Given {
    Given { value: value.to_owned(), from: from.to_owned() }
}

type InFile = (Vec<(&'static str, Given)>, alias::Seed);

fn in_file(root: &DeTable<'_>, report: &mut Report<'_>, shown: &str) -> InFile {
    let mut found = Vec::new();
    if let Some((key, value)) = root.get_key_value("server") {
        let mut section = Section::new(report, "server".to_owned(), key.span().start);
        match value.get_ref().as_table() {
            None => section.wrong("", "is a table; write `[server]`".to_owned()),
            Some(table) => {
                section.only(table, &KNOBS.map(|(name, _)| name));
                for (name, default) in KNOBS {
                    let is_number = default.parse::<u64>().is_ok();
                    let read = |value: &DeValue<'_>| {
                        if is_number {
                            value::count(value).map(|count| count.to_string())
                        } else {
                            value::text(value).map(str::to_owned)
                        }
                    };
                    if let Some(value) = section.given(table, name, read) {
                        found.push((name, given(&value, &format!("file, {shown}, [server]"))));
                    }
                }
            }
        }
    }
    found.extend(queue::in_file(root, report, shown));
    (found, alias::in_file(root, report, shown))
}

/// Variables that begin as ours do and are none of ours: a slip that would silently change nothing.
pub(super) fn unknown_variables(environment: &BTreeMap<String, String>) -> Result<(), Failure> {
    const MORE: [&str; 7] = ["config", "upstream", "tenant", "seed", "url", "api_key", "ca"];
    let known: Vec<&str> = KNOBS.iter().chain(&queue::KNOBS).map(|(name, _)| *name).chain(MORE).collect();
    for variable in environment.keys() {
        let Some(name) = variable.strip_prefix("HAPAX_").map(str::to_lowercase) else { continue };
        // Those of our own tests and measurements reach whatever they start.
        let is_for_tests = ["test_", "testkit_", "bench_", "soak_"].iter().any(|begin| name.starts_with(begin));
        if !known.contains(&name.as_str()) && !is_for_tests {
            let rule = format!("unknown variable{}", hapax_engine::policy_file::suggest::or_one_of(&name, &known));
            return Err(Failure::Setting { name: variable.clone(), from: "environment".to_owned(), rule });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(text: &str, environment: &[(&str, &str)], args: &ServeArgs) -> Result<Settings, String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::merged(args, Some("hapax.toml".into()), text, &environment).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_later_wins_and_says_where_it_came_from() {
        let text = "[server]\nlisten = \"127.0.0.1:1\"\nlog = \"warn\"\nreaders = 5\n";
        let args = ServeArgs { log: Some("debug".into()), ..ServeArgs::default() };
        let settings = merged(text, &[("HAPAX_LISTEN", "127.0.0.1:2"), ("HAPAX_LOG", "error")], &args).unwrap();
        let from = |name: &str| (settings.get(name).to_owned(), settings.knobs[name].from.clone());
        assert_eq!(from("listen"), ("127.0.0.1:2".into(), "environment, HAPAX_LISTEN".into()));
        assert_eq!(from("log"), ("debug".into(), "flag, --log".into()));
        assert_eq!(from("readers"), ("5".into(), "file, hapax.toml, [server]".into()));
        assert_eq!(from("store").1, "default");
    }

    #[test]
    fn a_slip_is_an_error_with_a_suggestion() {
        let plain = ServeArgs::default();
        let error = merged("[server]\nlisen = \"x\"", &[], &plain).unwrap_err();
        assert!(error.contains("did you mean `listen`"), "{error}");
        let error = merged("[sever]\nlisten = \"x\"", &[], &plain).unwrap_err();
        assert!(error.contains("did you mean `server`"), "{error}");
        let error = merged("", &[("HAPAX_LISTN", "x")], &plain).unwrap_err();
        assert!(error.contains("did you mean `listen`"), "{error}");
        let error = merged("", &[("HAPAX_LOG", "loud")], &plain).unwrap_err();
        assert!(error.contains("HAPAX_LOG") && error.contains("debug, info"), "{error}");
        let error = merged("", &[("HAPAX_READERS", "-1")], &plain).unwrap_err();
        assert!(error.contains("a number from 1 on"), "{error}");
    }

    /// The block of the seed, letter for letter, is what people bring along. It must start, do what it says, and say where it
    /// means something else here.
    #[test]
    fn the_configuration_of_the_agents_seed_works_as_it_is() {
        const SEED: &str = r#"
[idempotency]
enabled = true

# Cache TTL
default_ttl_hours = 24
processing_ttl_seconds = 300  # Max time in "processing" state

# Key generation
auto_generate_keys = true
timestamp_bucket_seconds = 300  # 5 minutes

# Redis configuration
key_prefix = "idempotency"
"#;
        let plain = ServeArgs::default();
        let api = hapax::identity::Surface::new("api").unwrap();
        let settings = merged(SEED, &[], &plain).unwrap();
        let policy = settings.policies.of(&api);
        assert_eq!(policy.success.to_string(), "1d");
        assert_eq!(policy.lease, hapax::Millis::from_secs(300));
        assert_eq!(policy.mode, hapax::policy::Mode::Enforce);
        assert_eq!(policy.key.source.as_ref().unwrap().len(), 3, "the last is the request itself");
        let notes = settings.notes.join("\n");
        assert!(notes.contains("now 1d") && notes.contains("only the keys of a Redis"), "{notes}");
        assert!(settings.aliases.iter().any(|(name, given)| name == "key_prefix" && given.value == "idempotency"));

        let on_redis = merged(SEED, &[("HAPAX_STORE", "redis://:a?b@host:6379/0")], &plain).unwrap();
        assert_eq!(on_redis.get("store"), "redis://:a?b@host:6379/0?prefix=idempotency:");
        let said = "redis://host/0?protocol=resp3&prefix=idempotency:";
        assert_eq!(merged(SEED, &[("HAPAX_STORE", said)], &plain).unwrap().get("store"), said);
        let error = merged(SEED, &[("HAPAX_STORE", "redis://host/0?prefix=other:")], &plain).unwrap_err();
        assert!(error.contains("two different values"), "{error}");
        let says = |text: &str| merged(&format!("[idempotency]\n{text}\n"), &[], &plain).map(|said| said.notes);
        // Five minutes is how long the preset keeps an answer, so this says nothing new.
        assert!(says("timestamp_bucket_seconds = 300\nauto_generate_keys = true").unwrap().is_empty());
        let error = says("timestamp_bucket_seconds = 300\nauto_generate_keys = false").unwrap_err();
        assert!(error.contains("no keys are made"), "{error}");
        assert!(says("key_prefix = \"a{b}\"").unwrap_err().contains("letters, digits"));
    }

    /// The other seed's, as variables; and each of them against a file that says otherwise.
    #[test]
    fn the_configuration_of_the_job_seed_works_as_it_is() {
        let seed = [
            ("IDEMPOTENCY_PENDING_TTL_SECONDS", "60.0"),
            ("IDEMPOTENCY_COMMITTED_TTL_SECONDS", "300.0"),
            ("IDEMPOTENCY_REJECTED_TTL_SECONDS", "60.0"),
            ("IDEMPOTENCY_MAX_ENTRIES", "100_000"),
            ("IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS", "10.0"),
            ("IDEMPOTENCY_WAIT_FOR_PENDING", "True"),
            ("IDEMPOTENCY_PENDING_WAIT_TIMEOUT", "30.0"),
        ];
        let plain = ServeArgs::default();
        let job = hapax::identity::Surface::new("job").unwrap();
        let settings = merged("", &seed, &plain).unwrap();
        assert_eq!(**settings.policies.of(&job), hapax::Preset::Job.policy().revised(), "it is the preset");
        assert_eq!(settings.gate().entries, 100_000);
        let few = merged("", &[("IDEMPOTENCY_MAX_ENTRIES", "500")], &plain).unwrap();
        assert_eq!((few.gate().entries, few.policies.of(&job).capacity.max_records), (500, 500));
        let native = |knob: &str| format!("[surface.job]\npreset = \"job\"\n{knob}\n");
        for (name, value, knob) in [
            ("IDEMPOTENCY_PENDING_TTL_SECONDS", "60", "lease = \"59s\""),
            ("IDEMPOTENCY_COMMITTED_TTL_SECONDS", "300", "success = \"299s\""),
            ("IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS", "10", "sweep = \"9s\""),
            ("IDEMPOTENCY_WAIT_FOR_PENDING", "true", "on_in_flight = \"reject\""),
            ("IDEMPOTENCY_PENDING_WAIT_TIMEOUT", "30", "on_in_flight = \"reject\""),
            ("IDEMPOTENCY_WAIT_FOR_PENDING", "false", "on_in_flight = { wait = \"30s\" }"),
        ] {
            let error = merged(&native(knob), &[(name, value)], &plain).unwrap_err();
            assert!(error.contains(name) && error.contains("two different values"), "{name}: {error}");
        }
        // Both say the same, and how long nobody waits does not matter.
        let never = [("IDEMPOTENCY_WAIT_FOR_PENDING", "false"), ("IDEMPOTENCY_PENDING_WAIT_TIMEOUT", "30")];
        merged(&native("on_in_flight = \"reject\""), &never, &plain).unwrap();
    }

    #[test]
    fn the_seeds_names_work_and_a_contradiction_is_refused() {
        let plain = ServeArgs::default();
        let settings = merged("", &[("IDEMPOTENCY_PENDING_TTL_SECONDS", "90")], &plain).unwrap();
        let job = hapax::identity::Surface::new("job").unwrap();
        assert_eq!(settings.policies.of(&job).lease, hapax::Millis::from_secs(90));
        assert_eq!(settings.policies.of(&job).success.to_string(), "5m", "the rest is the preset's");
        let error = merged(
            "[surface.job]\npreset = \"job\"\nlease = \"5s\"\n",
            &[("IDEMPOTENCY_PENDING_TTL_SECONDS", "90")],
            &plain,
        );
        assert!(error.unwrap_err().contains("two different values"));
        let settings =
            merged("[idempotency]\ndefault_ttl_hours = 24\nprocessing_ttl_seconds = 60\n", &[], &plain).unwrap();
        let api = hapax::identity::Surface::new("api").unwrap();
        assert_eq!(settings.policies.of(&api).success.to_string(), "1d");
        assert_eq!(settings.policies.of(&api).lease, hapax::Millis::from_secs(60));
        let off = "[idempotency]\nenabled = false\nauto_generate_keys = false\n";
        let settings = merged(off, &[], &plain).unwrap();
        assert_eq!(settings.policies.of(&api).mode, hapax::policy::Mode::Shadow);
        assert_eq!(settings.policies.of(&api).key.source.as_ref().unwrap().len(), 2, "none is made");
        let error = merged(
            "[surface.api]\npreset = \"api\"\nmode = \"enforce\"\n[idempotency]\nenabled = false\n",
            &[],
            &plain,
        );
        assert!(error.unwrap_err().contains("two different values"));
        let error = merged("[idempotency]\ndefault_ttl_houres = 24\n", &[], &plain).unwrap_err();
        assert!(error.contains("did you mean `default_ttl_hours`"), "{error}");
        for (name, value, rule) in [
            ("IDEMPOTENCY_PENDING_TTL_SECONDS", "true", "a number from 0 on"),
            ("IDEMPOTENCY_WAIT_FOR_PENDING", "30", "true or false"),
            ("IDEMPOTENCY_MAX_ENTRIES", "1.5", "a whole number"),
            ("IDEMPOTENCY_PENDING_TTL_SECOND", "90", "write one of `IDEMPOTENCY_PENDING_TTL_SECONDS`"),
        ] {
            let error = merged("", &[(name, value)], &plain).unwrap_err();
            assert!(error.contains(name) && error.contains(rule), "{error}");
        }
        let error = merged("", &[("IDEMPOTENCY_MAX_ENTRIES", "many")], &plain).unwrap_err();
        assert!(error.contains("IDEMPOTENCY_MAX_ENTRIES"), "{error}");
    }
}
