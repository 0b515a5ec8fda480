//! Stories of agents whose process is killed with `kill -9` at every point, on any store that outlives its process.
//!
//! A child process acts the story out and stops for good at one point: before or after one of its writes, or inside an
//! effect. There it is killed. The test itself is the process that comes after it, on the same store, an hour later.

mod fate;
mod log;
mod refund;
mod saga;

use std::sync::Arc;

use hapax_store::{BoxFuture, Store};

use crate::{TempDir, children, stories::World};

pub use refund::{corrected_refund, one_refund};
pub use saga::unwinding;

use fate::{Deadly, Fate};
use log::Log;

/// Where a story is acted out.
pub struct Scene<'a> {
    /// The test of this binary that calls [`child`], and does nothing without a task.
    pub child: &'a str,
    /// A fresh place for one run, as [`Scene::open`] understands it. No spaces.
    pub place: &'a (dyn Fn() -> String + Sync),
    pub open: &'a (dyn Fn(String) -> BoxFuture<'static, Arc<dyn Store>> + Sync),
    /// Every how-manieth point is died at.
    pub stride: u64,
}

/// What a child is to do, in one line.
struct Task {
    story: String,
    effect: String,
    at: u64,
    log: String,
    place: String,
}

impl Task {
    fn line(&self) -> String {
        format!("{} {} {} {} {}", self.story, self.effect, self.at, self.log, self.place)
    }

    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [story, effect, at, log, place] = words[..] else { panic!("no task: {line}") };
        let owned = str::to_owned;
        Self {
            story: owned(story),
            effect: owned(effect),
            at: at.parse().unwrap(),
            log: owned(log),
            place: owned(place),
        }
    }
}

/// Acts out the task that this process was started with.
pub async fn child(open: &(dyn Fn(String) -> BoxFuture<'static, Arc<dyn Store>> + Sync)) {
    let Some(line) = children::task() else { return };
    let task = Task::parse(&line);
    let fate = Fate::at(task.at);
    let store = Arc::new(Deadly::new(open(task.place.clone()).await, Arc::clone(&fate)));
    let log = Log::new(&task.log, Some(fate));
    match task.story.as_str() {
        "refund" => refund::act(store, log, &task.effect).await,
        "corrected" => refund::act_corrected(store, log, &task.effect).await,
        "saga" => saga::act(store, log, &task.effect).await,
        other => panic!("no story: {other}"),
    }
}

/// The world that a dead process left, an hour later, and what it had done outside.
struct Left {
    world: World,
    log: Log,
    /// The point that it died at.
    at: u64,
    _dir: TempDir,
}

/// Lets a process die at each point in turn, and shows what each left behind. How many there were.
async fn each_death<F: Future<Output = ()>>(
    scene: &Scene<'_>,
    story: &str,
    effect: &str,
    after: impl Fn(Left) -> F,
) -> u64 {
    let mut deaths = 0;
    for at in (0..).map(|number| number * scene.stride) {
        let dir = TempDir::new(story);
        let log = dir.join("log").display().to_string();
        let task = Task { story: story.to_owned(), effect: effect.to_owned(), at, log, place: (scene.place)() };
        let (test, line) = (scene.child.to_owned(), task.line());
        let died = tokio::task::spawn_blocking(move || children::killed_when_it_says(&test, line, fate::HERE));
        let died = died.await.unwrap();
        let world = World::over((scene.open)(task.place.clone()).await);
        world.jump(3_600_000).await;
        after(Left { world, log: Log::new(&task.log, None), at, _dir: dir }).await;
        if !died {
            break;
        }
        deaths += 1;
    }
    deaths
}
