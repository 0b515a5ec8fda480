//! How a command reaches the store: a daemon at an address, the process that holds the data directory, or by itself.

use std::path::{Path, PathBuf};

use hapax::Hapax;
use hapax_client::Client;
use hapax_server::{Server, audit::Audit};
use tokio::net::UnixStream;

use crate::{
    failure::Failure,
    gateway::kept_secret,
    serve::{args::ServeArgs, bind_socket, remove_socket, settings::Settings, socket_in},
    store,
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reach {
    /// A daemon elsewhere, such as http://127.0.0.1:7878 [env: HAPAX_URL]
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "store"])]
    pub(crate) url: Option<String>,
    /// The key for it; a data directory needs none
    #[arg(long, env = "HAPAX_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// Whose certificates are believed at an https:// address [default: the system's]
    #[arg(long, env = "HAPAX_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The data directory, through the process that holds it or by opening it [env: HAPAX_DATA] [default: ./hapax-data]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,
    /// A store that several share, `redis://…`, `postgres://…` or `nats://…`; the audit log stays in the data
    /// directory [env: HAPAX_STORE]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Whose operations, at the administrators' door: that of a data directory, or of `serve --admin`
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// For programs: JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the records are.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Daemon(String),
    Directory(PathBuf),
}

/// A directory, and the store that several share, if it is not in there.
struct Held {
    data: PathBuf,
    shared: Option<String>,
}

/// A client, and whatever has to live as long.
pub(crate) struct Reached {
    pub(crate) client: Client,
    opened: Option<Opened>,
}

struct Opened {
    server: Server,
    serving: tokio::task::JoinHandle<()>,
    data: PathBuf,
    _held: Option<std::fs::File>,
}

impl Reach {
    pub(crate) async fn connect(&self) -> Result<Reached, Failure> {
        let Held { data, shared } = match self.place()? {
            Place::Daemon(url) => return self.at_daemon(&url),
            Place::Directory(data) => self.held(data)?,
        };
        if let Some(reached) = self.through_process(&data, shared.as_deref()).await? {
            return Ok(reached);
        }
        // Nobody is there: this process holds the ledger for as long as the command takes, behind the same door. It
        // begins under the same policies as a daemon here would, and sweeps nothing: it was asked for something else.
        let own = format!("file:{}", data.display());
        let opened = store::open(shared.as_deref().unwrap_or(&own), &data).await?;
        let held = opened.hold().await?;
        let settings =
            Settings::read(&ServeArgs { config: variable("HAPAX_CONFIG").map(Into::into), ..ServeArgs::default() })?;
        let engine = Hapax::on(opened.store).policies(settings.policies).secret(kept_secret(Some(&data))?);
        let engine = engine.sweeping(false).build()?;
        store::agree(&engine).await?;
        let (audit, _) = Audit::open(&data).map_err(hapax_server::ServerError::from)?;
        let server = Server::builder(engine).audit(audit).build()?;
        let listener = bind_socket(&data)?;
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve_socket(listener).await }
        });
        let place = shared.as_deref().map_or_else(|| data.display().to_string(), store::shown);
        self.say(&format!("in {place}, opened for this command"));
        let client = self.named(Client::new(&address_in(&data))?);
        Ok(Reached { client, opened: Some(Opened { server, serving, data, _held: held }) })
    }

    /// Only a process that runs: what is in force nobody else knows.
    pub(crate) async fn connect_running(&self) -> Result<Reached, Failure> {
        let Held { data, shared } = match self.place()? {
            Place::Daemon(url) => return self.at_daemon(&url),
            Place::Directory(data) => self.held(data)?,
        };
        self.through_process(&data, shared.as_deref()).await?.ok_or(Failure::NotRunning { data })
    }

    /// What a store's URL says about the directory. A directory that was named by a flag wins over a variable.
    fn held(&self, data: PathBuf) -> Result<Held, Failure> {
        let is_file = |store: &String| store.starts_with("file:");
        let named = variable("HAPAX_STORE").filter(|store| self.data.is_none() || !is_file(store));
        let store = self.store.clone().or(named);
        let Some(store) = store else { return Ok(Held { data, shared: None }) };
        match store.split_once(':') {
            Some(("file", path)) => Ok(Held { data: path.strip_prefix("//").unwrap_or(path).into(), shared: None }),
            Some(("memory", _)) => {
                let why = "a store in memory lives in its process; name that with --url".to_owned();
                Err(Failure::Store { url: "memory:".to_owned(), why })
            }
            Some(_) | None => Ok(Held { data, shared: Some(store) }),
        }
    }

    fn at_daemon(&self, url: &str) -> Result<Reached, Failure> {
        let client = Client::trusting(url, self.ca.as_deref())?;
        let client = match &self.api_key {
            Some(key) => client.api_key(key),
            None => client,
        };
        self.say(&format!("at {}", store::shown(url)));
        Ok(Reached { client: self.named(client), opened: None })
    }

    async fn through_process(&self, data: &Path, shared: Option<&str>) -> Result<Option<Reached>, Failure> {
        if shared.is_none() && !data.is_dir() {
            let why = "there is no such directory; name one with --data, or a daemon with --url [HX0135]".to_owned();
            return Err(Failure::Store { url: data.display().to_string(), why });
        }
        if UnixStream::connect(socket_in(data)).await.is_err() {
            return Ok(None);
        }
        self.say(&format!("in {}, through the process that runs there", data.display()));
        Ok(Some(Reached { client: self.named(Client::new(&address_in(data))?), opened: None }))
    }

    fn place(&self) -> Result<Place, Failure> {
        // A store named by a flag wins over a variable that names a daemon, as a directory does.
        let url = variable("HAPAX_URL").filter(|_| self.store.is_none());
        chosen((self.url.clone(), self.data.clone()), (url, variable("HAPAX_DATA").map(PathBuf::from)))
    }

    fn named(&self, client: Client) -> Client {
        match &self.tenant {
            Some(tenant) => client.tenant(tenant),
            None => client,
        }
    }

    /// Which store it was, since flags, variables and the place it was started in all have a say.
    fn say(&self, place: &str) {
        if !self.json {
            errln!("hapax: {place}");
        }
    }
}

fn address_in(data: &Path) -> String {
    format!("unix:{}", socket_in(data).display())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A flag wins over a variable, whichever of the two it names.
fn chosen(
    flags: (Option<String>, Option<PathBuf>),
    variables: (Option<String>, Option<PathBuf>),
) -> Result<Place, Failure> {
    match (flags, variables) {
        ((Some(url), _), _) | ((None, None), (Some(url), None)) => Ok(Place::Daemon(url)),
        ((None, Some(data)), _) | ((None, None), (None, Some(data))) => Ok(Place::Directory(data)),
        ((None, None), (Some(_), Some(_))) => Err(Failure::Setting {
            name: "HAPAX_URL".to_owned(),
            from: "environment".to_owned(),
            rule: "HAPAX_DATA is set too, and only one of them can be meant; unset one, or say --url or --data"
                .to_owned(),
        }),
        ((None, None), (None, None)) => Ok(Place::Directory("./hapax-data".into())),
    }
}

impl Reached {
    /// Lets go of the directory.
    pub(crate) async fn close(self) {
        drop(self.client);
        if let Some(Opened { server, serving, data, _held }) = self.opened {
            server.stop();
            let _ended = serving.await;
            remove_socket(&data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_a_variable_and_two_variables_are_one_too_many() {
        let url = |text: &str| Some(text.to_owned());
        let data = |text: &str| Some(PathBuf::from(text));
        let daemon = |text: &str| Place::Daemon(text.to_owned());
        let directory = |text: &str| Place::Directory(text.into());
        assert_eq!(chosen((None, data("d")), (url("u"), None)).unwrap(), directory("d"));
        assert_eq!(chosen((url("u"), None), (None, data("d"))).unwrap(), daemon("u"));
        assert_eq!(chosen((url("u"), None), (url("v"), data("d"))).unwrap(), daemon("u"));
        assert_eq!(chosen((None, None), (url("u"), None)).unwrap(), daemon("u"));
        assert_eq!(chosen((None, None), (None, data("d"))).unwrap(), directory("d"));
        assert_eq!(chosen((None, None), (None, None)).unwrap(), directory("./hapax-data"));
        assert!(chosen((None, None), (url("u"), data("d"))).is_err());
    }
}
