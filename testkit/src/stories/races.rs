//! Real races, on real threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::{Effect, group::WhyNot};
use hapax_engine::{Answered, Gathered, OnceError};
use hapax_store::Seeded;

use super::{
    activities::mail,
    beats::session,
    refund::{Bank, refund, tool},
    *,
};

/// A thousand real races between a start and a supersede, on real threads: started and reported, or refused; never
/// neither, and where it counts never both.
///
/// How long a thread takes to wake differs between machines by more than the race is long. So whoever lost a round gets a
/// longer lead in the next, and a longer one still if it goes on losing: the two stay close on every machine, and each wins
/// often.
pub async fn a_thousand_races_of_start_and_supersede(stage: &Stage) {
    let seed = Seeded::seed_or(7);
    println!("HAPAX_SEED={seed}");
    let mut dice = Seeded::new(seed);
    let world = stage.world().await;
    let engine = world.engine();
    let (mut both, mut refused, mut started_early) = ([0_u32; 5], 0_u32, 0_u32);
    // In nanoseconds; above zero the start has the lead, below it the supersede.
    let (mut lead, mut streak) = (0_i64, 0_i64);
    let give_lead = |lead: &mut i64, streak: &mut i64, step: i64, started: bool| {
        let to_start = if started { -1 } else { 1 };
        *streak = if streak.signum() == to_start { (*streak + to_start).clamp(-32, 32) } else { to_start };
        *lead += step * *streak;
    };
    for round in 0..1_000_u32 {
        let effect = Effect::ALL[round as usize % 5];
        let name = format!("race-{round}");
        let (group, turn) = group(&engine, &name).await;
        let ran = Arc::new(AtomicU32::new(0));
        let admitted_first = dice.next().is_multiple_of(2);
        let step = i64::try_from(dice.next() % 4_000).unwrap();
        let starting = tokio::spawn({
            let (engine, ran) = (engine.clone(), Arc::clone(&ran));
            async move {
                let call = member(&engine, &name, &turn, effect);
                let call = if admitted_first { call.not_started() } else { call };
                spin(-lead);
                let effect = move |_| async move {
                    ran.fetch_add(1, SeqCst);
                    Ok::<_, Failed>("ran".to_owned())
                };
                call.once_inline(effect).await
            }
        });
        spin(lead);
        let superseded = match group.supersede().await {
            Ok(superseded) => superseded.started,
            // An irreversible effect had started: the supersede itself was refused, and says by what.
            Err(error) => {
                assert!(matches!(why(&error), WhyNot::Committed { by: Some(_) }), "round {round}: {error}");
                assert_eq!(effect, Effect::Irreversible);
                assert!(starting.await.unwrap().is_ok(), "round {round}");
                started_early += 1;
                give_lead(&mut lead, &mut streak, step, true);
                continue;
            }
        };
        let outcome = starting.await.unwrap();
        let started = ran.load(SeqCst) == 1;
        let reported = !superseded.is_empty();
        assert_eq!(started, outcome.is_ok(), "round {round}: {outcome:?}");
        assert!(
            started || matches!(outcome, Err(OnceError::Superseded | OnceError::LeaseLost)),
            "round {round}: {outcome:?}"
        );
        assert!(!started || reported, "round {round}, {effect}: started, and neither reported nor refused");
        if reported && !started {
            assert!(!LISTED.contains(&effect), "round {round}, {effect}: reported and refused");
            both[effect as usize] += 1;
        }
        refused += u32::from(!started);
        started_early += u32::from(started);
        give_lead(&mut lead, &mut streak, step, started);
    }
    println!("{started_early} started, {refused} refused, reported and taken back by class: {both:?}");
    assert!(started_early > 50 && refused > 50, "the race was none: {started_early} started, {refused} refused");
}

/// Keeps the thread busy for so many nanoseconds; below zero not at all.
fn spin(nanos: i64) {
    let (since, most) = (std::time::Instant::now(), Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)));
    while since.elapsed() < most {
        std::hint::spin_loop();
    }
}

/// Two gateways deliver overlapping sets at once, on real threads: each message ends in exactly one beat.
pub async fn racing_deliveries_put_each_message_into_one_beat(stage: &Stage) {
    for _ in 0..100 {
        let world = stage.world().await;
        let sets: [&[&str]; 4] = [&["m1", "m2"], &["m2", "m3"], &["m3", "m1"], &["m2", "m1"]];
        let tasks = sets.map(|set| {
            let session = session(&world, "acme");
            tokio::spawn(async move { session.gather(set).await.unwrap() })
        });
        let mut made = Vec::new();
        for task in tasks {
            if let Gathered::New(beat) = task.await.unwrap() {
                made.push(beat.number());
            }
        }
        let session = session(&world, "acme");
        for message in ["m1", "m2", "m3"] {
            match session.gather(&[message]).await.unwrap() {
                Gathered::Known(beat) => assert!(made.contains(&beat.number())),
                Gathered::New(_) => {}
                Gathered::Overlap { .. } => panic!("one message in two beats"),
            }
        }
        // Another tenant's session of the same name has none of them.
        assert!(matches!(
            world.engine().beats("other", "s1").unwrap().gather(&["m1"]).await.unwrap(),
            Gathered::New(_)
        ));
    }
}

/// Eight executors of one node at once, on real threads: one call, one answer for all.
pub async fn eight_executors_of_one_node_make_one_call(stage: &Stage) {
    let engine = stage.engine().await;
    let calls = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (activity, calls) = (mail(&engine, Effect::Unsafe), Arc::clone(&calls));
            tokio::spawn(activity.perform(move |_| async move {
                let number = calls.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
                Ok(Answered::new(200, format!("call {number}")))
            }))
        })
        .collect();
    for task in tasks {
        assert_eq!(soon(task).await.unwrap().unwrap().answer.body(), b"call 0");
    }
    assert_eq!(calls.load(SeqCst), 1);
}

/// The turn is restarted with both messages, and the one that was restarted also reaches the refund: two processes, real
/// threads, fifty times. One refund, both callers the same answer.
pub async fn one_refund_and_both_callers_the_same_answer(stage: &Stage) {
    for effect in ["idempotent", "irreversible", "unsafe"] {
        for _ in 0..50 {
            let world = stage.world().await;
            let (first, second) = (world.engine(), world.engine());
            let (tool, bank) = (tool(effect), Arc::new(Bank::default()));
            let turn = first.group("acme", "talk").unwrap().create().await.unwrap();
            let original = tokio::spawn(refund(&first, &tool, &bank, &turn, 12345, "asked for it"));
            let reworded = "the customer wants their money back";
            let restarted = tokio::spawn(refund(&second, &tool, &bank, &turn, 12345, reworded));
            let (original, restarted) = (soon(original).await.unwrap(), soon(restarted).await.unwrap());
            assert_eq!(original.unwrap(), restarted.unwrap());
            assert_eq!((bank.refunds.lock().len(), *bank.asked.lock()), (1, 1));
        }
    }
}
