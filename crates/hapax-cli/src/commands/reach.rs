//! How a command reaches the store: a daemon at an address, the process that holds the data directory, or by itself.

use std::path::PathBuf;

use hapax::Hapax;
use hapax_client::Client;
use hapax_server::{Server, audit::Audit};

use crate::{
    failure::Failure,
    gateway::kept_secret,
    serve::{
        Way,
        args::ServeArgs,
        bind_socket, remove_socket,
        settings::{self, Settings, Whereabouts},
        store_at_socket,
    },
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
    Directory,
}

/// A directory, and the store that several share, if it is not in there.
struct Held {
    data: PathBuf,
    shared: Option<String>,
    /// Somebody said that the store is in the directory.
    in_there: bool,
}

impl Held {
    fn in_directory(data: PathBuf, in_there: bool) -> Self {
        Self { data, shared: None, in_there }
    }

    /// Whoever names a store means that one, and not whatever the process in the directory is on.
    fn is_on(&self, theirs: &str) -> Result<(), Failure> {
        let ours = match &self.shared {
            Some(url) => store::shown(url),
            None if self.in_there => format!("file:{}", self.data.display()),
            None => return Ok(()),
        };
        // Of a store in the directory each has its own way to write where that is.
        let same = if self.shared.is_none() { theirs.starts_with("file:") } else { theirs == ours };
        if same {
            return Ok(());
        }
        Err(Failure::OtherStore { data: self.data.clone(), theirs: theirs.to_owned(), ours })
    }
}

/// A client, and whatever has to live as long.
struct Reached {
    client: Client,
    /// Which store it is, since flags, variables and the place it was started in all have a say.
    place: String,
    by: By,
    /// The client goes by it.
    _way: Option<Way>,
}

/// How.
enum By {
    Address,
    Socket,
    Opening(Opened),
}

struct Opened {
    server: Server,
    serving: tokio::task::JoinHandle<()>,
    data: PathBuf,
    _held: Option<std::fs::File>,
}

/// So often a command goes back to where it began, when the one whose socket it had found has left, or another was first to open the
/// ledger. Each time takes two seconds at most.
const TRIES: u32 = 6;

impl Reach {
    /// Asks whoever holds the records, or opens them for as long as that takes. What is asked may be asked again: nobody has heard
    /// it then.
    pub(crate) async fn ask<T>(&self, ask: impl AsyncFn(&Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let (mut left, mut said) = (TRIES, String::new());
        loop {
            left -= 1;
            let reached = match self.connect().await {
                Err(Failure::InUse { .. } | Failure::DataInUse(_)) if left > 0 => continue,
                reached => reached?,
            };
            self.say(&reached.place, &mut said);
            let by_socket = matches!(reached.by, By::Socket);
            let told = ask(&reached.client).await.map_err(|failure| reached.at_the_other_door(failure));
            reached.close().await;
            match told {
                // It was a command like this one, and is done.
                Err(Failure::Client(hapax_client::Error::Unreachable { .. })) if by_socket && left > 0 => {}
                told => return told,
            }
        }
    }

    /// As [`Reach::ask`], but only a process that runs: what is in force nobody else knows.
    pub(crate) async fn ask_running<T>(&self, ask: impl AsyncFn(&Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let reached = self.connect_running().await?;
        self.say(&reached.place, &mut String::new());
        let told = ask(&reached.client).await.map_err(|failure| reached.at_the_other_door(failure));
        reached.close().await;
        told
    }

    async fn connect(&self) -> Result<Reached, Failure> {
        let held = match self.place()? {
            Place::Daemon(url) => return self.at_daemon(&url),
            Place::Directory => self.held(settings::whereabouts(&self.like_serve()?)?)?,
        };
        if let Some(reached) = self.through_process(&held).await? {
            return Ok(reached);
        }
        // Nobody is there: this process holds the ledger for as long as the command takes, behind the same door. It
        // begins under the same policies as a daemon here would, and sweeps nothing: it was asked for something else.
        let settings = Settings::read(&self.like_serve()?)?;
        let Held { data, shared, .. } = self.held(settings.whereabouts())?;
        let opened = match &shared {
            Some(url) => store::open(url, &data).await?,
            None => {
                store::may_be_ledger(&data)?;
                store::open_ledger(&data)?
            }
        };
        let held = opened.hold().await?;
        let engine = Hapax::on(opened.store).policies(settings.policies).secret(kept_secret(Some(&data))?);
        let engine = engine.sweeping(false).build()?;
        store::agree(&engine).await?;
        let (audit, _) = Audit::open(&data).map_err(hapax_server::ServerError::from)?;
        let server = Server::builder(engine).audit(audit).build()?;
        let own = format!("file:{}", data.display());
        let listener = bind_socket(&data, shared.as_deref().unwrap_or(&own))?;
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.serve_socket(listener).await }
        });
        let place = shared.as_deref().map_or_else(|| data.display().to_string(), store::shown);
        let way = Way::to(&data).map_err(|error| Failure::Data { path: data.clone(), error })?;
        let client = self.named(Client::new(&way.address())?);
        let place = format!("in {place}, opened for this command");
        let by = By::Opening(Opened { server, serving, data, _held: held });
        Ok(Reached { client, place, by, _way: Some(way) })
    }

    async fn connect_running(&self) -> Result<Reached, Failure> {
        let held = match self.place()? {
            Place::Daemon(url) => return self.at_daemon(&url),
            Place::Directory => self.held(settings::whereabouts(&self.like_serve()?)?)?,
        };
        self.through_process(&held).await?.ok_or(Failure::NotRunning { data: held.data })
    }

    /// The flags under which `serve` would have its records in the same place. The file is the same, and so are the variables.
    fn like_serve(&self) -> Result<ServeArgs, Failure> {
        let config = variable("HAPAX_CONFIG")?.map(Into::into);
        let data = self.data.as_deref().and_then(|data| data.to_str()).map(str::to_owned);
        Ok(ServeArgs { config, store: self.store.clone(), data, ..ServeArgs::default() })
    }

    /// What a store's URL says about the directory. A directory that was named by a flag wins over a store in another, unless that
    /// was named by a flag as well.
    fn held(&self, Whereabouts { store, data }: Whereabouts) -> Result<Held, Failure> {
        let named = self.data.clone();
        let beside = named.clone().unwrap_or_else(|| PathBuf::from(&data.value));
        let said = store.from.starts_with("flag") || store.from.starts_with("environment, HAPAX_STORE");
        match (store.value.split_once(':'), named.filter(|_| self.store.is_none())) {
            (Some(("file" | "memory", _)), Some(data)) => Ok(Held::in_directory(data, false)),
            (Some(("file", path)), None) => {
                Ok(Held::in_directory(path.strip_prefix("//").unwrap_or(path).into(), said))
            }
            (Some(("memory", _)), None) => {
                let why = "a store in memory lives in its process; name that with --url".to_owned();
                Err(Failure::Store { url: "memory:".to_owned(), why })
            }
            (Some(_) | None, _) => Ok(Held { data: beside, shared: Some(store.value), in_there: false }),
        }
    }

    fn at_daemon(&self, url: &str) -> Result<Reached, Failure> {
        let client = Client::trusting(url, self.ca.as_deref()).map_err(|error| {
            if matches!(error, hapax_client::Error::Address(_) | hapax_client::Error::NoTls(_)) {
                Failure::Flag(if self.url.is_some() { "--url" } else { "HAPAX_URL" }, error.to_string())
            } else {
                error.into()
            }
        })?;
        let client = match &self.api_key {
            Some(key) => client.api_key(key),
            None => client,
        };
        Ok(Reached {
            client: self.named(client),
            place: format!("at {}", store::shown(url)),
            by: By::Address,
            _way: None,
        })
    }

    async fn through_process(&self, held: &Held) -> Result<Option<Reached>, Failure> {
        let data = &held.data;
        if held.shared.is_none() && !data.is_dir() {
            let why = "there is no such directory; name one with --data, or a daemon with --url [HX0135]".to_owned();
            return Err(Failure::Store { url: data.display().to_string(), why });
        }
        // Without the directory that it lies in there is no socket.
        let Ok(way) = Way::to(data) else { return Ok(None) };
        if !way.is_open().await {
            return Ok(None);
        }
        if let Some(theirs) = store_at_socket(data) {
            held.is_on(&theirs)?;
        }
        let place = format!("in {}, through the process that runs there", data.display());
        Ok(Some(Reached { client: self.named(Client::new(&way.address())?), place, by: By::Socket, _way: Some(way) }))
    }

    fn place(&self) -> Result<Place, Failure> {
        // A store named by a flag wins over a variable that names a daemon, as a directory does.
        let url = variable("HAPAX_URL")?.filter(|_| self.store.is_none());
        chosen((self.url.clone(), self.data.is_some()), (url, variable("HAPAX_DATA")?.is_some()))
    }

    fn named(&self, client: Client) -> Client {
        match &self.tenant {
            Some(tenant) => client.tenant(tenant),
            None => client,
        }
    }

    /// Once, however often it is tried there.
    fn say(&self, place: &str, said: &mut String) {
        if !self.json && place != said {
            errln!("hapax: {place}");
            place.clone_into(said);
        }
    }
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    Ok(settings::environment()?.remove(name).filter(|value| !value.is_empty()))
}

/// A flag wins over a variable, whichever of the two it names: a daemon, or that there is a directory.
fn chosen(flags: (Option<String>, bool), variables: (Option<String>, bool)) -> Result<Place, Failure> {
    match (flags, variables) {
        ((Some(url), _), _) | ((None, false), (Some(url), false)) => Ok(Place::Daemon(url)),
        ((None, true), _) | ((None, false), (None, _)) => Ok(Place::Directory),
        ((None, false), (Some(_), true)) => Err(Failure::Setting {
            name: "HAPAX_URL".to_owned(),
            from: "environment".to_owned(),
            rule: "HAPAX_DATA is set too, and only one of them can be meant; unset one, or say --url or --data"
                .to_owned(),
        }),
    }
}

/// The directory in which `serve` would keep its own here, for whoever only reads files.
pub(crate) fn directory_here() -> Result<PathBuf, Failure> {
    let config = variable("HAPAX_CONFIG")?.map(Into::into);
    let Whereabouts { store, data } = settings::whereabouts(&ServeArgs { config, ..ServeArgs::default() })?;
    let of_store = store.value.strip_prefix("file:").map(|path| path.strip_prefix("//").unwrap_or(path));
    Ok(of_store.unwrap_or(&data.value).into())
}

impl Reached {
    /// Every endpoint that a command asks for is there, and some at the administrators' door alone.
    fn at_the_other_door(&self, mut failure: Failure) -> Failure {
        if let Failure::Client(hapax_client::Error::Refused(refusal)) = &mut failure
            && refusal.code == "HX0072"
            && matches!(self.by, By::Address)
        {
            "this is for administrators, and not at the tenants' door; name the administrators' listener (`serve --admin`) \
             with --url, or the data directory with --data"
                .clone_into(&mut refusal.detail);
        }
        failure
    }

    /// Lets go of the directory.
    async fn close(self) {
        drop(self.client);
        if let By::Opening(Opened { server, serving, data, _held }) = self.by {
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
        let daemon = |text: &str| Place::Daemon(text.to_owned());
        assert_eq!(chosen((None, true), (url("u"), false)).unwrap(), Place::Directory);
        assert_eq!(chosen((url("u"), false), (None, true)).unwrap(), daemon("u"));
        assert_eq!(chosen((url("u"), false), (url("v"), true)).unwrap(), daemon("u"));
        assert_eq!(chosen((None, false), (url("u"), false)).unwrap(), daemon("u"));
        assert_eq!(chosen((None, false), (None, true)).unwrap(), Place::Directory);
        assert_eq!(chosen((None, false), (None, false)).unwrap(), Place::Directory);
        assert!(chosen((None, false), (url("u"), true)).is_err());
    }
}
