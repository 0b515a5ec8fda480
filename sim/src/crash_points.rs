//! Each effect class × each point at which its process can die: what the record reads as afterwards, and how often the
//! provider was really asked, over a store that loses answers.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use hapax_core::{
    Anchor, Effect, Honoured, Millis, Nonce, Outcome, OutcomeClass, Preset, Stamp, StateName, Verdict, command::Release,
};
use hapax_engine::{Begun, Call, Engine, SeededEntropy, Settings, Ticket, Turn};
use hapax_store::{FaultyStore, Landing, ManualClock, MemoryStore, Odds, Plan, Seeded, Store};

use crate::world::line::{Line, Mood};

/// Where the first process dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Point {
    BeforeClaim,
    AfterClaim,
    AfterStart,
    AfterEffect,
    AfterOutcome,
}

impl Point {
    pub const ALL: [Self; 5] =
        [Self::BeforeClaim, Self::AfterClaim, Self::AfterStart, Self::AfterEffect, Self::AfterOutcome];
}

/// What one seed tries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Case {
    pub effect: Effect,
    pub point: Point,
    pub in_group: bool,
    pub honoured: bool,
}

const LEASE: u64 = 1_000;

struct World {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    dice: Seeded,
    /// What the provider did: a provider that honours keys counts a key once.
    effects: AtomicU32,
}

/// Lives through one seed.
///
/// # Errors
/// What is not as the rules say.
pub fn run(seed: u64) -> Result<Case, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut dice = Seeded::new(seed);
    // The product is gone through in order, so that no seed is needed to be lucky; the rest is drawn.
    let case = Case {
        effect: Effect::ALL[(seed % 5) as usize],
        point: Point::ALL[(seed / 5 % 5) as usize],
        in_group: dice.chance(500),
        honoured: dice.chance(300),
    };
    runtime.block_on(live(case, dice)).map_err(|what| format!("seed {seed}, {case:?}: {what}"))?;
    Ok(case)
}

async fn live(case: Case, mut dice: Seeded) -> Result<(), String> {
    let clock = Arc::new(ManualClock::new(Stamp(1_000_000)));
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn hapax_store::Clock>)) as Arc<dyn Store>;
    let seed = dice.next();
    let mut world = World { store, clock, dice: Seeded::new(seed), effects: AtomicU32::new(0) };
    let (first, line) = world.process("first")?;
    let group = first.group("acme", "run").map_err(|error| error.to_string())?;
    let turn = match case.in_group {
        true => Some(again(|| group.create()).await?),
        false => None,
    };
    let died_with = die(&world, case, &first, turn.as_ref()).await?;
    line.set(Mood::Dead);
    // Its lease runs out, at the latest now.
    world.clock.advance(Millis(LEASE * 3));
    let (second, _) = world.process("second")?;
    let id = call(&second, case, turn.as_ref()).id().map_err(|error| error.to_string())?;
    let explained = again(|| second.explain(&id)).await?;
    expect("reads as", explained.state, expected(case))?;
    // A sweep changes nothing that can be seen.
    if world.dice.chance(500) {
        let _swept = again(|| second.sweep()).await?;
        let swept = again(|| second.explain(&id)).await?;
        expect("reads after the sweep as", swept.state, expected(case))?;
    }
    let before = world.effects.load(SeqCst);
    // One nonce until it is answered, so that a begin whose answer was lost does not stand in its own way.
    let begun = again(|| call(&second, case, turn.as_ref()).begin_with(Nonce([8; 16]))).await?;
    let honoured = case.honoured && expected(case) == StateName::InDoubt;
    match begun {
        Begun::Execute(ticket) => {
            if expected(case) == StateName::Committed || (expected(case) == StateName::InDoubt && !honoured) {
                return Err("it was run a second time without leave".to_owned());
            }
            if honoured && world.dice.chance(500) {
                give_back(&second, &ticket, world.dice.chance(500)).await?;
                beyond(&world, case, &second, turn.as_ref()).await?;
            } else {
                world.effects.fetch_add(u32::from(!honoured || before == 0), SeqCst);
                finish(&second, &ticket).await?;
            }
        }
        Begun::Replay(_) => expect("is replayed from", expected(case), StateName::Committed)?,
        Begun::Told(Verdict::InDoubt { .. }) => {
            expect("is in doubt from", expected(case), StateName::InDoubt)?;
            if honoured {
                return Err("its provider would have recognised the key".to_owned());
            }
        }
        other @ (Begun::JoinedFailure(_) | Begun::Told(_)) => return Err(format!("was told {other:?}")),
    }
    let effects = world.effects.load(SeqCst);
    let most = if case.effect.may_rerun() && case.point == Point::AfterEffect { 2 } else { 1 };
    if effects > most {
        return Err(format!("{effects} effects"));
    }
    // The dead one's word comes late, from its grave: it must not change what was decided since.
    if let Some(ticket) = died_with {
        let (id, token) = (ticket.id(), ticket.token());
        let late = again(|| second.complete(&id, token, Outcome::success("late"))).await?;
        // Its answer may have been lost on the way, so *already* is as good.
        let taken = late.is_done();
        let doubtful = expected(case) == StateName::InDoubt && !honoured;
        if taken != doubtful {
            return Err(format!("its late outcome was answered {late:?}"));
        }
    }
    Ok(())
}

fn expect(what: &str, is: StateName, should_be: StateName) -> Result<(), String> {
    if is == should_be { Ok(()) } else { Err(format!("{what} {is:?}, and should be {should_be:?}")) }
}

/// What the rules say of a process that died there.
const fn expected(case: Case) -> StateName {
    match case.point {
        Point::BeforeClaim | Point::AfterClaim => StateName::Absent,
        Point::AfterStart | Point::AfterEffect if case.effect.may_rerun() => StateName::Open,
        Point::AfterStart | Point::AfterEffect => StateName::InDoubt,
        Point::AfterOutcome => StateName::Committed,
    }
}

fn call(engine: &Engine, case: Case, turn: Option<&Turn>) -> Call {
    let call = engine.surface("pay").tenant("acme").key("k").effect(case.effect).not_started();
    let call = if case.honoured {
        call.honoured(Honoured { from: Anchor::Write, window: Millis::from_hours(22) })
    } else {
        call
    };
    match turn {
        Some(turn) => call.in_turn(turn),
        None => call,
    }
}

/// Goes as far as the point says. The ticket, if it held one that had started.
async fn die(world: &World, case: Case, engine: &Engine, turn: Option<&Turn>) -> Result<Option<Ticket>, String> {
    if case.point == Point::BeforeClaim {
        return Ok(None);
    }
    // The same nonce until it is answered: so a lost answer is the same claim.
    let nonce = Nonce([7; 16]);
    let begun = again(|| call(engine, case, turn).begin_with(nonce)).await?;
    let Begun::Execute(ticket) = begun else { return Err(format!("the first begin was told {begun:?}")) };
    if case.point == Point::AfterClaim {
        return Ok(None);
    }
    let started = again(|| ticket.start(engine)).await?;
    if !started.is_done() {
        return Err(format!("the start was told {started:?}"));
    }
    if case.point == Point::AfterStart {
        return Ok(Some(ticket));
    }
    world.effects.fetch_add(1, SeqCst);
    if case.point == Point::AfterEffect {
        return Ok(Some(ticket));
    }
    let ended = again(|| ticket.complete(engine, Outcome::success("done"))).await?;
    if ended.is_done() { Ok(None) } else { Err(format!("the outcome was told {ended:?}")) }
}

async fn finish(engine: &Engine, ticket: &Ticket) -> Result<(), String> {
    let started = again(|| ticket.start(engine)).await?;
    let ended = again(|| ticket.complete(engine, Outcome::success("done"))).await?;
    if started.is_done() && ended.is_done() { Ok(()) } else { Err(format!("{started:?}, {ended:?}")) }
}

/// The call beside the doubt was not sent, or was turned away.
async fn give_back(engine: &Engine, ticket: &Ticket, turned_away: bool) -> Result<(), String> {
    let ended = if turned_away {
        let failure = Outcome { class: OutcomeClass::RetryableFailure, ..Outcome::success("busy") };
        again(|| ticket.fail(engine, failure.clone())).await?
    } else {
        again(|| ticket.release(engine, Release::NoEffect)).await?
    };
    if ended.is_done() { Ok(()) } else { Err(format!("it was given back and told {ended:?}")) }
}

/// The provider has forgotten the key, and nobody knows any more of the first call than before.
async fn beyond(world: &World, case: Case, engine: &Engine, turn: Option<&Turn>) -> Result<(), String> {
    world.clock.advance(Millis::from_hours(23));
    match again(|| call(engine, case, turn).begin_with(Nonce([9; 16]))).await? {
        Begun::Told(Verdict::InDoubt { .. }) => Ok(()),
        other @ (Begun::Execute(_) | Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) => {
            Err(format!("beyond the provider's window it was told {other:?}"))
        }
    }
}

/// Says it until the store lets it through.
async fn again<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..50 {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

impl World {
    fn process(&mut self, name: &str) -> Result<(Engine, Arc<Line>), String> {
        let odds =
            if self.dice.chance(700) { Odds { slow: 0, late: 0, landing: 0, ..Odds::ROUGH } } else { Odds::default() };
        let plan = Plan::seeded(self.dice.next(), odds).landing(Landing::SomeCall);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&self.store), plan));
        let line = Arc::new(Line::new(faulty, self.dice.next(), false, 0));
        let policy = hapax_core::Policy { lease: Millis(LEASE), ..Preset::Standard.policy() };
        let built = Engine::builder(Arc::clone(&line) as Arc<dyn Store>)
            .entropy(Arc::new(SeededEntropy::new(self.dice.next())))
            .settings(Settings { owner: name.to_owned(), ..Settings::default() })
            .policy("pay", policy)
            .build();
        let engine: Engine = built.map_err(|error| error.to_string())?;
        Ok((engine, line))
    }
}
