//! A deleter is made of an identity; there is no place for a spec.

use usher_domain::direct::deleter::{Deleter, Precondition};
use usher_domain::direct::identity::{BadIdentity, Identity, IdentityText};
use usher_domain::direct::snapshot::{Container, Found, Reading};
use usher_domain::direct::ports::Client;
use usher_kernel::Trouble;

#[derive(Clone, Debug, PartialEq)]
struct Bucket(IdentityText);

impl Identity for Bucket {
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
        Ok(Self(text.clone()))
    }

    fn format(&self) -> IdentityText {
        self.0.clone()
    }
}

struct Spec;

struct BucketDeleter(Bucket, Spec);

impl Deleter for BucketDeleter {
    type Identity = Bucket;

    fn from_identity(identity: Bucket, spec: Spec) -> Self {
        Self(identity, spec)
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

fn main() {}
