//! What goes with its owners, in graphs nobody drew by hand.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::ask;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Objects with owners among those before them, who dies first, and how.
#[derive(Debug, Clone)]
struct Estate {
    /// By object: its owners, and whether each waits for it.
    owners: Vec<Vec<(usize, bool)>>,
    dies: usize,
    policy: &'static str,
}

fn estates() -> impl Strategy<Value = Estate> {
    let links = (2_usize..9).prop_flat_map(|count| {
        let object = move |index: usize| {
            proptest::collection::btree_map(0..index.max(1), any::<bool>(), 0..3).prop_map(
                move |links| {
                    let earlier = links.into_iter().filter(|(owner, _)| *owner < index);
                    earlier.collect::<Vec<_>>()
                },
            )
        };
        let objects: Vec<_> = (0..count).map(object).collect();
        (objects, 0..count)
    });
    let policy = prop::sample::select(vec!["Background", "Foreground", "Orphan"]);
    (links, policy).prop_map(|((owners, dies), policy)| Estate { owners, dies, policy })
}

impl Estate {
    /// Who is left: an object goes when it has owners and all of them went.
    fn left(&self) -> BTreeSet<usize> {
        let mut gone = BTreeSet::from([self.dies]);
        if self.policy != "Orphan" {
            for (index, owners) in self.owners.iter().enumerate() {
                if !owners.is_empty() && owners.iter().all(|(owner, _)| gone.contains(owner)) {
                    gone.insert(index);
                }
            }
        }
        (0..self.owners.len()).filter(|index| !gone.contains(index)).collect()
    }
}

/// Makes an estate, lets one die, and tells who is left with which owners when all is quiet.
fn lived(estate: &Estate) -> Vec<(usize, BTreeSet<usize>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let client = server.client();
        let mut uids: Vec<String> = Vec::new();
        for (index, owners) in estate.owners.iter().enumerate() {
            let owners: Vec<Value> = owners
                .iter()
                .map(|(owner, blocks)| {
                    json!({
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": format!("o{owner}"),
                        "uid": uids[*owner],
                        "blockOwnerDeletion": blocks,
                    })
                })
                .collect();
            let body = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": format!("o{index}"), "ownerReferences": owners},
            });
            let (code, made) = ask(&client, "POST", MAPS, Some(&body)).await;
            assert_eq!(code, 201, "{made}");
            uids.push(made["metadata"]["uid"].as_str().expect("a uid").to_owned());
        }
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": estate.policy,
        });
        let path = format!("{MAPS}/o{}", estate.dies);
        ask(&client, "DELETE", &path, Some(&options)).await;
        tokio::time::sleep(Duration::from_hours(1)).await;
        let (_, list) = ask(&client, "GET", MAPS, None).await;
        let place =
            |uid: &Value| uids.iter().position(|known| Some(known.as_str()) == uid.as_str());
        let items = list["items"].as_array().expect("items").iter();
        items
            .map(|item| {
                let metadata = &item["metadata"];
                let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                let owners = owners.filter_map(|owner| place(&owner["uid"])).collect();
                (place(&metadata["uid"]).expect("one of ours"), owners)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn exactly_those_go_whose_owners_all_went(estate in estates()) {
        let found = lived(&estate);
        let left: BTreeSet<usize> = found.iter().map(|(index, _)| *index).collect();
        prop_assert_eq!(&left, &estate.left());
        for (index, owners) in found {
            let said = estate.owners[index].iter().map(|(owner, _)| *owner);
            let wanted: BTreeSet<usize> = said.filter(|owner| left.contains(owner)).collect();
            prop_assert_eq!(owners, wanted);
        }
    }
}
