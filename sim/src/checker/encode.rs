//! A state as bytes, so that states with the same future have the same bytes: moments count from now, versions only by
//! whether they are current, clients with the same program in any order, and what only people read not at all.

use std::hash::{BuildHasher, Hasher};

use hapax_core::{Anchor, Effect, Outcome, Record, Span, State, Write, record::End};

use super::{
    config::Config,
    ghost::NONCES,
    world::{Client, Flight, Phase, World, client_of},
};
use crate::{bridge, model::Cmd};

/// The orders of the clients under which a configuration looks the same.
pub(super) fn symmetries(config: &Config) -> Vec<Vec<usize>> {
    let count = config.clients.len();
    let mut orders = vec![Vec::new()];
    for _ in 0..count {
        let mut longer = Vec::new();
        for order in &orders {
            for next in (0..count).filter(|next| !order.contains(next)) {
                let mut order: Vec<usize> = order.clone();
                order.push(next);
                longer.push(order);
            }
        }
        orders = longer;
    }
    orders.retain(|order| order.iter().enumerate().all(|(to, from)| config.clients[to] == config.clients[*from]));
    orders
}

/// The fingerprint of a state: the least over all orders of like clients.
pub(super) fn fingerprint(world: &World, orders: &[Vec<usize>], buffer: &mut Vec<u8>) -> u128 {
    let mut least = u128::MAX;
    for order in orders {
        buffer.clear();
        Encoder { world, order, out: buffer }.world();
        least = least.min(hash(buffer));
    }
    least
}

fn hash(bytes: &[u8]) -> u128 {
    let half = |seed| {
        let mut hasher = foldhash::quality::FixedState::with_seed(seed).build_hasher();
        hasher.write(bytes);
        u128::from(hasher.finish())
    };
    half(11) << 64 | half(29)
}

struct Encoder<'a> {
    world: &'a World,
    /// The client that stands at each place.
    order: &'a [usize],
    out: &'a mut Vec<u8>,
}

impl Encoder<'_> {
    fn world(&mut self) {
        let world = self.world;
        let budget = world.budget;
        let group = u8::try_from(world.group).unwrap_or(u8::MAX);
        self.bytes(&[budget.time_outs, budget.crashes, budget.resolves, budget.probes, budget.evictions]);
        self.bytes(&[budget.supersedes, group]);
        match &world.record {
            None => self.byte(0),
            Some(record) => self.record(record),
        }
        for place in 0..self.order.len() {
            self.client(&world.clients[self.order[place]]);
        }
        self.late();
        self.ghost();
    }

    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A moment, counted from now. What lies further back than any window is only past.
    fn moment(&mut self, at: i64) {
        let away = (at - self.world.now).clamp(-400, 400);
        self.bytes(&i16::try_from(away).unwrap_or(i16::MIN).to_le_bytes());
    }

    fn nonce(&mut self, nonce: u8) {
        let relabelled = self.relabel(nonce);
        self.byte(relabelled);
    }

    fn relabel(&self, nonce: u8) -> u8 {
        let client = client_of(nonce);
        let place = self.order.iter().position(|at| *at == client).unwrap_or(client);
        (place * 4) as u8 + nonce % 4
    }

    /// Outcomes of clients are named after their nonce.
    fn what(&mut self, what: u8) {
        if what == 0 || what >= 50 {
            self.byte(what);
        } else {
            let relabelled = self.relabel(what - 1) + 1;
            self.byte(relabelled);
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.byte(outcome.class as u8);
        self.what(bridge::what_of(outcome));
    }

    /// An end that counts from the write itself, or a moment.
    fn window(&mut self, from: Anchor, length: u64) {
        match from {
            Anchor::Write => self.byte(1),
            Anchor::At(at) => {
                self.byte(2);
                self.moment(i64::try_from(at.0.saturating_add(length)).unwrap_or(i64::MAX));
            }
        }
    }

    fn record(&mut self, record: &Record) {
        let attempt = &record.attempt;
        self.byte(u8::try_from(attempt.number).unwrap_or(u8::MAX));
        self.nonce(attempt.nonce.0[0]);
        self.byte(match attempt.end {
            End::Running => 0,
            End::Completed => 1,
            End::Rejected => 2,
            End::Failed => 3,
            End::FailedUnknown => 4,
            End::Released => 5,
            End::Lapsed { started } => 6 + u8::from(started),
            End::Resolved => 8,
            End::TakenOver => 9,
        });
        self.byte(attempt.epoch.map_or(0, |epoch| 1 + epoch as u8));
        self.byte(match record.effect {
            Effect::Pure => 0,
            Effect::Idempotent => 1,
            Effect::Compensatable => 2,
            Effect::Irreversible => 3,
            Effect::Unsafe => 4,
        });
        for print in [&record.print, &record.guard_before] {
            let number = print.as_ref().and_then(|print| print.digests().next().map(|(_, digest)| digest[0]));
            self.byte(number.unwrap_or(0));
        }
        match &record.state {
            State::Pending(pending) => {
                self.byte(10 + u8::from(pending.started));
                self.window(pending.lease.from, pending.lease.length.0);
            }
            State::Open(open) => {
                self.byte(12);
                self.window(open.since, length(record.rules.open_retention));
                match &open.failure {
                    Some(failure) => self.outcome(failure),
                    None => self.byte(u8::MAX),
                }
            }
            State::InDoubt(doubt) => self.byte(13 + u8::from(doubt.next_probe.is_some())),
            State::Committed(done) | State::Rejected(done) => {
                self.byte(15 + u8::from(matches!(record.state, State::Rejected(_))));
                self.window(done.decided, length(done.retention));
                self.outcome(&done.outcome);
            }
            State::Tombstone(stone) => {
                self.byte(17 + u8::from(stone.rejected));
                self.window(stone.decided, length(stone.retention));
                self.what(bridge::what_of_digest(&stone.digest));
            }
        }
        match record.ties.as_ref().and_then(|ties| ties.honoured) {
            Some(honoured) => self.window(honoured.from, honoured.window.0),
            None => self.byte(0),
        }
        match &record.earlier_doubt {
            None => self.byte(0),
            Some(doubt) => {
                self.byte(1);
                match &doubt.failure {
                    Some(failure) => self.outcome(failure),
                    None => self.byte(u8::MAX),
                }
            }
        }
        self.byte(record.evidence.len() as u8);
        for kept in &record.evidence {
            self.byte(u8::try_from(kept.attempt).unwrap_or(u8::MAX));
            self.outcome(&kept.outcome);
        }
    }

    fn client(&mut self, client: &Client) {
        let (tag, started, checked) = match client.phase {
            Phase::Idle => (0, false, false),
            Phase::Begin => (1, false, false),
            Phase::Hold { started, checked } => (2, started, checked),
            Phase::Start => (3, false, false),
            Phase::Renew { started, checked } => (4, started, checked),
            Phase::Report(outcome) => (10 + outcome as u8, false, false),
            Phase::Release => (5, false, false),
            Phase::Unstart => (6, false, false),
            Phase::Disown => (7, false, false),
            Phase::Done => (8, false, false),
            Phase::Crashed => (9, false, false),
        };
        let unsure = match client.unsure {
            None => 0,
            Some(version) if version == self.world.version => 1,
            Some(_) => 2,
        };
        let flags = u8::from(started) | u8::from(checked) << 1 | u8::from(client.unsure_start) << 2 | unsure << 3;
        self.bytes(&[tag, flags, client.begun, client.renews, u8::try_from(client.attempt).unwrap_or(u8::MAX)]);
        match &client.sent {
            None => self.byte(0),
            Some(flight) => self.flight(flight),
        }
    }

    fn flight(&mut self, flight: &Flight) {
        let (tag, nonce) = match flight.cmd {
            Cmd::Begin(begin) => (1 + u8::from(begin.started), begin.nonce),
            Cmd::Start(token) => (3, token.1),
            Cmd::Renew(token) => (4, token.1),
            Cmd::Complete(token, _) => (5, token.1),
            Cmd::Reject(token, _) => (6, token.1),
            Cmd::Fail(token, _) => (7, token.1),
            Cmd::FailUnknown(token) => (8, token.1),
            Cmd::Release(token) | Cmd::ReleaseNoEffect(token) => (9, token.1),
            Cmd::Unstart(token) => (10, token.1),
            Cmd::Disown(nonce) => (11, nonce),
            Cmd::Resolve(_) | Cmd::ResolveMoved(_) | Cmd::ClaimProbe(_) | Cmd::Expire | Cmd::Evict { .. } => (12, 0),
        };
        self.byte(tag);
        self.nonce(nonce);
        self.byte(said_number(&flight.said));
        // Only where there is a window to be inside or beyond of.
        if self.world.ghost.first.is_some() {
            self.moment(flight.decided);
        }
        match &*flight.write {
            Write::Put(record) => self.record(record),
            Write::Remove | Write::Nothing => self.byte(0),
        }
    }

    /// In no order: any of them may land, and then none of the others can.
    fn late(&mut self) {
        let world = self.world;
        let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(world.late.len());
        for flight in &world.late {
            let mut block = Vec::with_capacity(48);
            Encoder { world, order: self.order, out: &mut block }.flight(flight);
            blocks.push(block);
        }
        blocks.sort();
        blocks.dedup();
        self.byte(blocks.len() as u8);
        for block in blocks {
            self.bytes(&block);
        }
    }

    fn ghost(&mut self) {
        let ghost = &self.world.ghost;
        match ghost.holder {
            None => self.byte(0),
            Some(holder) => {
                self.byte(1 + u8::from(holder.started) + 2 * u8::from(holder.gave_up));
                self.byte(u8::try_from(holder.token.0).unwrap_or(u8::MAX));
                self.nonce(holder.token.1);
                self.bytes(&[holder.print, holder.epoch.map_or(0, |epoch| 1 + epoch as u8)]);
                // Only whether it is over counts here.
                self.moment(holder.lease_end.max(self.world.now));
            }
        }
        match ghost.decided {
            None => self.byte(0),
            Some(decided) => {
                self.byte(1 + u8::from(decided.rejected) + 2 * u8::from(decided.whole));
                self.what(decided.what);
                self.moment(decided.ends);
            }
        }
        let mut masks = [0_u16; 5];
        let mut attempts = [0_u8; NONCES];
        for nonce in 0..NONCES as u8 {
            let to = self.relabel(nonce);
            attempts[to as usize % NONCES] = ghost.attempts[nonce as usize];
            for (mask, source) in
                [ghost.dead, ghost.settled, ghost.took_effect, ghost.prevented, ghost.known].into_iter().enumerate()
            {
                if source & 1 << nonce != 0 {
                    masks[mask] |= 1 << (to % NONCES as u8);
                }
            }
        }
        self.bytes(&attempts);
        for mask in masks {
            self.bytes(&mask.to_le_bytes());
        }
        let marks = u8::from(ghost.doubt_before) | u8::from(ghost.known_effect) << 1;
        self.bytes(&[ghost.left_prints, ghost.effects, ghost.leaves, marks]);
        match ghost.first {
            None => self.byte(0),
            Some(first) => {
                self.byte(1);
                self.moment(first);
            }
        }
    }
}

fn said_number(said: &crate::model::Said) -> u8 {
    use crate::model::Said;
    match said {
        Said::WindowClosed => 0,
        Said::Mismatch => 1,
        Said::Replay { .. } => 2,
        Said::InFlight => 3,
        Said::InDoubt => 4,
        Said::Refused => 5,
        Said::Superseded => 6,
        Said::Execute((attempt, _)) => 20 + u8::try_from(*attempt).unwrap_or(u8::MAX - 20),
        Said::Ok => 7,
        Said::OkLate => 8,
        Said::OkAlready => 9,
        Said::Fenced => 10,
        Said::Conflict => 11,
        Said::NotAllowed => 12,
    }
}

const fn length(span: Span) -> u64 {
    match span {
        Span::For(length) => length.0,
        Span::Forever => u64::MAX,
    }
}
