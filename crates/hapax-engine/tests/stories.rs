//! The stories of agents and workflows, in memory: time stands still, and jumps where a story says so.

use hapax_testkit::stories::Stage;

macro_rules! in_memory {
    ($($family:ident [$($story:ident)+])+) => {
        $(mod $family {
            use super::Stage;

            $(#[tokio::test(start_paused = true)]
            async fn $story() {
                hapax_testkit::stories::$family::$story(&Stage::memory()).await;
            })+
        })+
    };
}

macro_rules! in_memory_on_threads {
    ($($family:ident [$($story:ident)+])+) => {
        $(mod $family {
            use super::Stage;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $story() {
                hapax_testkit::stories::$family::$story(&Stage::memory()).await;
            })+
        })+
    };
}

hapax_testkit::stories!(in_memory);
hapax_testkit::threaded_stories!(in_memory_on_threads);
