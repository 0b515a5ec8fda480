use tokio::time::timeout;

use crate::{
    error::{OpenError, shown},
    options::Options,
    statement::quoted,
    store::session,
};

/// Removes the schema of a store with everything in it, for good.
pub async fn erase(options: &Options) -> Result<(), OpenError> {
    let options = options.clone().settled()?;
    let (client, server) = session(&options).await?;
    let failed = |reason: String| OpenError::Server { server: server.clone(), reason };
    let drop_it = format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(options.schema_name()));
    let patience = options.answer_timeout * 10;
    match timeout(patience, client.batch_execute(&drop_it)).await {
        Ok(done) => done.map_err(|error| failed(shown(&error))),
        Err(_) => Err(failed("no answer in time".into())),
    }
}
