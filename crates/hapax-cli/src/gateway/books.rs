//! What a gateway shares with `serve`: the admin socket in its data directory, through which commands reach it, and the
//! audit log.

use std::path::PathBuf;

use hapax::{Engine, Policies};
use hapax_server::{
    Reloader, Server, ServerError,
    audit::{Action, Audit},
};
use tokio::task::JoinSet;

use crate::{
    failure::Failure,
    serve::{bind_socket, note, remove_socket},
};

pub(super) struct Books {
    server: Server,
    directory: Option<PathBuf>,
    tasks: JoinSet<()>,
}

impl Books {
    /// Without a directory there is no socket, and the rows go with the process.
    pub(super) fn open(
        engine: &Engine,
        directory: Option<PathBuf>,
        store: &str,
        reloader: Reloader,
    ) -> Result<Self, Failure> {
        let audit = match &directory {
            Some(directory) => Audit::open(directory).map_err(ServerError::from)?.0,
            None => Audit::in_memory(),
        };
        // Routes are checked against policies, so both come from the file, together.
        let server = Server::builder(engine.clone()).audit(audit).policies_by_file().reloader(reloader).build()?;
        note(&server, Action::Started, "gateway")?;
        let mut tasks = JoinSet::new();
        if let Some(directory) = &directory {
            let (server, socket) = (server.clone(), bind_socket(directory, store)?);
            tasks.spawn(async move { server.serve_socket(socket).await });
        }
        let keeping = server.clone();
        tasks.spawn(async move { keeping.keep_books().await });
        Ok(Self { server, directory, tasks })
    }

    /// Before new policies are in force.
    pub(super) fn policies(&self, policies: &Policies, actor: &str) -> Result<(), ServerError> {
        self.server.note_policies(policies, actor)
    }

    pub(super) async fn close(mut self) -> Result<(), Failure> {
        self.server.stop();
        while self.tasks.join_next().await.is_some() {}
        if let Some(directory) = &self.directory {
            remove_socket(directory);
        }
        note(&self.server, Action::Stopped, "gateway")?;
        self.server.audit().checkpoint().map_err(ServerError::from)?;
        Ok(())
    }
}
