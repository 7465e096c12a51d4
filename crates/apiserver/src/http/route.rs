//! Request paths.

use super::query::decode;

/// The route of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Health {
        /// `healthz`, `livez` or `readyz`.
        endpoint: String,
        /// The name of one check; empty for all.
        check: String,
    },
    Version,
    Metrics,
    /// `/api` or `/apis`.
    Groups {
        legacy: bool,
    },
    Group(String),
    GroupVersion(String, String),
    OpenApiV2,
    OpenApiIndex,
    OpenApi(String),
    Resource(Place),
    Unknown,
}

/// The resource of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: String,
    pub(crate) sub: String,
    /// Segments after the subresource.
    pub(crate) extra: bool,
}

impl Route {
    /// The resource, if the path names one.
    pub(crate) fn place(&self) -> Option<&Place> {
        match self {
            Self::Resource(place) => Some(place),
            Self::Health { .. }
            | Self::Version
            | Self::Metrics
            | Self::Groups { .. }
            | Self::Group(_)
            | Self::GroupVersion(..)
            | Self::OpenApiV2
            | Self::OpenApiIndex
            | Self::OpenApi(_)
            | Self::Unknown => None,
        }
    }
}

/// Parses a path; a trailing slash is ignored.
pub(crate) fn parse(path: &str) -> Route {
    let parts: Vec<String> =
        path.trim_matches('/').split('/').map(|part| decode(part, false)).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
            Route::Health { endpoint: (*endpoint).to_owned(), check: check.join("/") }
        }
        ["version"] => Route::Version,
        ["metrics"] => Route::Metrics,
        ["api"] => Route::Groups { legacy: true },
        ["apis"] => Route::Groups { legacy: false },
        ["api", version] => Route::GroupVersion(String::new(), (*version).to_owned()),
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version] => Route::GroupVersion((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => Route::Resource(place("", version, rest)),
        ["apis", group, version, rest @ ..] => Route::Resource(place(group, version, rest)),
        ["openapi", "v2"] => Route::OpenApiV2,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::Query;
    use crate::http::negotiate::{negotiate, wants_aggregated};

    /// Percent-encodes every byte.
    fn encoded(text: &str) -> String {
        let digits = crate::clock::hex(text.as_bytes());
        digits.as_bytes().chunks(2).flat_map(|pair| ['%', pair[0].into(), pair[1].into()]).collect()
    }

    // Requirement: AS-17
    #[test]
    fn a_namespace_path_is_an_object_or_a_scope() {
        let named = |path: &str| {
            let Route::Resource(place) = parse(path) else { panic!("{path} leads elsewhere") };
            assert!(!place.extra, "{path}");
            [place.namespace, place.plural, place.name, place.sub]
        };
        assert_eq!(named("/api/v1/namespaces/a"), ["", "namespaces", "a", ""]);
        assert_eq!(named("/api/v1/namespaces/a/status"), ["", "namespaces", "a", "status"]);
        assert_eq!(named("/api/v1/namespaces/a/maps/"), ["a", "maps", "", ""]);
        assert_eq!(named("/api/v1/namespaces/a/status/b"), ["a", "status", "b", ""]);
        assert_eq!(named("/apis/g/v1/namespaces/a/status"), ["a", "status", "", ""]);
    }

    proptest! {
        // Requirement: AS-17
        #[test]
        fn encoded_names_round_trip(
            (namespace, name) in (".{1,8}", ".{1,8}"),
            pairs in prop::collection::vec(("[a-z]{1,3}", ".{1,8}"), 0..4),
        ) {
            let path = [encoded(&namespace), "maps".to_owned(), encoded(&name)].join("/");
            let path = format!("/api/v1/namespaces/{path}");
            let plural = "maps".to_owned();
            let version = "v1".to_owned();
            let wanted = Place { version, namespace, plural, name, ..Place::default() };
            prop_assert_eq!(parse(&path), Route::Resource(wanted));
            let texts: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
            let query = Query::parse(&texts.join("&"));
            for (name, _) in &pairs {
                let all = pairs.iter().filter(|(other, _)| other == name);
                let all: Vec<&str> = all.map(|(_, value)| value.as_str()).collect();
                prop_assert_eq!(query.get(name), all.first().copied());
                prop_assert_eq!(query.all(name), all);
            }
        }

        // Requirement: AS-15
        #[test]
        fn no_uri_or_header_makes_parsing_panic(
            texts in prop::collection::vec("([/?&=%+;,.]|apis?|v1|namespaces|watch|é|.){0,12}", 3),
        ) {
            let _ = parse(&texts[0]);
            let query = Query::parse(&texts[1]);
            let _ = (query.flag("watch"), query.number("v1"), query.all("é"));
            let _ = (negotiate(&texts[2]), wants_aggregated(&texts[2]));
        }
    }
}
