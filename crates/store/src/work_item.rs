//! Which item an entry of the queue belongs to.

use usher_domain::object::id::{ProviderConfigId, ResourceId};
use uuid::Uuid;

/// An item of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkItem {
    /// A provisioned resource.
    Resource(ResourceId),
    /// What is left of one.
    Tombstone(ResourceId),
    /// A ProviderConfig.
    ProviderConfig(ProviderConfigId),
}

impl WorkItem {
    /// Every kind's word, as the queue keeps it.
    pub const KINDS: [&str; 3] = ["resource", "tombstone", "provider_config"];
    /// The words of the kinds that have a record of their own.
    pub const RECORDS: [&str; 2] = ["resource", "provider_config"];

    /// The word for its kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Resource(_) => "resource",
            Self::Tombstone(_) => "tombstone",
            Self::ProviderConfig(_) => "provider_config",
        }
    }

    /// The id of its record.
    pub const fn id(self) -> Uuid {
        match self {
            Self::Resource(id) | Self::Tombstone(id) => *id.as_uuid(),
            Self::ProviderConfig(id) => *id.as_uuid(),
        }
    }

    /// The item with this kind and id.
    pub(crate) fn read(kind: &str, id: Uuid) -> Option<Self> {
        match kind {
            "resource" => Some(Self::Resource(ResourceId::from_uuid(id))),
            "tombstone" => Some(Self::Tombstone(ResourceId::from_uuid(id))),
            "provider_config" => Some(Self::ProviderConfig(ProviderConfigId::from_uuid(id))),
            _ => None,
        }
    }
}

impl std::fmt::Display for WorkItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} \"{}\"", self.kind(), self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_read_back_by_its_words() {
        let (resource, config) =
            (ResourceId::from_uuid(Uuid::max()), ProviderConfigId::from_uuid(Uuid::max()));
        let items = [
            WorkItem::Resource(resource),
            WorkItem::Tombstone(resource),
            WorkItem::ProviderConfig(config),
        ];
        assert_eq!(items.map(WorkItem::kind), WorkItem::KINDS);
        for item in items {
            assert_eq!(WorkItem::read(item.kind(), item.id()), Some(item));
        }
        assert_eq!(WorkItem::read("machine", Uuid::max()), None);
    }
}
