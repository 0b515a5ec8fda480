//! What agents and workflows stand on, as far as it hangs on no store: providers, the bus guard, job submission. The rest
//! is `stories.rs`.

mod guard;
mod jobs;
mod policies;
mod providers;
