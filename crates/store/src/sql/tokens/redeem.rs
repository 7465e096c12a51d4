//! Redeeming a token: the resource is locked, then the token; the domain decides; the token is
//! consumed, its peer registered and the resource woken.

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::facts::GenerationState;
use usher_domain::object::id::{ResourceId, TokenId};
use usher_domain::tokens::{Consumption, Outcome, Refusal, Request, ResourceView};
use uuid::Uuid;

use super::super::port::Port;
use super::super::resources::load;
use super::super::{Conn, Db, peers, queue, record};
use super::one;
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::port::WorkItem;

wakes! {
    fn redeem(request: Request) -> Outcome = |conn| consume_and_register(conn, &request);
}

/// Redeems a token, or returns the refusal.
async fn consume_and_register(conn: &mut Conn, request: &Request) -> Result<Outcome, Error> {
    let id = request.text.id();
    let sql = "SELECT resource FROM tokens WHERE id = $1";
    let resource = sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .context("read a token")?;
    let Some(resource) = resource.map(ResourceId::from_uuid) else {
        return Ok(Outcome::Refused(Refusal::WrongVerifier));
    };
    let (record, _) = load::locked(conn, resource).await?;
    let Some(token) = one(conn, id, true).await? else {
        return Err(Error::NotFound { what: format!("token \"{id}\"") });
    };
    // After the locks: the time at which this had to wait for them does not count.
    let now = record::now(conn).await?;
    let outcome = token.redeem(request, view(&record.state), now);
    if let Outcome::Redeemed(consumption) = &outcome {
        consume(conn, id, consumption).await?;
        peers::register(conn, &token, consumption).await?;
        queue::wake(conn, WorkItem::Resource(resource)).await?;
    }
    Ok(outcome)
}

/// What redeeming needs of a resource.
fn view(resource: &Resource) -> ResourceView {
    ResourceView {
        generation: resource.generation(),
        deletion_requested: resource.deletion_requested_at().is_some(),
        replacing: resource.generation_state() == GenerationState::Leaving,
    }
}

async fn consume(conn: &mut Conn, id: TokenId, by: &Consumption) -> Result<(), Error> {
    let sql = "UPDATE tokens SET consumed_by = $2, consumed_nonce = $3, consumed_key = $4,
        consumed_at = $5 WHERE id = $1";
    sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .bind(by.peer.as_uuid())
        .bind(by.nonce.as_str())
        .bind(by.public_key.to_string())
        .bind(Time(by.at))
        .execute(&mut *conn)
        .await
        .context("consume a token")?;
    Ok(())
}
