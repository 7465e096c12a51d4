//! The `OpenAPI` document, generated from the routes.

use std::collections::BTreeMap;

use axum::http::Method;
use usher_wire::http::{EVENTS_TYPE, PROBLEM_TYPE, Problem};
use utoipa::ToSchema;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    ArrayBuilder, ComponentsBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, Info, OpenApi, OpenApiBuilder, Paths, Ref, RefOr, Required, Response, ResponseBuilder,
};

use crate::call::IDEMPOTENCY_KEY;
use crate::route::{Kind, QueryParam, Reply, Right, Route};
use crate::routes;

const OPERATOR: &str = "operator";
const NODE: &str = "node";

/// The schema of a body and the schemas it refers to.
pub(crate) struct Shape {
    name: String,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Shape {
    pub(crate) fn of<T: ToSchema>() -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        Self { name: T::name().into_owned(), schemas }
    }
}

pub fn document() -> OpenApi {
    let mut paths = Paths::new();
    let mut shapes = BTreeMap::new();
    shapes.extend(Shape::of::<Problem>().schemas);
    for route in routes::all() {
        let operation = operation(&route, &mut shapes);
        let Some(method) = http_method(&route.method) else { continue };
        paths.add_path_operation(route.path, vec![method], operation);
    }
    let bearer = || SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = ComponentsBuilder::new()
        .schemas_from_iter(shapes)
        .security_scheme(OPERATOR, bearer())
        .security_scheme(NODE, bearer())
        .build();
    let info = Info::new("Usher", env!("CARGO_PKG_VERSION"));
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build()
}

/// As committed in `docs` and served.
pub fn text() -> String {
    let text = serde_json::to_value(document()).and_then(|it| serde_json::to_string_pretty(&it));
    let mut text = text.unwrap_or_default();
    text.push('\n');
    text
}

fn http_method(method: &Method) -> Option<HttpMethod> {
    match method.as_str() {
        "GET" => Some(HttpMethod::Get),
        "POST" => Some(HttpMethod::Post),
        "PUT" => Some(HttpMethod::Put),
        "DELETE" => Some(HttpMethod::Delete),
        _ => None,
    }
}

fn operation(route: &Route, shapes: &mut BTreeMap<String, RefOr<Schema>>) -> Operation {
    let mut keep = |shape: Shape| {
        shapes.extend(shape.schemas);
        Ref::from_schema_name(shape.name)
    };
    let mut operation = OperationBuilder::new()
        .summary(Some(route.summary))
        .description(Some(right(route.right)))
        .operation_id(Some(operation_id(route)));
    for name in path_params(route.path) {
        operation = operation.parameter(parameter(name, ParameterIn::Path, text_schema(), ""));
    }
    for QueryParam { name, kind, text } in route.query {
        let schema = match kind {
            Kind::Text => text_schema(),
            Kind::Number => typed(Type::Integer),
            Kind::Flag => typed(Type::Boolean),
        };
        operation = operation.parameter(parameter(name, ParameterIn::Query, schema, text));
    }
    if route.keyed {
        let text = "A repeated request with the same key returns the first answer";
        let key = parameter(IDEMPOTENCY_KEY, ParameterIn::Header, text_schema(), text);
        operation = operation.parameter(key);
    }
    if let Some(takes) = route.takes {
        let content = Content::new(Some(keep(takes())));
        let body = RequestBodyBuilder::new().content("application/json", content);
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    operation = match route.right {
        Right::Public => operation,
        Right::Node => operation.security(SecurityRequirement::new::<_, [&str; 0], _>(NODE, [])),
        Right::Project(_) | Right::Installation(_) => {
            operation.security(SecurityRequirement::new::<_, [&str; 0], _>(OPERATOR, []))
        }
    };
    let granted = granted(route.reply, &mut keep);
    operation.response(route.status.to_string(), granted).response("default", refused()).build()
}

fn granted(reply: Reply, keep: &mut impl FnMut(Shape) -> Ref) -> Response {
    let response = ResponseBuilder::new().description("Success");
    match reply {
        Reply::Nothing => response.build(),
        Reply::One(shape) => {
            response.content("application/json", Content::new(Some(keep(shape())))).build()
        }
        Reply::List(shape) => {
            response.content("application/json", Content::new(Some(list(keep(shape()))))).build()
        }
        Reply::Events(shape) => {
            let shape = keep(shape());
            response
                .content("application/json", Content::new(Some(list(shape.clone()))))
                .content(EVENTS_TYPE, Content::new(Some(shape)))
                .build()
        }
        Reply::Text(kind) => response.content(kind, Content::new(Some(text_schema()))).build(),
    }
}

fn refused() -> Response {
    let problem = Content::new(Some(Ref::from_schema_name(Problem::name())));
    ResponseBuilder::new().description("Refused").content(PROBLEM_TYPE, problem).build()
}

fn list(item: Ref) -> Schema {
    let null = typed(Type::Null);
    let cursor = OneOfBuilder::new().item(text_schema()).item(null).build();
    ObjectBuilder::new()
        .property("items", ArrayBuilder::new().items(item).build())
        .property("next_cursor", Schema::OneOf(cursor))
        .required("items")
        .required("next_cursor")
        .build()
        .into()
}

fn parameter(
    name: &str,
    place: ParameterIn,
    schema: Schema,
    text: &str,
) -> utoipa::openapi::path::Parameter {
    let is_path = place == ParameterIn::Path;
    ParameterBuilder::new()
        .name(name)
        .required(if is_path { Required::True } else { Required::False })
        .parameter_in(place)
        .description(Some(text).filter(|it| !it.is_empty()))
        .schema(Some(schema))
        .build()
}

fn typed(kind: Type) -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::Type(kind)).build().into()
}

fn text_schema() -> Schema {
    typed(Type::String)
}

fn right(right: Right) -> String {
    match right {
        Right::Public => "No authentication.".to_owned(),
        Right::Node => "Called by the node with its secret.".to_owned(),
        Right::Project(role) => format!("Needs the role {role}; limited to the token's project."),
        Right::Installation(role) => {
            format!("Needs the role {role} for the whole installation.")
        }
    }
}

/// A name for generated clients: the method, then the path.
fn operation_id(route: &Route) -> String {
    let plain = |it: &str| it.replace(['{', '}'], "").replace(['-', '.'], "_");
    let pieces = route.path.split('/').filter(|it| !it.is_empty() && *it != "v1").map(plain);
    let pieces: Vec<String> = pieces.collect();
    format!("{}_{}", route.method.as_str().to_lowercase(), pieces.join("_"))
}

/// The parameters of a path.
fn path_params(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
}
