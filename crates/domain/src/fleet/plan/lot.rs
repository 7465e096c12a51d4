//! What the index is made of: lots, shapes, ties and needs, all in numbers.

use std::collections::BTreeSet;

use super::demand::Trust;
use super::intern::Interner;
use crate::fleet::aggregate::Offering;
use crate::fleet::ident::ClusterId;
use crate::fleet::money::Price;
use crate::fleet::quantity::Quantity;
use crate::fleet::refusal::Refusal;

/// No lot.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The progress of a machine towards the need it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It is a node.
    Configured,
    /// It is joining.
    Joining,
    /// It is being made, is about to join, or is drained from another cluster first.
    Coming,
}

/// The place of a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// With a host, free to be bound.
    Idle,
    /// Without one, free to be made.
    Speculative,
    /// In transit to, or serving, the need with this tie.
    Serving {
        /// The number of the cluster and the need.
        tie: u32,
        /// How far.
        stage: Stage,
    },
}

/// Machines that are alike.
#[derive(Clone, Debug)]
pub(super) struct Lot {
    pub(super) shape: u32,
    pub(super) place: Place,
    pub(super) machines: Vec<u32>,
}

/// The place of one machine, and since which second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) lot: u32,
    pub(super) position: u32,
    pub(super) since: u32,
}

/// What a plan asks of an offer.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) amounts: Vec<(u32, Quantity)>,
    pub(super) price: Price,
    /// Whether machines of it may be given to a need.
    pub(super) is_read: bool,
    /// Whether it was ever read.
    pub(super) is_known: bool,
    pub(super) idle: u32,
    pub(super) speculative: u32,
    /// How many seconds it is kept idle.
    pub(super) window: Option<u32>,
}

/// What a plan asks of a binding.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    pub(super) cluster: u32,
    pub(super) lots: Vec<u32>,
}

/// The shapes that fit a profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// Those that can be read, the cheapest first; of equals, the one whose offer comes first.
    pub(super) by_cost: Vec<(f64, u32)>,
    shapes: BTreeSet<u32>,
}

/// A need, in numbers.
#[derive(Clone, Debug)]
pub(super) struct Wanting {
    pub(super) tie: u32,
    pub(super) profile: u32,
    pub(super) priority: i32,
    pub(super) amounts: Box<[(u32, Quantity)]>,
}

/// What is known of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) id: ClusterId,
    pub(super) trust: Trust,
    /// Its needs, the highest priority first.
    pub(super) needs: Vec<Wanting>,
    /// Rows of its roll-up that could not be read.
    pub(super) unread: Vec<Refusal>,
    /// How many machines are still bound to it and aimed at no need: they are being drained.
    pub(super) leaving: u32,
    /// The ties that machines have.
    pub(super) ties: BTreeSet<u32>,
}

impl Candidates {
    /// Whether machines of this shape can serve.
    pub(super) fn has(&self, shape: u32) -> bool {
        self.shapes.contains(&shape)
    }

    pub(super) fn insert(&mut self, cost: f64, shape: u32, offers: &Interner<Offering>) {
        let order = |it: &(f64, u32)| {
            it.0.total_cmp(&cost).then_with(|| offers.get(it.1).cmp(&offers.get(shape))).is_lt()
        };
        if offers.get(shape).is_some_and(Offering::is_read) {
            let at = self.by_cost.partition_point(order);
            self.by_cost.insert(at, (cost, shape));
        }
        self.shapes.insert(shape);
    }

    pub(super) fn remove(&mut self, shape: u32) {
        if self.shapes.remove(&shape) {
            self.by_cost.retain(|it| it.1 != shape);
        }
    }
}
