use std::path::PathBuf;

/// Flags win over `HAPAX_…` variables, and those over the file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where clients connect [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Where administrators connect, or `off` [default: 127.0.0.1:7879]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// Where records are kept: `file:DIRECTORY`, `redis://…`, `postgres://…`, `nats://…`, or `memory:` to forget them with
    /// the process
    /// [default: the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Where the secret, the audit log and the socket are kept [default: ./hapax-data]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<String>,
    /// What the store must promise: `any`, or `durable` to refuse the start without it [default: any]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) durability: Option<String>,
    /// The file with API keys, or `none` on loopback [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<String>,
    /// How much is logged: `debug`, `info`, `warn`, `error` or `off` [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// How lines look: `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// A PEM file with our certificate chain: clients and administrators connect by TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<String>,
    /// A PEM file with the certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<String>,
    /// Run a gateway to this upstream in the same process, such as http://127.0.0.1:3000
    #[arg(long, env = "HAPAX_UPSTREAM", value_name = "URL", hide_env_values = true)]
    pub(crate) upstream: Option<String>,
    /// Where the gateway's clients connect, or `off` [default: `listen` under [gateway], else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Option<String>,
    /// The configuration [default: ./hapax.toml if it is there]
    #[arg(long, env = "HAPAX_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
