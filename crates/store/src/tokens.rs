//! The store's methods for enrolment tokens.

use usher_domain::object::id::{ProjectId, ResourceId, TokenId};
use usher_domain::object::key::ServerKey;
use usher_domain::tokens::{Lifetime, Outcome, Request, ResourceView, Token};
use usher_kernel::Generation;

use crate::error::Error;
use crate::store::{Inner, Store, verbs};

verbs! {
    /// Issues the token of a generation, unless the resource is in teardown; idempotent.
    fn issue(
        key: ServerKey, resource: ResourceId, generation: Generation, lifetime: Lifetime
    ) -> Result<(), Error>;
    /// Redeems a token and registers its peer, or returns the refusal.
    fn redeem(request: Request) -> Result<Outcome, Error>;
    /// Reads a token.
    fn token(id: TokenId) -> Result<Option<Token>, Error>;
    /// Reads the tokens of a resource, oldest generation first.
    fn tokens(resource: ResourceId) -> Result<Vec<Token>, Error>;
    /// Lists tokens after an id, gone ones too, with what redeeming needs of each resource, in one
    /// query.
    fn list_tokens(
        project: Option<ProjectId>, after: Option<TokenId>, count: u32
    ) -> Result<Vec<(Token, ResourceView)>, Error>;
}
