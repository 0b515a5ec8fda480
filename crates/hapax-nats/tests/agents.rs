//! The stories of agents and workflows that hold at level basic, on a real NATS; what needs an index says so.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_engine::{Answered, GroupError, Place};
use hapax_nats::{NatsStore, Options};
use hapax_store::{Durability, Store};
use hapax_testkit::{
    Nats,
    stories::{Observed, Stage, activities, memos},
};

/// A bucket of its own for each story, on one server. It is taken for durable: what may be forgotten does not run where that
/// matters, which other tests are about.
fn stage() -> Stage {
    let (nats, opened) = (Nats::start(), AtomicU64::new(0));
    Stage::on(move || {
        let options = Options::new(nats.url()).bucket(format!("agents-{}", opened.fetch_add(1, SeqCst)));
        Box::pin(async move {
            let store = Observed::over(Arc::new(NatsStore::open_with(options).await.unwrap()));
            store.pretend_shared();
            store.pretend_to_promise(Durability::Durable);
            store as Arc<dyn Store>
        })
    })
}

#[tokio::test]
async fn activities_that_need_no_list() {
    let stage = stage();
    activities::a_retried_node_gets_the_recorded_answer(&stage).await;
    activities::a_final_refusal_is_recorded_like_any_answer(&stage).await;
    activities::no_answer_is_given_that_is_not_in_the_store(&stage).await;
    activities::passing_failures_may_be_tried_again_and_doubtful_ones_may_not(&stage).await;
    activities::what_was_not_sent_leaves_nothing_and_what_was_lost_leaves_a_doubt(&stage).await;
    activities::a_provider_that_honours_keys_is_called_again_inside_its_window_and_not_beyond(&stage).await;
    activities::a_business_key_comes_before_the_place(&stage).await;
    activities::ids_of_other_systems_are_taken_over_by_their_recipe(&stage).await;
    activities::a_stream_is_recorded_by_its_start_and_its_end(&stage).await;
}

#[tokio::test]
async fn memos_of_every_kind() {
    let stage = stage();
    memos::a_declaration_that_is_not_understood_is_refused(&stage).await;
    memos::a_memo_is_not_reused_when_any_dependency_moved(&stage).await;
    memos::never_is_never_and_what_is_not_declared_is_not_reused(&stage).await;
    memos::results_of_tools_are_reused_only_if_their_operation_is_keyed(&stage).await;
    memos::other_inputs_other_tenants_and_old_memos_are_no_use(&stage).await;
}

/// Without an index nobody could say what is in a group: it is refused before anything is made, and so is a run's list.
#[tokio::test]
async fn groups_and_lists_of_runs_are_refused_by_their_level() {
    let stage = stage();
    let engine = stage.engine().await;
    let group = engine.group("acme", "talk").unwrap();
    for made in [group.create().await, group.fork("talk-2").await] {
        assert!(matches!(made, Err(GroupError::Level { .. })), "{made:?}");
    }
    assert_eq!(group.view().await.unwrap(), None);
    let place = Place { run: "run-1", node: "n", ordinal: 0, provider: "mail:send" };
    let sent = engine.activity("acme", &place);
    sent.perform(|_| async { Ok(Answered::new(200, "sent")) }).await.unwrap();
    let listed = engine.effects_of_run("acme", "run-1").await;
    assert!(matches!(listed, Err(GroupError::Level { .. })), "{listed:?}");
}
