//! The cloud: named objects in containers, operations that take their time, a memory for requests.

use std::collections::BTreeMap;

use usher_domain::direct::mark::{Mark, RequestId};
use usher_domain::direct::operation::{Operation, Progress};
use usher_domain::direct::snapshot::Found;
use usher_kernel::Uid;

use crate::clock::Tick;

/// How long a cloud remembers the answer to a request.
pub const MEMORY: Tick = 90;

/// A cloud object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudObject {
    /// What it is called: its container comes first.
    pub identity: String,
    /// Its uid.
    pub uid: u64,
    /// Its revision.
    pub etag: u64,
    /// Our mark, or another's.
    pub mark: Option<Mark>,
    /// How it is.
    pub is: u64,
    /// The object whose record made it; none if another owner did.
    pub made_by: Option<u64>,
    /// When it came.
    pub created: Tick,
    /// Whether it is being deleted.
    pub leaving: bool,
}

/// What an operation does when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Something appears.
    Create(CloudObject),
    /// Nothing more: it is there already.
    Settle,
    /// The object with this uid is removed.
    Delete(u64),
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name.
    pub name: u64,
    /// What it is about.
    pub identity: String,
    /// What it does in the end.
    pub work: Work,
    /// When it ends.
    pub ends_at: Tick,
    /// Whether it ends badly.
    pub fails: bool,
    /// How far it has come.
    pub progress: Progress,
}

/// The cloud.
#[derive(Clone, Debug, Default)]
pub struct Cloud {
    /// Every object.
    pub objects: Vec<CloudObject>,
    /// Every operation, the oldest first.
    pub operations: Vec<Running>,
    /// The existing containers.
    pub containers: Vec<String>,
    /// The requests whose answers are remembered.
    pub requests: BTreeMap<RequestId, Tick>,
    /// Grows with every change.
    pub revision: u64,
    /// An old state of everything, for reads that lag.
    pub replica: Option<(u64, Vec<CloudObject>, Vec<Running>)>,
    next: u64,
}

impl Cloud {
    /// A number that nothing here has.
    pub fn mint(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Something changed.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    /// The cloud object with an identity.
    pub fn find(&self, identity: &str) -> Option<&CloudObject> {
        self.objects.iter().find(|it| it.identity == identity)
    }

    /// Whether an operation on an identity runs.
    pub fn is_busy(&self, identity: &str) -> bool {
        let mut operations = self.operations.iter();
        operations.any(|it| it.identity == identity && it.progress == Progress::Running)
    }

    /// Puts an object under a free name.
    pub fn put(&mut self, object: CloudObject) {
        if self.find(&object.identity).is_none() {
            self.objects.push(object);
            self.touch();
        }
    }

    /// Puts each of these under its name, where that is free.
    pub fn extend(&mut self, objects: impl IntoIterator<Item = CloudObject>) {
        for object in objects {
            self.put(object);
        }
    }

    /// Takes the object with this uid away.
    pub fn take(&mut self, uid: u64) {
        self.objects.retain(|it| it.uid != uid);
        self.touch();
    }

    /// Changes the object with this uid, in a new revision.
    pub fn change(&mut self, uid: u64, change: impl FnOnce(&mut CloudObject)) {
        if let Some(it) = self.objects.iter_mut().find(|it| it.uid == uid) {
            change(it);
            it.etag += 1;
            self.touch();
        }
    }

    /// A container is removed, with everything in it.
    pub fn delete_container(&mut self, container: &str) {
        self.containers.retain(|it| it != container);
        let inside = format!("{container}/");
        self.objects.retain(|it| !it.identity.starts_with(&inside));
        let end = |it: &mut Running| {
            if it.identity.starts_with(&inside) && it.progress == Progress::Running {
                it.progress = Progress::Failed;
            }
        };
        self.operations.iter_mut().for_each(end);
        self.touch();
    }

    /// Operations that end now do their work.
    pub fn go_on(&mut self, tick: Tick) {
        let due: Vec<usize> = (0..self.operations.len())
            .filter(|i| {
                let it = &self.operations[*i];
                it.progress == Progress::Running && it.ends_at <= tick
            })
            .collect();
        for i in due {
            let it = self.operations[i].clone();
            self.operations[i].progress = if it.fails { Progress::Failed } else { Progress::Done };
            match it.work {
                Work::Create(object) if !it.fails => {
                    self.put(CloudObject { created: tick, ..object });
                }
                Work::Delete(uid) if it.fails => self.change(uid, |it| it.leaving = false),
                Work::Delete(uid) => self.take(uid),
                Work::Create(_) | Work::Settle => {}
            }
            self.touch();
        }
        self.requests.retain(|_, until| tick < *until);
    }
}

impl Running {
    /// What a listing says of it.
    pub fn listed(&self) -> Operation {
        Operation { name: format!("op-{}", self.name), progress: self.progress }
    }
}

impl CloudObject {
    /// What a read of it brings back, if it is declared like this.
    pub fn seen(&self, wanted: Option<u64>) -> Found {
        Found {
            uid: cloud_uid(self.uid),
            etag: Some(self.etag.to_string()),
            mark: self.mark.clone(),
            drifted: wanted.is_some_and(|wanted| wanted != self.is),
            leaving: self.leaving,
        }
    }
}

/// The container of an identity: its first two segments.
pub fn container(identity: &str) -> String {
    identity.split('/').take(2).collect::<Vec<_>>().join("/")
}

/// What the cloud calls one of its objects.
pub fn cloud_uid(number: u64) -> Uid {
    Uid(format!("c-{number}"))
}
