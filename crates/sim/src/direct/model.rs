//! The simulated kind: a membership in a project, with a parent and a configuration.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use usher_domain::direct::deleter::{Deleter, Precondition};
use usher_domain::direct::identity::{BadIdentity, Identity, IdentityText};
use usher_domain::direct::mark::{Binding, Mark};
use usher_domain::direct::model::Model;
use usher_domain::direct::ports::{Call, Client, Method, Reply};
use usher_domain::direct::reference::{
    BadReference, Bearing, Declared, Reference, Resolved, Target,
};
use usher_domain::direct::snapshot::{Container, Found, Reading};
use usher_kernel::{Trouble, Uid};

/// What a membership refers to.
const TARGET: Target =
    Target { kind: "example.org/Project", plural: "projects", path: "status.externalRef" };

/// A membership: its project and its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The project.
    pub project: String,
    /// Its name there.
    pub member: String,
}

impl Identity for Membership {
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
        let parts = text.segments(&["projects", "", "memberships", ""])?;
        match parts.as_slice() {
            [project, member] => {
                Ok(Self { project: (*project).to_owned(), member: (*member).to_owned() })
            }
            _ => Err(BadIdentity::new(text.as_str())),
        }
    }

    fn format(&self) -> IdentityText {
        let Self { project, member } = self;
        format!("projects/{project}/memberships/{member}")
            .parse()
            .unwrap_or_else(|_| unreachable!("simulated names are plain"))
    }
}

/// What a person writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The parent: part of the identity.
    pub parent: Reference,
    /// The configuration: not part of it.
    pub config: Option<Reference>,
    /// The name in the project.
    pub member: String,
    /// How the cloud object shall be.
    pub wanted: u64,
}

/// The simulated kind.
#[derive(Debug)]
pub struct Memberships;

impl Model for Memberships {
    const KIND: &'static str = "sim.example/Membership";
    type Spec = Spec;
    type Identity = Membership;
    type Desired = u64;
    type Deleter = MembershipDeleter;

    fn read(spec: &Value, namespace: &str) -> Result<Spec, BadReference> {
        let text = |member: &str| spec.get(member).and_then(Value::as_str).map(str::to_owned);
        Ok(Spec {
            parent: Reference::parse(&spec["parentRef"], namespace)?,
            config: spec.get("configRef").map(|it| Reference::parse(it, namespace)).transpose()?,
            member: text("member").ok_or(BadReference::Empty)?,
            wanted: spec.get("wanted").and_then(Value::as_u64).unwrap_or(0),
        })
    }

    fn references(spec: &Spec) -> Vec<Declared> {
        let of = |field, bearing, reference: &Reference| Declared {
            field,
            bearing,
            target: TARGET,
            reference: reference.clone(),
        };
        let config = spec.config.iter().map(|it| of("configRef", Bearing::Configuration, it));
        [of("parentRef", Bearing::Identity, &spec.parent)].into_iter().chain(config).collect()
    }

    fn identify(spec: &Spec, parents: &Resolved) -> Result<Membership, BadReference> {
        let parent = parents.get("parentRef").ok_or(BadReference::Empty)?;
        let bad = |_| BadReference::External(parent.as_str().to_owned());
        let project = parent.segments(&["projects", ""]).map_err(bad)?.concat();
        Ok(Membership { project, member: spec.member.clone() })
    }

    fn desire(spec: &Spec, _: &Resolved) -> Result<u64, BadReference> {
        Ok(spec.wanted)
    }
}

/// The deletion path of a membership.
#[derive(Debug)]
pub struct MembershipDeleter(Membership);

impl Deleter for MembershipDeleter {
    type Identity = Membership;

    fn from_identity(identity: Membership) -> Self {
        Self(identity)
    }

    async fn find(&self, client: &impl Client) -> Reading<Option<Found>> {
        let reply = client.send(&get(self.0.format().as_str())).await;
        Ok(reply.reading()?.map(found))
    }

    async fn probe(&self, client: &impl Client) -> Container {
        let path = format!("projects/{}", self.0.project);
        match client.send(&get(&path)).await.reading() {
            Ok(Some(_)) => Container::NameState,
            Ok(None) => Container::Gone,
            Err(_) => Container::Unknown,
        }
    }

    async fn delete(&self, client: &impl Client, at: &Precondition) -> Result<(), Trouble> {
        let mut call = get(self.0.format().as_str());
        call.method = Method::Delete;
        let etag = at.etag().map(|it| ("etag".to_owned(), it.to_owned()));
        call.query = [("uid".to_owned(), at.uid().0.clone())].into_iter().chain(etag).collect();
        let unreachable = Trouble::unavailable("the cloud".to_owned());
        client.send(&call).await.reading().map(|_| ()).map_err(|_| unreachable)
    }
}

fn get(path: &str) -> Call {
    Call { method: Method::Get, path: path.to_owned(), query: vec![], body: None }
}

/// What the cloud's body says.
fn found(body: &Value) -> Found {
    let text = |member: &str| body.get(member).and_then(Value::as_str).map(str::to_owned);
    let flag = |member: &str| body.get(member).and_then(Value::as_bool).unwrap_or(false);
    let mark = || {
        let (installation, request) = (text("installation")?, text("request")?);
        let owner =
            Binding { installation: installation.parse().ok()?, object: Uid(text("owner")?) };
        Some(Mark { owner, request: request.parse().ok()? })
    };
    Found {
        uid: Uid(text("uid").unwrap_or_default()),
        etag: text("etag"),
        mark: mark(),
        drifted: flag("drifted"),
        leaving: flag("leaving"),
    }
}

/// The body that says so.
pub fn body(found: &Found) -> Value {
    let mark = found.mark.as_ref();
    json!({
        "uid": found.uid.0,
        "etag": found.etag,
        "installation": mark.map(|it| it.owner.installation.to_string()),
        "owner": mark.map(|it| it.owner.object.0.clone()),
        "request": mark.map(|it| it.request.to_string()),
        "drifted": found.drifted,
        "leaving": found.leaving,
    })
}

/// A client with a fixed answer for each path.
pub struct SimClient {
    /// What it says of the container.
    pub container: Reply,
    /// What it says of everything else.
    pub object: Reply,
}

impl Client for SimClient {
    async fn send(&self, call: &Call) -> Reply {
        let whole = call.path.split('/').count() > 2;
        if whole { self.object.clone() } else { self.container.clone() }
    }
}

/// What a future answers that never waits.
pub fn finished<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => unreachable!("a simulated answer is there at once"),
    }
}

#[cfg(test)]
mod tests {
    use usher_domain::direct::identity::{one_spelling, round_trip};

    use super::*;

    #[test]
    fn the_laws_of_identities_hold_of_the_simulated_kind() {
        for member in ["a", "m-1", "x.y"] {
            let it = Membership { project: "p".to_owned(), member: member.to_owned() };
            assert_eq!(round_trip(&it), Ok(()));
        }
        for text in ["projects/p/memberships/m", "projects//memberships/m", "x", "projects/p"] {
            assert_eq!(one_spelling::<Membership>(text), Ok(()));
        }
    }

    #[test]
    fn what_the_cloud_says_is_read_as_it_was_said() {
        use usher_domain::direct::mark::RequestId;
        let owner =
            Binding { installation: crate::direct::state::installation(), object: Uid::new("k-1") };
        let request = RequestId::of(&owner, 1);
        let it = Found {
            uid: Uid::new("c-1"),
            etag: Some("7".to_owned()),
            mark: Some(Mark { owner, request }),
            drifted: true,
            leaving: true,
        };
        assert_eq!(found(&body(&it)), it);
        let bare = Found { mark: None, etag: None, drifted: false, leaving: false, ..it };
        assert_eq!(found(&body(&bare)), bare);
    }

    #[test]
    fn a_spec_is_read_as_a_person_writes_it() {
        let spec = Memberships::read(
            &json!({ "parentRef": { "name": "p" }, "member": "m", "wanted": 3 }),
            "ns",
        );
        let spec = spec.unwrap();
        assert_eq!((spec.member.as_str(), spec.wanted, spec.config), ("m", 3, None));
        assert!(Memberships::read(&json!({ "parentRef": {} }), "ns").is_err());
    }
}
