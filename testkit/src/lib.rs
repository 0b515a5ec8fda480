//! Real servers for tests: started on free ports, with their data in temporary directories, stopped whatever happens.
//!
//! A server that is not installed fails the test with the command that installs it; nothing is skipped in silence.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests only")]
#![allow(clippy::disallowed_methods, reason = "real servers take real time")]
#![allow(missing_debug_implementations, reason = "what a test holds is shown by nobody")]

pub mod accidents;
pub mod children;
mod clock;
mod dir;
pub mod killed;
pub mod model;
mod nats;
mod nats_cluster;
mod postgres;
mod proxy;
mod redis;
mod redis_cluster;
mod redis_sentinel;
pub mod sample;
mod server;
mod spawner;
pub mod stories;

pub use clock::FakeClock;
pub use dir::TempDir;
pub use nats::Nats;
pub use nats_cluster::NatsCluster;
pub use postgres::{Postgres, program as postgres_program};
pub use proxy::Proxy;
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
pub use server::{Server, wait_until};
