//! A trip is booked in three steps, the fourth fails, and the process that undoes the first three dies half-way.
//!
//! Run it with `cargo run --example saga`; it keeps its ledger in a directory of its own and removes it.

use std::sync::{Arc, Mutex};

use hapax::{Classified, Compensations, Effect, Hapax, Turn, UndoError, Unwound, plan::Unwinding};
use serde_json::json;

type Failed = Classified<String>;

async fn book(hapax: &Hapax, turn: &Turn, what: &'static str) -> Result<(), Box<dyn std::error::Error>> {
    let call = hapax.surface("trip").tenant("acme").key(what).in_turn(turn);
    // What undoes it is stored with its start; the booking's number is known only with its outcome.
    let call = call.compensated_from_outcome("cancel", "/booking");
    let booked = call.once(move |_| async move { Ok::<_, Failed>(json!({ "booking": format!("{what}-1") })) }).await?;
    println!("  booked: {}", booked.value["booking"]);
    Ok(())
}

fn cancelling(cancelled: &Arc<Mutex<Vec<String>>>, dies_at: Option<&'static str>) -> Compensations {
    let cancelled = Arc::clone(cancelled);
    Compensations::default().on("cancel", Effect::Idempotent, move |undo| {
        let cancelled = Arc::clone(&cancelled);
        async move {
            let booking: String = undo.input()?;
            if dies_at.is_some_and(|at| booking.starts_with(at)) {
                println!("  … the process dies before it cancels {booking}");
                return Err(UndoError::retryable("the line is dead".to_owned()));
            }
            // The same key on every attempt: forward it.
            println!("  cancelled {booking} ({}…)", &undo.downstream_key()[..9]);
            cancelled.lock().map_err(|_| UndoError::unknown("poisoned".to_owned()))?.push(booking);
            Ok(())
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("hapax-saga-{}", std::process::id()));
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    {
        let hapax = Hapax::open(&directory)?;
        let group = hapax.group("acme", "trip-1")?;
        let turn = group.create().await?;
        println!("Three steps, each with what undoes it:");
        for what in ["flight", "hotel", "car"] {
            book(&hapax, &turn, what).await?;
        }
        println!("The fourth fails, so the trip is undone, the last step first:");
        let options = hapax::UnwindOptions { tries: 1, ..Default::default() };
        let unwound = group.unwind_with(&cancelling(&cancelled, Some("hotel")), options).await?;
        assert!(matches!(unwound, Unwound::Plan { state: Unwinding::Running, .. }));
        let late = book(&hapax, &turn, "insurance").await;
        println!("  a step that comes now: {}", late.expect_err("nothing starts in a group that is undone"));
    }
    println!("Another process opens the ledger and goes on with the plan that it finds:");
    let hapax = Hapax::open(&directory)?;
    let group = hapax.group("acme", "trip-1")?;
    let Unwound::Plan { state, plan } = group.unwind(&cancelling(&cancelled, None)).await? else {
        return Err("nothing is under way".into());
    };
    println!("  {state:?}, {} steps", plan.steps.len());
    assert_eq!(state, Unwinding::Completed);
    assert_eq!(*cancelled.lock().map_err(|_| "poisoned")?, ["car-1", "hotel-1", "flight-1"]);
    drop((group, hapax));
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
