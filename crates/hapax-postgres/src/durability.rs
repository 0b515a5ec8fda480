//! What this PostgreSQL, as it is set up, really promises.

use hapax_store::Durability;
use tokio_postgres::{Client, Row};

use crate::{
    error::{OpenError, shown},
    statement::SETTINGS,
};

const OLDEST: i32 = 130_000;

pub(crate) struct Settings {
    fsync: String,
    synchronous_commit: String,
    full_page_writes: String,
    synchronous_standby_names: String,
    in_recovery: bool,
    read_only: bool,
    standbys: i64,
    version: i32,
}

pub(crate) async fn ask(client: &Client, server: &str) -> Result<Settings, OpenError> {
    let row = client
        .query_one(SETTINGS, &[])
        .await
        .map_err(|error| OpenError::Server { server: server.to_owned(), reason: shown(&error) })?;
    Ok(Settings::read(&row))
}

impl Settings {
    fn read(row: &Row) -> Self {
        Self {
            fsync: row.get(0),
            synchronous_commit: row.get(1),
            full_page_writes: row.get(2),
            synchronous_standby_names: row.get(3),
            in_recovery: row.get(4),
            read_only: row.get::<_, &str>(5) == "on",
            standbys: row.get(6),
            version: row.get(7),
        }
    }

    /// Why nothing can be written here.
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.version < OLDEST {
            return Some(format!("it is version {}, and 13 is the oldest that will do", self.version / 10_000));
        }
        if self.in_recovery {
            return Some("it is a standby; give the address of the writer".into());
        }
        self.read_only.then(|| "it is read-only; give the address of the writer, or a user that may write".into())
    }

    /// The first thing that stands in the way is named.
    pub(crate) fn durability(&self) -> Durability {
        if self.fsync != "on" {
            return Durability::BestEffort("fsync is off, so a crash can destroy everything; set fsync = on".into());
        }
        if self.full_page_writes != "on" {
            return Durability::BestEffort(
                "full_page_writes is off, so a crash can tear pages; set full_page_writes = on".into(),
            );
        }
        match self.synchronous_commit.as_str() {
            "off" => Durability::BestEffort(
                "synchronous_commit is off, so a crash forgets what was acknowledged last; \
                 set synchronous_commit = on for this user"
                    .into(),
            ),
            "local" if self.standbys > 0 => Durability::DurableIf(
                "nobody fails over: synchronous_commit is local, so standbys may lack what was acknowledged".into(),
            ),
            "remote_write" if !self.synchronous_standby_names.is_empty() => Durability::DurableIf(
                "no standby takes over after its machine crashed: synchronous_commit is remote_write, so it may have had \
                 what was acknowledged in memory only; set synchronous_commit = on"
                    .into(),
            ),
            _ if self.standbys > 0 && self.synchronous_standby_names.is_empty() => Durability::DurableIf(format!(
                "nobody fails over: its {} standbys are not synchronous; set synchronous_standby_names",
                self.standbys
            )),
            _ => Durability::Durable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            fsync: "on".into(),
            synchronous_commit: "on".into(),
            full_page_writes: "on".into(),
            synchronous_standby_names: String::new(),
            in_recovery: false,
            read_only: false,
            standbys: 0,
            version: 150_000,
        }
    }

    #[test]
    fn what_stands_in_the_way_of_durability_is_named() {
        assert_eq!(settings().durability(), Durability::Durable);
        let said = |settings: Settings, word: &str| {
            let durability = settings.durability();
            assert!(durability != Durability::Durable && durability.to_string().contains(word), "{durability}");
        };
        said(Settings { fsync: "off".into(), ..settings() }, "fsync");
        said(Settings { synchronous_commit: "off".into(), ..settings() }, "synchronous_commit");
        said(Settings { full_page_writes: "off".into(), ..settings() }, "full_page_writes");
        said(Settings { standbys: 1, ..settings() }, "not synchronous");
        said(Settings { synchronous_commit: "local".into(), standbys: 1, ..settings() }, "local");
        let synchronous = Settings { synchronous_standby_names: "one".into(), standbys: 1, ..settings() };
        assert_eq!(synchronous.durability(), Durability::Durable);
        said(Settings { synchronous_commit: "remote_write".into(), ..synchronous }, "remote_write");
        let alone = Settings { synchronous_commit: "remote_write".into(), ..settings() };
        assert_eq!(alone.durability(), Durability::Durable, "without standbys it syncs as `on` does");
    }

    #[test]
    fn a_standby_and_an_old_server_are_refused() {
        assert_eq!(settings().refusal(), None);
        assert!(Settings { in_recovery: true, ..settings() }.refusal().is_some());
        assert!(Settings { read_only: true, ..settings() }.refusal().is_some());
        assert!(Settings { version: 120_004, ..settings() }.refusal().is_some_and(|why| why.contains("12")));
    }
}
