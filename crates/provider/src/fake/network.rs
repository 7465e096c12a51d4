//! A network between shard and provider that loses responses and delivers requests twice.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tonic::{Request, Response, Status};
use usher_wire::fleet::{
    CapacityProvider, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter,
    Machine, MachineList, MachineRef, SalvageRequest, Salvager, TransitionAck,
};

use super::rng::Rng;

type RpcResult<T> = Result<Response<T>, Status>;

/// How likely each fault is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRates {
    /// The change is made and its response is lost.
    pub lost: f64,
    /// A request arrives twice.
    pub twice: f64,
    /// A request is delayed by up to this long, so that others overtake it.
    pub delay: Duration,
}

/// A service behind a faulty network.
#[derive(Debug)]
pub struct FaultyNetwork<S> {
    inner: S,
    rates: FaultRates,
    rng: Mutex<Rng>,
}

impl<S> FaultyNetwork<S> {
    /// Wraps a service.
    pub const fn new(inner: S, rates: FaultRates, seed: u64) -> Self {
        Self { inner, rates, rng: Mutex::new(Rng::new(seed)) }
    }

    async fn deliver<T, F>(
        &self,
        request: Request<T>,
        call: impl Fn(Request<T>) -> F,
    ) -> RpcResult<TransitionAck>
    where
        T: Clone,
        F: Future<Output = RpcResult<TransitionAck>>,
    {
        let (lost, twice, delay) = {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            let delay = self.rates.delay.mul_f64(rng.fraction());
            (rng.chance(self.rates.lost), rng.chance(self.rates.twice), delay)
        };
        sleep(delay).await;
        let (metadata, extensions, message) = request.into_parts();
        let copy = || Request::from_parts(metadata.clone(), extensions.clone(), message.clone());
        let answer = call(copy()).await;
        if twice {
            let _ = call(copy()).await;
        }
        if lost { Err(Status::unavailable("the response was lost")) } else { answer }
    }
}

#[tonic::async_trait]
impl<S: CapacityProvider> CapacityProvider for FaultyNetwork<S> {
    async fn create(&self, request: Request<CreateRequest>) -> RpcResult<TransitionAck> {
        self.deliver(request, |it| self.inner.create(it)).await
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> RpcResult<TransitionAck> {
        self.deliver(request, |it| self.inner.configure(it)).await
    }

    async fn drain(&self, request: Request<DrainRequest>) -> RpcResult<TransitionAck> {
        self.deliver(request, |it| self.inner.drain(it)).await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> RpcResult<TransitionAck> {
        self.deliver(request, |it| self.inner.delete(it)).await
    }

    async fn get(&self, request: Request<MachineRef>) -> RpcResult<Machine> {
        self.inner.get(request).await
    }

    async fn list(&self, request: Request<ListFilter>) -> RpcResult<MachineList> {
        self.inner.list(request).await
    }
}

#[tonic::async_trait]
impl<S: Salvager> Salvager for FaultyNetwork<S> {
    async fn salvage(&self, request: Request<SalvageRequest>) -> RpcResult<TransitionAck> {
        self.deliver(request, |it| self.inner.salvage(it)).await
    }
}
