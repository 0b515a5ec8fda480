//! Jobs that a client numbers and submits until it hears.

use hapax_engine::{Classified, JobError, Jobs, KeyGenerator, OnceError};

use super::*;
use crate::TempDir;

async fn submit(jobs: &Jobs, key: &str, job: &str) -> Result<(String, bool), JobError<Failed>> {
    let answer = format!("accepted {job}");
    let done = jobs.submit(key, job, move |_| async move { Ok::<_, Failed>(answer) }).await?;
    Ok((done.value, done.replayed))
}

/// The client hears nothing, and both sides restart: it numbers no two jobs alike, and what was accepted stays so.
pub async fn a_submission_survives_the_restart_of_either_side(stage: &Stage) {
    let (world, directory) = (stage.world().await, TempDir::new("jobs"));
    let client = || KeyGenerator::persistent(directory.join("keys"), "host1.dc1:12345").unwrap();
    let server = || world.engine().jobs("acme").unwrap();
    let key = client().next_client_key().unwrap().to_string();
    assert_eq!(submit(&server(), &key, "a").await.unwrap(), ("accepted a".to_owned(), false));
    assert_eq!(submit(&server(), &key, "a").await.unwrap(), ("accepted a".to_owned(), true));
    let after = client().next_client_key().unwrap().to_string();
    assert_ne!(after, key);
    assert!(!submit(&server(), &after, "b").await.unwrap().1);
    let other = submit(&server(), &key, "another job").await.unwrap_err();
    assert!(matches!(other, JobError::Submission(OnceError::Mismatch)), "{other}");
}

/// Accepted answers are given again for five minutes, rejected ones for one.
pub async fn accepted_and_rejected_have_times_of_their_own(stage: &Stage) {
    let world = stage.world().await;
    // Each time asked by another process: what one knows it believes for a moment by its own clock, which does not jump.
    let jobs = || world.engine().jobs("acme").unwrap();
    let (good, bad) = ("c:1:0000000000000001", "c:2:0000000000000001");
    submit(&jobs(), good, "a").await.unwrap();
    let no = jobs().submit(bad, "b", |_| async { Err::<String, _>(Classified::lasting("no".to_owned())) }).await;
    assert!(matches!(no, Err(JobError::Submission(OnceError::Failed(_)))));
    world.jump(40_000).await;
    assert!(matches!(submit(&jobs(), bad, "b").await, Err(JobError::Submission(OnceError::Rejected { .. }))));
    world.jump(30_000).await;
    assert!(!submit(&jobs(), bad, "b").await.unwrap().1, "a new submission");
    assert!(submit(&jobs(), good, "a").await.unwrap().1);
    world.jump(240_000).await;
    assert!(!submit(&jobs(), good, "a").await.unwrap().1);
}
