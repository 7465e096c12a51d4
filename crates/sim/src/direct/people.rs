//! What people ask for, and what they do for those who wait for them.

use usher_domain::direct::phase::Phase;
use usher_domain::direct::reason::Reason;
use usher_domain::direct::reference::{Named, Reference};

use crate::clock::{INTERVAL, Tick};
use crate::direct::cloud::CloudObject;
use crate::direct::fault::Fault;
use crate::direct::model::Spec;
use crate::direct::outside::{HOLD, Parent};
use crate::direct::plan::Wishes;
use crate::direct::state::{NAMESPACE, State, Wanted};
use crate::sim_world::{SimWorld as _, under_way};

/// How many projects there are.
const PROJECTS: u64 = 2;
/// The configuration that some refer to.
pub const CONFIG: &str = "config";

impl State {
    /// The parents and containers that a seed's world starts with, and a neighbour that we must not
    /// touch.
    pub(crate) fn populate(&mut self) {
        for project in 0..PROJECTS {
            let external = format!("projects/p{project}");
            self.outside.cloud.containers.push(external.clone());
            self.add_parent(&parent_name(project), &external);
            self.add_neighbour(&external);
        }
        self.add_parent(CONFIG, "configs/c");
    }

    /// Puts an object of another owner into a project.
    pub fn add_neighbour(&mut self, project: &str) {
        let uid = self.outside.cloud.mint();
        self.neighbours.retain(|it| it.1 != project);
        self.neighbours.push((uid, project.to_owned()));
        self.outside.cloud.put(CloudObject {
            identity: format!("{project}/memberships/neighbour"),
            uid,
            etag: 1,
            mark: None,
            is: 0,
            made_by: None,
            created: 0,
            leaving: false,
        });
    }

    /// Puts an object into the cluster that others can refer to.
    pub fn add_parent(&mut self, name: &str, external: &str) {
        let uid = self.outside.mint();
        self.outside.parents.push(Parent {
            name: name.to_owned(),
            uid,
            external: external.to_owned(),
            unready_until: -1,
            gone_at: None,
            missing_until: -1,
        });
    }

    /// Grants the wishes of this moment.
    pub(crate) fn grant_wishes(&mut self) {
        let tick = self.base.tick;
        for wish in 0..self.wishes.len() {
            let wishes = self.wishes[wish].clone();
            if wishes.create_at <= tick && wishes.object.is_none() {
                let wanted = wanted(wish, &wishes);
                self.wishes[wish].object = Some(self.add(wanted));
                let same = |it: &Wishes| (it.project, it.member) == (wishes.project, wishes.member);
                if self.wishes.iter().filter(|it| it.object.is_some() && same(it)).count() > 1 {
                    self.met(Fault::SameIdentity);
                }
            }
            if let Some(uid) = self.wishes[wish].object
                && wishes.delete_at == Some(tick)
            {
                self.ask_to_go(uid);
            }
        }
        if !self.in_fault_phase() && tick % INTERVAL == 0 {
            self.lend_a_hand();
        }
        // While every record is reconciled again after the fault phase, people edit the specs.
        let calm = tick - self.base.course.faults_end;
        if (1..=3).contains(&calm) {
            for uid in self.outside.objects.iter().map(|it| it.uid).collect::<Vec<u64>>() {
                self.outside.change(uid, tick, |it| it.spec.wanted += 1);
            }
        }
    }

    /// Once the fault phase is over, people decide what waits for them.
    fn lend_a_hand(&mut self) {
        let tick = self.base.tick;
        let waiting: Vec<(u64, Reason)> = self
            .store
            .resources
            .iter()
            .filter(|it| it.entry.is_some() && it.record.state.phase() == Phase::Deleting)
            .filter_map(|it| Some((it.object, it.reason?)))
            .collect();
        for (uid, reason) in waiting {
            // The operator reads the cloud: what exists and is marked needs no help.
            let exists = self.outside.cloud.objects.iter().any(|it| it.made_by == Some(uid));
            let nameless = matches!(reason, Reason::Orphaned | Reason::IdentityMalformed);
            let open = matches!(reason, Reason::OwnershipAmbiguous | Reason::DeletionPolicyInvalid);
            if open || nameless && !exists {
                self.outside.change(uid, tick, |it| {
                    it.policy = Some("release-with-record".to_owned());
                });
                self.say(|_| format!("another client lets {uid} go with a record"));
            }
        }
    }

    /// Releases every hold and repairs what was broken on purpose.
    pub(crate) fn lift_holds(&mut self) {
        let tick = self.base.tick;
        for uid in self.outside.objects.iter().map(|it| it.uid).collect::<Vec<u64>>() {
            self.outside.change(uid, tick, |it| it.finalizers.retain(|it| it != HOLD));
        }
    }

    /// What is still in progress.
    pub(crate) fn on_its_way(&self) -> Vec<&'static str> {
        let tick: Tick = self.base.tick;
        let wished = self
            .wishes
            .iter()
            .any(|it| tick <= it.create_at || it.delete_at.is_some_and(|at| tick <= at));
        let requests = !self.base.echoes.is_empty();
        let unfinished = (0..self.store.resources.len()).any(|it| self.unfinished(it).is_some());
        let parents = self.outside.parents.iter().any(|it| it.gone_at.is_some());
        let operations = self
            .outside
            .cloud
            .operations
            .iter()
            .any(|it| it.progress == usher_domain::direct::operation::Progress::Running);
        under_way([
            (wished, "a wish"),
            (requests, "a request"),
            (unfinished, "a resource"),
            (parents, "a parent"),
            (operations, "an operation"),
        ])
    }
}

/// The name of the object that represents a project.
pub fn parent_name(project: u64) -> String {
    format!("project-{project}")
}

fn wanted(wish: usize, wishes: &Wishes) -> Wanted {
    let named = |name: String| Reference::Named(Named { namespace: NAMESPACE.to_owned(), name });
    let external = || format!("projects/p{}", wishes.project).parse().ok();
    let parent = external()
        .filter(|_| wishes.external)
        .map_or_else(|| named(parent_name(wishes.project)), Reference::External);
    let spec = Spec {
        parent,
        config: wishes.config.then(|| named(CONFIG.to_owned())),
        member: format!("m{}", wishes.member),
        wanted: 1,
    };
    Wanted { name: format!("object-{wish}"), spec, policy: wishes.policy.map(str::to_owned) }
}
