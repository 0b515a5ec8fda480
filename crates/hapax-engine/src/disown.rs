//! A begin whose fate stays unknown is taken back by a write, so that it can poison nothing.

use std::{sync::Arc, time::Duration};

use hapax_core::{Command, Nonce, Version};

use crate::{call::Prepared, engine::Engine};

/// How long taking back is tried. By then the lease of whatever landed has lapsed as well.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

impl Engine {
    /// Takes the begin back in the background: its own record, or the version against which it was sent.
    pub(crate) fn disown_later(&self, prepared: &Prepared, nonce: Nonce, expected: Version) {
        let inner = Arc::clone(&self.inner);
        let prepared = prepared.clone();
        tokio::spawn(async move {
            let mut wait = inner.settings.store_backoff;
            let mut waited = Duration::ZERO;
            while waited < GIVE_UP_AFTER {
                let tried = async {
                    let seen = inner.read(&prepared.id).await?;
                    let command = Command::Disown { nonce, expected };
                    inner.carry(&prepared.policy, &prepared.id, seen, &prepared.about, command).await?;
                    Ok::<(), hapax_store::StoreError>(())
                };
                if tried.await.is_ok() {
                    return;
                }
                tokio::time::sleep(wait).await;
                waited += wait;
                wait = wait.saturating_mul(2).min(Duration::from_secs(10));
            }
        });
    }
}
