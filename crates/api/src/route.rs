//! A route: where it is, who may go there, what it takes and what it answers.

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

/// The answer of a route, on its way.
pub(crate) type Handled = Pin<Box<dyn Future<Output = Answer<Response<Body>>> + Send>>;

/// Who may go through a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Anybody.
    Anybody,
    /// The node of the path, by its own secret.
    Node,
    /// An operator's token with this role or a higher one; the route confines it to its project.
    Project(Role),
    /// The same, with a token for the whole installation.
    Installation(Role),
}

/// One piece of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) text: &'static str,
}

/// What a piece of a query is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
}

/// What is answered.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    Nothing,
    One(fn() -> Shape),
    List(fn() -> Shape),
    Events(fn() -> Shape),
    Text(&'static str),
}

/// A route.
#[derive(Clone)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with its pieces in braces.
    pub path: &'static str,
    /// Who may go there.
    pub right: Right,
    /// What it does, in a few words.
    pub summary: &'static str,
    pub(crate) status: u16,
    pub(crate) query: &'static [Asked],
    pub(crate) keyed: bool,
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
            takes: None,
            reply: Reply::Nothing,
            serve: Arc::new(move |call| Box::pin(serve(call))),
        }
    }

    /// Its body has this shape.
    pub(crate) fn takes<T: ToSchema>(self) -> Self {
        Self { takes: Some(Shape::of::<T>), ..self }
    }

    /// It answers with one such thing.
    pub(crate) fn gives<T: ToSchema>(self, status: u16) -> Self {
        Self { status, reply: Reply::One(Shape::of::<T>), ..self }
    }

    /// It answers with a page of such things.
    pub(crate) fn lists<T: ToSchema>(self, query: &'static [Asked]) -> Self {
        Self { status: 200, query, reply: Reply::List(Shape::of::<T>), ..self }
    }

    /// It answers with a stream of such things, or a page where it can.
    pub(crate) fn streams<T: ToSchema>(self, query: &'static [Asked]) -> Self {
        Self { status: 200, query, reply: Reply::Events(Shape::of::<T>), ..self }
    }

    /// It answers with a text of this media type.
    pub(crate) fn prints(self, kind: &'static str) -> Self {
        Self { status: 200, reply: Reply::Text(kind), ..self }
    }

    /// An `Idempotency-Key` makes it repeatable.
    pub(crate) fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }
}

/// A piece of a query.
pub(crate) const fn asked(name: &'static str, kind: Kind, text: &'static str) -> Asked {
    Asked { name, kind, text }
}

/// Where a listing goes on.
pub(crate) const AFTER: Asked = asked("after", Kind::Text, "What the page before said was next");
/// How much of a listing is wanted.
pub(crate) const LIMIT: Asked = asked("limit", Kind::Number, "The most items, within 1 and 500");
/// The two pieces of every listing's query.
pub(crate) const PAGED: &[Asked] = &[AFTER, LIMIT];
