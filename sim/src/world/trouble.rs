//! What goes wrong around the callers, and who puts it right.

use std::{rc::Rc, sync::Arc, time::Duration};

use hapax_core::{
    Outcome, OutcomeClass, State,
    command::{Posture, Resolution, Resolve},
    lease_end,
};
use hapax_store::Seeded;

use super::{
    World,
    attend::{Ended, Patience, attend},
    history::What,
    line::Mood,
    process::Process,
};

/// Clock jumps, partitions, crashes, new epochs.
pub(super) async fn brew(world: Rc<World>, seed: u64) {
    let mut dice = Seeded::new(seed);
    while !world.over.get() {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(4_000))).await;
        match dice.below(5) {
            0 if world.scenario.jumps => jump(&world, &mut dice),
            1 if world.scenario.partitions => partition(&world, &mut dice),
            2 if world.scenario.crashes && dice.chance(500) => world.crash(dice.next()),
            _ => {}
        }
        world.epoch.set(world.epoch.get() + 1);
    }
}

fn jump(world: &World, dice: &mut Seeded) {
    let size = match dice.below(4) {
        0 => dice.below(1_000),
        1 => dice.below(20_000),
        2 => dice.below(3_600_000),
        3.. => dice.below(400_000_000),
    };
    let by = i64::try_from(size).unwrap_or(0);
    let forward = dice.chance(500);
    let from = world.clock.stamp().0;
    world.clock.jump(if forward { by } else { -by });
    world.history.cover(if forward { "clock jumped forward" } else { "clock jumped back" });
    world.history.log(What::Jump { from, to: world.clock.stamp().0 });
}

fn partition(world: &Rc<World>, dice: &mut Seeded) {
    let process = world.process(dice.next());
    if process.line.mood() != Mood::Up {
        return;
    }
    let mood = if dice.chance(500) { Mood::Refusing } else { Mood::Hanging };
    let length = 100 + dice.below(15_000);
    process.line.set(mood);
    world.history.cover(format!("line {mood:?}"));
    world.history.note(format!("{} is cut off, {mood:?}", process.name));
    let history = Arc::clone(&world.history);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(length)).await;
        history.note(format!("{} is back", process.name));
        process.line.set(Mood::Up);
    });
}

/// Looks after what nobody else can decide.
pub(super) async fn operate(world: Rc<World>, seed: u64) {
    let mut dice = Seeded::new(seed);
    while !world.over.get() {
        tokio::time::sleep(Duration::from_millis(500 + dice.below(6_000))).await;
        let doubts = world.truth.all().into_iter().filter(|(_, record)| {
            record.as_ref().is_some_and(|record| match &record.state {
                State::InDoubt(_) => true,
                State::Pending(pending) => lease_end(&pending.lease) <= world.clock.stamp() || dice.chance(30),
                State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
            })
        });
        let doubts: Vec<_> = doubts.map(|(id, _)| id).collect();
        for id in doubts {
            let process = world.process(dice.next());
            if dice.chance(400) {
                resolve(&world, &process, &mut dice, id).await;
            }
        }
    }
}

async fn resolve(world: &World, process: &Process, dice: &mut Seeded, id: hapax_core::Id) {
    let (explained, _) = attend(process, Patience::Endless, process.engine.explain(&id)).await;
    let Ended::Answered(Ok(explained)) = explained else { return };
    let Some(record) = explained.record else { return };
    let token = record.token();
    let resolution = match world.provider.find(&id, token) {
        Some(text) => Resolution::Committed(Outcome::success(text)),
        None if dice.chance(300) => {
            let body = hapax_core::Body::Inline("refused by hand".into());
            Resolution::Rejected(Outcome::new(OutcomeClass::FinalFailure, body))
        }
        None => {
            // Said before it is asked for: the answer may be lost although it was done.
            world.history.log(What::Leave { id, token });
            Resolution::Open(Posture::OperatorAccepted)
        }
    };
    let resolve =
        Resolve { version: explained.version, resolution, actor: "operator".into(), reason: "looked it up".into() };
    let (resolved, _) = attend(process, Patience::Endless, process.engine.resolve(&id, resolve)).await;
    if let Ended::Answered(Ok(stepped)) = resolved
        && stepped.is_done()
    {
        world.history.cover("operator resolved");
    }
}
