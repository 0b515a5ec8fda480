//! What is in force: the file, then the environment, then flags; the later wins.

use std::path::{Path, PathBuf};

use hapax::Policies;
use hapax_engine::{gate::GateSize, policy_file::PolicyFileWarning};
use hapax_gateway::{
    Config,
    config::{RouteRules, TenantChoice, Upstream},
    inbound::TlsFiles,
};

use crate::{
    args::GatewayArgs,
    failure::Failure,
    serve::{
        alias,
        settings::{ADDRESS, is_address},
    },
    store,
};

pub(crate) struct Effective {
    pub(crate) config: Config,
    pub(crate) policies: Policies,
    pub(crate) warnings: Vec<PolicyFileWarning>,
    /// Where it was read from.
    pub(crate) file: Option<PathBuf>,
    pub(crate) listen: String,
    pub(crate) store: String,
    pub(crate) data: PathBuf,
    pub(crate) demand_durable: bool,
    /// What the seeds' names mean here, where that is not quite what it was there.
    pub(crate) notes: Vec<String>,
    /// How many answers this process keeps at hand.
    pub(crate) gate: GateSize,
}

const FILE: &str = "hapax.toml";
const LISTEN: &str = "127.0.0.1:8080";

impl Effective {
    /// For a gateway beside a daemon, whose policies and store are the daemon's.
    pub(crate) fn read(args: &GatewayArgs) -> Result<Self, Failure> {
        Ok(Self::parsed(args)?.0)
    }

    /// For a gateway of its own: the seeds' names count here as they do for a daemon.
    pub(crate) fn alone(args: &GatewayArgs) -> Result<Self, Failure> {
        let (mut effective, text) = Self::parsed(args)?;
        let path = effective.file.clone().unwrap_or_default();
        let seeded = alias::alone(&mut effective.policies, &path, &text, &effective.store)?;
        effective.store = seeded.store;
        effective.notes = seeded.notes;
        effective.gate = seeded.gate;
        let api = |route: &RouteRules| route.surface.as_deref() == Some("api");
        if seeded.of_api && !effective.config.routes.iter().any(api) {
            effective.notes.push(
                "`[idempotency]` speaks of the surface `api`, and no route is on it; write `surface = \"api\"` at the \
                 `[[route]]`s that it is meant for, or their times under `[surface.gateway]`"
                    .to_owned(),
            );
        }
        Ok(effective)
    }

    /// What is set otherwise than it was, and is read at the start alone.
    pub(super) fn differing(&self, was: &Self) -> Vec<&'static str> {
        let each = [
            ("listen", self.listen != was.listen),
            ("store", self.store != was.store),
            ("data", self.data != was.data),
            ("durability", self.demand_durable != was.demand_durable),
        ];
        each.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    fn parsed(args: &GatewayArgs) -> Result<(Self, String), Failure> {
        let file = args.config.clone().or_else(|| Path::new(FILE).is_file().then(|| PathBuf::from(FILE)));
        let text = match &file {
            None => String::new(),
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| Failure::NoFile { path: path.clone(), error })?
            }
        };
        let ((mut config, policies), warnings) = match &file {
            None => Default::default(),
            Some(path) => Config::from_toml(&text).map_err(|error| Failure::File { path: path.clone(), error })?,
        };
        if let Some(url) = &args.upstream {
            let target = url.parse().map_err(|error: hapax_gateway::outbound::TargetError| {
                // Its own code is that of the flag.
                Failure::Flag("--upstream", error.to_string().trim_end_matches(" [HX0050]").to_owned())
            })?;
            match config.upstreams.get_mut(Config::DEFAULT) {
                Some(upstream) => upstream.target = target,
                None => {
                    config.upstreams.insert(Config::DEFAULT.to_owned(), Upstream::at(target));
                }
            }
        }
        if let Some(choice) = &args.tenant {
            config.tenant = TenantChoice::parse(choice).map_err(|rule| Failure::Flag("--tenant", rule))?;
        }
        if let TenantChoice::Header(_) = &config.tenant
            && config.trusted_proxies.is_empty()
        {
            let rule = "a header can be sent by anybody; say in the file, in `trusted_proxies`, whose is believed";
            return Err(Failure::Flag("--tenant", rule.to_owned()));
        }
        if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
            config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
        }
        let listen = args.listen.clone().or_else(|| config.listen.clone()).unwrap_or_else(|| LISTEN.to_owned());
        if listen != "off" && !is_address(&listen) {
            return Err(Failure::Flag("listen", format!("`{listen}` is no address; {ADDRESS}")));
        }
        let data = args.data.clone().or_else(|| config.data.clone()).unwrap_or_else(|| store::DATA.into());
        let store = args.store.clone().or_else(|| config.store.clone());
        let store = store.unwrap_or_else(|| format!("file:{}", data.display()));
        if data.as_os_str().is_empty() {
            return Err(Failure::Flag("data", "name a directory, such as ./hapax-data".to_owned()));
        }
        store::is_url(&store)?;
        let demand_durable = match args.durability.as_deref() {
            None => config.demand_durable,
            Some("any") => false,
            Some("durable") => true,
            Some(_) => return Err(Failure::Flag("--durability", "write `any` or `durable`".to_owned())),
        };
        let (notes, gate) = (Vec::new(), GateSize::default());
        let effective = Self { config, policies, warnings, file, listen, store, data, demand_durable, notes, gate };
        Ok((effective, text))
    }
}
