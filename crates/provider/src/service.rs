//! The kit as a gRPC service: authorization and status codes.

use tonic::{Request, Response, Status};
use usher_wire::fleet::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter,
    Machine, MachineList, MachineRef, Peer, SalvageRequest, Salvager, TransitionAck,
};

use crate::backend::Backend;
use crate::kit::{Kit, KitError};
use crate::state::{Refusal, Token, TransitionRequest, Verb};

type RpcResult<T> = Result<Response<T>, Status>;

/// The gRPC service of a kit.
#[derive(Debug)]
pub struct Service<B> {
    kit: Kit<B>,
}

impl<B> Service<B> {
    /// Wraps a kit.
    pub const fn new(kit: Kit<B>) -> Self {
        Self { kit }
    }
}

impl<B: Backend> Service<B> {
    async fn transition<T>(
        &self,
        request: &Request<T>,
        (machine, verb): (&str, Verb),
        (shard, epoch, sequence): (&str, i64, i64),
    ) -> RpcResult<TransitionAck> {
        permit(request, |it| it.may_act_for(shard))?;
        let token = Token { shard: shard.to_owned(), epoch, sequence };
        let it = TransitionRequest { machine: machine.to_owned(), token, verb };
        let accepted = self.kit.transition(&it).await.map_err(status)?;
        let (operation_id, machine) = (accepted.operation, Some(accepted.machine));
        Ok(Response::new(TransitionAck { operation_id, machine }))
    }
}

#[tonic::async_trait]
impl<B: Backend> CapacityProvider for Service<B> {
    async fn create(&self, request: Request<CreateRequest>) -> RpcResult<TransitionAck> {
        let it = request.get_ref();
        let token = (it.shard_id.as_str(), it.shard_epoch, it.sequence_number);
        self.transition(&request, (&it.machine_id, Verb::Create), token).await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> RpcResult<TransitionAck> {
        let it = request.get_ref();
        let token = (it.shard_id.as_str(), it.shard_epoch, it.sequence_number);
        let verb = Verb::Configure {
            cluster: it.cluster_id.clone(),
            blob: it.bootstrap_blob.clone(),
            metadata: it.shard_metadata.clone(),
        };
        self.transition(&request, (&it.machine_id, verb), token).await
    }

    async fn drain(&self, request: Request<DrainRequest>) -> RpcResult<TransitionAck> {
        let it = request.get_ref();
        let token = (it.shard_id.as_str(), it.shard_epoch, it.sequence_number);
        let verb = Verb::Drain { grace_seconds: it.grace_period_seconds };
        self.transition(&request, (&it.machine_id, verb), token).await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> RpcResult<TransitionAck> {
        let it = request.get_ref();
        let token = (it.shard_id.as_str(), it.shard_epoch, it.sequence_number);
        self.transition(&request, (&it.machine_id, Verb::Delete), token).await
    }

    async fn get(&self, request: Request<MachineRef>) -> RpcResult<Machine> {
        permit(&request, usher_wire::fleet::Identity::may_read)?;
        self.kit.get(&request.get_ref().id).await.map(Response::new).map_err(status)
    }

    async fn list(&self, request: Request<ListFilter>) -> RpcResult<MachineList> {
        permit(&request, usher_wire::fleet::Identity::may_read)?;
        self.kit.list(request.get_ref()).await.map(Response::new).map_err(status)
    }
}

#[tonic::async_trait]
impl<B: Backend> Salvager for Service<B> {
    async fn salvage(&self, request: Request<SalvageRequest>) -> RpcResult<TransitionAck> {
        let it = request.get_ref();
        let token = (it.shard_id.as_str(), it.shard_epoch, it.sequence_number);
        self.transition(&request, (&it.machine_id, Verb::Salvage), token).await
    }
}

/// Refuses a caller that lacks the permission. Without TLS every caller has it.
fn permit<T>(
    request: &Request<T>,
    may: impl Fn(&usher_wire::fleet::Identity) -> bool,
) -> Result<(), Status> {
    match request.extensions().get::<Peer>() {
        None | Some(Peer::Plain) => Ok(()),
        Some(Peer::Verified(Ok(identity))) if may(identity) => Ok(()),
        Some(Peer::Verified(Ok(identity))) => {
            Err(Status::permission_denied(format!("\"{identity}\" is not permitted to do this")))
        }
        Some(Peer::Verified(Err(why))) => Err(Status::permission_denied(why.to_string())),
    }
}

fn status(error: KitError) -> Status {
    let text = error.to_string();
    match error {
        KitError::Journal => Status::unavailable(text),
        KitError::Refused(refusal) => match refusal {
            Refusal::NoId | Refusal::Malformed { .. } => Status::invalid_argument(text),
            Refusal::Unsupported => Status::unimplemented(text),
            // Reserved for the fence: a shard takes it as a sign of a second shard of its name.
            Refusal::Fenced { .. } => Status::failed_precondition(text),
            Refusal::Unknown { .. } => Status::not_found(text),
            Refusal::Position { .. } | Refusal::Bound { .. } => Status::internal(text),
        },
    }
}
