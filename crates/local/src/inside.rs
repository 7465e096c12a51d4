//! What this world asks of the inside: it knows neither tokens nor peers nor pins.

use std::collections::BTreeMap;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::look::{Heard, Peer, TokenState};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::authority::{Authority, Pin};
use usher_domain::object::enrolment::TokenText;
use usher_domain::object::id::TokenId;
use usher_kernel::{Generation, Timestamp, Trouble};

/// The clock, and how far this world's answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// When the look began, by the clock that leases are measured with.
    pub now: Timestamp,
    /// Whether the world that answers is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub rail_tripped: bool,
}

/// What the inside knows of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The clock and the pin.
    pub trust: Trust,
    /// Whether the ProviderConfig may be referred to.
    pub config_ready: bool,
    /// The tokens that were issued.
    pub tokens: BTreeMap<Generation, TokenState>,
    /// The peers that ever redeemed one.
    pub peers: Heard<BTreeMap<Generation, Peer>>,
    /// The tags of this moment.
    pub tags: BTreeMap<String, String>,
}

/// Asks the world what it is.
pub type Ask<'a> = &'a (dyn Fn() -> Result<Pin, Trouble> + Send + Sync);

/// The inside, as far as this world needs it. Each question is one read.
pub trait Inside: Send + Sync + 'static {
    /// What is known of a resource. The world is asked what it is after the pin was read, is judged
    /// by it, and is pinned from now on if it may be.
    fn of_resource(
        &self,
        resource: &Resource,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Known, Trouble>> + Send;

    /// The clock and the pin, for a ProviderConfig.
    fn of_config(
        &self,
        config: &ProviderConfig,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Trust, Trouble>> + Send;

    /// Notes that the substrate of a resource vanished unasked; whether too much did at once.
    fn vanished(
        &self,
        resource: &Resource,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// The text of a token, derived at this moment.
    fn token(
        &self,
        resource: &Resource,
        generation: Generation,
    ) -> impl Future<Output = Result<TokenText, Trouble>> + Send;

    /// Issues a token, unless it was issued or the resource no longer wants it.
    fn issue(
        &self,
        resource: &Resource,
        token: TokenId,
        generation: Generation,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Shows the node that redeemed a token out of the mesh, one step at a time.
    fn deregister(
        &self,
        resource: &Resource,
        token: TokenId,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}
