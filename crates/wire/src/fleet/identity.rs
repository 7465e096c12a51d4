//! The identity in a certificate, and its rights.

use std::fmt;

use thiserror::Error;
use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

const SCHEME: &str = "bigfleet://";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A shard of the fleet, by its id.
    Shard(String),
    /// The operator of a cluster, by its id.
    Cluster(String),
    /// May do everything.
    Admin,
    /// May read.
    Readonly,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadIdentity {
    #[error("malformed certificate")]
    Unreadable,
    #[error("the certificate has {count} URIs of the fleet, not one")]
    Count { count: usize },
    #[error("the certificate has the unknown URI \"{name}\"")]
    Unknown { name: String },
}

impl Identity {
    /// Exactly one URI of the certificate must be of the fleet.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self, BadIdentity> {
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|_| BadIdentity::Unreadable)?;
        Self::of_names(certificate.valid_uri_names())
    }

    pub fn may_read(&self) -> bool {
        match self {
            Self::Shard(_) | Self::Admin | Self::Readonly => true,
            Self::Cluster(_) => false,
        }
    }

    /// Whether it may send commands as a shard.
    pub fn may_act_for(&self, shard: &str) -> bool {
        match self {
            Self::Shard(id) => id == shard,
            Self::Admin => true,
            Self::Cluster(_) | Self::Readonly => false,
        }
    }

    fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, BadIdentity> {
        let ours: Vec<&str> = names.filter_map(|name| name.strip_prefix(SCHEME)).collect();
        let [name] = ours[..] else { return Err(BadIdentity::Count { count: ours.len() }) };
        let is_id = |id: &&str| !id.is_empty() && !id.contains('/');
        let unknown = || BadIdentity::Unknown { name: format!("{SCHEME}{name}") };
        match name.split_once('/') {
            None if name == "admin" => Ok(Self::Admin),
            None if name == "readonly" => Ok(Self::Readonly),
            Some(("shard", id)) if is_id(&id) => Ok(Self::Shard(id.to_owned())),
            Some(("cluster", id)) if is_id(&id) => Ok(Self::Cluster(id.to_owned())),
            None | Some(_) => Err(unknown()),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard(id) => write!(f, "{SCHEME}shard/{id}"),
            Self::Cluster(id) => write!(f, "{SCHEME}cluster/{id}"),
            Self::Admin => write!(f, "{SCHEME}admin"),
            Self::Readonly => write!(f, "{SCHEME}readonly"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Identity, BadIdentity> {
        Identity::of_names(names.iter().copied())
    }

    // Requirement: PM-5
    #[test]
    fn exactly_one_uri_of_the_fleet_is_the_identity() {
        let cases = [
            ("bigfleet://shard/shard-0", Identity::Shard("shard-0".to_owned())),
            ("bigfleet://cluster/eu-1", Identity::Cluster("eu-1".to_owned())),
            ("bigfleet://admin", Identity::Admin),
            ("bigfleet://readonly", Identity::Readonly),
        ];
        for (name, identity) in cases {
            assert_eq!(of(&["spiffe://other/thing", name]), Ok(identity.clone()));
            assert_eq!(identity.to_string(), name);
        }
        assert_eq!(of(&[]), Err(BadIdentity::Count { count: 0 }));
        let two = ["bigfleet://admin", "bigfleet://shard/a"];
        assert_eq!(of(&two), Err(BadIdentity::Count { count: 2 }));
    }

    #[test]
    fn an_unknown_uri_is_refused() {
        for name in ["", "shard/", "shard/a/b", "root", "admin/", "shards/a", "Shard/a"] {
            let name = format!("bigfleet://{name}");
            assert_eq!(of(&[&name]), Err(BadIdentity::Unknown { name: name.clone() }));
        }
    }

    // Requirement: PM-5
    #[test]
    fn rights_follow_from_the_identity() {
        let shard = Identity::Shard("a".to_owned());
        let cluster = Identity::Cluster("a".to_owned());
        let rights = |it: &Identity| (it.may_read(), it.may_act_for("a"), it.may_act_for("b"));
        assert_eq!(rights(&shard), (true, true, false));
        assert_eq!(rights(&Identity::Admin), (true, true, true));
        assert_eq!(rights(&Identity::Readonly), (true, false, false));
        assert_eq!(rights(&cluster), (false, false, false));
        assert!(!shard.may_act_for(""), "a shard acts under its own id");
    }
}
