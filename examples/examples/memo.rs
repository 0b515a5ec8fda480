//! What was computed for a message may be used again, until something moves that gives the message its meaning.
//!
//! Run it with `cargo run --example memo`.

use hapax::{
    Hapax, MemoAnswer, Memos,
    identity::{Dependencies, Fingerprint, TurnInput},
};

const REUSE: &str = r#"{
    "parsing": {"scope": "same_input"},
    "intent_candidates": {"scope": "same_input_same_dep"},
    "tool_plan": {"scope": "same_input_same_dep", "requires_revalidate": true},
    "tool_results": {"scope": "never"}
}"#;

async fn show(memos: &Memos, input: &Fingerprint, dependencies: &Fingerprint) -> Result<u32, hapax::MemoError> {
    let mut used = 0;
    for phase in ["parsing", "intent_candidates", "tool_plan", "tool_results"] {
        let said = match memos.look_up(phase, input, dependencies).await? {
            MemoAnswer::Reuse { why, .. } => {
                used += 1;
                format!("reuse: {why}")
            }
            MemoAnswer::Revalidate { why, .. } => {
                used += 1;
                format!("revalidate: {why}")
            }
            MemoAnswer::Recompute(why) => format!("recompute: {why}"),
        };
        println!("  {phase:<18} {said}");
    }
    Ok(used)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let memos = hapax.memos("acme", REUSE)?;
    let messages = ["refund my order", "order 12345"];
    let input = hapax.input_fp(&TurnInput {
        tenant: "acme",
        agent: "helper",
        session: "s-1",
        channel: "web",
        messages: &messages,
    });
    let versions =
        Dependencies { scenario_set: "7", rules: "3", knowledge_base: "41", agent_config: "2", tool_registry: "9" };
    let then = hapax.dep_fp(&versions);

    println!("Nothing is kept yet:");
    assert_eq!(show(&memos, &input, &then).await?, 0);

    println!("Everything is computed and kept, as far as it may be:");
    for phase in ["parsing", "intent_candidates", "tool_plan", "tool_results"] {
        let kept = memos.keep(phase, &input, &then, format!("result of {phase}"), None).await?;
        println!("  {phase:<18} {}", if kept { "kept" } else { "not kept" });
    }

    println!("The turn restarts with the same messages:");
    assert_eq!(show(&memos, &input, &then).await?, 3);

    println!("The knowledge base moves from 41 to 42:");
    let now = hapax.dep_fp(&Dependencies { knowledge_base: "42", ..versions });
    assert_eq!(show(&memos, &input, &now).await?, 1);

    println!("The results came from a tool call that is keyed, so asking again and using them again are the same:");
    let call = hapax.surface("tool").tenant("acme").key("refund:12345");
    memos.keep("tool_results", &input, &then, "refund 7", Some(call.id()?)).await?;
    assert_eq!(show(&memos, &input, &then).await?, 4);
    Ok(())
}
