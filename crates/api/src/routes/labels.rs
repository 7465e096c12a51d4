//! Labels of the installation, of projects and of resources.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::labels::{Definition, check_count};
use usher_domain::object::label::Labels;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use crate::call::{Call, all, ok};
use crate::ports::{Answer, Failure};
use crate::route::{Right, Route};
use crate::views::Layer;

const WIDE: &str = "/v1/labels";
const PROJECT: &str = "/v1/projects/{project}/labels";
const RESOURCE: &str = "/v1/resources/{id}/labels";
const DEFINITIONS: &str = "/v1/label-definitions";

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    let operator = Right::Project(Role::Operator);
    let admin = Right::Installation(Role::Admin);
    let reads = |route: Route| route.gives::<wire::Labels>(200);
    let writes = |route: Route| route.takes::<wire::WriteLabels>().gives::<wire::Labels>(200);
    vec![
        reads(Route::new((Method::GET, WIDE), viewer, "Get the installation's labels", read_wide)),
        writes(Route::new((Method::PUT, WIDE), admin, "Set the installation's labels", write_wide)),
        reads(Route::new((Method::GET, PROJECT), viewer, "Get a project's labels", read_project)),
        writes(Route::new(
            (Method::PUT, PROJECT),
            operator,
            "Set a project's labels",
            write_project,
        )),
        reads(Route::new(
            (Method::GET, RESOURCE),
            viewer,
            "Get a resource's labels",
            read_resource,
        )),
        writes(Route::new(
            (Method::PUT, RESOURCE),
            operator,
            "Set a resource's labels",
            write_resource,
        )),
        Route::new((Method::GET, DEFINITIONS), viewer, "List label definitions", definitions)
            .lists::<wire::LabelDefinition>(&[]),
        Route::new((Method::PUT, DEFINITIONS), admin, "Define a label key", define)
            .takes::<wire::LabelDefinition>()
            .gives::<wire::LabelDefinition>(200),
    ]
}

fn labels(it: &Labels) -> wire::Labels {
    let plain = it.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    wire::Labels { labels: plain.collect() }
}

fn definition(it: &Definition) -> wire::LabelDefinition {
    wire::LabelDefinition { key: it.key.to_string(), propagatable: it.propagatable }
}

async fn read(call: &Call, layer: Layer) -> Answer<Response<Body>> {
    ok(&labels(&call.ports().labels.get(layer).await?))
}

async fn write(call: &Call, layer: Layer) -> Answer<Response<Body>> {
    let body: wire::WriteLabels = call.body()?;
    let read = body.labels.iter().map(|(key, value)| Ok((key.parse()?, value.parse()?)));
    let wanted: Labels = read
        .collect::<Result<_, _>>()
        .map_err(|why: usher_domain::object::label::BadLabel| Failure::from(why))?;
    check_count(&wanted).map_err(Failure::from)?;
    ok(&labels(&call.ports().labels.write(call.caller()?, layer, wanted).await?))
}

async fn project(call: &Call) -> Answer<Layer> {
    Ok(Layer::Project(call.project(call.param("project")?).await?.id))
}

async fn read_wide(call: Call) -> Answer<Response<Body>> {
    read(&call, Layer::Installation).await
}

async fn write_wide(call: Call) -> Answer<Response<Body>> {
    write(&call, Layer::Installation).await
}

async fn read_project(call: Call) -> Answer<Response<Body>> {
    let layer = project(&call).await?;
    read(&call, layer).await
}

async fn write_project(call: Call) -> Answer<Response<Body>> {
    let layer = project(&call).await?;
    write(&call, layer).await
}

async fn read_resource(call: Call) -> Answer<Response<Body>> {
    let layer = Layer::Resource(call.resource().await?);
    read(&call, layer).await
}

async fn write_resource(call: Call) -> Answer<Response<Body>> {
    let layer = Layer::Resource(call.resource().await?);
    write(&call, layer).await
}

async fn definitions(call: Call) -> Answer<Response<Body>> {
    all(call.ports().labels.definitions().await?, definition)
}

async fn define(call: Call) -> Answer<Response<Body>> {
    let body: wire::LabelDefinition = call.body()?;
    let key = body.key.parse().map_err(Failure::from)?;
    let it = Definition { key, propagatable: body.propagatable };
    ok(&definition(&call.ports().labels.define(call.caller()?, it).await?))
}
