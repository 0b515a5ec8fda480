//! What a gateway shares with `serve`: the admin socket in its data directory, through which commands reach it, and the
//! audit log.

use std::path::PathBuf;

use hapax::{Engine, Policies};
use hapax_server::{Server, ServerError, audit::Action};
use tokio::task::JoinSet;

use crate::{
    failure::Failure,
    serve::{audit_of, bind_socket, note, remove_socket},
    store::Opened,
};

pub(super) struct Books {
    server: Server,
    directory: Option<PathBuf>,
    tasks: JoinSet<()>,
}

impl Books {
    /// Without a directory there is no socket, and the rows go with the process.
    pub(super) fn open(engine: &Engine, opened: &Opened) -> Result<Self, Failure> {
        let (audit, _) = audit_of(opened.directory.as_deref())?;
        // Routes are checked against policies, so both come from the file, together.
        let server = Server::builder(engine.clone()).audit(audit).policies_by_file().build()?;
        note(&server, Action::Started, "gateway")?;
        let mut tasks = JoinSet::new();
        if let Some(directory) = &opened.directory {
            let (server, socket) = (server.clone(), bind_socket(directory)?);
            tasks.spawn(async move { server.serve_socket(socket).await });
        }
        let keeping = server.clone();
        tasks.spawn(async move { keeping.keep_books().await });
        Ok(Self { server, directory: opened.directory.clone(), tasks })
    }

    /// Before new policies are in force.
    pub(super) fn policies(&self, policies: &Policies) -> Result<(), ServerError> {
        self.server.note_policies(policies, "signal HUP")
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
