//! Projects, where they are placed, and what backs their declarations.

use axum::body::Body;
use axum::http::{Method, Response};
use usher_domain::object::id::TenancyId;
use usher_domain::object::offender::shortened;
use usher_domain::operators::{Reach, Role};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, TenancyResource};
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, accepted, all, created, no_content, ok, page};
use crate::ports::{Answer, Failure};
use crate::refusal::{Refusal, Thing};
use crate::render;
use crate::route::{PAGED, Right, Route};
use crate::views::{NewProject, Ref};

const ONE: &str = "/v1/projects/{project}";
const PLACEMENT: &str = "/v1/projects/{project}/placement";

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/projects"), viewer, "List projects", list)
            .lists::<wire::Project>(PAGED),
        Route::new((Method::POST, "/v1/projects"), admin, "Create a project", create)
            .takes::<wire::CreateProject>()
            .gives::<wire::Project>(201),
        Route::new((Method::GET, ONE), viewer, "Get a project", get).gives::<wire::Project>(200),
        Route::new((Method::DELETE, ONE), admin, "Delete a project", delete),
        Route::new((Method::GET, "/v1/placements"), viewer, "List placements", placements)
            .lists::<wire::Placement>(PAGED),
        Route::new((Method::GET, PLACEMENT), viewer, "Get a project's placement", placement)
            .gives::<wire::Placement>(200),
        Route::new((Method::PUT, PLACEMENT), admin, "Place a project on a world", place)
            .takes::<wire::PlaceProject>()
            .gives::<wire::Placement>(200),
        Route::new((Method::DELETE, PLACEMENT), admin, "Terminate a placement", terminate)
            .gives::<wire::Placement>(202),
        Route::new((Method::GET, "/v1/tenancies/{id}"), viewer, "Get a tenancy resource", tenancy)
            .gives::<wire::Tenancy>(200),
    ]
}

fn project(it: &Project) -> wire::Project {
    wire::Project { id: it.id.to_string(), slug: it.slug.to_string(), name: it.name.to_string() }
}

fn placed(it: &Placement) -> wire::Placement {
    wire::Placement {
        project: it.project.to_string(),
        world: it.world.clone(),
        namespace: it.namespace(),
        phase: it.phase.to_string(),
    }
}

fn backing(it: &TenancyResource) -> wire::Tenancy {
    wire::Tenancy {
        id: it.id.to_string(),
        project: it.project.to_string(),
        created_at: render::time(it.created_at),
        released_at: render::maybe(it.released_at),
    }
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    match call.caller()?.grant.reach() {
        Reach::Installation => page(call.ports().projects.list(paging).await?, project),
        Reach::Project(own) => all(vec![call.ports().projects.get(&Ref::Id(own)).await?], project),
    }
}

async fn create(call: Call) -> Answer<Response<Body>> {
    let wire::CreateProject { slug, name } = call.body()?;
    let name = name.unwrap_or_else(|| slug.clone());
    let new = NewProject {
        slug: slug.parse().map_err(Failure::from)?,
        name: name.parse().map_err(Failure::from)?,
    };
    created(&project(&call.ports().projects.create(call.caller()?, new).await?))
}

async fn get(call: Call) -> Answer<Response<Body>> {
    ok(&project(&call.project(call.param("project")?).await?))
}

async fn delete(call: Call) -> Answer<Response<Body>> {
    let id = call.project(call.param("project")?).await?.id;
    call.ports().projects.delete(call.caller()?, id).await?;
    Ok(no_content())
}

async fn placements(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    match call.caller()?.grant.reach() {
        Reach::Installation => page(call.ports().projects.placements(paging).await?, placed),
        Reach::Project(own) => all(vec![call.ports().projects.placement(own).await?], placed),
    }
}

async fn placement(call: Call) -> Answer<Response<Body>> {
    let id = call.project(call.param("project")?).await?.id;
    ok(&placed(&call.ports().projects.placement(id).await?))
}

async fn place(call: Call) -> Answer<Response<Body>> {
    let wire::PlaceProject { world } = call.body()?;
    let id = call.project(call.param("project")?).await?.id;
    ok(&placed(&call.ports().projects.place(call.caller()?, id, &world).await?))
}

async fn terminate(call: Call) -> Answer<Response<Body>> {
    let id = call.project(call.param("project")?).await?.id;
    accepted(&placed(&call.ports().projects.terminate_placement(call.caller()?, id).await?))
}

async fn tenancy(call: Call) -> Answer<Response<Body>> {
    let text = call.param("id")?;
    let missing =
        || Failure::from(Refusal::NotFound { thing: Thing::Tenancy, what: shortened(text) });
    let id: TenancyId = text.parse().map_err(|_| missing())?;
    let found = call.ports().projects.tenancy(id).await?;
    if !call.caller()?.grant.reach().covers(found.project) {
        return Err(missing());
    }
    ok(&backing(&found))
}
