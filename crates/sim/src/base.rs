//! What every world has: a clock, a seed's stream, faults, requests in flight, and a report.

use crate::clock::Tick;
use crate::coverage::Coverage;
use crate::fault::Mix;
use crate::injected_fault::InjectedFault;
use crate::rng::Rng;
use crate::sim_world::SimWorld;

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The rule that was broken.
    pub checker: &'static str,
    /// What happened.
    pub what: String,
}

/// What one seed decides in every world.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How many drivers there are.
    pub drivers: usize,
    /// The faults this run may meet.
    pub mix: Mix,
    /// The injected fault this run insists on, so that every verb meets every injected fault.
    pub target: (usize, InjectedFault),
    /// When faults end.
    pub faults_end: Tick,
}

/// What every world has.
pub struct Base<R: SimWorld> {
    /// The moment.
    pub tick: Tick,
    /// How far the database's clock has jumped ahead.
    pub skew: Tick,
    /// The stream of this seed.
    pub rng: Rng,
    /// What the seed decided.
    pub course: Course,
    /// The rule that is broken on purpose.
    pub breakage: Option<R::Breakage>,
    /// Requests that will arrive a second time.
    pub echoes: Vec<(Tick, R::Request)>,
    /// Whether the injected fault that this run insists on has happened.
    pub struck: bool,
    /// What this run met.
    pub coverage: Coverage,
    /// The first thing that went wrong.
    pub wrong: Option<Wrong>,
    /// The trace so far, if one is recorded.
    pub story: Option<Vec<String>>,
}

impl<R: SimWorld> Base<R> {
    /// Before anything has happened.
    pub fn new(rng: Rng, course: Course, breakage: Option<R::Breakage>, listen: bool) -> Self {
        Self {
            tick: 0,
            skew: 0,
            rng,
            course,
            breakage,
            echoes: vec![],
            struck: false,
            coverage: Coverage::default(),
            wrong: None,
            story: listen.then(Vec::new),
        }
    }

    /// Whether this run insists on this injected fault, here and now, once.
    pub fn wants(&mut self, pair: Option<usize>, injected: InjectedFault) -> bool {
        let wanted = !self.struck && pair.map(|it| (it, injected)) == Some(self.course.target);
        self.struck |= wanted;
        wanted
    }

    /// The requests that arrive a second time now.
    pub fn due_echoes(&mut self) -> Vec<R::Request> {
        let tick = self.tick;
        let (due, later) = std::mem::take(&mut self.echoes)
            .into_iter()
            .partition(|it: &(Tick, R::Request)| it.0 <= tick);
        self.echoes = later;
        due.into_iter().map(|it: (Tick, R::Request)| it.1).collect()
    }
}
