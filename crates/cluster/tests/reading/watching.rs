//! Watches: what wakes an item, and what is requested for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::client::Client;
use usher_cluster::kinds::Resource;
use usher_cluster::read::Cluster;
use usher_cluster::watches::{Hearing, Interest, Selection, Settings, TooBroad, Wake, Watches};
use usher_kernel::schedule::Jitter;

use crate::rig::{
    MAPS, WELLS, admin, count, define, done, grant, map, revoke, server, undefine, until, user,
    well,
};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// An item, and how often it was woken.
struct Item {
    count: Arc<AtomicUsize>,
    wake: Wake,
}

impl Item {
    fn new() -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&count);
        let wake: Wake = Arc::new(move || {
            theirs.fetch_add(1, Ordering::SeqCst);
        });
        Self { count, wake }
    }

    fn woken(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until it was woken so often in all.
    async fn reaches(&self, times: usize) {
        until(async || self.woken() >= times).await;
    }
}

fn maps() -> Resource {
    Resource::new("", "configmaps")
}

fn wells() -> Resource {
    Resource::new("deep.example", "wells")
}

fn object(name: &str) -> Selection {
    Selection::Object { namespace: "default".into(), name: name.into() }
}

async fn watching(client: Client) -> Watches {
    let cluster = Arc::new(Cluster::open(client).await.expect("a cluster"));
    let jitter = Arc::new(|| Jitter(u32::MAX / 2));
    Watches::start(cluster, Settings { jitter, ..Settings::default() })
}

async fn live(interest: &Interest) {
    until(async || interest.hearing() == Hearing::Live).await;
}

/// An interest whose watch is open; the item was woken once by that.
async fn followed(watches: &Watches, name: &str) -> (Item, Interest) {
    let item = Item::new();
    let interest = watches.interest(&maps(), object(name), &item.wake).expect("an interest");
    live(&interest).await;
    (item, interest)
}

async fn touch(server: &ApiServer, path: &str, value: usize) {
    done(server, ("PATCH", path), &json!({"metadata": {"labels": {"n": value.to_string()}}})).await;
}

/// Lets everything happen that is on its way.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

// Requirement: KA-11
#[tokio::test(start_paused = true)]
async fn an_event_wakes_the_items_interested_in_its_object_only() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let (first, _a) = followed(&watches, "a").await;
    first.reaches(1).await;
    let (second, _b) = followed(&watches, "a").await;
    let (other, _c) = followed(&watches, "b").await;
    let twice = Item::new();
    let _d = watches.interest(&maps(), object("a"), &twice.wake).expect("an interest");
    let _e = watches.interest(&maps(), Selection::Any, &twice.wake).expect("an interest");
    for (change, body) in [("POST", map("a")), ("PATCH", json!({"data": {"k": "v"}}))] {
        let path = if change == "POST" { MAPS.to_owned() } else { format!("{MAPS}/a") };
        done(&server, (change, &path), &body).await;
    }
    done(&server, ("DELETE", &format!("{MAPS}/a")), &Value::Null).await;
    settle().await;
    assert_eq!([first.woken(), second.woken(), twice.woken(), other.woken()], [4, 3, 3, 0]);
    assert_eq!(count(&server, "list", "configmaps"), 1, "one watch for all");
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    done(&server, ("POST", elsewhere), &map("a")).await;
    settle().await;
    assert_eq!([first.woken(), twice.woken()], [4, 4], "another object of that name");
}

// Requirement: KA-11
#[tokio::test(start_paused = true)]
async fn labels_are_compared_on_the_event() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let item = Item::new();
    let labels = [("team".to_owned(), "a".to_owned())].into_iter().collect();
    let selection = Selection::Labelled { namespace: Some("default".into()), labels };
    let interest = watches.interest(&maps(), selection, &item.wake).expect("an interest");
    live(&interest).await;
    item.reaches(1).await;
    for (name, team, space) in
        [("a", "a", "default"), ("b", "b", "default"), ("c", "a", "kube-system")]
    {
        let mut body = map(name);
        body["metadata"]["labels"] = json!({"team": team});
        done(&server, ("POST", &format!("/api/v1/namespaces/{space}/configmaps")), &body).await;
    }
    settle().await;
    assert_eq!(item.woken(), 2);
}

/// Red by: a poll, a list per renewal, or renewals that wake.
// Requirement: KA-12
#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_requested_but_renewals() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let (item, interest) = followed(&watches, "a").await;
    settle().await;
    let requests = || -> u64 {
        let counters = server.counters();
        counters.iter().filter(|(key, _)| key.verb != "watch").map(|(_, count)| count).sum()
    };
    let (before, opened) = (requests(), count(&server, "watch", "configmaps"));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!((requests(), item.woken()), (before, 1), "an hour at rest");
    let renewed = count(&server, "watch", "configmaps") - opened;
    assert!((10..=15).contains(&renewed), "{renewed} renewals in an hour");
    assert_eq!(interest.hearing(), Hearing::Live);
    done(&server, ("POST", MAPS), &map("a")).await;
    item.reaches(2).await;
}

/// Red by: a watch that outlives its last interest.
// Requirement: KA-12
#[tokio::test(start_paused = true)]
async fn the_last_interest_ends_the_watch() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let (_, one) = followed(&watches, "a").await;
    let (item, two) = followed(&watches, "b").await;
    drop(one);
    done(&server, ("POST", MAPS), &map("b")).await;
    item.reaches(1).await;
    let before = item.woken();
    drop(two);
    assert_eq!(watches.hearing().len(), 2, "definitions and services stay");
    settle().await;
    let opened = count(&server, "watch", "configmaps");
    touch(&server, &format!("{MAPS}/b"), 1).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(count(&server, "watch", "configmaps"), opened, "nothing is renewed");
    assert_eq!(item.woken(), before);
    let (again, _three) = followed(&watches, "b").await;
    again.reaches(1).await;
    drop(watches);
    let all = count(&server, "watch", "configmaps");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(count(&server, "watch", "configmaps"), all, "nor after the last of them");
}

// Requirement: KA-13
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_early_goes_on_where_it_was() {
    let server = server().await;
    server.set_faults(|asked| match asked.verb.as_str() {
        "watch" if asked.resource == "configmaps" => Fault::EndWatchAfter(1),
        _ => Fault::None,
    });
    let watches = watching(admin(&server)).await;
    let (item, _interest) = followed(&watches, "a").await;
    item.reaches(1).await;
    done(&server, ("POST", MAPS), &map("a")).await;
    for value in 1..20 {
        touch(&server, &format!("{MAPS}/a"), value).await;
    }
    item.reaches(21).await;
    settle().await;
    assert_eq!(item.woken(), 21, "each change once");
    let lists = count(&server, "list", "configmaps");
    assert!(lists <= 22, "{lists}: one asks each time whether the cluster is behind");
}

/// Red by: a watch that is resumed from a revision which the cluster has not reached again.
// Requirement: KA-13
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_restored_wakes_every_item_and_is_followed_from_where_it_is() {
    let server = server().await;
    let older = server.snapshot();
    let watches = watching(admin(&server)).await;
    let (item, _interest) = followed(&watches, "a").await;
    item.reaches(1).await;
    for name in ["b", "c", "d", "e"] {
        done(&server, ("POST", MAPS), &map(name)).await;
    }
    settle().await;
    server.rebuild(ApiServer::builder().snapshot(older)).await.expect("an older cluster");
    item.reaches(2).await;
    settle().await;
    done(&server, ("POST", MAPS), &map("a")).await;
    item.reaches(3).await;
}

/// Red by: a resumed watch that starts from now, or a 410 that wakes no item.
// Requirement: KA-13
#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_wakes_each_interested_item_once() {
    let server = server().await;
    let watches_seen = AtomicUsize::new(0);
    server.set_faults(move |asked| {
        if asked.verb != "watch" || asked.resource != "configmaps" || asked.user != "admin" {
            return Fault::None;
        }
        match watches_seen.fetch_add(1, Ordering::SeqCst) {
            0 => Fault::EndWatchAfter(1),
            1 => Fault::Delay(Duration::from_secs(5)),
            _ => Fault::None,
        }
    });
    let watches = watching(admin(&server)).await;
    let (first, _a) = followed(&watches, "a").await;
    let (second, _b) = followed(&watches, "b").await;
    let also = watches.interest(&maps(), Selection::Any, &second.wake).expect("an interest");
    first.reaches(1).await;
    let before = (first.woken(), second.woken());
    done(&server, ("POST", MAPS), &map("a")).await;
    first.reaches(before.0 + 1).await;
    done(&server, ("POST", MAPS), &map("b")).await;
    server.forget_history();
    let seen = second.woken();
    second.reaches(seen + 1).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((first.woken(), second.woken()), (before.0 + 2, seen + 1), "each once");
    assert_eq!(count(&server, "list", "configmaps"), 3);
    drop(also);
    touch(&server, &format!("{MAPS}/a"), 1).await;
    first.reaches(before.0 + 3).await;
}

// Requirement: KA-13
#[tokio::test(start_paused = true)]
async fn a_broken_watch_backs_off_and_wakes_its_items_when_it_is_back() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let (item, interest) = followed(&watches, "a").await;
    item.reaches(1).await;
    server.set_faults(|asked| match asked.resource.as_str() {
        "configmaps" => Fault::Refuse(503),
        _ => Fault::None,
    });
    until(async || interest.hearing() == Hearing::Interrupted).await;
    let tried = count(&server, "watch", "configmaps") + count(&server, "list", "configmaps");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let tried =
        count(&server, "watch", "configmaps") + count(&server, "list", "configmaps") - tried;
    assert!((10..=40).contains(&tried), "{tried} requests in an hour");
    assert_eq!(item.woken(), 2, "once, since it lasts");
    assert!(interest.hearing().needs_poll());
    server.clear_faults();
    live(&interest).await;
    item.reaches(3).await;
    done(&server, ("POST", MAPS), &map("a")).await;
    item.reaches(4).await;
}

// Requirement: KA-14
#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_kind_and_begins_again_with_it() {
    let server = server().await;
    define(&server).await;
    let watches = watching(admin(&server)).await;
    let item = Item::new();
    let interest = watches.interest(&wells(), object("a"), &item.wake).expect("an interest");
    live(&interest).await;
    done(&server, ("POST", WELLS), &well("a")).await;
    item.reaches(2).await;
    undefine(&server).await;
    until(async || interest.hearing() == Hearing::NotServed).await;
    settle().await;
    let seen = item.woken();
    assert!(seen >= 3, "its object and its kind went: {seen}");
    let requests = || {
        count(&server, "watch", "wells.deep.example")
            + count(&server, "list", "wells.deep.example")
            + count(&server, "list", "")
            + count(&server, "watch", "")
    };
    let before = requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!((requests(), item.woken()), (before, seen), "nothing is asked of it");
    assert!(!interest.hearing().needs_poll());
    define(&server).await;
    live(&interest).await;
    item.reaches(seen + 1).await;
    let seen = item.woken();
    done(&server, ("POST", WELLS), &well("a")).await;
    item.reaches(seen + 1).await;
}

// Requirement: KA-14
#[tokio::test(start_paused = true)]
async fn an_interest_in_a_kind_to_come_is_woken_by_it() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let item = Item::new();
    let interest = watches.interest(&wells(), object("a"), &item.wake).expect("an interest");
    until(async || interest.hearing() == Hearing::NotServed).await;
    item.reaches(1).await;
    define(&server).await;
    live(&interest).await;
    item.reaches(2).await;
}

// Requirement: KA-15
#[tokio::test(start_paused = true)]
async fn a_kind_without_a_right_is_deaf_until_it_is_given() {
    let server = server().await;
    for resource in [
        ("", "configmaps"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
    ] {
        grant(&server, "ann", resource).await;
    }
    let watches = watching(user(&server, "ann")).await;
    let (item, interest) = followed(&watches, "a").await;
    item.reaches(1).await;
    revoke(&server, "ann", "configmaps").await;
    until(async || interest.hearing() == Hearing::Deaf).await;
    item.reaches(2).await;
    assert!(interest.hearing().needs_poll());
    assert!(watches.hearing().contains(&(maps(), Hearing::Deaf)), "it is reported");
    let tried = || count(&server, "watch", "configmaps") + count(&server, "list", "configmaps");
    let before = tried();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let made = tried() - before;
    assert!((19..=21).contains(&made), "{made} attempts in ten minutes");
    assert_eq!(item.woken(), 2, "once");
    grant(&server, "ann", ("", "configmaps")).await;
    live(&interest).await;
    item.reaches(3).await;
    done(&server, ("POST", MAPS), &map("a")).await;
    item.reaches(4).await;
}

// Requirement: KA-16
#[tokio::test(start_paused = true)]
async fn secrets_are_watched_one_by_one() {
    let server = server().await;
    let secrets = Resource::new("", "secrets");
    let watches = watching(admin(&server)).await;
    let item = Item::new();
    let refused = watches.interest(&secrets, Selection::Any, &item.wake);
    assert!(matches!(refused, Err(TooBroad)));
    let one = watches.interest(&secrets, object("a"), &item.wake).expect("an interest");
    let other = Item::new();
    let two = watches.interest(&secrets, object("b"), &other.wake).expect("an interest");
    live(&one).await;
    live(&two).await;
    item.reaches(1).await;
    other.reaches(1).await;
    for name in ["a", "c"] {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        done(&server, ("POST", SECRETS), &body).await;
    }
    settle().await;
    assert_eq!((item.woken(), other.woken()), (2, 1));
    assert_eq!(watches.hearing().len(), 4);
}

/// Red by: an interest that is taken after its object is read.
// Requirement: KA-11
#[tokio::test(start_paused = true)]
async fn a_change_after_an_interest_was_taken_always_wakes() {
    let server = server().await;
    let watches = watching(admin(&server)).await;
    let (_, _kept) = followed(&watches, "kept").await;
    for round in 0..30 {
        let (item, name) = (Item::new(), format!("m{round}"));
        let interest = watches.interest(&maps(), object(&name), &item.wake).expect("an interest");
        done(&server, ("POST", MAPS), &map(&name)).await;
        item.reaches(1).await;
        drop(interest);
    }
    assert_eq!(count(&server, "list", "configmaps"), 1, "one watch all the time");
}
