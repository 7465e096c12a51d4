//! What people ask for: objects, Usages, deletions, and second thoughts.

use usher_domain::object::manifest::Scope;
use usher_domain::usage::accept::Surroundings;
use usher_domain::usage::admit::{Declaration, Request};
use usher_domain::usage::aggregate::{Spec, Status};
use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::reference::{
    ObjectKey, Operator, Pick, Reference, Requirement, Selector, UsageKey, UsageKind,
};
use usher_kernel::{NameLedger, Trouble};

use crate::sim_world::SimWorld as _;
use crate::usage::admission::{Admitted, DeletionRequest};
use crate::usage::breakage::Breakage;
use crate::usage::outside::{Body, GROUP, Object, Owner, USAGES, key, number, object};
use crate::usage::plan::{Belongs, Declared, Refer, Thing};
use crate::usage::state::State;

/// Who people are.
pub const PERSON: &str = "jane";

impl Thing {
    /// Its kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Database(_) => "Database",
            Self::App(_) => "App",
            Self::Group => "Group",
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Database(number) => format!("d{number}"),
            Self::App(number) => format!("a{number}"),
            Self::Group => "g".to_owned(),
        }
    }

    /// What it is called.
    pub fn key(self) -> ObjectKey {
        key(self.kind(), &self.name())
    }
}

impl Refer {
    fn reference(self) -> Reference {
        let (thing, pick) = match self {
            Self::Name(thing) => (thing, Pick::Name(thing.name())),
            Self::Label(thing, selection) => {
                let values = vec!["ours".to_owned()];
                let key = "app".parse();
                let labels = key.map(|key| Requirement { key, operator: Operator::In, values });
                let labels = labels.into_iter().collect();
                (thing, Pick::Match(Selector { labels, controller: false, selection }))
            }
        };
        Reference {
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            kind: thing.kind().to_owned(),
            namespace: "ns".to_owned(),
            pick,
        }
    }
}

impl State {
    /// Adds an object; nothing if that is not possible now.
    pub fn add(&mut self, new: Object) -> Option<u64> {
        if self.outside.is_removed(&new.key.kind, self.base.tick) {
            return None;
        }
        let added = self.outside.create(new);
        if let Some(number) = added {
            self.publish_if_usage(number);
            let key = self.outside.by_uid(number).map(|it| it.key.clone());
            self.say(|_| format!("{} is created with uid {number}", shown(key.as_ref())));
        }
        added
    }

    /// Requests the deletion of the object of this name.
    pub fn ask_to_go(&mut self, key: &ObjectKey, propagation: Propagation) -> Result<(), Trouble> {
        let Some(number) = self.outside.under(key).map(|it| it.uid) else { return Ok(()) };
        let asked = DeletionRequest { requester: PERSON, propagation, dry_run: false };
        self.delete(number, asked)
    }

    /// Whether no object of this name exists.
    pub fn is_gone(&self, key: &ObjectKey) -> bool {
        self.outside.under(key).is_none()
    }

    /// Declares a Usage, if admission lets it in.
    pub fn declare(&mut self, name: &str, body: Spec, (kind, owners): (UsageKind, Vec<Owner>)) {
        let namespace = match kind {
            UsageKind::Usage => "ns",
            UsageKind::ClusterUsage => "",
        };
        let usage_key = UsageKey { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let key = ObjectKey {
            group: USAGES.to_owned(),
            kind: kind.to_string(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let body = Body {
            key: usage_key,
            spec: Ok(body),
            finalizer: false,
            status: Status::default(),
            name_ledger: NameLedger::default(),
        };
        let mut new = object(key, "", self.base.tick);
        (new.body, new.owners) = (Some(body), owners);
        if self.admits_declaration(&new, None) {
            self.add(new);
        }
    }

    fn admits_declaration(&mut self, new: &Object, before: Option<&Object>) -> bool {
        let Some(usage) = new.usage() else { return false };
        let before = before.and_then(Object::usage);
        let around = Surroundings {
            of: Some(Scope::Namespaced),
            by: Some(Scope::Namespaced),
            consents: true,
        };
        let unexamined = before.is_some() && self.is_broken(Breakage::EditUnexamined);
        let unchanged = before.as_ref().is_some_and(|it| it.spec == usage.spec);
        let declared = usage.clone();
        let request = Request::Declare(Box::new(Declaration { usage, before, around }));
        let admitted = if unexamined { Admitted::Yes } else { self.admit(&request) };
        match admitted {
            Admitted::Yes => {
                if !unchanged {
                    self.check_declared(&declared);
                }
                true
            }
            Admitted::No(denial) => {
                self.say(|_| format!("a declaration is refused: {}", denial.refusal));
                false
            }
            Admitted::Unanswered => false,
        }
    }

    /// Everything that people planned for this moment.
    pub(crate) fn wish(&mut self) {
        let tick = self.base.tick;
        for place in 0..self.plan.wanted.len() {
            let it = self.plan.wanted[place];
            if it.at == Some(tick) {
                let owner = self.outside.under(&Thing::Group.key()).map(|it| it.uid);
                let belongs = it.owned.zip(owner);
                let mut new = object(it.thing.key(), "ours", tick);
                new.hold_lease = it.hold_lease;
                new.owners = belongs
                    .map(|(blocks, uid)| Owner { uid, controller: true, blocks })
                    .into_iter()
                    .collect();
                self.add(new);
            }
            if let Some((at, propagation)) = it.delete_at
                && at == tick
            {
                let asked = self.ask_to_go(&it.thing.key(), propagation);
                self.say(|_| format!("another client deletes {:?}: {asked:?}", it.thing));
            }
        }
        for place in 0..self.plan.declared.len() {
            self.wish_usage(place);
        }
        if let Some((at, thing)) = self.plan.broken_out
            && at == tick
            && let Some(number) = self.outside.under(&thing.key()).map(|it| it.uid)
        {
            self.write(number, |it| it.note = Some("fire".to_owned()));
            let _ = self.ask_to_go(&thing.key(), Propagation::Background);
        }
    }

    fn wish_usage(&mut self, place: usize) {
        let tick = self.base.tick;
        let it = self.plan.declared[place];
        let name = format!("u{place}");
        if it.at == tick {
            self.declare_planned(&name, it);
        }
        if let Some((at, to)) = it.edit
            && at <= tick
            && self.usage_named(&name).is_some()
        {
            self.plan.declared[place].edit = None;
            self.edit(&name, to);
        }
        if it.delete_at == Some(tick)
            && let Some(key) = self.usage_named(&name)
        {
            let _ = self.ask_to_go(&key, Propagation::Background);
            self.say(|_| format!("another client deletes {name}"));
        }
    }

    /// The key of the Usage of this name, if one exists.
    pub(crate) fn usage_named(&self, name: &str) -> Option<ObjectKey> {
        let mut objects = self.outside.objects.iter();
        objects.find(|it| it.body.is_some() && it.key.name == name).map(|it| it.key.clone())
    }

    /// Declares a Usage as planned. Its owners are those that exist.
    pub(crate) fn declare_planned(&mut self, name: &str, it: Declared) {
        let owner = match (it.belongs, it.by) {
            (Belongs::User, Some(Refer::Name(thing) | Refer::Label(thing, _))) => Some(thing),
            (Belongs::Group, _) => Some(Thing::Group),
            (Belongs::None, _) | (Belongs::User, None) => None,
        };
        let owner = owner.and_then(|it| self.outside.under(&it.key())).map(|it| it.uid);
        let owners = owner.map(|uid| Owner { uid, controller: true, blocks: true });
        let spec = spec(it);
        self.declare(name, spec, (it.kind, owners.into_iter().collect()));
    }

    /// A Usage refers to something else.
    pub(crate) fn edit(&mut self, name: &str, to: Refer) {
        let Some(key) = self.usage_named(name) else { return };
        let Some(before) = self.outside.under(&key).cloned() else { return };
        let mut after = before.clone();
        if let Some(Ok(spec)) = after.body.as_mut().map(|it| &mut it.spec) {
            spec.of = to.reference();
        }
        if before.deleting.is_some() || !self.admits_declaration(&after, Some(&before)) {
            return;
        }
        self.forgive(before.uid);
        self.write(before.uid, |it| it.body = after.body);
        self.say(|_| format!("{name} refers to {to:?}"));
    }

    /// After the fault phase, the deletion of every user is requested, and of Usages that would
    /// stay for good.
    pub(crate) fn tear_down(&mut self) {
        let tick = self.base.tick;
        if !self.plan.teardown || tick < self.base.course.faults_end || tick % 20 != 0 {
            return;
        }
        let index = self.live_index();
        let waits = |it: &Object| {
            let promised = self.log.owed.contains_key(&it.uid) || self.is_pending(it.uid);
            self.asked.contains(&it.uid) && (promised || index.holders(&it.key).count() > 0)
        };
        let asked = |it: &Object| it.deleting.is_none() && !waits(it);
        let going: Vec<(u64, ObjectKey)> = self
            .outside
            .objects
            .iter()
            .filter(|it| asked(it))
            .map(|it| (it.uid, it.key.clone()))
            .collect();
        for (number, key) in going {
            let propagation = if number.is_multiple_of(2) {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            // What was denied is left to the Usage that denied it.
            let denied = match self.ask_to_go(&key, propagation) {
                Ok(()) => true,
                Err(Trouble::Blocked { what }) => what == "admission",
                Err(_) => false,
            };
            if denied {
                self.asked.insert(number);
            }
        }
    }
}

impl State {
    /// Whether a denied deletion of this object is about to be recorded.
    fn is_pending(&self, place: u64) -> bool {
        self.pending.iter().any(|it| number(&it.attempt.uid) == place)
    }
}

/// What a planned Usage declares.
pub(crate) fn spec(it: Declared) -> Spec {
    Spec {
        of: it.of.reference(),
        by: it.by.map(Refer::reference),
        reason: it.by.is_none().then(|| "production".to_owned()),
        resolve: it.resolve,
        replay: it.replay,
    }
}

fn shown(key: Option<&ObjectKey>) -> String {
    key.map_or_else(String::new, ToString::to_string)
}
