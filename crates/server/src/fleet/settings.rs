//! A shard from its settings.

use std::path::PathBuf;
use std::sync::Arc;

use usher_domain::fleet::aggregate::Deadlines;
use usher_domain::fleet::ident::ShardId;
use usher_domain::fleet::plan::{PlanConfig as PlanFigures, Switch, Windows};
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_domain::object::authority::MassDeletionGuard;
use usher_kernel::schedule::Pace;
use usher_store::Store;
use usher_wire::fleet::{Files, Keyring, channel};

use crate::config::{Config, SwitchMode};
use crate::error::ServerError;
use usher_fleet::bootstrap::Bootstrap;
use usher_fleet::epoch::EpochConfig;
use usher_fleet::provider::{CallTimeouts, Provider};
use usher_fleet::shard::Shard;
use usher_fleet::tally::Tally;
use usher_wire::chain;

/// Name and address of a provider.
pub struct At {
    /// Its name in records.
    pub name: String,
    pub address: String,
}

pub fn shard_id(config: &Config) -> Result<ShardId, ServerError> {
    config.fleet.shard.parse().map_err(|why| ServerError::usage(format!("{why}")))
}

/// The provider that the settings name, if they name one.
pub fn provider(config: &Config) -> Option<At> {
    let (name, address) = (config.fleet.provider_name.clone(), config.fleet.provider.clone());
    (!address.is_empty()).then_some(At { name, address })
}

/// The shard of a provider.
pub fn shard(
    config: &Config,
    at: At,
    (store, bootstrap): (&Arc<Store>, Arc<dyn Bootstrap>),
    tally: &Arc<Tally>,
) -> Result<Shard, ServerError> {
    let fleet = &config.fleet;
    let id = shard_id(config)?;
    let file = |text: &String| (!text.is_empty()).then(|| PathBuf::from(text));
    let (cert, key, ca) = (file(&fleet.tls_cert), file(&fleet.tls_key), file(&fleet.tls_ca));
    let files = Files::of(cert, key, ca).map_err(|why| ServerError::usage(chain(&why)))?;
    let keyring = files.map(Keyring::open).transpose();
    let keyring = keyring.map_err(|why| ServerError::usage(chain(&why)))?.map(Arc::new);
    let channel = channel(&at.address, keyring).map_err(|why| {
        let (address, why) = (&at.address, chain(&why));
        ServerError::usage(format!("invalid setting fleet.provider = \"{address}\": {why}"))
    })?;
    let timeouts = CallTimeouts { call: fleet.call_deadline.0, list: fleet.list_deadline.0 };
    let provider = Provider::new(at.name, id.clone(), channel, timeouts);
    let (store, tally) = (Arc::clone(store), Arc::clone(tally));
    Ok(Shard { id, store, provider, bootstrap, config: epoch_config(config), tally })
}

fn epoch_config(config: &Config) -> EpochConfig {
    let (fleet, worker) = (&config.fleet, &config.worker);
    let deadlines = Deadlines {
        create: fleet.create_deadline.0,
        configure: fleet.configure_deadline.0,
        drain: fleet.drain_deadline.0,
        delete: fleet.delete_deadline.0,
        failed: fleet.failed_wait.0,
        ..Deadlines::default()
    };
    EpochConfig {
        reconciler: MachineReconciler { interval: fleet.poll_interval.0, deadlines },
        windows: Windows { on_demand: fleet.idle_on_demand.0, spot: fleet.idle_spot.0 },
        plan: PlanFigures { reclaim_percent: fleet.reclaim_percent },
        guard: MassDeletionGuard { count: config.guard.count, percent: config.guard.percent },
        switch: match fleet.switch {
            SwitchMode::Run => Switch::Run,
            SwitchMode::DryRun => Switch::DryRun,
            SwitchMode::Paused => Switch::Paused,
        },
        steps_max: usize::try_from(fleet.steps_max).unwrap_or(usize::MAX),
        // A step makes two calls, between a read and a write of the store.
        step_deadline: fleet.call_deadline.0 * 2 + worker.step_deadline.0,
        cycle: fleet.cycle_interval.0,
        passing: fleet.passing_interval.0.min(fleet.cycle_interval.0),
        full_list: fleet.full_list_interval.0,
        lease: fleet.lease.0,
        request_bound: worker.request_bound.0,
        pace: Pace {
            lease: worker.lease.0,
            base: worker.back_off_base.0,
            max: worker.back_off_max.0,
        },
    }
}
