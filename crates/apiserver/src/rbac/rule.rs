//! Whether a rule of a role allows an action.

use serde_json::Value;

use crate::auth::Action;

/// Whether a rule allows an action, wherever it is bound.
pub(super) fn allows(rule: &Value, action: &Action<'_>) -> bool {
    match action {
        Action::Path { verb, path } => {
            has(rule, "verbs", |given| given == "*" || given == *verb)
                && has(rule, "nonResourceURLs", |given| is_path(given, path))
        }
        Action::Resource { verb, group, plural, sub, name, namespace: _ } => {
            has(rule, "verbs", |given| given == "*" || given == *verb)
                && has(rule, "apiGroups", |given| given == "*" || given == *group)
                && has(rule, "resources", |given| is_resource(given, plural, sub))
                && (is_empty(rule, "resourceNames")
                    || has(rule, "resourceNames", |given| given == *name))
        }
    }
}

/// `*` is every resource and subresource, `*/sub` that subresource of every resource.
fn is_resource(given: &str, plural: &str, sub: &str) -> bool {
    match given.split_once('/') {
        None => given == "*" || sub.is_empty() && given == plural,
        Some((of, face)) => !sub.is_empty() && face == sub && (of == "*" || of == plural),
    }
}

/// A path that ends with `*` is every path that starts so.
pub(super) fn is_path(given: &str, path: &str) -> bool {
    let start = given.ends_with('*').then(|| given.trim_end_matches('*'));
    given == path || start.is_some_and(|start| path.starts_with(start))
}

pub(super) fn list<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn has(rule: &Value, field: &str, fits: impl Fn(&str) -> bool) -> bool {
    list(rule, field).any(fits)
}

fn is_empty(rule: &Value, field: &str) -> bool {
    list(rule, field).next().is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a rule may list, and which of the asked values that is.
    type Table = [(&'static [&'static str], &'static [&'static str])];

    const VERBS: &Table = &[
        (&[], &[]),
        (&["*"], &["get", "delete", ""]),
        (&["get"], &["get"]),
        (&["GET"], &[]),
        (&["list", "delete"], &["delete"]),
    ];
    const GROUPS: &Table = &[
        (&[], &[]),
        (&["*"], &["", "a.b"]),
        (&[""], &[""]),
        (&["a.b"], &["a.b"]),
        (&["", "a.b"], &["", "a.b"]),
    ];
    /// The resources are asked as in rules.
    const RESOURCES: &Table = &[
        (&[], &[]),
        (&["*"], &["pods", "pods/log", "maps", "maps/log"]),
        (&["pods"], &["pods"]),
        (&["pods/log"], &["pods/log"]),
        (&["pods/*"], &[]),
        (&["*/log"], &["pods/log", "maps/log"]),
        (&["*/other"], &[]),
        (&["*/*"], &[]),
        (&["maps", "pods/log"], &["maps", "pods/log"]),
    ];
    const NAMES: &Table =
        &[(&[], &["", "a", "b"]), (&["a"], &["a"]), (&["a", "b"], &["a", "b"]), (&["*"], &[])];
    const PATHS: &Table = &[
        (&[], &[]),
        (&["*"], &["/", "/a", "/a/", "/a/b", "/ab"]),
        (&["/a"], &["/a"]),
        (&["/a/*"], &["/a/", "/a/b"]),
        (&["/a*"], &["/a", "/a/", "/a/b", "/ab"]),
        (&["/a/*/c"], &[]),
        (&["/", "/ab"], &["/", "/ab"]),
    ];

    // Requirement: AK-53
    #[test]
    fn a_rule_allows_what_each_of_its_lists_has() {
        let mut cases = 0;
        for (verbs, asked_verbs) in VERBS {
            for (groups, asked_groups) in GROUPS {
                for (resources, asked_resources) in RESOURCES {
                    for (names, asked_names) in NAMES {
                        let rule = json!({
                            "verbs": verbs, "apiGroups": groups, "resources": resources,
                            "resourceNames": names,
                        });
                        for verb in ["get", "delete", ""] {
                            for group in ["", "a.b"] {
                                for resource in ["pods", "pods/log", "maps", "maps/log"] {
                                    for name in ["", "a", "b"] {
                                        let wanted = asked_verbs.contains(&verb)
                                            && asked_groups.contains(&group)
                                            && asked_resources.contains(&resource)
                                            && asked_names.contains(&name);
                                        let asked = asked(verb, group, resource, name);
                                        assert_eq!(
                                            allows(&rule, &asked),
                                            wanted,
                                            "{rule} {asked:?}"
                                        );
                                        cases += 1;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(cases, 5 * 5 * 9 * 4 * 3 * 2 * 4 * 3);
    }

    fn asked<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Action<'a> {
        let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
        Action::Resource { verb, group, plural, sub, namespace: "space", name }
    }

    // Requirement: AK-53
    #[test]
    fn a_rule_of_paths_allows_paths_only_and_one_of_resources_none() {
        for (verbs, asked_verbs) in VERBS {
            for (paths, asked_paths) in PATHS {
                let rule = json!({"verbs": verbs, "nonResourceURLs": paths});
                for verb in ["get", "delete", ""] {
                    for path in ["/", "/a", "/a/", "/a/b", "/ab"] {
                        let wanted = asked_verbs.contains(&verb) && asked_paths.contains(&path);
                        assert_eq!(allows(&rule, &Action::Path { verb, path }), wanted, "{rule}");
                    }
                }
                assert!(!allows(&rule, &asked("get", "", "pods", "a")), "{rule}");
            }
        }
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(!allows(&all, &Action::Path { verb: "get", path: "/a" }));
    }
}
