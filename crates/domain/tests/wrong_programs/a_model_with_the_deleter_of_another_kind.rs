//! The deleter of a kind is made of the identity of that kind.

use serde_json::Value;
use usher_domain::direct::deleter::{Deleter, Precondition};
use usher_domain::direct::identity::{BadIdentity, Identity, IdentityText};
use usher_domain::direct::snapshot::{Container, Found, Reading};
use usher_domain::direct::model::Model;
use usher_domain::direct::ports::Client;
use usher_domain::direct::reference::{BadReference, Declared, Resolved};
use usher_kernel::Trouble;

#[derive(Clone, Debug, PartialEq)]
struct Bucket(IdentityText);

#[derive(Clone, Debug, PartialEq)]
struct Queue(IdentityText);

impl Identity for Bucket {
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
        Ok(Self(text.clone()))
    }

    fn format(&self) -> IdentityText {
        self.0.clone()
    }
}

impl Identity for Queue {
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
        Ok(Self(text.clone()))
    }

    fn format(&self) -> IdentityText {
        self.0.clone()
    }
}

struct QueueDeleter(Queue);

impl Deleter for QueueDeleter {
    type Identity = Queue;

    fn from_identity(identity: Queue) -> Self {
        Self(identity)
    }

    async fn find(&self, _: &impl Client) -> Reading<Option<Found>> {
        Ok(None)
    }

    async fn probe(&self, _: &impl Client) -> Container {
        Container::Unknown
    }

    async fn delete(&self, _: &impl Client, _: &Precondition) -> Result<(), Trouble> {
        Ok(())
    }
}

struct Buckets;

impl Model for Buckets {
    const KIND: &'static str = "example.org/Bucket";
    type Spec = ();
    type Identity = Bucket;
    type Desired = ();
    type Deleter = QueueDeleter;

    fn read(_: &Value, _: &str) -> Result<(), BadReference> {
        Ok(())
    }

    fn references(_: &()) -> Vec<Declared> {
        vec![]
    }

    fn identify(_: &(), _: &Resolved) -> Result<Bucket, BadReference> {
        Err(BadReference::Empty)
    }

    fn desire(_: &(), _: &Resolved) -> Result<(), BadReference> {
        Ok(())
    }
}

fn main() {}
