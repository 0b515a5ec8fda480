//! What this NATS, as it is set up, really promises.

use hapax_store::Durability;

use crate::{api::StreamConfig, bucket::Bucket};

/// The first thing that stands in the way is named. No server says to an ordinary user whether it syncs before it
/// acknowledges, so the best that is ever said is best effort.
pub(crate) fn judge(bucket: &Bucket, version: &str) -> Durability {
    let worst = worst("records", &bucket.records).or_else(|| worst("bodies", &bucket.bodies));
    let reason = worst.unwrap_or_else(|| {
        format!(
            "server {version} does not show whether sync_interval is always; by default it syncs every two minutes, and \
             a power failure of most servers forgets what was acknowledged since"
        )
    });
    Durability::BestEffort(reason)
}

/// By what the stream holds: its name may be one that nobody chose.
fn worst(what: &str, stream: &StreamConfig) -> Option<String> {
    let name = format!("the stream of its {what}");
    if stream.storage != "file" {
        let storage = &stream.storage;
        return Some(format!("{name} has {storage} storage, so a restart forgets; make the bucket with file storage"));
    }
    if stream.max_age > 0 {
        let seconds = stream.max_age / 1_000_000_000;
        return Some(format!("{name} drops everything after {seconds} s, used or not; take max_age off"));
    }
    if stream.discard != "new" && stream.max_msgs > 0 {
        return Some(format!("{name} drops its oldest when it is full; set discard to new"));
    }
    // Seen on 2.9.10: whether there is room is judged without the bytes that the server adds to a message, and what then is
    // too much is made up for by dropping the oldest.
    if stream.max_bytes > 0 {
        return Some(format!("{name} has max_bytes, and drops its oldest when they are used up; take max_bytes off"));
    }
    if stream.num_replicas < 3 {
        let replicas = stream.num_replicas.max(1);
        let servers = if replicas == 1 { "one server" } else { "two servers" };
        return Some(format!(
            "{name} is kept on {servers}, which syncs every two minutes unless sync_interval is always, and does not \
             show it; keep it on three"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_is_named() {
        let good = StreamConfig {
            name: "KV_hapax".into(),
            storage: "file".into(),
            discard: "new".into(),
            num_replicas: 3,
            ..StreamConfig::default()
        };
        let said = |stream: StreamConfig, word: &str| {
            let bucket = Bucket { records: stream, bodies: good.clone() };
            let said = judge(&bucket, "2.9.10");
            assert!(matches!(&said, Durability::BestEffort(why) if why.contains(word)), "{said}");
        };
        said(StreamConfig { storage: "memory".into(), ..good.clone() }, "memory storage");
        said(StreamConfig { max_age: 60_000_000_000, ..good.clone() }, "after 60 s");
        said(StreamConfig { discard: "old".into(), max_msgs: 1, ..good.clone() }, "oldest");
        said(StreamConfig { max_bytes: 1, ..good.clone() }, "max_bytes");
        said(StreamConfig { num_replicas: 1, ..good.clone() }, "one server");
        said(StreamConfig { num_replicas: 2, ..good.clone() }, "two servers");
        said(good.clone(), "sync_interval");
        said(good.clone(), "2.9.10");
        let bodies = StreamConfig { max_bytes: 1, ..good.clone() };
        let shown = judge(&Bucket { records: good, bodies }, "2.9.10").to_string();
        assert!(shown.contains("stream of its bodies") && !shown.contains("KV_"), "{shown}");
    }
}
