//! Every route. One file per noun; each declares its rights and parameters.

mod agents;
mod catalog;
mod credentials;
mod events;
mod fleet;
mod keys;
mod labels;
mod nodes;
mod operators;
mod orphans;
mod projects;
mod resources;
mod service;

use crate::ports::Answer;
use crate::route::{AFTER, Kind, LIMIT, QueryParam, Route, param};
use crate::views::Paging;

/// Every route.
pub fn all() -> Vec<Route> {
    [
        resources::routes(),
        orphans::routes(),
        events::routes(),
        projects::routes(),
        catalog::routes(),
        credentials::routes(),
        labels::routes(),
        nodes::routes(),
        fleet::routes(),
        operators::routes(),
        keys::routes(),
        agents::routes(),
        service::routes(),
    ]
    .concat()
}

/// The query of a list without filters.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Paged {
    after: Option<String>,
    limit: Option<u32>,
}

impl Paged {
    fn paging(self) -> Answer<Paging> {
        crate::call::paging(self.after, self.limit)
    }
}

/// The query of a list with a project filter.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PagedProject {
    project: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

/// The query of such a listing.
const PAGED_PROJECT: &[QueryParam] =
    &[param("project", Kind::Text, "Only of this project, by slug or id"), AFTER, LIMIT];
