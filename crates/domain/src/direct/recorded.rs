//! The recorded identity as the object itself carries it: the stamp.
//!
//! The ledger is the record. The stamp is what the Kubernetes object carries of it, in annotation
//! and status, should the ledger be lost. Restores drop a status and keep annotations.
//!
//! **Invariants**
//! - A stamp is bound to one object and one installation. On any other object it is
//!   [`Unbound::Foreign`]: that object is a copy and may not act on the cloud.
//! - A stamp that cannot be read has its own verdict; it is never taken for no stamp.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Uid, coded};

use super::identity::Identified;
use super::mark::{Binding, RequestId};
use crate::object::offender::shortened;

/// The longest stamp that is read.
pub const LENGTH_MAX: usize = 4_096;
/// The version of the format.
const VERSION: u8 = 1;

/// The progress of the cloud object behind an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityState {
    /// About to be created, by this request.
    Intended {
        /// The request.
        request: RequestId,
    },
    /// Seen, and ours.
    Seen {
        /// Its uid, or what the cloud has in its place.
        uid: Uid,
    },
    /// Proven absent.
    Gone,
}

/// A recorded identity, bound to the object it was read from or is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    binding: Binding,
    state: IdentityState,
    identified: Identified,
}

coded! {
    /// Why the recorded identity on an object does not count.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Unbound {
        /// It cannot be read.
        #[error("recorded identity \"{0}\" is not in the format that Usher writes")]
        Malformed(String) = "identity_malformed",
        /// It was written for another object or by another installation.
        #[error("recorded identity \"{0}\" is bound to another object")]
        Foreign(String) = "identity_foreign",
    }
}

/// The stamp on the wire.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    v: u8,
    installation: String,
    object: Uid,
    state: IdentityState,
    at: Identified,
}

impl Recorded {
    /// A record for this object; only the row of the object makes one.
    pub(super) fn new(binding: Binding, state: IdentityState, identified: Identified) -> Self {
        Self { binding, state, identified }
    }

    /// Reads a stamp as this object's own.
    pub fn read(text: &str, binding: &Binding) -> Result<Self, Unbound> {
        let malformed = || Unbound::Malformed(shortened(text));
        if text.len() > LENGTH_MAX {
            return Err(malformed());
        }
        let written: Written = serde_json::from_str(text).map_err(|_| malformed())?;
        let installation = written.installation.parse().map_err(|_| malformed())?;
        let owner = Binding { installation, object: written.object };
        let it = Self { binding: owner, state: written.state, identified: written.at };
        if written.v != VERSION || it.to_text() != text {
            return Err(malformed());
        }
        if it.binding != *binding {
            return Err(Unbound::Foreign(shortened(it.identified.identity.as_str())));
        }
        Ok(it)
    }

    /// The stamp.
    pub fn to_text(&self) -> String {
        let written = Written {
            v: VERSION,
            installation: self.binding.installation.to_string(),
            object: self.binding.object.clone(),
            state: self.state.clone(),
            at: self.identified.clone(),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The progress of the cloud object.
    pub const fn state(&self) -> &IdentityState {
        &self.state
    }

    /// Where it is and what it is called.
    pub const fn identified(&self) -> &Identified {
        &self.identified
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::direct::fixture::{binding, identified};

    fn states() -> [IdentityState; 3] {
        let request = RequestId::of(&binding(), 1);
        [
            IdentityState::Intended { request },
            IdentityState::Seen { uid: Uid::new("c-1") },
            IdentityState::Gone,
        ]
    }

    fn stamp(state: IdentityState) -> Recorded {
        Recorded::new(binding(), state, identified("a"))
    }

    #[test]
    fn every_name_state_is_written_and_read_back() {
        for state in states() {
            let it = stamp(state);
            assert_eq!(Recorded::read(&it.to_text(), &binding()), Ok(it));
        }
        let text = stamp(IdentityState::Gone).to_text();
        let start =
            "{\"v\":1,\"installation\":\"06060606-0606-0606-0606-060606060606\",\"object\":";
        assert!(text.starts_with(start), "{text}");
    }

    // Requirement: I-4
    #[test]
    fn a_stamp_of_another_object_or_installation_is_foreign() {
        let text = stamp(IdentityState::Gone).to_text();
        let foreign = Unbound::Foreign(identified("a").identity.as_str().to_owned());
        let copied = Binding { object: Uid::new("copy"), ..binding() };
        assert_eq!(Recorded::read(&text, &copied), Err(foreign.clone()));
        let installation = crate::object::id::InstallationId::from_uuid(Uuid::from_bytes([9; 16]));
        let restored = Binding { installation, ..binding() };
        assert_eq!(Recorded::read(&text, &restored), Err(foreign.clone()));
        assert_eq!(foreign.code(), "identity_foreign");
    }
    use uuid::Uuid;

    // Requirement: I-5
    #[test]
    fn what_was_not_written_by_us_is_malformed() {
        let good = stamp(IdentityState::Gone).to_text();
        let bent = [
            String::new(),
            "null".to_owned(),
            "{}".to_owned(),
            "projects/p".to_owned(),
            good.replace("\"v\":1", "\"v\":2"),
            good.replace("\"v\":1", "\"v\": 1"),
            good.replace("{\"v\"", "{\"x\":0,\"v\""),
            good.replace("0606", "0000"),
            good.replace("projects", "..//"),
            format!("{good} "),
            format!("{good}{}", " ".repeat(LENGTH_MAX)),
        ];
        for text in bent {
            let refusal = Recorded::read(&text, &binding()).unwrap_err();
            assert_eq!(refusal, Unbound::Malformed(shortened(&text)), "{text}");
            assert_eq!(refusal.code(), "identity_malformed");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_written_again_as_it_was(text in any::<String>()) {
            if let Ok(it) = Recorded::read(&text, &binding()) {
                prop_assert_eq!(it.to_text(), text);
            }
        }

        #[test]
        fn a_changed_stamp_is_refused_or_written_again(at in 0_usize..200, byte in any::<char>()) {
            let [_, seen, _] = states();
            let mut text: Vec<char> = stamp(seen).to_text().chars().collect();
            let at = at % text.len();
            text[at] = byte;
            let text: String = text.into_iter().collect();
            if let Ok(it) = Recorded::read(&text, &binding()) {
                prop_assert_eq!(it.to_text(), text);
            }
        }
    }
}
