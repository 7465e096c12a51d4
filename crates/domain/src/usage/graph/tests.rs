use proptest::prelude::*;

use super::*;
use crate::usage::fixture::{START, key, usage, usage_key};

/// A Usage of `of` by `by`, as old as its number.
fn entry(number: i64, of: &[&str], by: &[&str]) -> Entry {
    let keys = |names: &[&str]| names.iter().map(|it| key(it)).collect();
    Entry {
        family: Family::Usher,
        usage: usage_key(&format!("u{number}")),
        uid: Uid::new(format!("u-{number}")),
        created_at: Timestamp::from_millis(number),
        holds: true,
        of: keys(of),
        by: keys(by),
        reason: None,
        attempts: BTreeSet::new(),
    }
}

fn graph(entries: impl IntoIterator<Item = Entry>) -> Graph {
    let mut graph = Graph::default();
    for entry in entries {
        graph.put(entry);
    }
    graph
}

fn uids<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<&'a str> {
    entries.map(|it| it.uid.0.as_str()).collect()
}

fn older(than: &Entry) -> Through<'_> {
    Through::Older(than.created_at, &than.uid)
}

#[test]
fn an_entry_has_the_content_of_its_usage() {
    let it = usage(|it| it.status.attempts = vec![crate::usage::fixture::attempt("db-1")]);
    let expected = Entry {
        usage: usage_key("u"),
        uid: Uid::new("u-1"),
        created_at: START,
        attempts: [Uid::new("db-1")].into(),
        ..entry(1, &["db"], &["app"])
    };
    assert_eq!(Entry::of(&it), expected);
}

#[test]
fn what_was_put_is_found_replaced_and_taken_out() {
    let mut graph = graph([entry(1, &["a", "b"], &["x"]), entry(2, &["a"], &[])]);
    assert_eq!(uids(graph.holders(&key("a"))), ["u-1", "u-2"]);
    assert_eq!(uids(graph.holders_in("ns")), ["u-1", "u-2"]);
    graph.put(entry(1, &["c"], &["x"]));
    assert_eq!(uids(graph.holders(&key("a"))), ["u-2"]);
    assert_eq!(uids(graph.holders(&key("c"))), ["u-1"]);
    assert_eq!(graph.remove(&Uid::new("u-1")), Some(entry(1, &["c"], &["x"])));
    assert_eq!(graph.remove(&Uid::new("u-1")), None);
    graph.remove(&Uid::new("u-2"));
    assert!(graph.is_empty() && graph.by_target.is_empty() && graph.by_namespace.is_empty());
}

#[test]
fn only_the_version_does_not_distinguish_objects() {
    let graph = graph([entry(1, &["a"], &[])]);
    let held = |object: ObjectKey| graph.holders(&object).count() == 1;
    assert!(held(key("a")));
    assert!(!held(ObjectKey { namespace: "other".to_owned(), ..key("a") }));
    assert!(!held(ObjectKey { group: String::new(), ..key("a") }));
    assert!(!held(ObjectKey { kind: "Table".to_owned(), ..key("a") }));
}

// Requirement: G-20
#[test]
fn released_usages_and_those_of_crossplane_hold_nothing() {
    let over = Entry { holds: false, ..entry(1, &["a"], &[]) };
    let theirs = Entry { family: Family::Crossplane, ..entry(2, &["a"], &[]) };
    let graph = graph([over, theirs]);
    assert_eq!(uids(graph.blockers(&key("a"))), ["u-2"]);
    assert_eq!(graph.holders(&key("a")).count(), 0);
    assert_eq!(graph.holders_in("ns").count(), 0);
}

#[test]
fn a_chain_is_returned_nearest_first_and_ends() {
    let graph = graph([
        entry(1, &["a"], &["b"]),
        entry(2, &["b"], &["c"]),
        entry(3, &["b"], &[]),
        entry(4, &["c"], &["a"]),
    ]);
    let found: Vec<(String, usize)> = graph
        .chain(&key("a"))
        .into_iter()
        .map(|it| {
            let user = it.user.map_or("a reason".to_owned(), |it| it.name);
            (format!("{} by {user}", it.object.name), it.depth)
        })
        .collect();
    let expected = [("a by b", 0), ("b by c", 1), ("b by a reason", 1), ("c by a", 2)];
    assert_eq!(found, expected.map(|(text, depth)| (text.to_owned(), depth)));
}

#[test]
fn chains_are_bounded() {
    let name = |i: i64| format!("n{i}");
    let long = (0..100).map(|i| entry(i, &[&name(i)], &[&name(i + 1)]));
    assert_eq!(graph(long).chain(&key("n0")).len(), CHAIN_MAX);
    let wide = (0..1_000).map(|i| entry(i, &["a"], &[&name(i)]));
    assert_eq!(graph(wide).chain(&key("a")).len(), LINKS_MAX);
}

#[test]
fn a_circle_is_found_and_named() {
    let graph = graph([entry(1, &["b"], &["c"]), entry(2, &["c"], &["a"])]);
    let new = Uid::new("new");
    let circle_of =
        |of: &str, by: &[ObjectKey]| graph.circle((&[key(of)], by), Through::Others(&new));
    let circle = circle_of("a", &[key("b")]).unwrap();
    assert_eq!(circle, [key("b"), key("c"), key("a")]);
    let name = |it: &str| key(it).to_string();
    let text = [name("b"), name("c"), name("a"), name("b")].join(" → ");
    assert_eq!(shown(&circle), text);
    assert_eq!(circle_of("x", &[key("b")]), None);
    assert_eq!(circle_of("a", &[]), None);
    let own = Uid::new("u-2");
    let edited = graph.circle((&[key("a")], &[key("b")]), Through::Others(&own));
    assert_eq!(edited, None, "what it meant before does not count");
}

// Requirement: G-17
#[test]
fn of_a_circle_only_the_youngest_gives_way() {
    let members = [entry(1, &["a"], &["b"]), entry(2, &["b"], &["c"]), entry(3, &["c"], &["a"])];
    let graph = graph(members.clone());
    let gives_way = |it: &Entry| graph.circle((&it.of, &it.by), older(it)).is_some();
    assert_eq!(members.each_ref().map(gives_way), [false, false, true]);
}

proptest! {
    #[test]
    fn a_graph_is_the_same_whichever_way_it_came_about(
        steps in prop::collection::vec((0_i64..4, 0_usize..4, 0_usize..4, any::<bool>()), 0..24),
    ) {
        let names = ["a", "b", "c", "d"];
        let mut grown = Graph::default();
        let mut last: BTreeMap<i64, Entry> = BTreeMap::new();
        for (number, of, by, stays) in steps {
            let it = entry(number, &[names[of]], &[names[by]]);
            if stays {
                last.insert(number, it.clone());
                grown.put(it);
            } else {
                last.remove(&number);
                grown.remove(&it.uid);
            }
        }
        let fresh = graph(last.into_values());
        prop_assert_eq!(&grown.entries, &fresh.entries);
        prop_assert_eq!(&grown.by_target, &fresh.by_target);
        prop_assert_eq!(&grown.by_namespace, &fresh.by_namespace);
    }

    // Requirement: G-17
    #[test]
    fn without_those_that_give_way_no_circle_is_left(
        edges in prop::collection::vec((0_usize..5, 0_usize..5), 0..10),
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let edges = edges.iter().enumerate().filter(|(_, (of, by))| of != by);
        let entries: Vec<Entry> = edges
            .map(|(i, (of, by))| {
                entry(i64::try_from(i).unwrap(), &[names[*of]], &[names[*by]])
            })
            .collect();
        let whole = graph(entries.clone());
        let stays = |it: &&Entry| whole.circle((&it.of, &it.by), older(it)).is_none();
        let kept = graph(entries.iter().filter(stays).cloned());
        for it in kept.entries.values() {
            let circle = kept.circle((&it.of, &it.by), Through::Others(&it.uid));
            prop_assert_eq!(circle, None, "{:?}", it);
        }
    }
}
