//! The worlds by name: a record names its world, and the composition root fills this map.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use usher_domain::broker::world::BrokerWorld;
use usher_kernel::Trouble;

/// A world, and whether it was compared with the ledger since this process started.
#[derive(Clone)]
pub struct Attached {
    pub world: Arc<dyn BrokerWorld>,
    /// Whether its first list was compared.
    pub listed: watch::Sender<bool>,
}

/// Every world of this server, by the name that records are pinned to.
#[derive(Clone, Default)]
pub struct Worlds(BTreeMap<String, Attached>);

impl Worlds {
    pub fn attach(&mut self, name: &str, world: Arc<dyn BrokerWorld>) {
        let (listed, _) = watch::channel(false);
        self.0.insert(name.to_owned(), Attached { world, listed });
    }

    pub fn get(&self, name: &str) -> Result<&dyn BrokerWorld, Trouble> {
        let unknown = || Trouble::unavailable(format!("world \"{name}\""));
        self.0.get(name).map(|it| &*it.world).ok_or_else(unknown)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attached)> {
        self.0.iter().map(|(name, it)| (name.as_str(), it))
    }
}
