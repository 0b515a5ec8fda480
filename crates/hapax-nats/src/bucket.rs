//! The two streams of a bucket: made if they are not there, looked at if they are.

use hapax_store::StoreError;
use serde::Serialize;

use crate::{
    api::{Nothing, Refusal, StreamConfig, StreamInfo},
    error::{Call, Failed, OpenError},
    link::Link,
    names::Names,
};

const CALL: Call = Call::Read("open");

#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) records: StreamConfig,
    pub(crate) bodies: StreamConfig,
}

/// As `nats kv add` makes a bucket, but for two things: reads go to the leader, and single messages may be deleted.
#[derive(Serialize)]
struct Create<'a> {
    #[serde(flatten)]
    config: &'a StreamConfig,
    allow_rollup_hdrs: bool,
}

pub(crate) async fn open(link: &Link, name: &str, names: &Names, replicas: usize) -> Result<Bucket, OpenError> {
    let of = async |stream: &str, subjects: String| {
        let config = look_or_make(link, stream, &subjects, replicas).await;
        let config = config.map_err(|failed| refused(name, names, failed))?;
        match unusable(&config, &subjects) {
            Some(reason) => {
                let (server, bucket) = (name.to_owned(), names.bucket.clone());
                Err(OpenError::Bucket { server, bucket, reason })
            }
            None => Ok(config),
        }
    };
    Ok(Bucket {
        records: of(&names.records, names.all_records()).await?,
        bodies: of(&names.bodies, names.all_bodies()).await?,
    })
}

async fn look_or_make(link: &Link, stream: &str, subjects: &str, replicas: usize) -> Result<StreamConfig, Failed> {
    let info = async || link.ask::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &Nothing {}).await;
    match info().await {
        Ok(found) => return Ok(found.config),
        Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::NO_STREAM => {}
        Err(failed) => return Err(failed),
    }
    let config = StreamConfig {
        name: stream.to_owned(),
        subjects: vec![subjects.to_owned()],
        storage: "file".into(),
        num_replicas: replicas,
        discard: "new".into(),
        retention: "limits".into(),
        max_age: 0,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: 1,
        deny_delete: false,
        sealed: false,
        allow_direct: false,
    };
    let create = Create { config: &config, allow_rollup_hdrs: true };
    match link.ask::<StreamInfo>(&format!("STREAM.CREATE.{stream}"), &create).await {
        Ok(made) => Ok(made.config),
        // Somebody else was faster.
        Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::OTHER_STREAM => Ok(info().await?.config),
        Err(failed) => Err(failed),
    }
}

fn unusable(config: &StreamConfig, subjects: &str) -> Option<String> {
    if config.subjects != [subjects] {
        return Some(format!("the stream {} takes other subjects than {subjects}; choose another bucket", config.name));
    }
    if config.sealed {
        return Some(format!("the stream {} is sealed; choose another bucket", config.name));
    }
    if config.retention != "limits" {
        return Some(format!("the stream {} drops what was read; choose another bucket", config.name));
    }
    None
}

fn refused(name: &str, names: &Names, failed: Failed) -> OpenError {
    if let Failed::Refused(refusal) = &failed
        && (refusal.did_nothing() || refusal.is_full())
    {
        let reason = format!("{} ({}); check JetStream's limits and rights", refusal.description, refusal.err_code);
        return OpenError::Bucket { server: name.to_owned(), bucket: names.bucket.clone(), reason };
    }
    failed.into_store(name, CALL).into()
}

/// How it is set up now.
pub(crate) async fn look(link: &Link, name: &str, names: &Names) -> Result<Bucket, StoreError> {
    let of = async |stream: &str| {
        let info = link.ask::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &Nothing {}).await;
        info.map(|info| info.config).map_err(|failed| failed.into_store(name, Call::Read("durability")))
    };
    Ok(Bucket { records: of(&names.records).await?, bodies: of(&names.bodies).await? })
}
