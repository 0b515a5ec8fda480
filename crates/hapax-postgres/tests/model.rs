//! Postgres against a naive model of a store: 200 random histories.

use crate::common::Shared;
use hapax_store::Seeded;
use hapax_testkit::{Postgres, model};

#[tokio::test]
async fn postgres_answers_as_the_model_does() {
    let first = Seeded::seed_or(1);
    let cases = if std::env::var_os("HAPAX_SEED").is_some() { 1 } else { 200 };
    let shared = Shared::on(Postgres::forgetful());
    for seed in first..first + cases {
        let store = shared.fresh().await.unwrap();
        if let Err(error) = tokio::spawn(model::play(store, seed)).await {
            panic!("{error}; again with HAPAX_SEED={seed}");
        }
    }
}
