//! The declaration of a route: method, path, right, parameters, body and answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::operators::Role;
use utoipa::ToSchema;

use crate::call::Call;
use crate::openapi::Shape;
use crate::ports::Answer;

pub(crate) type Handled = Pin<Box<dyn Future<Output = Answer<Response<Body>>> + Send>>;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Without authentication.
    Public,
    /// The node of the path, by its own secret.
    Node,
    /// An operator's token with this role or a higher one; the route confines it to its project.
    Project(Role),
    /// The same, with a token for the whole installation.
    Installation(Role),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryParam {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) text: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
}

#[derive(Clone, Copy)]
pub(crate) enum Reply {
    Nothing,
    One(fn() -> Shape),
    List(fn() -> Shape),
    Events(fn() -> Shape),
    Text(&'static str),
}

#[derive(Clone)]
pub struct Route {
    pub method: Method,
    /// With parameters in braces.
    pub path: &'static str,
    pub right: Right,
    pub summary: &'static str,
    pub(crate) status: u16,
    pub(crate) query: &'static [QueryParam],
    pub(crate) keyed: bool,
    pub(crate) by_agents: bool,
    pub(crate) takes: Option<fn() -> Shape>,
    pub(crate) reply: Reply,
    pub(crate) serve: Arc<dyn Fn(Call) -> Handled + Send + Sync>,
}

impl Route {
    pub(crate) fn new<F>(
        (method, path): (Method, &'static str),
        right: Right,
        summary: &'static str,
        serve: fn(Call) -> F,
    ) -> Self
    where
        F: Future<Output = Answer<Response<Body>>> + Send + 'static,
    {
        Self {
            method,
            path,
            right,
            summary,
            status: 204,
            query: &[],
            keyed: false,
            by_agents: false,
            takes: None,
            reply: Reply::Nothing,
            serve: Arc::new(move |call| Box::pin(serve(call))),
        }
    }

    /// Takes a JSON body of this type.
    pub(crate) fn takes<T: ToSchema>(self) -> Self {
        Self { takes: Some(Shape::of::<T>), ..self }
    }

    /// Answers with one value of this type.
    pub(crate) fn gives<T: ToSchema>(self, status: u16) -> Self {
        Self { status, reply: Reply::One(Shape::of::<T>), ..self }
    }

    /// Answers with a page of values of this type.
    pub(crate) fn lists<T: ToSchema>(self, query: &'static [QueryParam]) -> Self {
        Self { status: 200, query, reply: Reply::List(Shape::of::<T>), ..self }
    }

    /// Answers with a stream of values of this type, or a page.
    pub(crate) fn streams<T: ToSchema>(self, query: &'static [QueryParam]) -> Self {
        Self { status: 200, query, reply: Reply::Events(Shape::of::<T>), ..self }
    }

    /// Answers with a text of this media type.
    pub(crate) fn prints(self, kind: &'static str) -> Self {
        Self { status: 200, reply: Reply::Text(kind), ..self }
    }

    /// Called by agents, which may have to show a client certificate.
    pub(crate) fn by_agents(self) -> Self {
        Self { by_agents: true, ..self }
    }

    /// Supports an `Idempotency-Key`.
    pub(crate) fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }
}

pub(crate) const fn param(name: &'static str, kind: Kind, text: &'static str) -> QueryParam {
    QueryParam { name, kind, text }
}

pub(crate) const AFTER: QueryParam =
    param("after", Kind::Text, "The next_cursor of the previous page");
pub(crate) const LIMIT: QueryParam =
    param("limit", Kind::Number, "Page size, 1 to 500 (default 100)");
pub(crate) const PAGED: &[QueryParam] = &[AFTER, LIMIT];
