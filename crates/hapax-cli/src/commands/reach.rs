//! How a command reaches the store: a daemon at an address, the process that holds the data directory, or by itself.

use std::path::PathBuf;

use hapax::Hapax;
use hapax_client::Client;
use hapax_server::{Server, audit::Audit};
use tokio::net::UnixStream;

use crate::{
    failure::Failure,
    gateway::kept_secret,
    serve::{bind_socket, remove_socket, socket_in},
    store,
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reach {
    /// A daemon elsewhere, such as http://127.0.0.1:7878
    #[arg(long, env = "HAPAX_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The key for it
    #[arg(long, env = "HAPAX_API_KEY", value_name = "KEY", hide_env_values = true, requires = "url")]
    pub(crate) api_key: Option<String>,
    /// Whose certificates are believed at an https:// address [default: the system's]
    #[arg(long, env = "HAPAX_CA", value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
    /// The data directory, through the process that holds it or by opening it
    #[arg(long, env = "HAPAX_DATA", value_name = "DIRECTORY", default_value = "./hapax-data")]
    pub(crate) data: PathBuf,
    /// A store that several share, `redis://…` or `postgres://…`; the audit log stays in the data directory
    #[arg(long, env = "HAPAX_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Whose operations, where a data directory is used
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// For programs: JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
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
        let named = |client: Client| match &self.tenant {
            Some(tenant) => client.tenant(tenant),
            None => client,
        };
        if let Some(url) = &self.url {
            let client = Client::trusting(url, self.ca.as_deref())?;
            let client = match &self.api_key {
                Some(key) => client.api_key(key),
                None => client,
            };
            return Ok(Reached { client: named(client), opened: None });
        }
        let shared = self.store.as_deref().filter(|store| !store.starts_with("file:"));
        let data = match self.store.as_deref().and_then(|store| store.strip_prefix("file:")) {
            Some(path) => PathBuf::from(path.strip_prefix("//").unwrap_or(path)),
            None => self.data.clone(),
        };
        if let Some(place) = self.store.as_deref().filter(|store| store.starts_with("memory:")) {
            let why = "a store in memory lives in its process; name that with --url".to_owned();
            return Err(Failure::Store { url: place.to_owned(), why });
        }
        if shared.is_none() && !data.is_dir() {
            let why = "there is no such directory; name one with --data, or a daemon with --url".to_owned();
            return Err(Failure::Store { url: data.display().to_string(), why });
        }
        let socket = socket_in(&data);
        let address = format!("unix:{}", socket.display());
        if UnixStream::connect(&socket).await.is_ok() {
            return Ok(Reached { client: named(Client::new(&address)?), opened: None });
        }
        // Nobody is there: this process holds the ledger for as long as the command takes, behind the same door.
        let own = format!("file:{}", data.display());
        let opened = store::open(shared.unwrap_or(&own), &data).await?;
        let held = opened.hold()?;
        let engine = Hapax::on(opened.store).secret(kept_secret(Some(&data))?).build()?;
        store::agree(&engine).await?;
        let (audit, _) = Audit::open(&data).map_err(hapax_server::ServerError::from)?;
        let server = Server::builder(engine).audit(audit).build()?;
        let listener = bind_socket(&data)?;
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve_socket(listener).await }
        });
        let client = named(Client::new(&address)?);
        Ok(Reached { client, opened: Some(Opened { server, serving, data, _held: held }) })
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
