use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Say it as often as you like, it happens once.
#[derive(Debug, Parser)]
#[command(name = "hapax", version, about, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A reverse proxy in which every request with an `Idempotency-Key` happens once.
    Gateway(Box<GatewayArgs>),
    /// A shop, a crowd of clients that retry, collide and change their mind, and a gateway that is killed half-way.
    Demo(DemoArgs),
    /// The daemon: the API, the page, the administrators' door, on one store.
    Serve(Box<crate::serve::args::ServeArgs>),
    #[command(flatten)]
    Operate(Box<crate::commands::Operate>),
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DemoArgs {
    /// How many customers order
    #[arg(long, default_value_t = 96, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) orders: u32,
    /// The same seed gives the same customers
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags win over `HAPAX_…` variables, and those over the file.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    /// Where requests go, such as http://127.0.0.1:3000
    #[arg(long, env = "HAPAX_UPSTREAM", value_name = "URL", hide_env_values = true)]
    pub(crate) upstream: Option<String>,
    /// Where clients connect [default: 127.0.0.1:8080]
    #[arg(long, env = "HAPAX_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Where records are kept: `file:DIRECTORY`, `redis://…`, `postgres://…`, `nats://…`, or `memory:` to forget them with
    /// the process
    /// [default: the data directory]
    #[arg(long, env = "HAPAX_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Where the secret is kept, the same for all processes on one store [default: ./hapax-data]
    #[arg(long, env = "HAPAX_DATA", value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
    /// What the store must promise: `any`, or `durable` to refuse the start without it [default: any]
    #[arg(long, env = "HAPAX_DURABILITY", value_name = "LEVEL")]
    pub(crate) durability: Option<String>,
    /// The configuration [default: ./hapax.toml if it is there]
    #[arg(long, env = "HAPAX_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Whose key it is: `credential`, `header:NAME`, `jwt:CLAIM` or `fixed:NAME` [default: credential]
    #[arg(long, env = "HAPAX_TENANT", value_name = "CHOICE")]
    pub(crate) tenant: Option<String>,
    /// A PEM file with our certificate chain: clients connect by TLS
    #[arg(long, env = "HAPAX_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// A PEM file with the certificate's key
    #[arg(long, env = "HAPAX_TLS_KEY", value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::{CommandFactory as _, error::ErrorKind};

    use super::*;

    fn files(at: &Path, ends: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.ends_with("tests") {
                files(&entry, ends, found);
            } else if entry.to_string_lossy().ends_with(ends) {
                found.push(entry);
            }
        }
    }

    /// The commands that a text names in backquotes, without those that are patterns or have a shell's signs in them.
    fn named(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        quoted.filter(|quoted| quoted.starts_with("hapax ") && !quoted.contains(['|', '[', '…', '>', '\'']))
    }

    /// A ledger was damaged, and the message named a flag that its command never had. Whatever our messages and pages say to type
    /// is a command, with flags that it takes; what is left out, a person fills in.
    #[test]
    fn every_command_that_is_named_is_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all = vec![root.join("README.md")];
        files(&root.join("docs"), ".md", &mut all);
        files(&root.join("crates"), ".rs", &mut all);
        let (mut wrong, mut looked_at) = (Vec::new(), 0);
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap();
            for command in named(&text) {
                looked_at += 1;
                let words = command.split_whitespace();
                let Err(error) = Args::command().try_get_matches_from(words) else { continue };
                if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) {
                    wrong.push(format!("{}: `{command}`", path.display()));
                }
            }
        }
        assert!(looked_at > 50, "only {looked_at} were found");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
