//! Whether this user may send wake-ups and hear them. One who may not would write as ever and wake nobody, and those who wait
//! would read again and again: it is said when the store is opened.

use redis::RedisError;
use tokio::time::timeout;

use crate::{
    error::{Call, OpenError, says, shown},
    keys::Keys,
    link::Links,
};

const OPEN: Call = Call::Read("open");

/// Nobody is woken by it: what is published names no record.
pub(crate) async fn ask(links: &Links, keys: &Keys) -> Result<(), OpenError> {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(keys.channel()).arg("");
    if let Err(failed) = links.send(&publish).await {
        return Err(if forbidden(&failed.error) {
            refused(links, keys, "PUBLISH", &failed.error)
        } else {
            failed.told(&links.name, OPEN).into()
        });
    }
    let subscribing = async { links.ear().await?.subscribe(keys.channel()).await };
    match timeout(links.connect_timeout, subscribing).await {
        Ok(Err(error)) if forbidden(&error) => Err(refused(links, keys, "SUBSCRIBE", &error)),
        // A connection that cannot be had now is tried again by whoever listens.
        Ok(Ok(()) | Err(_)) | Err(_) => Ok(()),
    }
}

/// By its rights, or because this server has no such command.
fn forbidden(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") || says(error, "unknown command")
}

fn refused(links: &Links, keys: &Keys, command: &str, error: &RedisError) -> OpenError {
    let channel = String::from_utf8_lossy(keys.channel());
    let prefix = channel.strip_suffix('!').unwrap_or_default();
    let reason = format!(
        "this user may not {command} on the channel {channel}, by which those who wait are woken ({}); allow it: \
         ACL SETUSER … +publish +subscribe &{prefix}*",
        shown(error)
    );
    OpenError::Server { server: links.name.clone(), reason }
}
