//! A network between a shard and a provider that loses answers and carries requests twice.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tonic::{Request, Response, Status};
use usher_wire::fleet::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter,
    Machine, MachineList, MachineRef, SalvageRequest, Salvager, TransitionAck,
};

use super::dice::Dice;

type RpcResult<T> = Result<Response<T>, Status>;

/// How likely each mischief is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Odds {
    /// A change is made, and its answer is lost.
    pub lost: f64,
    /// A request arrives twice.
    pub twice: f64,
    /// A request is on its way for up to this long, so that others overtake it.
    pub delay: Duration,
}

/// The network.
#[derive(Debug)]
pub struct Mischief<S> {
    inner: S,
    odds: Odds,
    dice: Mutex<Dice>,
}

impl<S> Mischief<S> {
    /// A network before a provider.
    pub const fn new(inner: S, odds: Odds, seed: u64) -> Self {
        Self { inner, odds, dice: Mutex::new(Dice::new(seed)) }
    }

    async fn carry<T, F>(
        &self,
        request: Request<T>,
        call: impl Fn(Request<T>) -> F,
    ) -> RpcResult<TransitionAck>
    where
        T: Clone,
        F: Future<Output = RpcResult<TransitionAck>>,
    {
        let (lost, twice, delay) = {
            let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
            let delay = self.odds.delay.mul_f64(dice.fraction());
            (dice.happens(self.odds.lost), dice.happens(self.odds.twice), delay)
        };
        sleep(delay).await;
        let (metadata, extensions, message) = request.into_parts();
        let copy = || Request::from_parts(metadata.clone(), extensions.clone(), message.clone());
        let answer = call(copy()).await;
        if twice {
            // Nobody waits for the answer to the second.
            let _ = call(copy()).await;
        }
        if lost { Err(Status::unavailable("the answer was lost")) } else { answer }
    }
}

#[tonic::async_trait]
impl<S: CapacityProvider> CapacityProvider for Mischief<S> {
    async fn create(&self, request: Request<CreateRequest>) -> RpcResult<TransitionAck> {
        self.carry(request, |it| self.inner.create(it)).await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> RpcResult<TransitionAck> {
        self.carry(request, |it| self.inner.configure(it)).await
    }

    async fn drain(&self, request: Request<DrainRequest>) -> RpcResult<TransitionAck> {
        self.carry(request, |it| self.inner.drain(it)).await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> RpcResult<TransitionAck> {
        self.carry(request, |it| self.inner.delete(it)).await
    }

    async fn get(&self, request: Request<MachineRef>) -> RpcResult<Machine> {
        self.inner.get(request).await
    }

    async fn list(&self, request: Request<ListFilter>) -> RpcResult<MachineList> {
        self.inner.list(request).await
    }
}

#[tonic::async_trait]
impl<S: Salvager> Salvager for Mischief<S> {
    async fn salvage(&self, request: Request<SalvageRequest>) -> RpcResult<TransitionAck> {
        self.carry(request, |it| self.inner.salvage(it)).await
    }
}
