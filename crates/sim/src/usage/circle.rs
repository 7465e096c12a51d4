//! Circles as the checkers see them, found without the product's graph.

use std::collections::BTreeSet;

use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::reference::{ObjectKey, Pick, Reference};

use crate::sim_world::SimWorld as _;
use crate::usage::check::Checker;
use crate::usage::outside::{Object, number};
use crate::usage::state::State;

impl State {
    /// Of a circle that came about by a race the youngest gives way.
    pub(crate) fn forgive_circles(&mut self) {
        let promising: BTreeSet<u64> = self.log.promises.keys().map(|it| it.0).collect();
        for place in promising {
            let Some(usage) = self.outside.by_uid(place).and_then(Object::usage) else { continue };
            let older = |it: &Usage| (it.created_at, &it.uid) < (usage.created_at, &usage.uid);
            if leads(&self.edges(older), usage.users(), usage.targets()) {
                self.forgive(place);
            }
        }
    }

    /// A declaration is let in.
    pub(crate) fn check_declared(&mut self, usage: &Usage) {
        let Ok(spec) = &usage.spec else { return };
        let promising = |it: &Usage| {
            let place = number(&it.uid);
            it.uid != usage.uid && self.log.promises.keys().any(|it| it.0 == place)
        };
        let by = spec.by.as_ref().map_or(vec![], named);
        if leads(&self.edges(promising), &by, &named(&spec.of)) {
            let what = format!("{} takes protection away from another", usage.key.name);
            self.wrong(Checker::CircleRefused, what);
        }
    }

    /// From what is used to who uses it, by these Usages.
    fn edges(&self, among: impl Fn(&Usage) -> bool) -> Vec<(ObjectKey, ObjectKey)> {
        let usages = self.outside.usages().filter(|it| it.status.phase.holds() && among(it));
        let edges = usages.flat_map(|it| {
            let users = it.users().to_vec();
            let of = it.targets().to_vec().into_iter();
            of.flat_map(move |of| users.clone().into_iter().map(move |by| (of.clone(), by)))
        });
        edges.collect()
    }
}

/// What a reference names.
pub(crate) fn named(reference: &Reference) -> Vec<ObjectKey> {
    match &reference.pick {
        Pick::Name(name) => vec![reference.key(name)],
        Pick::Match(_) => vec![],
    }
}

/// Whether a way along these edges leads from one of these to one of those.
fn leads(edges: &[(ObjectKey, ObjectKey)], from: &[ObjectKey], to: &[ObjectKey]) -> bool {
    let mut met: BTreeSet<&ObjectKey> = from.iter().collect();
    for _ in edges {
        let next: Vec<&ObjectKey> =
            edges.iter().filter(|it| met.contains(&it.0)).map(|it| &it.1).collect();
        met.extend(next);
    }
    to.iter().any(|it| met.contains(it))
}
