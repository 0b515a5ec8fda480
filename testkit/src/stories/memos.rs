//! What was computed once and may be used again, or may not.

use hapax_core::{
    Effect, Id,
    identity::{Dependencies, Fingerprint, TurnInput},
    memo::{WhyRecompute, WhyReuse},
};
use hapax_engine::{Engine, MemoAnswer, Memos};

use super::*;

const DECLARED: &str = r#"{
    "parsing": {"scope": "same_input"},
    "intent_candidates": {"scope": "same_input_same_dep"},
    "tool_plan": {"scope": "same_input_same_dep", "requires_revalidate": true},
    "tool_results": {"scope": "never"},
    "secrets": {"scope": "never"}
}"#;

fn input(engine: &Engine, message: &str) -> Fingerprint {
    let messages = [message];
    engine.input_fp(&TurnInput { tenant: "acme", agent: "a", session: "s", channel: "web", messages: &messages })
}

const DEPENDENCIES: Dependencies<'_> =
    Dependencies { scenario_set: "1", rules: "1", knowledge_base: "1", agent_config: "1", tool_registry: "1" };

fn memos(engine: &Engine) -> Memos {
    engine.memos("acme", DECLARED).unwrap()
}

async fn kept(memos: &Memos, phase: &str, input: &Fingerprint, dep: &Fingerprint) -> MemoAnswer {
    memos.look_up(phase, input, dep).await.unwrap()
}

/// The knowledge base moved on, the question did not. What was concluded from it before must not be used again.
pub async fn a_memo_is_not_reused_when_any_dependency_moved(stage: &Stage) {
    let engine = stage.engine().await;
    let memos = memos(&engine);
    let (input, then) = (input(&engine, "refund my order"), engine.dep_fp(&DEPENDENCIES));
    for phase in ["intent_candidates", "tool_plan", "parsing"] {
        assert!(memos.keep(phase, &input, &then, "value", None).await.unwrap());
    }
    let value = || "value".into();
    let why = WhyReuse::SameInputSameDep;
    assert_eq!(kept(&memos, "intent_candidates", &input, &then).await, MemoAnswer::Reuse { value: value(), why });
    assert_eq!(kept(&memos, "tool_plan", &input, &then).await, MemoAnswer::Revalidate { value: value(), why });
    for moved in [
        Dependencies { scenario_set: "2", ..DEPENDENCIES },
        Dependencies { rules: "2", ..DEPENDENCIES },
        Dependencies { knowledge_base: "2", ..DEPENDENCIES },
        Dependencies { agent_config: "2", ..DEPENDENCIES },
        Dependencies { tool_registry: "2", ..DEPENDENCIES },
    ] {
        let now = engine.dep_fp(&moved);
        for phase in ["intent_candidates", "tool_plan"] {
            let answer = kept(&memos, phase, &input, &now).await;
            assert_eq!(answer, MemoAnswer::Recompute(WhyRecompute::DependencyMoved), "{phase}, {moved:?}");
        }
        // Declared to hang on nothing but its input.
        let parsed = kept(&memos, "parsing", &input, &now).await;
        assert_eq!(parsed, MemoAnswer::Reuse { value: value(), why: WhyReuse::SameInput });
    }
}

pub async fn never_is_never_and_what_is_not_declared_is_not_reused(stage: &Stage) {
    let engine = stage.engine().await;
    let memos = memos(&engine);
    let (input, dep) = (input(&engine, "hi"), engine.dep_fp(&DEPENDENCIES));
    for (phase, why) in [("secrets", WhyRecompute::Never), ("unheard_of", WhyRecompute::NotDeclared)] {
        assert!(!memos.keep(phase, &input, &dep, "value", Some(Id([1; 32]))).await.unwrap());
        assert_eq!(kept(&memos, phase, &input, &dep).await, MemoAnswer::Recompute(why));
    }
    // Kept while it was allowed, and forbidden since: the declaration of now counts as well.
    let lax = engine.memos("acme", r#"{"secrets": {"scope": "same_input"}}"#).unwrap();
    assert!(lax.keep("secrets", &input, &dep, "value", None).await.unwrap());
    assert!(matches!(kept(&lax, "secrets", &input, &dep).await, MemoAnswer::Reuse { .. }));
    assert_eq!(kept(&memos, "secrets", &input, &dep).await, MemoAnswer::Recompute(WhyRecompute::Never));
}

/// Results of tools are effects seen from behind: used again only if the operation that made them is keyed.
pub async fn results_of_tools_are_reused_only_if_their_operation_is_keyed(stage: &Stage) {
    let engine = stage.engine().await;
    let memos = memos(&engine);
    let (input, dep) = (input(&engine, "hi"), engine.dep_fp(&DEPENDENCIES));
    assert!(!memos.keep("tool_results", &input, &dep, "value", None).await.unwrap());
    assert_eq!(kept(&memos, "tool_results", &input, &dep).await, MemoAnswer::Recompute(WhyRecompute::Never));
    let call = engine.surface("tool").tenant("acme").key("k").effect(Effect::Unsafe);
    let producer = call.id().unwrap();
    assert!(memos.keep("tool_results", &input, &dep, "value", Some(producer)).await.unwrap());
    assert!(matches!(kept(&memos, "tool_results", &input, &dep).await, MemoAnswer::Reuse { .. }));
    let moved = engine.dep_fp(&Dependencies { rules: "2", ..DEPENDENCIES });
    assert_eq!(
        kept(&memos, "tool_results", &input, &moved).await,
        MemoAnswer::Recompute(WhyRecompute::DependencyMoved)
    );
    // Declared reusable without a key behind it, it still is not.
    let lax = engine.memos("acme", r#"{"tool_results": {"scope": "same_input"}}"#).unwrap();
    assert!(!lax.keep("tool_results", &input, &dep, "value", None).await.unwrap());
}

pub async fn other_inputs_other_tenants_and_old_memos_are_no_use(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let memos = memos(&engine);
    let (mine, dep) = (input(&engine, "hi"), engine.dep_fp(&DEPENDENCIES));
    // Longer than what lies inside a record.
    let long = vec![b'x'; 100_000];
    assert!(memos.keep("parsing", &mine, &dep, long.clone(), None).await.unwrap());
    assert_eq!(
        kept(&memos, "parsing", &mine, &dep).await,
        MemoAnswer::Reuse { value: long.into(), why: WhyReuse::SameInput }
    );
    let other = input(&engine, "hello");
    assert_eq!(kept(&memos, "parsing", &other, &dep).await, MemoAnswer::Recompute(WhyRecompute::NotKept));
    let theirs = engine.memos("other", DECLARED).unwrap();
    assert_eq!(kept(&theirs, "parsing", &mine, &dep).await, MemoAnswer::Recompute(WhyRecompute::NotKept));
    world.jump(86_400_000).await;
    let over = kept(&memos, "parsing", &mine, &dep).await;
    assert!(matches!(over, MemoAnswer::Recompute(WhyRecompute::Expired | WhyRecompute::NotKept)), "{over:?}");
    engine.sweep().await.unwrap();
    assert_eq!(kept(&memos, "parsing", &mine, &dep).await, MemoAnswer::Recompute(WhyRecompute::NotKept));
}

pub async fn a_declaration_that_is_not_understood_is_refused(stage: &Stage) {
    let engine = stage.engine().await;
    for wrong in [
        "[]",
        "{",
        r#"{"a": {}}"#,
        r#"{"a": {"scope": "sometimes"}}"#,
        r#"{"a": {"scope": 1}}"#,
        r#"{"a": {"scope": "never", "requires_revalidat": true}}"#,
        r#"{"a": {"scope": "never", "requires_revalidate": "yes"}}"#,
        r#"{"a": "never"}"#,
    ] {
        let error = engine.memos("acme", wrong).unwrap_err().to_string();
        assert!(error.contains("HX0093"), "{wrong}: {error}");
    }
}
