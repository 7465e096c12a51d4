//! A service whose requests are noted on their connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use tower::ServiceExt as _;

use crate::body::{AnswerBody, RequestBody};
use crate::deadline::Activity;
use crate::handle::Handle;

/// Put into the extensions of a response by a service that found a valid token in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authenticated;

/// Found in the extensions of a request whose peer has shown a certificate of the client CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCertificate;

/// The service of one connection.
pub(crate) struct Tracked<S> {
    pub(crate) service: S,
    pub(crate) handle: Arc<Handle>,
    pub(crate) certificate: Option<ClientCertificate>,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Tracked<S>
where
    S: tower::Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body,
{
    type Response = Response<AnswerBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let handling = Handling::begin(&self.handle);
        let mut request = request.map(|body| RequestBody::new(body, Arc::clone(&self.handle)));
        if let Some(certificate) = self.certificate {
            request.extensions_mut().insert(certificate);
        }
        let service = self.service.clone();
        Box::pin(async move {
            let response = service.oneshot(request).await?;
            let authenticated = response.extensions().get::<Authenticated>().is_some();
            let handle = handling.answer(authenticated);
            Ok(response.map(|body| AnswerBody::new(body, handle)))
        })
    }
}

/// A request in its handler.
struct Handling(Option<Arc<Handle>>);

impl Handling {
    fn begin(handle: &Arc<Handle>) -> Self {
        handle.update(|it, _| it.begin_request());
        Self(Some(Arc::clone(handle)))
    }

    fn answer(mut self, authenticated: bool) -> Option<Arc<Handle>> {
        let handle = self.0.take();
        if let Some(handle) = &handle {
            handle.change(|it, now| it.begin_answer(now, authenticated));
        }
        handle
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.change(Activity::abandon_request);
        }
    }
}
