//! What a world and the mesh ask of the inside: what is known beside a record, pins and liveness.

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config;
use usher_domain::labels::Definition;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use usher_domain::object::label::Labels;
use usher_domain::object::provider::Provider;
use usher_domain::peers::Peer;
use usher_domain::projects::Project;
use usher_domain::tokens::Token;
use usher_kernel::schedule::Entry;
use usher_kernel::{Record, Timestamp};

use crate::error::Error;
use crate::life::Life;
use crate::store::{Inner, Store, verbs};

/// What is known of a resource beside its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The database's time of this look.
    pub now: Timestamp,
    /// What its ProviderConfig is like.
    pub config: ConfigState,
    /// What is remembered of its world.
    pub world: Option<WorldState>,
    /// Its tokens, oldest generation first.
    pub tokens: Vec<Token>,
    /// Its peers, oldest generation first.
    pub peers: Vec<Attended>,
    /// The labels in force.
    pub labels: Labels,
    /// What is known of label keys, if any label is in force.
    pub definitions: Vec<Definition>,
}

/// What a ProviderConfig is like for those who use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigState {
    /// Whose cloud it is for.
    pub provider: Provider,
    /// How far it has come.
    pub phase: provider_config::Phase,
}

impl ConfigState {
    /// Whether a resource may refer to it.
    pub const fn is_ready(self) -> bool {
        matches!(self.phase, provider_config::Phase::Ready)
    }
}

/// A peer, and since when it is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attended {
    /// The peer.
    pub peer: Peer,
    /// Since when it is lost, if it is.
    pub lost_since: Option<Timestamp>,
    /// Since when servers are asked to write down who acknowledged that it left.
    pub asked_at: Option<Timestamp>,
    /// The newest snapshot that was written down as acknowledged by it.
    pub acknowledged: u64,
}

/// A life's place in the queue, and what its last steps said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The entry.
    pub entry: Entry,
    /// Why the newest step that wrote or was finished did what it did.
    pub reason: Option<String>,
    /// What the last step met, if it was not finished.
    pub trouble: Option<String>,
    /// The database's time of this look.
    pub now: Timestamp,
}

/// What is remembered of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldState {
    /// What it is, and the highest revision it showed.
    pub pin: Pin,
    /// Since when its rail is tripped, if it is.
    pub tripped_at: Option<Timestamp>,
    /// When somebody last opened it.
    pub opened_at: Option<Timestamp>,
}

/// What people call a resource and what it was declared from, as far as those are still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Titles {
    /// Its name.
    pub name: String,
    /// Its project's slug.
    pub project: Option<String>,
    /// Its blueprint's name and version.
    pub blueprint: Option<(String, String)>,
    /// Its credential's name.
    pub credential: Option<String>,
    /// Why its newest step that wrote or was finished did what it did.
    pub reason: Option<String>,
}

verbs! {
    /// Reads what people call a resource and what it was declared from.
    fn titles(id: ResourceId) -> Result<Option<Titles>, Error>;
    /// Finds a project by its id.
    fn project_of(id: ProjectId) -> Result<Option<Project>, Error>;
    /// Reads what is known of a resource beside its record.
    fn beside(resource: &Resource) -> Result<Beside, Error>;
    /// Reads a life's place in the queue, and what its last steps said.
    fn attention(life: Life) -> Result<Option<Attention>, Error>;
    /// Reads a peer.
    fn peer(id: PeerId) -> Result<Option<Attended>, Error>;
    /// Reads the peers of a project that are not deregistered, and the database's time if there
    /// are any.
    fn mesh(project: ProjectId) -> Result<(Option<Timestamp>, Vec<Attended>), Error>;
    /// The projects that somebody is on the way out of.
    fn projects_being_left() -> Result<Vec<ProjectId>, Error>;
    /// Reads the peers of a project that are on their way out.
    fn leaving(project: ProjectId) -> Result<Vec<Attended>, Error>;
    /// Asks every server to write down who acknowledged that a peer left; `false` if that was done.
    fn ask_acknowledgements(leaver: PeerId) -> Result<bool, Error>;
    /// Writes down who acknowledged a snapshot and wakes whoever asked for that in the project.
    fn acknowledge(
        project: ProjectId, by: Vec<PeerId>, snapshot: u64
    ) -> Result<(), Error>;
    /// Reads peers after an id, in the order of their ids, deregistered ones too.
    fn peers_after(after: Option<PeerId>, count: u32) -> Result<Vec<Attended>, Error>;
    /// Writes that a peer fell silent or is heard again and wakes its resource; `false` if that was
    /// known.
    fn hear_peer(id: PeerId, heard: bool) -> Result<bool, Error>;
    /// Reads resources after an id, in the order of their ids, deleted ones too.
    fn resources_after(after: Option<ResourceId>, count: u32) -> Result<Vec<ResourceId>, Error>;
    /// Reads these resources, in any order; one that breaks its own rules spoils no other.
    fn records(ids: &[ResourceId]) -> Result<Vec<Result<Record<Resource>, Error>>, Error>;
    /// Reads what is remembered of a world.
    fn world(name: &str) -> Result<Option<WorldState>, Error>;
    /// Pins a world, or raises the revision of the very one that is pinned; what is remembered
    /// then.
    fn pin_world(name: String, answered: Pin) -> Result<WorldState, Error>;
    /// Counts the resources of a world that should stand there.
    fn standing(world: &str) -> Result<u32, Error>;
    /// Wakes up to so many tombstones that were kept so long: their steps put them away.
    fn wake_buried(keep: Duration, count: u32) -> Result<u64, Error>;
    /// Reads tokens after an id, in the order of their ids, gone ones too.
    fn tokens_after(after: Option<TokenId>, count: u32) -> Result<Vec<Token>, Error>;
}
