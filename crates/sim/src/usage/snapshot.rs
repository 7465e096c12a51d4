//! What an adapter brings back from the simulated cluster: late, partly, or from somewhere else.

use std::collections::BTreeMap;

use usher_domain::object::authority::Authority;
use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::graph::{Entry, Graph, Through, shown};
use usher_domain::usage::reference::{ObjectKey, Reference};
use usher_domain::usage::selector::{Candidate, Candidates, resolve};
use usher_domain::usage::snapshot::{self, Found, Other, Probe, Reading, Snapshot};
use usher_domain::usage::stray;
use usher_kernel::{Record, Unknown};

use crate::clock::timestamp;
use crate::sim_world::SimWorld as _;
use crate::usage::admission::{Admitted, DeletionRequest};
use crate::usage::breakage::Breakage;
use crate::usage::execute::USHER;
use crate::usage::fault::Fault;
use crate::usage::outside::{Object, Outside, number, uid};
use crate::usage::state::State;

/// Added to a uid it makes one that no object has.
const UNUSED: u64 = 1_000_000;

/// What one read of the cluster sees.
struct Page {
    authority: Authority,
    guarded: bool,
    /// What is shown in the place of the existing objects.
    shown: Option<Vec<Object>>,
}

impl Page {
    fn objects<'a>(&'a self, outside: &'a Outside) -> &'a [Object] {
        self.shown.as_deref().unwrap_or(&outside.objects)
    }
}

impl State {
    /// Reads the cluster, or what answers in its place, and judges which answered. A page that is
    /// older than the beginning of the snapshot proves nothing.
    fn page(&mut self) -> Page {
        let tick = self.base.tick;
        if tick < self.outside.rebuilt_until {
            self.base.coverage.fault(Fault::Rebuilt);
            return Page { authority: Authority::Replaced, guarded: false, shown: Some(vec![]) };
        }
        if tick < self.outside.guarded_until {
            self.base.coverage.fault(Fault::Guarded);
            let shown = Some(self.behind_guard());
            return Page { authority: Authority::Pinned, guarded: true, shown };
        }
        if self.outside.replica.is_some()
            && self.injects(Fault::Lagging, 150)
            && let Some((revision, objects)) = self.outside.replica.clone()
        {
            let behind = revision < self.outside.revision;
            let trusted = self.is_broken(Breakage::TrustLagging);
            let authority =
                if behind && !trusted { Authority::Replaced } else { Authority::Pinned };
            return Page { authority, guarded: false, shown: Some(objects) };
        }
        Page { authority: Authority::Pinned, guarded: false, shown: None }
    }

    /// What is shown while the guard is tripped: some of the existing objects, and some made again
    /// under their names.
    fn behind_guard(&self) -> Vec<Object> {
        let shown = self.outside.objects.iter().filter_map(|it| {
            match (it.uid + self.outside.guarded_until.unsigned_abs()) % 4 {
                0 => Some(it.clone()),
                1 if it.body.is_none() => Some(Object { uid: it.uid + UNUSED, ..it.clone() }),
                _ => None,
            }
        });
        shown.collect()
    }

    /// Why this part of the snapshot is not answered.
    fn silence(&mut self) -> Option<Unknown> {
        if self.injects(Fault::Unreachable, 30) {
            return Some(Unknown::Unreachable);
        }
        self.injects(Fault::Forbidden, 20).then_some(Unknown::Forbidden)
    }

    /// One snapshot of everything that a Usage refers to.
    pub(crate) fn snapshot(&mut self, record: &Record<Usage>) -> Snapshot {
        let usage = &record.state;
        let page = self.page();
        let keys = snapshot::objects(usage, &record.name_ledger);
        let mut objects = BTreeMap::new();
        for key in keys {
            let reading = self.find(&page, &key);
            objects.insert(key, reading);
        }
        let of_candidates = self.candidates(&page, usage.spec.as_ref().ok().map(|it| &it.of));
        let by = usage.spec.as_ref().ok().and_then(|it| it.by.as_ref());
        let by_candidates = self.candidates(&page, by);
        let others = if self.injects(Fault::ListFails, 40) {
            Err(Unknown::Unreachable)
        } else {
            Ok(others(page.objects(&self.outside), usage))
        };
        let circle = match (&others, &of_candidates, &by_candidates) {
            (Ok(_), Ok(of), Ok(by)) => {
                Ok(circle(page.objects(&self.outside), usage, Candidates { of, by }))
            }
            (Err(why), _, _) | (_, Err(why), _) | (_, _, Err(why)) => Err(*why),
        };
        let probes = self.probe(usage, &objects, others.as_deref().unwrap_or(&[]));
        Snapshot {
            by: "cluster".to_owned(),
            at: self.now(),
            authority: page.authority,
            guard_tripped: page.guarded,
            of_candidates,
            by_candidates,
            consents: Ok(true),
            circle,
            objects,
            others,
            probes,
        }
    }

    fn find(&mut self, page: &Page, key: &ObjectKey) -> Reading<Found> {
        if let Some(why) = self.silence() {
            return Err(why);
        }
        if self.outside.is_removed(&key.kind, self.base.tick) {
            return Ok(Found::KindRemoved);
        }
        let object = page.objects(&self.outside).iter().find(|it| it.key == *key);
        Ok(object.map_or(Found::Absent, |it| {
            Found::Present(snapshot::Object {
                uid: uid(it.uid),
                mark: it.mark.clone(),
                deleting: it.deleting.is_some(),
                owners: it.owner_uids(),
                blocks: it.owners.iter().any(|it| it.blocks),
                revision: it.revision.to_string(),
            })
        }))
    }

    fn candidates(
        &mut self,
        page: &Page,
        reference: Option<&Reference>,
    ) -> Reading<Vec<Candidate>> {
        let Some(reference) = reference.filter(|it| it.is_selector()) else { return Ok(vec![]) };
        if let Some(why) = self.silence() {
            return Err(why);
        }
        if page.authority == Authority::Replaced {
            return Err(Unknown::Unreachable);
        }
        let all = self.is_broken(Breakage::SelectAnything);
        let listed = page
            .objects(&self.outside)
            .iter()
            .filter(|it| it.key.kind == reference.kind && it.key.namespace == reference.namespace);
        let candidates = listed.map(|it| {
            let app = if all { "ours" } else { it.app.as_str() };
            Candidate {
                name: it.key.name.clone(),
                created_at: timestamp(it.created),
                labels: [("app".to_owned(), app.to_owned())].into(),
                controller: it.owners.iter().find(|it| it.controller).map(|it| uid(it.uid)),
                deleting: it.deleting.is_some(),
            }
        });
        Ok(candidates.collect())
    }

    /// Tries the deletion of what is marked and not proven yet, without meaning it.
    fn probe(
        &mut self,
        usage: &Usage,
        objects: &BTreeMap<ObjectKey, Reading<Found>>,
        others: &[Other],
    ) -> BTreeMap<ObjectKey, Reading<Probe>> {
        let mut probes = BTreeMap::new();
        for (key, reading) in objects {
            let Ok(Found::Present(object)) = reading else { continue };
            if !snapshot::is_probed(usage, key, object, others) {
                continue;
            }
            let place = number(&object.uid);
            let propagation = Propagation::Background;
            let asked = DeletionRequest { requester: USHER, propagation, dry_run: true };
            let answer = match self.admit_deletion(place, asked) {
                Admitted::Unanswered => Err(Unknown::Unreachable),
                Admitted::Yes => Ok(Probe::Allowed),
                Admitted::No(denial) => {
                    let named = denial.blockers.iter().any(|it| it.uid == usage.uid);
                    if named || denial.more > 0 {
                        self.note_refused(number(&usage.uid), place);
                        Ok(Probe::Refused)
                    } else {
                        Ok(Probe::Allowed)
                    }
                }
            };
            probes.insert(key.clone(), answer);
        }
        probes
    }

    /// One snapshot of a marked object: its mark first, then its holders.
    pub(crate) fn observe_mark(&mut self, state: &stray::Marked) -> stray::Snapshot {
        let page = self.page();
        let silence = self.silence();
        let objects = page.objects(&self.outside);
        let object = objects.iter().find(|it| it.uid == number(&state.uid));
        let mark = object.and_then(|it| it.mark.clone());
        let mark = silence.map_or(Ok(mark), Err);
        let is_held = if self.injects(Fault::ListFails, 40) {
            Err(Unknown::Unreachable)
        } else {
            Ok(index(page.objects(&self.outside)).holders(&state.object).count() > 0)
        };
        let (authority, guard_tripped) = (page.authority, page.guarded);
        // Absence while the guard holds is no answer.
        let mark = if guard_tripped { Err(Unknown::GuardTripped) } else { mark };
        stray::Snapshot { authority, guard_tripped, mark, is_held }
    }
}

fn index(objects: &[Object]) -> Graph {
    let mut graph = Graph::default();
    for usage in objects.iter().filter_map(Object::usage) {
        graph.put(Entry::of(&usage));
    }
    graph
}

fn others(objects: &[Object], own: &Usage) -> Vec<Other> {
    let usages = objects.iter().filter_map(Object::usage).filter(|it| it.uid != own.uid);
    usages.map(|it| Other::of(&it)).collect()
}

fn circle(objects: &[Object], usage: &Usage, candidates: Candidates<'_>) -> Option<String> {
    let spec = usage.spec.as_ref().ok()?;
    let meant = resolve(usage, spec, candidates).ok()?;
    let by = meant.by.map(|it| it.found).unwrap_or_default();
    let older = Through::Older(usage.created_at, &usage.uid);
    let circle = index(objects).circle((&meant.of.found, &by), older)?;
    Some(shown(&circle))
}
