//! The verbs of resources.

pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod json;
mod list;
pub(crate) mod options;
mod patch;
mod scale;
mod select;
pub(crate) mod update;
mod watch;

use std::collections::HashSet;
use std::sync::Arc;

use crate::auth::User;
use crate::core::Core;
use crate::faults::Fault;
use crate::http::negotiate::{Form, negotiate};
use crate::http::route::Place;
use crate::http::{Answer, Call};
use crate::kinds::{Builtin, Resource};
use crate::status::Refusal;
use crate::store::Entry;
use crate::{reviews, view};
use options::{WriteKind, WriteOptions};

/// The subresource of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Main,
    Status,
    Scale,
    /// The finalizers in the spec of a namespace.
    Finalize,
    /// A new token of a service account.
    Token,
}

/// The object, user and options of a request.
pub(crate) struct RequestContext<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) sub: Subresource,
    pub(crate) user: &'a User,
    pub(crate) options: WriteOptions,
    /// Warnings for the response.
    pub(crate) warnings: Vec<String>,
}

impl<'a> RequestContext<'a> {
    /// A context without options, for the main resource.
    pub(crate) fn new(
        core: &'a Arc<Core>,
        resource: &'a Arc<Resource>,
        (namespace, name): (&'a str, &'a str),
        user: &'a User,
    ) -> Self {
        Self {
            core,
            resource,
            namespace,
            name,
            sub: Subresource::Main,
            user,
            options: WriteOptions::internal("unknown"),
            warnings: Vec::new(),
        }
    }

    /// Sets the field manager.
    pub(crate) fn by(mut self, manager: &str) -> Self {
        manager.clone_into(&mut self.options.manager);
        self
    }
}

impl RequestContext<'_> {
    /// The key of the object.
    pub(crate) fn key(&self) -> Arc<str> {
        self.resource.key(self.namespace, self.name)
    }

    /// The stored object.
    pub(crate) fn current(&self) -> Option<Arc<Entry>> {
        self.core.store.get(&self.resource.table, &self.key())
    }

    pub(crate) fn not_found(&self) -> Refusal {
        Refusal::not_found(self.resource, self.name)
    }

    /// Adds new warnings.
    pub(crate) fn warn(&mut self, warnings: impl IntoIterator<Item = String>) {
        add_new(&mut self.warnings, warnings);
    }
}

/// Adds new strings.
pub(crate) fn add_new(texts: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    let mut seen: HashSet<String> = texts.iter().cloned().collect();
    texts.extend(more.into_iter().filter(|text| seen.insert(text.clone())));
}

/// Serves a request for a resource.
pub(crate) async fn dispatch(
    core: &Arc<Core>,
    call: &Call,
    place: &Place,
) -> Result<Answer, Refusal> {
    let resource = resolve(core, call, place)?;
    let sub = subresource(&resource, place)?;
    let form = negotiate(&call.accept)?;
    let method = call.method.as_str();
    let named = !place.name.is_empty();
    let answer = match method {
        "GET" | "HEAD" if named && sub == Subresource::Scale => {
            scale::get(&context(core, call, place, (&resource, sub))?, &form)
        }
        "GET" | "HEAD" if named && !call.query.flag("watch") => {
            get(core, call, place, &resource).await
        }
        "GET" | "HEAD" if call.query.flag("watch") => {
            watch::watch(core, call, place, &resource).await
        }
        "GET" | "HEAD" => list::list(core, call, place, &resource, &form).await,
        "POST" => post(context(core, call, place, (&resource, sub))?, call, &form).await,
        "PUT" => update::serve(context(core, call, place, (&resource, sub))?, call, &form).await,
        "PATCH" => patch::serve(context(core, call, place, (&resource, sub))?, call, &form).await,
        "DELETE" if named => {
            delete::serve(context(core, call, place, (&resource, sub))?, call, &form).await
        }
        "DELETE" => delete::serve_collection(core, call, place, &resource).await,
        _ => Err(Refusal::method_not_allowed()),
    };
    let deprecation = resource.custom().and_then(|custom| custom.deprecation.clone());
    let Some(warning) = deprecation else { return answer };
    match answer {
        Ok(mut answer) => {
            answer.warnings.insert(0, warning);
            Ok(answer)
        }
        Err(mut refusal) => {
            refusal.warnings.insert(0, warning);
            Err(refusal)
        }
    }
}

/// Creates an object, or answers a question.
async fn post(ctx: RequestContext<'_>, call: &Call, form: &Form) -> Result<Answer, Refusal> {
    if ctx.sub == Subresource::Token {
        return reviews::serve_token(ctx, call, form).await;
    }
    match ctx.resource.builtin() {
        Some(Builtin::Review(review)) => reviews::serve(ctx, call, (form, review)).await,
        Some(_) | None => create::serve(ctx, call, form).await,
    }
}

/// The context of a call.
fn context<'a>(
    core: &'a Arc<Core>,
    call: &'a Call,
    place: &'a Place,
    (resource, sub): (&'a Arc<Resource>, Subresource),
) -> Result<RequestContext<'a>, Refusal> {
    let kind = match call.method.as_str() {
        "POST" => Some(WriteKind::Create),
        "PUT" => Some(WriteKind::Update),
        "PATCH" if call.content_type == "application/apply-patch+yaml" => Some(WriteKind::Apply),
        "PATCH" => Some(WriteKind::Patch),
        _ => None,
    };
    let named = (place.namespace.as_str(), place.name.as_str());
    let mut ctx = RequestContext::new(core, resource, named, &call.user);
    ctx.sub = sub;
    if let Some(kind) = kind {
        ctx.options = WriteOptions::read(call, kind)?;
    }
    Ok(ctx)
}

/// The resource of a path, if it supports the method.
fn resolve(core: &Core, call: &Call, place: &Place) -> Result<Arc<Resource>, Refusal> {
    let kinds = core.registry.kinds();
    let Some(resource) = kinds.find(&place.group, &place.version, &place.plural) else {
        let known = kinds
            .all()
            .iter()
            .any(|resource| resource.group == place.group && resource.builtin().is_some());
        return Err(if known { Refusal::no_such_resource() } else { Refusal::no_such_page() });
    };
    let custom = resource.custom().is_some();
    let method = call.method.as_str();
    let named = !place.name.is_empty();
    let homeless = resource.namespaced && place.namespace.is_empty();
    let writes = matches!(method, "POST" | "PUT" | "PATCH" | "DELETE");
    if place.extra || !resource.namespaced && !place.namespace.is_empty() {
        return Err(Refusal::no_such_page());
    }
    if homeless && (writes || named) {
        return Err(match custom {
            true => Refusal::no_such_page(),
            false if named => Refusal::no_such_resource(),
            false => Refusal::method_not_allowed(),
        });
    }
    if !named && matches!(method, "PUT" | "PATCH") {
        return Err(if custom {
            Refusal::bad_request("name must be provided")
        } else {
            Refusal::method_not_allowed()
        });
    }
    let no_collection_delete =
        !named && method == "DELETE" && resource.is_builtin(Builtin::Namespace);
    let token = resource.is_builtin(Builtin::ServiceAccount) && place.sub == "token";
    let named_post = named && method == "POST" && !custom && !token;
    let own = resource.is_builtin(Builtin::Service)
        && (place.namespace.as_str(), place.name.as_str()) == ("default", "kubernetes");
    let read_only = writes && (own || resource.builtin().is_some_and(Builtin::is_read_only));
    let only_asked = resource.is_review() && (method != "POST" || named);
    let only_made = token && method != "POST";
    if no_collection_delete || named_post || read_only || only_asked || only_made {
        return Err(Refusal::method_not_allowed());
    }
    Ok(resource.clone())
}

fn subresource(resource: &Resource, place: &Place) -> Result<Subresource, Refusal> {
    match place.sub.as_str() {
        "" => Ok(Subresource::Main),
        "status" if resource.has_status() => Ok(Subresource::Status),
        "scale" if resource.custom().is_some_and(|custom| custom.scale.is_some()) => {
            Ok(Subresource::Scale)
        }
        "finalize" if resource.is_builtin(Builtin::Namespace) => Ok(Subresource::Finalize),
        "token" if resource.is_builtin(Builtin::ServiceAccount) => Ok(Subresource::Token),
        _ if resource.custom().is_some() => Err(Refusal::not_found(resource, &place.name)),
        _ => Err(Refusal::no_such_resource()),
    }
}

async fn get(
    core: &Core,
    call: &Call,
    place: &Place,
    resource: &Arc<Resource>,
) -> Result<Answer, Refusal> {
    let form = negotiate(&call.accept)?;
    if let Some(version) = call.query.get("resourceVersion") {
        let version = list::parse_version(version).map_err(|why| {
            Refusal::bare(format!("resourceVersion: Invalid value: \"{version}\": {why}"))
        })?;
        list::reached(core, version).await?;
    }
    let key = resource.key(&place.namespace, &place.name);
    let entry = if let Fault::ReadBehind(revisions) = call.fault {
        core.store.list_behind(&resource.table, &key, revisions).objects.remove(&key)
    } else {
        core.store.get(&resource.table, &key)
    };
    let entry = entry.ok_or_else(|| Refusal::not_found(resource, &place.name))?;
    view::entry(200, resource, &entry, (&form, &call.query))
}

/// The response with a written object.
pub(crate) fn written(
    code: u16,
    ctx: &RequestContext<'_>,
    entry: &Entry,
    (form, call): (&Form, &Call),
) -> Result<Answer, Refusal> {
    view::entry(code, ctx.resource, entry, (form, &call.query))
        .map(|answer| answer.warn(ctx.warnings.clone()))
}
