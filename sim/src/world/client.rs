//! What callers do: once, by hand, here and there, again, otherwise, and not to the end.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax_core::{
    Body, Effect, Id, Millis, Nonce, Outcome, OutcomeClass, Token,
    command::Release,
    policy::{Mode, OnInFlight},
};
use hapax_engine::{Begun, Call, Classify, Failure, Ticket, Wait};
use hapax_store::Seeded;

use super::{
    World,
    attend::{Ended, Marks, Patience, attend},
    history::{Asked, Said, Told, Verb, What},
    process::Process,
    provider::Work,
    scenario::{KEYS, SURFACES, TENANTS},
    told,
};

/// One caller's life.
pub(super) async fn live(world: Rc<World>, seed: u64) {
    let mut client = Client { dice: Seeded::new(seed), world };
    for _ in 0..client.world.scenario.calls {
        client.rest(client.world.scenario.rest).await;
        client.call().await;
    }
}

struct Client {
    world: Rc<World>,
    dice: Seeded,
}

/// A call, made ready.
struct Ready {
    call: Call,
    asked: Asked,
    started: bool,
    text: String,
    lease: u64,
}

impl Client {
    async fn rest(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.dice.below(most))).await;
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.dice.below(below as u64)).unwrap_or(0)
    }

    fn patience(&mut self) -> Patience {
        if !self.world.scenario.cancels || !self.dice.chance(250) {
            return Patience::Endless;
        }
        if self.dice.chance(500) {
            Patience::Polls(1 + self.dice.below(8))
        } else {
            Patience::Millis(self.dice.below(2_000))
        }
    }

    fn process(&mut self) -> Arc<Process> {
        let drawn = self.dice.next();
        self.world.process(drawn)
    }

    fn ready(&mut self, process: &Process, how: &'static str) -> Option<Ready> {
        let world = Rc::clone(&self.world);
        let scenario = &world.scenario;
        let surface = self.index(scenario.policies.len());
        let (tenant, key) = (self.index(scenario.tenants), self.index(scenario.keys));
        let print = if self.dice.chance(900) { 0 } else { 1 + self.dice.below(2) as u8 };
        let effect = scenario.effects[surface][key];
        let policy = &scenario.policies[surface];
        let waits = match self.dice.below(4) {
            0 => Wait::No,
            1 => Wait::AtMost(Millis(1 + self.dice.below(8_000))),
            2.. => Wait::AsPolicy,
        };
        // Several waiters that are tasks of their own wake in an order that cannot be repeated.
        let waits = if how == "once" && scenario.settings.waiters_per_key > 1 { Wait::No } else { waits };
        let wait = match (waits, policy.on_in_flight) {
            (Wait::No, _) | (Wait::AsPolicy, OnInFlight::Reject) => None,
            (Wait::AtMost(most), _) | (Wait::AsPolicy, OnInFlight::Wait { most }) => Some(most.0),
        };
        let started = self.dice.chance(700);
        let call = process.engine.surface(SURFACES[surface]).tenant(TENANTS[tenant]).key(KEYS[key]);
        let mut call = call.fingerprinted(crate::bridge::print(print)).effect(effect).wait(waits);
        let mut lease = policy.lease.0;
        if self.dice.chance(200) {
            lease = 200 + self.dice.below(6_000);
            call = call.lease(Millis(lease));
        }
        if !started {
            call = call.not_started();
        }
        if scenario.epochs && self.dice.chance(600) {
            let current = world.epoch.get();
            call = call.epoch(current - self.dice.below(2), current);
        }
        let id = call.id().ok()?;
        let name = format!("{}/{}/{}", SURFACES[surface], TENANTS[tenant], KEYS[key]);
        let padding = "x".repeat(self.index(120));
        let asked = Asked {
            id,
            print,
            effect,
            how,
            wait,
            enforced: policy.mode == Mode::Enforce,
            guarded: policy.enforces_fingerprints(),
            name: name.clone(),
        };
        Some(Ready { call, asked, started, text: format!("{name}|{padding}"), lease })
    }

    async fn call(&mut self) {
        match self.dice.below(10) {
            0..=2 => self.once().await,
            3..=5 => self.once_inline().await,
            6..=7 => self.by_hand().await,
            8.. => self.with_nonce().await,
        }
    }

    fn work(&mut self, ready: &Ready) -> Work {
        let Asked { id, effect, enforced, .. } = ready.asked;
        Work::draw(&mut self.dice, id, effect, enforced, ready.text.clone(), ready.lease)
    }

    fn told(&self, call: usize, asked: &Asked, told: Told, joined: bool, began: u64) {
        let history = &self.world.history;
        history.cover(format!("told {}", told.name()));
        if joined && matches!(told, Told::Execute(_) | Told::Ran { .. } | Told::RanInVain) {
            history.violation(format!("7: call {call} on {} waited, and executed", asked.name));
        }
        // The store may be asked a few times on the way, and may take its whole time each time.
        let took = self.world.clock.elapsed() - began;
        if let (Some(wait), Told::InFlight | Told::InDoubt | Told::JoinedFailure(_)) = (asked.wait, &told)
            && took > wait + 60_000
        {
            history.violation(format!("7: call {call} waited {took} ms and was to wait at most {wait}"));
        }
        history.log(What::Told { call, told, joined });
    }

    async fn once(&mut self) {
        let process = self.process();
        let Some(ready) = self.ready(&process, "once") else { return };
        let work = self.work(&ready);
        let patience = self.patience();
        let call = self.world.history.call(&process.name, ready.asked.clone());
        let began = self.world.clock.elapsed();
        let (provider, death) = (Arc::clone(&self.world.provider), Arc::clone(&process.death));
        let once = ready.call.once(move |ticket: Ticket| provider.perform(death, work, ticket.token()));
        let (ended, Marks { joined, .. }) = attend(&process, patience, once).await;
        let told = match &ended {
            Ended::Answered(done) => told::once(done),
            Ended::Cancelled => Told::Cancelled,
            Ended::Crashed => Told::Crashed,
        };
        self.told(call, &ready.asked, told, joined, began);
    }

    async fn once_inline(&mut self) {
        let process = self.process();
        let Some(ready) = self.ready(&process, "once inline") else { return };
        let mut work = self.work(&ready);
        // Where it may run without a record, a panic is the caller's own.
        if !ready.asked.enforced || ready.asked.effect == Effect::Pure {
            work = work.without_panic();
        }
        let patience = self.patience();
        let call = self.world.history.call(&process.name, ready.asked.clone());
        let began = self.world.clock.elapsed();
        let (provider, death) = (Arc::clone(&self.world.provider), Arc::clone(&process.death));
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let once = ready.call.once_inline(move |ticket: Ticket| {
            runs.store(true, Relaxed);
            provider.perform(death, work, ticket.token())
        });
        let (ended, Marks { joined, nonces }) = attend(&process, patience, once).await;
        let told = match &ended {
            Ended::Answered(done) => told::once(done),
            // Dropped half-way, with or without a ticket: it lapses by its class.
            Ended::Cancelled => {
                self.world.history.loose(nonces);
                Told::Cancelled
            }
            Ended::Crashed => Told::Crashed,
        };
        if joined && ran.load(Relaxed) && ready.asked.enforced {
            self.world.history.violation(format!("7: call {call} on {} waited, and executed", ready.asked.name));
        }
        self.told(call, &ready.asked, told, joined && ready.asked.enforced, began);
    }

    async fn by_hand(&mut self) {
        let process = self.process();
        let Some(ready) = self.ready(&process, "begin") else { return };
        let patience = self.patience();
        let call = self.world.history.call(&process.name, ready.asked.clone());
        let began = self.world.clock.elapsed();
        let (ended, Marks { joined, .. }) = attend(&process, patience, ready.call.clone().begin()).await;
        if let Some(ticket) = self.heard(call, &ready, ended, joined, began) {
            self.carry_out(&process, &ready, ticket).await;
        }
    }

    fn heard(
        &self,
        call: usize,
        ready: &Ready,
        ended: Ended<Result<Begun, hapax_engine::EngineError>>,
        joined: bool,
        began: u64,
    ) -> Option<Ticket> {
        let told = match &ended {
            Ended::Answered(Ok(begun)) => told::begun(begun),
            Ended::Answered(Err(error)) => Told::Error(error.to_string()),
            Ended::Cancelled => Told::Cancelled,
            Ended::Crashed => Told::Crashed,
        };
        self.told(call, &ready.asked, told, joined, began);
        match ended {
            Ended::Answered(Ok(Begun::Execute(ticket))) => {
                self.world.history.granted(ticket.token());
                Some(ticket)
            }
            Ended::Answered(_) | Ended::Cancelled | Ended::Crashed => None,
        }
    }

    /// Brings its own nonce, and repeats it as long as it has not been answered.
    async fn with_nonce(&mut self) {
        let process = self.process();
        let Some(ready) = self.ready(&process, "begin with") else { return };
        let nonce = Nonce(self.dice.bytes());
        self.world.history.loose([nonce.0]);
        for _ in 0..=self.dice.below(4) {
            let patience = self.patience();
            let call = self.world.history.call(&process.name, ready.asked.clone());
            let began = self.world.clock.elapsed();
            let (ended, Marks { joined, .. }) = attend(&process, patience, ready.call.clone().begin_with(nonce)).await;
            let answered = matches!(ended, Ended::Answered(Ok(_)));
            if let Some(ticket) = self.heard(call, &ready, ended, joined, began) {
                self.carry_out(&process, &ready, ticket).await;
                return;
            }
            if answered {
                return;
            }
            self.world.history.cover("begin repeated");
            self.rest(1_000).await;
            if process.death.has_come() {
                // Whoever held the nonce died with it.
                return;
            }
        }
    }

    /// Runs the attempt and says how it ended, or does not.
    async fn carry_out(&mut self, process: &Arc<Process>, ready: &Ready, ticket: Ticket) {
        let (id, token) = (ready.asked.id, ticket.token());
        if !ready.started {
            // Where epochs move, long enough that a newer one finds it not yet started.
            self.rest(if self.world.scenario.epochs { 3_000 } else { 300 }).await;
            if self.dice.chance(150) {
                // It never gets as far as its effect.
                if self.dice.chance(700) {
                    self.step(process, &ticket, Verb::Release, None).await;
                }
                return;
            }
            let said = self.step(process, &ticket, Verb::Start, None).await;
            if !matches!(said, Said::Done { .. }) {
                self.step(process, &ticket, Verb::Release, Some(nothing())).await;
                return;
            }
        }
        if self.dice.chance(300) {
            self.step(process, &ticket, Verb::Renew, None).await;
        }
        let work = self.work(ready).without_panic();
        let (provider, death) = (Arc::clone(&self.world.provider), Arc::clone(&process.death));
        let (performed, _) = attend(process, Patience::Endless, provider.perform(death, work, token)).await;
        let Ended::Answered(performed) = performed else { return };
        if self.dice.chance(80) {
            self.world.history.cover("outcome never told");
            return;
        }
        let elsewhere = self.dice.chance(300);
        let other = self.process();
        let teller = if elsewhere { &other } else { process };
        let (verb, outcome) = match performed {
            Ok(text) => (Verb::Complete, Outcome::success(text)),
            Err(failed) => {
                let (verb, class) = match failed.classify() {
                    Failure::Final => (Verb::Reject, OutcomeClass::FinalFailure),
                    Failure::Retryable => (Verb::Fail, OutcomeClass::RetryableFailure),
                    Failure::NoEffect => (Verb::Release, OutcomeClass::NotRecordable),
                    Failure::Unknown => (Verb::Fail, OutcomeClass::Unknown),
                };
                (verb, Outcome::new(class, Body::Inline(failed.error.into())))
            }
        };
        for _ in 0..4 {
            let said = if elsewhere {
                self.step_by_id(teller, id, token, verb, outcome.clone()).await
            } else {
                self.step(teller, &ticket, verb, Some(outcome.clone())).await
            };
            match said {
                Said::Error(_) | Said::Unheard => self.rest(3_000).await,
                Said::Done { .. } if self.dice.chance(150) => {
                    self.world.history.cover("said again");
                }
                Said::Done { .. } if self.dice.chance(80) => {
                    // The same attempt with another story.
                    let other = Outcome::success("another story");
                    self.step_by_id(teller, id, token, Verb::Complete, other).await;
                    return;
                }
                Said::Done { .. } | Said::Fenced | Said::Conflict(_) | Said::Refused(_) => return,
            }
            if teller.death.has_come() && !elsewhere {
                return;
            }
        }
    }

    fn stepped<T>(&self, step: usize, ended: Ended<T>, said: impl FnOnce(T) -> Said) -> Said {
        let said = match ended {
            Ended::Answered(answer) => said(answer),
            Ended::Cancelled | Ended::Crashed => Said::Unheard,
        };
        let name = match &said {
            Said::Done { already: true, .. } => "done already",
            Said::Done { late: true, .. } => "done late",
            Said::Done { .. } => "done",
            Said::Fenced => "fenced",
            Said::Conflict(_) => "conflict",
            Said::Refused(_) => "refused",
            Said::Error(_) => "error",
            Said::Unheard => "unheard",
        };
        self.world.history.cover(format!("step {name}"));
        self.world.history.log(What::Stepped { step, said: said.clone() });
        said
    }

    async fn step(&mut self, process: &Process, ticket: &Ticket, verb: Verb, outcome: Option<Outcome>) -> Said {
        let patience = self.patience();
        let (id, token) = (ticket.id(), ticket.token());
        let digest = outcome.as_ref().map(Outcome::digest);
        let step = self.world.history.step(id, token, verb, digest);
        let engine = &process.engine;
        let why = if outcome.is_some() { Release::NoEffect } else { Release::BeforeStart };
        let outcome = outcome.unwrap_or_else(nothing);
        let work = async {
            match verb {
                Verb::Start => ticket.start(engine).await,
                Verb::Renew => ticket.renew(engine).await,
                Verb::Complete => ticket.complete(engine, outcome).await,
                Verb::Reject => ticket.reject(engine, outcome).await,
                Verb::Fail => ticket.fail(engine, outcome).await,
                Verb::Release => ticket.release(engine, why).await,
            }
        };
        let (ended, _) = attend(process, patience, work).await;
        self.stepped(step, ended, told::stepped)
    }

    async fn step_by_id(&mut self, process: &Process, id: Id, token: Token, verb: Verb, outcome: Outcome) -> Said {
        let patience = self.patience();
        let step = self.world.history.step(id, token, verb, Some(outcome.digest()));
        let engine = &process.engine;
        let work = async {
            match verb {
                Verb::Start => engine.start(&id, token).await,
                Verb::Renew => engine.renew(&id, token, Millis(1_000)).await,
                Verb::Complete => engine.complete(&id, token, outcome).await,
                Verb::Reject => engine.reject(&id, token, outcome).await,
                Verb::Fail => engine.fail(&id, token, outcome).await,
                Verb::Release => engine.release(&id, token, Release::NoEffect).await,
            }
        };
        let (ended, _) = attend(process, patience, work).await;
        self.world.history.cover("told elsewhere");
        self.stepped(step, ended, told::stepped)
    }
}

fn nothing() -> Outcome {
    Outcome::new(OutcomeClass::NotRecordable, Body::Empty)
}
