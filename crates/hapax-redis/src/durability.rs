//! What this Redis, as it is set up, really promises.

use std::collections::HashMap;

use hapax_store::{Durability, StoreError};

use crate::{error::Call, link::Links};

const CALL: Call = Call::Read("durability");

pub(crate) async fn ask(links: &Links) -> Result<Durability, StoreError> {
    // Whoever cannot be reached, or does not let us in, is no server that only keeps its settings to itself.
    links.ask::<String>(CALL, &redis::cmd("PING")).await?;
    let mut config = redis::cmd("CONFIG");
    // `no-appendfsync-on-rewrite` is one of them.
    config.arg("GET").arg("*append*");
    let Ok(append) = links.ask::<HashMap<String, String>>(CALL, &config).await else {
        let reason = "CONFIG GET is not allowed here, so nobody can tell whether it syncs";
        return Ok(Durability::BestEffort(reason.into()));
    };
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg("maxmemory*");
    let memory: HashMap<String, String> = links.ask(CALL, &config).await?;
    let mut info = redis::cmd("INFO");
    info.arg("replication");
    let replication: String = links.ask(CALL, &info).await?;
    Ok(judge(&append, &memory, &replication))
}

/// The first thing that stands in the way is named.
fn judge(append: &HashMap<String, String>, memory: &HashMap<String, String>, replication: &str) -> Durability {
    let is = |name: &str, wanted: &str| append.get(name).is_some_and(|value| value == wanted);
    let field = |name: &str| replication.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let policy = memory.get("maxmemory-policy").map_or("unknown", String::as_str);
    if policy != "noeviction" {
        return Durability::BestEffort(format!(
            "maxmemory-policy is {policy}, so it may drop records when memory is short; set it to noeviction"
        ));
    }
    if !is("appendonly", "yes") {
        return Durability::BestEffort("appendonly is off, so a restart forgets; set appendonly yes".into());
    }
    if !is("appendfsync", "always") {
        let held = append.get("appendfsync").map_or("unknown", String::as_str);
        return Durability::BestEffort(format!(
            "appendfsync is {held}, so a crash forgets what was acknowledged last; set appendfsync always"
        ));
    }
    if !is("no-appendfsync-on-rewrite", "no") {
        let held = append.get("no-appendfsync-on-rewrite").map_or("unknown", String::as_str);
        return Durability::BestEffort(format!(
            "no-appendfsync-on-rewrite is {held}, so while it saves or rewrites its file it acknowledges before it syncs; set \
             no-appendfsync-on-rewrite no"
        ));
    }
    let replicas = field("connected_slaves").and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    if replicas > 0 || field("role").is_some_and(|role| role.trim() != "master") {
        return Durability::BestEffort(format!(
            "it has {replicas} replicas, and a fail-over to one of them forgets what had not reached it"
        ));
    }
    Durability::Durable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_a_lone_server_that_always_syncs_and_never_evicts_is_durable() {
        let append = map(&[("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")]);
        let memory = map(&[("maxmemory-policy", "noeviction")]);
        assert_eq!(judge(&append, &memory, "role:master\r\nconnected_slaves:0\r\n"), Durability::Durable);
        let said = |durability: Durability, word: &str| {
            assert!(matches!(&durability, Durability::BestEffort(why) if why.contains(word)), "{durability}");
        };
        said(judge(&append, &map(&[("maxmemory-policy", "allkeys-lru")]), ""), "allkeys-lru");
        said(judge(&map(&[("appendonly", "no"), ("appendfsync", "always")]), &memory, ""), "appendonly");
        said(judge(&map(&[("appendonly", "yes"), ("appendfsync", "everysec")]), &memory, ""), "everysec");
        let unsynced = map(&[("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "yes")]);
        said(judge(&unsynced, &memory, "role:master\r\nconnected_slaves:0\r\n"), "no-appendfsync-on-rewrite");
        said(judge(&append, &memory, "role:master\r\nconnected_slaves:2\r\n"), "2 replicas");
        said(judge(&append, &memory, "role:slave\r\nconnected_slaves:0\r\n"), "fail-over");
    }
}
