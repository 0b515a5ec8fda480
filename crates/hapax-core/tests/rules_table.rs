//! Every state against every command: what is told, and what the record reads as afterwards.
//!
//! Four tables, one for each kind of asker. A cell says what is told and, behind a slash, the state that follows if it
//! is another one.
//!
//! Told: `x2` execute as attempt 2, `rep` replay, `dig` replay of the digest, `fly` in flight, `dbt` in doubt, `mis`
//! mismatch, `ref` refused, `sup` superseded (Fenced as a verdict), `win` window closed; `ok`, `late` taken after the
//! lapse, `alr` ok (already), `fen` fenced, `cfl` conflict, `no` refused. States: `-` absent, `P` pending, `O` open,
//! `D` in doubt, `C` committed, `R` rejected, `T` tombstone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::fmt::Write as _;

use crate::rules_support::*;
use hapax_core::{
    Command, Effect, Millis, Policy, Recorded, Refusal, RefusalReason, Reply, Stamp, StateName, Token, Verdict,
    Version, Write,
    command::{Admit, Begin, Done, Resolution},
    policy::AfterWindow,
};

/// A state, and the tokens that matter in it.
struct Row {
    name: String,
    cell: Cell,
    own: Token,
}

const OLDER: u8 = 1;
const LATEST: u8 = 2;

/// An operation whose first attempt failed retryably and whose second begins so.
fn second(effect: Effect, started: bool) -> (Cell, Token) {
    let mut cell = Cell::new(policy());
    let first = cell.granted(begin(OLDER, effect));
    assert_eq!(cell.ask(fail(first, 7)), OK);
    let own = cell.granted(Begin { started, ..begin(LATEST, effect) });
    assert_eq!(own.attempt, 2);
    (cell, own)
}

fn first(policy: Policy, effect: Effect, started: bool) -> (Cell, Token) {
    let mut cell = Cell::new(policy);
    let own = cell.granted(Begin { started, ..begin(LATEST, effect) });
    (cell, own)
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, (cell, own): (Cell, Token)| rows.push(Row { name: name.to_owned(), cell, own });
    let after = |(mut cell, own): (Cell, Token), steps: &[fn(&mut Cell, Token)]| {
        for step in steps {
            step(&mut cell, own);
        }
        (cell, own)
    };
    let lapse: fn(&mut Cell, Token) = |cell, _| cell.wait(LEASE);
    let sweep: fn(&mut Cell, Token) = |cell, _| cell.sweep();
    let done: fn(&mut Cell, Token) = |cell, own| assert_eq!(cell.ask(complete(own, 7)), OK);
    let unsafe_first = |started| first(policy(), Effect::Unsafe, started);

    row("absent", (Cell::new(policy()), token(1, LATEST)));
    row("pending", unsafe_first(true));
    row("pending, not started", unsafe_first(false));
    row("pending, attempt 2", second(Effect::Unsafe, true));
    row("pending, attempt 2, not started", second(Effect::Unsafe, false));
    for started in [true, false] {
        let mut cell = Cell::new(policy());
        let own = cell.granted(in_epoch(Begin { started, ..begin(LATEST, Effect::Unsafe) }, 1, 1));
        row(if started { "pending, epoch 1" } else { "pending, epoch 1, not started" }, (cell, own));
    }
    for effect in Effect::ALL {
        row(&format!("lapsed, {effect}"), after(first(policy(), effect, true), &[lapse]));
    }
    for effect in Effect::ALL {
        row(&format!("lapsed, not started, {effect}"), after(first(policy(), effect, false), &[lapse]));
    }
    row("lapsed, attempt 2", after(second(Effect::Unsafe, true), &[lapse]));
    row("lapsed, attempt 2, not started", after(second(Effect::Unsafe, false), &[lapse]));
    row("stale", after(first(stale(), Effect::Unsafe, true), &[lapse]));
    row("stale, not started", after(first(stale(), Effect::Unsafe, false), &[lapse]));
    row("open, failed", after(unsafe_first(true), &[|cell, own| assert_eq!(cell.ask(fail(own, 7)), OK)]));
    row("open, released", after(second(Effect::Unsafe, true), &[|cell, own| assert_eq!(cell.ask(no_effect(own)), OK)]));
    row("open, lapsed", after(first(policy(), Effect::Idempotent, true), &[lapse, sweep]));
    row("open, lapsed not started", after(second(Effect::Unsafe, false), &[lapse, sweep]));
    row(
        "open, unknown",
        after(first(policy(), Effect::Pure, true), &[|cell, own| assert_eq!(cell.ask(fail_unknown(own)), OK)]),
    );
    row("open, resolved", after(unsafe_first(true), &[|cell, _| assert_eq!(cell.ask(run_again(cell.version)), OK)]));
    row("in doubt, lapsed", after(unsafe_first(true), &[lapse, sweep]));
    row("in doubt, unknown", after(unsafe_first(true), &[|cell, own| assert_eq!(cell.ask(fail_unknown(own)), OK)]));
    row(
        "in doubt, being probed",
        after(
            unsafe_first(true),
            &[lapse, |cell, _| {
                let claim = Command::ClaimProbe { version: cell.version, next_at: Stamp(cell.now + 5) };
                assert_eq!(cell.ask(claim), OK);
            }],
        ),
    );
    let committed: fn(&mut Cell, Token) =
        |cell, _| assert_eq!(cell.ask(resolve(cell.version, Resolution::Committed(success(7)))), OK);
    row("committed", after(unsafe_first(true), &[done]));
    row("committed, resolved", after(unsafe_first(true), &[committed]));
    row("rejected", after(unsafe_first(true), &[|cell, own| assert_eq!(cell.ask(reject(own, 7)), OK)]));
    let refused: fn(&mut Cell, Token) =
        |cell, _| assert_eq!(cell.ask(resolve(cell.version, Resolution::Rejected(refusal(7)))), OK);
    row("rejected, resolved", after(unsafe_first(true), &[refused]));
    let evict: fn(&mut Cell, Token) = |cell, _| assert_eq!(cell.ask(Command::Evict { tombstones_full: false }), OK);
    let window: fn(&mut Cell, Token) = |cell, _| cell.wait(SUCCESS);
    let refuse = || first(refusing(), Effect::Unsafe, true);
    row("committed, pure", after(first(policy(), Effect::Pure, true), &[done]));
    row("evicted", after(unsafe_first(true), &[done, evict]));
    row("evicted, resolved", after(unsafe_first(true), &[committed, evict]));
    row("evicted, window over", after(unsafe_first(true), &[done, evict, window]));
    row("window over", after(unsafe_first(true), &[done, window]));
    row("window over, refusing", after(refuse(), &[done, window]));
    row("window over, refusing, swept", after(refuse(), &[done, window, sweep]));
    row("tombstone over", after(refuse(), &[done, sweep, window, |cell, _| cell.wait(TOMBSTONE)]));
    row(
        "open, window over",
        after(
            unsafe_first(true),
            &[
                |cell, own| assert_eq!(cell.ask(fail(own, 7)), OK),
                |cell, _| {
                    cell.wait(OPEN);
                },
            ],
        ),
    );
    rows
}

type Column = (&'static str, fn(&Row) -> Command);

const STRANGER: u8 = 9;

fn effect_of(row: &Row) -> Effect {
    row.cell.record.as_ref().map_or(Effect::Unsafe, |record| record.effect)
}

fn asks(row: &Row) -> Begin {
    begin(STRANGER, effect_of(row))
}

fn no_room() -> Admit {
    Admit::No(Refusal { reason: RefusalReason::Quota, retry_after: Millis(1) })
}

const BEGINS: &[Column] = &[
    ("other", |row| Command::Begin(asks(row))),
    ("same nonce", |row| Command::Begin(Begin { nonce: row.own.nonce, ..asks(row) })),
    ("same, full", |row| Command::Begin(Begin { nonce: row.own.nonce, admit: no_room(), ..asks(row) })),
    ("other print", |row| Command::Begin(Begin { fingerprint: Some(print(2)), ..asks(row) })),
    ("no print", |row| Command::Begin(Begin { fingerprint: None, ..asks(row) })),
    ("denied", |row| Command::Begin(Begin { admit: no_room(), ..asks(row) })),
    ("no room", |row| Command::Begin(Begin { room: no_room(), ..asks(row) })),
    ("newer epoch", |row| {
        Command::Begin(in_epoch(Begin { fingerprint: Some(print(2)), started: false, ..asks(row) }, 2, 2))
    }),
    ("superseded", |row| Command::Begin(in_epoch(asks(row), 1, 2))),
];

const BY_OWNER: &[Column] = &[
    ("start", |row| Command::Start { token: row.own }),
    ("renew", |row| Command::Renew { token: row.own, lease: Millis(LEASE) }),
    ("complete", |row| complete(row.own, 7)),
    ("other", |row| complete(row.own, 8)),
    ("reject", |row| reject(row.own, 7)),
    ("fail", |row| fail(row.own, 7)),
    ("other", |row| fail(row.own, 8)),
    ("unknown", |row| fail_unknown(row.own)),
    ("release", |row| release(row.own)),
    ("no effect", |row| no_effect(row.own)),
    ("unstart", |row| Command::Unstart { token: row.own }),
];

/// Tokens that do not count: of an attempt before this one, and of nobody.
const OLD: Token = token(1, OLDER);
const NOBODY: Token = token(1, 77);

const BY_OTHERS: &[Column] = &[
    ("start", |_| Command::Start { token: OLD }),
    ("renew", |_| Command::Renew { token: OLD, lease: Millis(LEASE) }),
    ("complete", |_| complete(OLD, 7)),
    ("reject", |_| reject(OLD, 7)),
    ("fail", |_| fail(OLD, 7)),
    ("unknown", |_| fail_unknown(OLD)),
    ("no effect", |_| no_effect(OLD)),
    ("unstart", |_| Command::Unstart { token: OLD }),
    ("nobody's", |_| complete(NOBODY, 7)),
    ("next's", |row| complete(Token { attempt: row.own.attempt + 1, ..row.own }, 7)),
];

const BY_NOBODY: &[Column] = &[
    ("disown own", |row| Command::Disown { nonce: row.own.nonce, expected: Version(999) }),
    ("disown", |row| Command::Disown { nonce: nonce(STRANGER), expected: row.cell.version }),
    ("dis. moved", |_| Command::Disown { nonce: nonce(STRANGER), expected: Version(999) }),
    ("commit", |row| resolve(row.cell.version, Resolution::Committed(success(8)))),
    ("reject", |row| resolve(row.cell.version, Resolution::Rejected(refusal(8)))),
    ("run again", |row| run_again(row.cell.version)),
    ("res. moved", |row| run_again(Version(row.cell.version.0 + 1))),
    ("probe", |row| Command::ClaimProbe { version: row.cell.version, next_at: Stamp(row.cell.now + 5) }),
    ("expire", |_| Command::Expire),
    ("evict", |_| Command::Evict { tombstones_full: false }),
    ("evict full", |_| Command::Evict { tombstones_full: true }),
];

fn told(reply: &Reply) -> String {
    match reply {
        Reply::Verdict(verdict) => match &**verdict {
            Verdict::WindowClosed { .. } => "win".to_owned(),
            Verdict::Mismatch => "mis".to_owned(),
            Verdict::Replay(replay) => match replay.answer {
                Recorded::Whole(_) => "rep".to_owned(),
                Recorded::DigestOnly { .. } => "dig".to_owned(),
            },
            Verdict::InFlight { .. } => "fly".to_owned(),
            Verdict::InDoubt { .. } => "dbt".to_owned(),
            Verdict::Refused(_) => "ref".to_owned(),
            Verdict::Fenced => "sup".to_owned(),
            Verdict::Execute(grant) => format!("x{}", grant.token.attempt),
        },
        Reply::Done(Done { already: true, .. }) => "alr".to_owned(),
        Reply::Done(Done { late: true, .. }) => "late".to_owned(),
        Reply::Done(_) => "ok".to_owned(),
        Reply::Fenced => "fen".to_owned(),
        Reply::Conflict(_) => "cfl".to_owned(),
        Reply::Refused(_) => "no".to_owned(),
    }
}

const fn letter(state: StateName) -> char {
    match state {
        StateName::Absent => '-',
        StateName::Pending => 'P',
        StateName::Open => 'O',
        StateName::InDoubt => 'D',
        StateName::Committed => 'C',
        StateName::Rejected => 'R',
        StateName::Tombstone => 'T',
    }
}

fn table(columns: &[Column]) -> String {
    let mut text = format!("{:<36}", "");
    for (name, _) in columns {
        let _ = write!(text, "|{name:<11}");
    }
    text.push('\n');
    for row in rows() {
        let _ = write!(text, "{:<34}{} ", row.name, letter(row.cell.state()));
        for (_, command) in columns {
            let mut cell = row.cell.clone();
            let before = cell.state();
            let reply = cell.ask(command(&row));
            let after = cell.state();
            let mut entry = told(&reply);
            if after != before {
                let _ = write!(entry, "/{}", letter(after));
            }
            let _ = write!(text, "|{entry:<11}");
        }
        text.push('\n');
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn compare(columns: &[Column], expected: &str) {
    let actual = table(columns);
    let expected = expected.trim_start_matches('\n').trim_end();
    for (line, (is, should)) in actual.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should.trim_end(), "line {line} of\n{actual}");
    }
    assert_eq!(actual.lines().count(), expected.lines().count(), "\n{actual}");
}

#[test]
fn every_state_against_every_begin() {
    compare(BEGINS, BEGIN_TABLE);
}

#[test]
fn every_state_against_everything_its_owner_says() {
    compare(BY_OWNER, OWNER_TABLE);
}

#[test]
fn every_state_against_tokens_that_do_not_count() {
    compare(BY_OTHERS, OTHERS_TABLE);
}

#[test]
fn every_state_against_the_sweeper_the_operator_and_a_disowning() {
    compare(BY_NOBODY, NOBODY_TABLE);
}

/// Whoever is turned away leaves nothing behind but, perhaps, the outcome that it brought.
#[test]
fn every_refusal_writes_nothing() {
    for columns in [BEGINS, BY_OWNER, BY_OTHERS, BY_NOBODY] {
        for row in rows() {
            for (name, command) in columns {
                let step = row.cell.decide(command(&row));
                let refused = match &step.reply {
                    Reply::Verdict(verdict) => !matches!(**verdict, Verdict::Execute(_)),
                    Reply::Done(_) => false,
                    Reply::Fenced | Reply::Conflict(_) | Reply::Refused(_) => true,
                };
                if !refused || step.write == Write::Nothing {
                    continue;
                }
                let Write::Put(next) = step.write else { panic!("{} removed by a refused {name}", row.name) };
                let mut kept = row.cell.read().expect("evidence needs a record");
                assert_eq!(next.evidence.len(), kept.evidence.len() + 1, "{}: {name}", row.name);
                kept.evidence.clone_from(&next.evidence);
                assert_eq!(*next, kept, "{}: {name} changed more than the evidence", row.name);
            }
        }
    }
}

/// The after-window rule is the record's own: another process with another policy reads it the same.
#[test]
fn a_record_reads_the_same_under_another_policy() {
    for row in rows() {
        let other = Policy {
            after_window: Some(AfterWindow::Refuse),
            on_lapse: [None; 5],
            open_retention: None,
            ..Cell::new(policy()).policy
        };
        let elsewhere = Cell { policy: other, ..row.cell.clone() };
        let ask = |cell: &Cell| told(&cell.decide(Command::Begin(asks(&row))).reply);
        assert_eq!(ask(&row.cell), ask(&elsewhere), "{}", row.name);
    }
}

const BEGIN_TABLE: &str = "
                                    |other      |same nonce |same, full |other print|no print   |denied     |no room    |newer epoch|superseded
absent                            - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
pending                           P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |mis        |fly
pending, not started              P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |mis        |fly
pending, attempt 2                P |fly        |x2         |x2         |mis        |fly        |fly        |fly        |mis        |fly
pending, attempt 2, not started   P |fly        |x2         |x2         |mis        |fly        |fly        |fly        |mis        |fly
pending, epoch 1                  P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |mis        |fly
pending, epoch 1, not started     P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |x2         |fly
lapsed, pure                      O |x2/P       |x1/P       |x1/P       |mis        |x2/P       |ref        |x2/P       |mis        |sup
lapsed, idempotent                O |x2/P       |x1/P       |x1/P       |mis        |x2/P       |ref        |x2/P       |mis        |sup
lapsed, compensatable             D |dbt        |x1/P       |x1/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
lapsed, irreversible              D |dbt        |x1/P       |x1/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
lapsed, unsafe                    D |dbt        |x1/P       |x1/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
lapsed, not started, pure         - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
lapsed, not started, idempotent   - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
lapsed, not started, compensatable- |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
lapsed, not started, irreversible - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
lapsed, not started, unsafe       - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
lapsed, attempt 2                 D |dbt        |x2/P       |x2/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
lapsed, attempt 2, not started    O |x3/P       |x2/P       |x2/P       |mis        |x3/P       |ref        |x3/P       |mis        |sup
stale                             P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |mis        |fly
stale, not started                P |fly        |x1         |x1         |mis        |fly        |fly        |fly        |mis        |fly
open, failed                      O |x2/P       |x2/P       |ref        |mis        |x2/P       |ref        |x2/P       |mis        |sup
open, released                    O |x3/P       |x3/P       |ref        |mis        |x3/P       |ref        |x3/P       |mis        |sup
open, lapsed                      O |x2/P       |x1/P       |x1/P       |mis        |x2/P       |ref        |x2/P       |mis        |sup
open, lapsed not started          O |x3/P       |x2/P       |x2/P       |mis        |x3/P       |ref        |x3/P       |mis        |sup
open, unknown                     O |x2/P       |x2/P       |ref        |mis        |x2/P       |ref        |x2/P       |mis        |sup
open, resolved                    O |x2/P       |x2/P       |ref        |mis        |x2/P       |ref        |x2/P       |mis        |sup
in doubt, lapsed                  D |dbt        |x1/P       |x1/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
in doubt, unknown                 D |dbt        |dbt        |dbt        |mis        |dbt        |dbt        |dbt        |mis        |dbt
in doubt, being probed            D |dbt        |x1/P       |x1/P       |mis        |dbt        |dbt        |dbt        |mis        |dbt
committed                         C |rep        |rep        |rep        |mis        |rep        |rep        |rep        |mis        |rep
committed, resolved               C |rep        |rep        |rep        |mis        |rep        |rep        |rep        |mis        |rep
rejected                          R |rep        |rep        |rep        |mis        |rep        |rep        |rep        |mis        |rep
rejected, resolved                R |rep        |rep        |rep        |mis        |rep        |rep        |rep        |mis        |rep
committed, pure                   C |rep        |rep        |rep        |mis        |rep        |rep        |rep        |mis        |rep
evicted                           T |dig        |dig        |dig        |mis        |dig        |dig        |dig        |mis        |dig
evicted, resolved                 T |dig        |dig        |dig        |mis        |dig        |dig        |dig        |mis        |dig
evicted, window over              - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
window over                       - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
window over, refusing             T |win        |win        |win        |win        |win        |win        |win        |win        |win
window over, refusing, swept      T |win        |win        |win        |win        |win        |win        |win        |win        |win
tombstone over                    - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
open, window over                 - |x1/P       |x1/P       |ref        |x1/P       |x1/P       |ref        |ref        |x1/P       |sup
";

const OWNER_TABLE: &str = "
                                    |start      |renew      |complete   |other      |reject     |fail       |other      |unknown    |release    |no effect  |unstart
absent                            - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
pending                           P |alr        |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/D       |no         |ok/-       |ok/-
pending, not started              P |ok         |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/-       |ok/-       |ok/-       |ok/-
pending, attempt 2                P |alr        |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/D       |no         |ok/O       |ok/O
pending, attempt 2, not started   P |ok         |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/O       |ok/O       |ok/O       |ok/O
pending, epoch 1                  P |alr        |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/D       |no         |ok/-       |ok/-
pending, epoch 1, not started     P |ok         |ok         |ok/C       |ok/C       |ok/R       |ok/O       |ok/O       |ok/-       |ok/-       |ok/-       |ok/-
lapsed, pure                      O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |no         |late/-     |late/-
lapsed, idempotent                O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |no         |late/-     |late/-
lapsed, compensatable             D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
lapsed, irreversible              D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
lapsed, unsafe                    D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
lapsed, not started, pure         - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
lapsed, not started, idempotent   - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
lapsed, not started, compensatable- |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
lapsed, not started, irreversible - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
lapsed, not started, unsafe       - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
lapsed, attempt 2                 D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/O     |late/O
lapsed, attempt 2, not started    O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |late       |late       |late
stale                             P |alr        |ok         |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
stale, not started                P |ok         |ok         |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |late/-     |late/-     |late/-
open, failed                      O |fen        |fen        |late/C     |late/C     |late/R     |alr        |cfl        |cfl        |cfl        |cfl        |cfl
open, released                    O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr
open, lapsed                      O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |no         |late/-     |late/-
open, lapsed not started          O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |late       |late       |late
open, unknown                     O |fen        |fen        |late/C     |late/C     |late/R     |late       |late       |alr        |no         |late/-     |late/-
open, resolved                    O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
in doubt, lapsed                  D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
in doubt, unknown                 D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
in doubt, being probed            D |fen        |fen        |late/C     |late/C     |late/R     |late/O     |late/O     |alr        |no         |late/-     |late/-
committed                         C |fen        |fen        |alr        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl
committed, resolved               C |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
rejected                          R |fen        |fen        |cfl        |cfl        |alr        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl
rejected, resolved                R |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
committed, pure                   C |fen        |fen        |alr        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl        |cfl
evicted                           T |fen        |fen        |alr        |cfl        |cfl        |fen        |fen        |fen        |fen        |fen        |fen
evicted, resolved                 T |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
evicted, window over              - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
window over                       - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
window over, refusing             T |fen        |fen        |alr        |cfl        |cfl        |fen        |fen        |fen        |fen        |fen        |fen
window over, refusing, swept      T |fen        |fen        |alr        |cfl        |cfl        |fen        |fen        |fen        |fen        |fen        |fen
tombstone over                    - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
open, window over                 - |fen        |fen        |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |alr
";

const OTHERS_TABLE: &str = "
                                    |start      |renew      |complete   |reject     |fail       |unknown    |no effect  |unstart    |nobody's   |next's
absent                            - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
pending                           P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
pending, not started              P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
pending, attempt 2                P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
pending, attempt 2, not started   P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
pending, epoch 1                  P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
pending, epoch 1, not started     P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, pure                      O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, idempotent                O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, compensatable             D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, irreversible              D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, unsafe                    D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, not started, pure         - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
lapsed, not started, idempotent   - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
lapsed, not started, compensatable- |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
lapsed, not started, irreversible - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
lapsed, not started, unsafe       - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
lapsed, attempt 2                 D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
lapsed, attempt 2, not started    O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
stale                             P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
stale, not started                P |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, failed                      O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, released                    O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, lapsed                      O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, lapsed not started          O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, unknown                     O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
open, resolved                    O |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
in doubt, lapsed                  D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
in doubt, unknown                 D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
in doubt, being probed            D |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
committed                         C |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
committed, resolved               C |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
rejected                          R |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
rejected, resolved                R |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
committed, pure                   C |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
evicted                           T |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
evicted, resolved                 T |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
evicted, window over              - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
window over                       - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
window over, refusing             T |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
window over, refusing, swept      T |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen        |fen
tombstone over                    - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
open, window over                 - |fen        |fen        |fen        |fen        |fen        |alr        |alr        |alr        |fen        |fen
";

const NOBODY_TABLE: &str = "
                                    |disown own |disown     |dis. moved |commit     |reject     |run again  |res. moved |probe      |expire     |evict      |evict full
absent                            - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |alr        |alr
pending                           P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
pending, not started              P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
pending, attempt 2                P |ok/O       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
pending, attempt 2, not started   P |ok/O       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
pending, epoch 1                  P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
pending, epoch 1, not started     P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
lapsed, pure                      O |ok/-       |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |no         |no
lapsed, idempotent                O |ok/-       |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |no         |no
lapsed, compensatable             D |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |ok         |no         |no
lapsed, irreversible              D |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |ok         |no         |no
lapsed, unsafe                    D |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |ok         |no         |no
lapsed, not started, pure         - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
lapsed, not started, idempotent   - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
lapsed, not started, compensatable- |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
lapsed, not started, irreversible - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
lapsed, not started, unsafe       - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
lapsed, attempt 2                 D |ok/O       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |ok         |no         |no
lapsed, attempt 2, not started    O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |no         |no
stale                             P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
stale, not started                P |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
open, failed                      O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
open, released                    O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
open, lapsed                      O |ok/-       |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
open, lapsed not started          O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
open, unknown                     O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
open, resolved                    O |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |no         |no
in doubt, lapsed                  D |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |alr        |no         |no
in doubt, unknown                 D |ok         |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |ok         |alr        |no         |no
in doubt, being probed            D |ok/-       |ok         |ok         |ok/C       |ok/R       |ok/O       |cfl        |cfl        |alr        |no         |no
committed                         C |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |ok/T       |no
committed, resolved               C |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |ok/T       |no
rejected                          R |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |ok/T       |no
rejected, resolved                R |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |ok/T       |no
committed, pure                   C |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |ok/T       |ok/-
evicted                           T |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |alr        |alr
evicted, resolved                 T |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |alr        |alr
evicted, window over              - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
window over                       - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
window over, refusing             T |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
window over, refusing, swept      T |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |alr        |alr        |alr
tombstone over                    - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
open, window over                 - |ok         |ok         |ok         |cfl        |cfl        |cfl        |cfl        |cfl        |ok         |alr        |alr
";
