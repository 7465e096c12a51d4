//! A provider of machines, over gRPC.
//!
//! **Invariants**
//! - Every call has a deadline.
//! - One record that cannot be decoded fails no list.
//! - No error is read as a response: a machine is absent only if the provider reports it so.

use std::time::Duration;

use bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, GrpcMethod, Request, Status};
use usher_domain::fleet::accept::Raw;
use usher_domain::fleet::effect::{Effect, Verb};
use usher_domain::fleet::error::ErrorClass;
use usher_domain::fleet::ident::{MachineId, ShardId};
use usher_wire::fleet::{
    ANSWER_BYTES_MAX, Client, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest,
    ListFilter, MachineRef, SERVICE_NAME, SalvageRequest, SalvagerClient, TransitionAck, client,
};

use super::record::{self, Entry};

/// The longest error text of a provider that is logged.
const TEXT_MAX: usize = 200;

/// Timeouts of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// A command, or a read of one machine.
    pub call: Duration,
    /// A list.
    pub list: Duration,
}

#[derive(Clone, Debug)]
pub struct Provider {
    name: String,
    shard: ShardId,
    channel: Channel,
    client: Client,
    timeouts: CallTimeouts,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: ErrorClass,
    /// Whether the call timed out.
    pub too_slow: bool,
    /// Its error text, shortened.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub entries: Vec<Entry>,
    /// Where the next list can continue; empty if the provider gave none.
    pub revision: Bytes,
}

/// A list whose records are decoded one by one.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    machines: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "2")]
    revision: Bytes,
}

impl Provider {
    pub fn new(name: String, shard: ShardId, channel: Channel, timeouts: CallTimeouts) -> Self {
        let client = client(channel.clone());
        Self { name, shard, channel, client, timeouts }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a command; the machine when the command was accepted, if the response has it.
    pub async fn send(&self, effect: &Effect, blob: Vec<u8>) -> Result<Option<Raw>, Failure> {
        let mut client = self.client.clone();
        let machine_id = effect.machine.to_string();
        let shard_id = self.shard.to_string();
        let shard_epoch = signed(effect.token.epoch);
        let sequence_number = signed(effect.token.sequence);
        let answer = match effect.verb.clone() {
            Verb::Create => {
                let asked = CreateRequest { machine_id, shard_id, shard_epoch, sequence_number };
                client.create(self.request(asked)).await
            }
            Verb::Configure { cluster, metadata } => {
                let asked = ConfigureRequest {
                    machine_id,
                    cluster_id: cluster.to_string(),
                    bootstrap_blob: blob.into(),
                    shard_id,
                    shard_epoch,
                    sequence_number,
                    shard_metadata: metadata,
                };
                client.configure(self.request(asked)).await
            }
            Verb::Drain { grace } => {
                let grace_period_seconds = signed(grace.as_secs());
                let asked = DrainRequest {
                    machine_id,
                    grace_period_seconds,
                    shard_id,
                    shard_epoch,
                    sequence_number,
                };
                client.drain(self.request(asked)).await
            }
            Verb::Delete => {
                let asked = DeleteRequest { machine_id, shard_id, shard_epoch, sequence_number };
                client.delete(self.request(asked)).await
            }
            Verb::Salvage => {
                let asked = SalvageRequest { machine_id, shard_id, shard_epoch, sequence_number };
                SalvagerClient::new(self.channel.clone()).salvage(self.request(asked)).await
            }
        };
        let answer: TransitionAck = answer.map_err(|it| failure(&it))?.into_inner();
        Ok(answer.machine.map(record::raw))
    }

    /// Reads one machine; `None` if the provider has none of this name.
    pub async fn get(&self, id: &MachineId) -> Result<Option<Raw>, Failure> {
        let asked = self.request(MachineRef { id: id.to_string() });
        match self.client.clone().get(asked).await {
            Ok(answer) => Ok(Some(record::raw(answer.into_inner()))),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(failure(&status)),
        }
    }

    /// Lists all machines, or those that changed since a list.
    pub async fn list(&self, since_revision: Bytes) -> Result<Listed, Failure> {
        let filter = ListFilter { states: vec![], max_results: 0, since_revision };
        let mut asked = Request::new(filter);
        asked.set_timeout(self.timeouts.list);
        asked.extensions_mut().insert(GrpcMethod::new(SERVICE_NAME, "List"));
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX);
        let unready = |why: tonic::transport::Error| failure(&Status::unavailable(why.to_string()));
        grpc.ready().await.map_err(unready)?;
        let path = PathAndQuery::from_maybe_shared(format!("/{SERVICE_NAME}/List"));
        let path = path.map_err(|why| failure(&Status::internal(why.to_string())))?;
        let codec = tonic_prost::ProstCodec::<ListFilter, Envelope>::default();
        let answer = grpc.unary(asked, path, codec).await.map_err(|it| failure(&it))?;
        let Envelope { machines, revision } = answer.into_inner();
        let entries = machines.iter().map(|it| record::decode(it)).collect();
        Ok(Listed { entries, revision })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeouts.call);
        request
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn failure(status: &Status) -> Failure {
    let code = status.code();
    // A timeout on our side ends a call as cancelled, one of the provider as exceeded.
    let too_slow = matches!(code, Code::DeadlineExceeded | Code::Cancelled);
    let text = status.message().chars().take(TEXT_MAX).collect();
    Failure { class: ErrorClass::of_status(i32::from(code)), too_slow, text }
}
