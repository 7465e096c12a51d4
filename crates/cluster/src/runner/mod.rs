//! The object runner: steps each item of a kind while this process holds the Lease.
//!
//! ```text
//!   a term begins ─▶ list the sources ─▶ every item is due ──▶ a task per item, up to a limit
//!   a watch wakes ─────────────────────▶ its item is due           ├ panic: parked
//!                                                                  └ too slow: postponed
//!   a term ends ──▶ running steps are cancelled, and the queue is dropped
//! ```
//!
//! **Invariants**
//! - An item is stepped by one task at a time, and a failing item blocks no other.
//! - A wake-up during a step makes the item due again.
//! - Nothing is kept of a term that ended: the next one lists and steps everything.
//! - At rest nothing polls: an item without a timer costs its interests. Only items that depend on
//!   a kind which is not heard are polled.
//! - The work of a wake-up or a claim grows with the logarithm of the number of items.

mod context;
mod list;
mod queue;
mod run;
mod tally;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use usher_kernel::lifecycle::Wake;
use usher_kernel::schedule::{Jitter, Pace};
use usher_kernel::step::{Report, Stopped};

use crate::kinds::Resource;
use crate::watches::{Object, Selection, TooBroad, Watches};
pub use context::Context;
use queue::Queue;
pub use tally::{Count, Tally};

/// The items of one kind, and how one of them is stepped.
#[async_trait]
pub trait Item: Send + Sync + 'static {
    /// What an item is called, in logs too.
    type Key: Ord + Clone + Display + Send + Sync + 'static;

    /// The objects of which each belongs to an item. They are listed and watched by the runner.
    fn sources(&self) -> Vec<Source>;

    /// The item that an object of a source belongs to.
    fn key(&self, resource: &Resource, object: Object<'_>) -> Option<Self::Key>;

    /// Loads, steps and projects the status of one item. The objects that it depends on are to be
    /// watched by the context before they are read, and each mutating request is to be sent by its
    /// term.
    async fn step(&self, key: &Self::Key, context: &Context) -> Stepped;
}

/// Objects of a kind.
#[derive(Clone, Debug)]
pub struct Source {
    pub resource: Resource,
    pub selection: Selection,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// If it acted, the next step is due at once: it observes what was done.
    Done {
        wake: Wake,
        acted: bool,
    },
    /// The item is gone, and its key is forgotten.
    Gone,
    Stopped(Stopped),
}

/// The settings of a runner.
#[derive(Clone)]
pub struct Config {
    /// How many items are stepped at a time.
    pub steps_max: usize,
    /// How long a step may take; less than the lease of an item in the queue.
    pub step_deadline: Duration,
    /// How often an item is polled that depends on a kind which is not heard.
    pub deaf: Duration,
    /// How many objects a page of a list has.
    pub page: u32,
    pub pace: Pace,
    /// Where random shares come from.
    pub jitter: Arc<dyn Fn() -> Jitter + Send + Sync>,
}

/// Steps the items of one kind.
pub struct ObjectRunner<I: Item> {
    item: Arc<I>,
    watches: Arc<Watches>,
    config: Config,
    queue: Arc<Queue<I::Key>>,
    tally: Arc<Tally>,
}

/// Wakes items from outside of the watches.
pub struct ItemWaker<K>(Arc<Queue<K>>);

impl<I: Item> ObjectRunner<I> {
    /// Refuses objects that are not watched all at once.
    pub fn new(
        item: Arc<I>,
        watches: Arc<Watches>,
        config: Config,
        tally: Arc<Tally>,
    ) -> Result<Self, TooBroad> {
        if item.sources().iter().any(|it| it.resource.is_watched_one_by_one()) {
            return Err(TooBroad);
        }
        let queue = Arc::new(Queue::new(config.pace, Arc::clone(&config.jitter)));
        Ok(Self { item, watches, config, queue, tally })
    }

    pub fn item_waker(&self) -> ItemWaker<I::Key> {
        ItemWaker(Arc::clone(&self.queue))
    }
}

impl<K: Ord + Clone> ItemWaker<K> {
    /// Makes an item due, also while it is stepped. Without a term it is not known, and will be
    /// stepped by the next one.
    pub fn wake(&self, key: &K) {
        self.0.wake(key);
    }

    /// Makes a parked item due, by command.
    pub fn unpark(&self, key: &K) {
        self.0.unpark(key);
    }

    /// How many items are known in this term.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            steps_max: 32,
            step_deadline: Duration::from_secs(20),
            deaf: Duration::from_secs(30),
            page: 500,
            pace: Pace::default(),
            jitter: Arc::new(|| Jitter(u32::MAX)),
        }
    }
}

impl<R> From<Result<Option<Report<R>>, Stopped>> for Stepped {
    /// The end of a step of the kernel.
    fn from(ended: Result<Option<Report<R>>, Stopped>) -> Self {
        match ended {
            Ok(Some(Report { wake, acted, .. })) => Self::Done { wake, acted },
            Ok(None) => Self::Gone,
            Err(stopped) => Self::Stopped(stopped),
        }
    }
}

impl<I: Item> std::fmt::Debug for ObjectRunner<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectRunner").field("items", &self.queue.len()).finish_non_exhaustive()
    }
}

impl<K: Ord + Clone> std::fmt::Debug for ItemWaker<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemWaker").field("items", &self.len()).finish()
    }
}
