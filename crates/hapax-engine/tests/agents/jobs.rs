use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use hapax_engine::{Classified, JobError, Jobs, KeyGenerator, OnceError};

use crate::support::{Failed, World, soon};

fn jobs(world: &World) -> Jobs {
    world.engine().jobs("acme").unwrap()
}

async fn submit(jobs: &Jobs, key: &str, job: &str) -> Result<(String, bool), JobError<Failed>> {
    let answer = format!("accepted {job}");
    let done = jobs.submit(key, job, move |_| async move { Ok::<_, Failed>(answer) }).await?;
    Ok((done.value, done.replayed))
}

fn directory(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("hapax-jobs-{name}-{}", std::process::id()));
    let _old = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A client submits, hears nothing, submits again; then it restarts, and its next job must not be taken for the last.
#[tokio::test(start_paused = true)]
async fn a_restarted_client_repeats_no_key_and_a_repeated_one_is_answered_again() {
    let (world, directory) = (World::new(), directory("restart"));
    let jobs = jobs(&world);
    let path = directory.join("keys");
    let client = |path: &std::path::Path| KeyGenerator::persistent(path, "host1.dc1:12345").unwrap();
    let generator = client(&path);
    let key = generator.next_client_key().unwrap().to_string();
    assert_eq!(submit(&jobs, &key, "a").await.unwrap(), ("accepted a".to_owned(), false));
    assert_eq!(submit(&jobs, &key, "a").await.unwrap(), ("accepted a".to_owned(), true));
    drop(generator);
    let after = client(&path).next_client_key().unwrap().to_string();
    assert_ne!(after, key);
    assert!(!submit(&jobs, &after, "b").await.unwrap().1);
    // The server restarts: the ledger remembers what its gate has forgotten.
    let restarted = world.engine().jobs("acme").unwrap();
    assert!(submit(&restarted, &key, "a").await.unwrap().1);
    let other = submit(&restarted, &key, "another job").await.unwrap_err();
    assert!(matches!(other, JobError::Submission(OnceError::Mismatch)), "{other}");
    assert!(matches!(submit(&restarted, "no-such-form", "a").await, Err(JobError::Key(_))));
    std::fs::remove_dir_all(directory).unwrap();
}

/// Accepted answers are given again for five minutes, rejected ones for one.
#[tokio::test(start_paused = true)]
async fn accepted_and_rejected_have_times_of_their_own() {
    let world = World::new();
    let jobs = jobs(&world);
    let (good, bad) = ("c:1:0000000000000001", "c:2:0000000000000001");
    submit(&jobs, good, "a").await.unwrap();
    let no =
        jobs.submit(bad, "b", |_| async { Err::<String, _>(Classified::lasting("no such queue".to_owned())) }).await;
    assert!(matches!(no, Err(JobError::Submission(OnceError::Failed(_)))));
    world.clock.jump(59_000);
    assert!(matches!(submit(&jobs, bad, "b").await, Err(JobError::Submission(OnceError::Rejected { .. }))));
    world.clock.jump(2_000);
    assert!(!submit(&jobs, bad, "b").await.unwrap().1, "a new submission");
    assert!(submit(&jobs, good, "a").await.unwrap().1);
    world.clock.jump(240_000);
    assert!(!submit(&jobs, good, "a").await.unwrap().1);
}

/// Fifty clients resend while the first submission is under way: they wait, and all hear the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn duplicates_of_a_running_submission_wait_for_it() {
    let world = World::new();
    let jobs = jobs(&world);
    let ran = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (jobs, ran) = (jobs.clone(), Arc::clone(&ran));
            tokio::spawn(async move {
                jobs.submit("c:1:0000000000000001", "a", move |_| async move {
                    ran.fetch_add(1, SeqCst);
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    Ok::<_, Failed>("job-1".to_owned())
                })
                .await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(soon(task).await.unwrap().unwrap().value, "job-1");
    }
    assert_eq!(ran.load(SeqCst), 1);
}

/// More submissions than may be kept: the oldest decided ones make room, and the newest are still answered again.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_new_submissions_are_not_turned_away() {
    let world = World::new();
    let mut policy = hapax_core::Preset::Job.policy();
    policy.capacity = hapax_core::policy::Capacity::of(100, policy.capacity.on_full);
    policy.capacity.per_tenant = 100;
    let engine = world.builder().policy("job", policy).build().unwrap();
    let jobs = engine.jobs("acme").unwrap();
    let key = |number: u32| format!("c:{number}:0000000000000001");
    for number in 1..=400 {
        assert!(!submit(&jobs, &key(number), "a").await.unwrap().1);
    }
    assert!(submit(&jobs, &key(400), "a").await.unwrap().1);
    let evicted = submit(&jobs, &key(1), "a").await;
    assert!(matches!(evicted, Err(JobError::Submission(OnceError::AlreadyCompleted { .. }))), "{evicted:?}");
}
