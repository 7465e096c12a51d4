//! The kit as a gRPC service: who may ask, and what refusals are called on the wire.

use tonic::{Request, Response, Status};
use usher_wire::fleet::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter,
    Machine, MachineList, MachineRef, Peer, SalvageRequest, Salvager, TransitionAck,
};

use crate::backend::Backend;
use crate::kit::{Kit, Trouble};
use crate::state::{Ask, Refusal, Token, Verb};

type Answer<T> = Result<Response<T>, Status>;

/// The service of a kit.
#[derive(Debug)]
pub struct Service<B> {
    kit: Kit<B>,
}

impl<B> Service<B> {
    /// The service of this kit.
    pub const fn new(kit: Kit<B>) -> Self {
        Self { kit }
    }
}

impl<B: Backend> Service<B> {
    async fn ask<T>(&self, request: &Request<T>, ask: Ask) -> Answer<TransitionAck> {
        let shard = ask.token.shard.as_str();
        permit(request, |it| it.may_act_for(shard))?;
        let accepted = self.kit.ask(&ask).await.map_err(status)?;
        let (operation_id, machine) = (accepted.operation, Some(accepted.machine));
        Ok(Response::new(TransitionAck { operation_id, machine }))
    }
}

#[tonic::async_trait]
impl<B: Backend> CapacityProvider for Service<B> {
    async fn create(&self, request: Request<CreateRequest>) -> Answer<TransitionAck> {
        let it = request.get_ref();
        let token = token(&it.shard_id, it.shard_epoch, it.sequence_number);
        let ask = Ask { machine: it.machine_id.clone(), token, verb: Verb::Create };
        self.ask(&request, ask).await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> Answer<TransitionAck> {
        let it = request.get_ref();
        let token = token(&it.shard_id, it.shard_epoch, it.sequence_number);
        let verb = Verb::Configure {
            cluster: it.cluster_id.clone(),
            blob: it.bootstrap_blob.clone(),
            metadata: it.shard_metadata.clone(),
        };
        let ask = Ask { machine: it.machine_id.clone(), token, verb };
        self.ask(&request, ask).await
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Answer<TransitionAck> {
        let it = request.get_ref();
        let token = token(&it.shard_id, it.shard_epoch, it.sequence_number);
        let verb = Verb::Drain { grace_seconds: it.grace_period_seconds };
        let ask = Ask { machine: it.machine_id.clone(), token, verb };
        self.ask(&request, ask).await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Answer<TransitionAck> {
        let it = request.get_ref();
        let token = token(&it.shard_id, it.shard_epoch, it.sequence_number);
        let ask = Ask { machine: it.machine_id.clone(), token, verb: Verb::Delete };
        self.ask(&request, ask).await
    }

    async fn get(&self, request: Request<MachineRef>) -> Answer<Machine> {
        permit(&request, usher_wire::fleet::Identity::may_read)?;
        self.kit.get(&request.get_ref().id).await.map(Response::new).map_err(status)
    }

    async fn list(&self, request: Request<ListFilter>) -> Answer<MachineList> {
        permit(&request, usher_wire::fleet::Identity::may_read)?;
        self.kit.list(request.get_ref()).await.map(Response::new).map_err(status)
    }
}

#[tonic::async_trait]
impl<B: Backend> Salvager for Service<B> {
    async fn salvage(&self, request: Request<SalvageRequest>) -> Answer<TransitionAck> {
        let it = request.get_ref();
        let token = token(&it.shard_id, it.shard_epoch, it.sequence_number);
        let ask = Ask { machine: it.machine_id.clone(), token, verb: Verb::Salvage };
        self.ask(&request, ask).await
    }
}

fn token(shard: &str, epoch: i64, sequence: i64) -> Token {
    Token { shard: shard.to_owned(), epoch, sequence }
}

/// Whether the one at the other end may ask this. Who was not asked for a name has every right.
fn permit<T>(
    request: &Request<T>,
    may: impl Fn(&usher_wire::fleet::Identity) -> bool,
) -> Result<(), Status> {
    match request.extensions().get::<Peer>() {
        None | Some(Peer::Plain) => Ok(()),
        Some(Peer::Verified(Ok(identity))) if may(identity) => Ok(()),
        Some(Peer::Verified(Ok(identity))) => {
            Err(Status::permission_denied(format!("\"{identity}\" may not ask this")))
        }
        Some(Peer::Verified(Err(why))) => Err(Status::permission_denied(why.to_string())),
    }
}

fn status(trouble: Trouble) -> Status {
    let text = trouble.to_string();
    match trouble {
        Trouble::Journal => Status::unavailable(text),
        Trouble::Refused(refusal) => match refusal {
            Refusal::NoId | Refusal::Malformed { .. } => Status::invalid_argument(text),
            Refusal::Unsupported => Status::unimplemented(text),
            // Nothing else may be called this: a shard takes it for a second one of its name.
            Refusal::Fenced { .. } => Status::failed_precondition(text),
            Refusal::Unknown { .. } => Status::not_found(text),
            Refusal::Position { .. } | Refusal::Bound { .. } => Status::internal(text),
        },
    }
}
