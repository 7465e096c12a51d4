//! The port of a world: how the server steps, watches, lists and explains the objects outside, and
//! what a world needs from the control plane.
//!
//! A record names its world; the server looks the world up by that name and knows nothing else of
//! it. Futures are boxed, so that worlds of several kinds fit in one map.

use std::collections::BTreeMap;

use usher_kernel::{Generation, Record, Timestamp, Trouble, Uid};
use uuid::Uuid;

use super::aggregate::Resource;
use super::effect::Effect;
use super::observe::Observed;
use super::provider_config::{self, ProviderConfig, Verb};
use super::snapshot::{Peer, Reading, TokenState};
use crate::object::authority::{Authority, BoxFuture, Pin};
use crate::object::enrolment::TokenText;
use crate::object::id::TokenId;

/// Where the substrates of resources exist.
///
/// *Guarantees*: as [`usher_kernel::World`]: a missing answer is never absence, and every effect
/// may be repeated.
pub trait BrokerWorld: Send + Sync + 'static {
    /// Observes everything that the record of a resource, or of its tombstone, names.
    fn observe<'a>(
        &'a self,
        record: &'a Record<Resource>,
    ) -> BoxFuture<'a, Result<Observed, Trouble>>;

    /// Does one effect of a resource or its tombstone.
    fn apply<'a>(
        &'a self,
        record: &'a Record<Resource>,
        effect: &'a Effect,
    ) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Observes everything that the record of a ProviderConfig names.
    fn observe_config<'a>(
        &'a self,
        record: &'a Record<ProviderConfig>,
    ) -> BoxFuture<'a, Result<provider_config::Observed, Trouble>>;

    /// Does one effect of a ProviderConfig.
    fn apply_config<'a>(
        &'a self,
        record: &'a Record<ProviderConfig>,
        verb: &'a Verb,
    ) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Watches for changes. The first news is that anything may have changed.
    fn watch(&self) -> BoxFuture<'_, Result<Box<dyn WorldWatch>, Trouble>>;

    /// Every object that carries the label of an installation.
    fn objects<'a>(
        &'a self,
        installation: &'a str,
    ) -> BoxFuture<'a, Result<Vec<OwnObject>, Trouble>>;

    /// Whether the world answers and is itself.
    fn health(&self) -> BoxFuture<'_, Result<(), Trouble>>;

    /// What the world says about a resource beyond what is recorded.
    fn explain<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Explanation>;
}

/// A watch over one world. It only wakes: what a change means is observed by the step it causes.
pub trait WorldWatch: Send {
    /// Waits for the next change.
    fn next(&mut self) -> BoxFuture<'_, Result<WorldNews, Trouble>>;

    /// Lists all objects of resources, for a comparison with what is recorded.
    fn list(&mut self) -> BoxFuture<'_, Result<Vec<Presence>, Trouble>>;
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldNews {
    /// Changes may have been missed: everything must be listed.
    Relist,
    /// Objects of the resources or ProviderConfigs with these ids changed.
    Changed(Vec<Uuid>),
}

/// The part of an object that decides whether its record must be reconciled. Worlds of many objects
/// are listed, so it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The resource or ProviderConfig it belongs to.
    pub owner: Uuid,
    /// Its uid; none if it cannot be read or was not created by us.
    pub uid: Option<Uuid>,
    /// Whether its deletion was requested.
    pub is_deleting: bool,
    /// Whether it is a substrate that is not ready.
    pub is_converging: bool,
}

/// An object of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnObject {
    /// Its kind, as in the name ledger.
    pub kind: String,
    /// Its namespace.
    pub place: String,
    pub name: String,
    pub uid: Uid,
    /// The resource or ProviderConfig that its label names.
    pub owner: Option<Uuid>,
}

/// What a world says about a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The message with which its substrate failed.
    pub failure: Option<String>,
    /// What its substrate waits for.
    pub waits: Vec<WaitingObject>,
}

/// An object that waits for something outside the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingObject {
    /// Its kind, as in the name ledger.
    pub kind: String,
    pub name: String,
    /// Since when it waits.
    pub since: Timestamp,
    /// For what, and what to do about it.
    pub text: String,
}

/// Reads a world's identity and revision.
pub type Identify<'a> = &'a (dyn Fn() -> BoxFuture<'a, Result<Pin, Trouble>> + Send + Sync + 'a);

/// What a world needs from the control plane: it knows neither tokens nor peers nor pins itself.
pub trait ControlPlane: Send + Sync + 'static {
    /// What is recorded of a resource. The world is identified after the pin was read, is judged by
    /// that pin, and is pinned by its first answer.
    fn of_resource<'a>(
        &'a self,
        resource: &'a Resource,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Known, Trouble>>;

    /// The clock and the pin, for a ProviderConfig.
    fn of_config<'a>(
        &'a self,
        config: &'a ProviderConfig,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Trust, Trouble>>;

    /// Counts a substrate that vanished unasked; whether the mass-deletion guard holds absences.
    fn vanished<'a>(
        &'a self,
        resource: &'a Resource,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, Trouble>>;

    /// The text of a token, derived at this moment.
    fn token<'a>(
        &'a self,
        resource: &'a Resource,
        generation: Generation,
    ) -> BoxFuture<'a, Result<TokenText, Trouble>>;

    /// Issues a token, unless it was issued or the resource no longer needs it.
    fn issue<'a>(
        &'a self,
        resource: &'a Resource,
        token: TokenId,
        generation: Generation,
    ) -> BoxFuture<'a, Result<(), Trouble>>;

    /// Drains and deregisters the node that redeemed a token, one step at a time.
    fn deregister<'a>(
        &'a self,
        resource: &'a Resource,
        token: TokenId,
    ) -> BoxFuture<'a, Result<(), Trouble>>;
}

/// The clock, and how far a world's answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// When the observation began, by the clock that leases are measured with.
    pub now: Timestamp,
    /// Whether the world that answers is the pinned one.
    pub authority: Authority,
    /// Whether the mass-deletion guard holds absences.
    pub guard_tripped: bool,
}

/// What the control plane knows of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The clock and the pin.
    pub trust: Trust,
    /// Whether the ProviderConfig may be referred to.
    pub config_ready: bool,
    /// The tokens that were issued.
    pub tokens: BTreeMap<Generation, TokenState>,
    /// The peers that ever redeemed one.
    pub peers: Reading<BTreeMap<Generation, Peer>>,
    /// The tags of this moment.
    pub tags: BTreeMap<String, String>,
}
