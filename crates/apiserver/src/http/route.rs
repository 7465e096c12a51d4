//! What a path means.

use super::query::decode;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    Version,
    /// `/api` or `/apis`.
    Groups {
        legacy: bool,
    },
    Group(String),
    GroupVersion(String, String),
    OpenApiIndex,
    OpenApi(String),
    Resource(Place),
    Unknown,
}

/// What a path below a group and version names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: String,
    pub(crate) sub: String,
    /// Segments behind the subresource.
    pub(crate) extra: bool,
}

/// Reads a path; a slash at its end means nothing.
pub(crate) fn parse(path: &str) -> Route {
    let parts: Vec<String> =
        path.trim_matches('/').split('/').map(|part| decode(part, false)).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] => Route::Groups { legacy: true },
        ["apis"] => Route::Groups { legacy: false },
        ["api", version] => Route::GroupVersion(String::new(), (*version).to_owned()),
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version] => Route::GroupVersion((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => Route::Resource(place("", version, rest)),
        ["apis", group, version, rest @ ..] => Route::Resource(place(group, version, rest)),
        ["openapi", "v3"] => Route::OpenApiIndex,
        ["openapi", "v3", rest @ ..] => Route::OpenApi(rest.join("/")),
        _ => Route::Unknown,
    }
}

fn place(group: &str, version: &str, rest: &[&str]) -> Place {
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (*namespace, inside),
        _ => ("", rest),
    };
    let part = |index: usize| rest.get(index).map(|part| (*part).to_owned()).unwrap_or_default();
    Place {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        plural: part(0),
        name: part(1),
        sub: part(2),
        extra: rest.len() > 3,
    }
}
