//! Runs the behaviours and sums up the findings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use usher_wire::fleet::{self, Keyring};

use super::area::{Area, Behaviour, Profile, list};
use super::launcher::{Launcher, Running};
use super::probe::{NotPassed, Outcome, Probe};
use super::{
    concurrency, durability, failure, fencing, lifecycle, listing, matrix, metadata, property,
    salvage, scale, shape,
};

/// The profiles that are run, in order; each has a candidate of its own.
const RUN_ORDER: [Profile; 5] =
    [Profile::Core, Profile::Fault, Profile::Salvage, Profile::Durable, Profile::Scale];

/// The provider under test.
#[derive(Clone, Debug)]
pub enum Target {
    /// A running provider.
    Address(String, Option<Arc<Keyring>>),
    /// A program to start for each profile.
    Program(Launcher),
}

/// What to exercise, and on which provider.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The provider under test.
    pub target: Target,
    /// The profiles to exercise.
    pub profiles: BTreeSet<Profile>,
    /// The seed of the random behaviours.
    pub seed: u64,
    /// Slots of a program in every profile but scale.
    pub seed_count: usize,
    /// Slots of a program in the scale profile.
    pub scale_seed_count: usize,
    /// How long the churn behaviour runs.
    pub soak: Duration,
    /// A temporary folder for the state of a program.
    pub scratch: PathBuf,
    /// Only this behaviour.
    pub only: Option<u16>,
}

/// How one behaviour ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Result {
    /// It holds.
    Passed,
    /// It does not.
    Failed(String),
    /// It was not exercised.
    Skipped(String),
}

/// A behaviour and how it ended.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The behaviour.
    pub behaviour: Behaviour,
    /// Its result.
    pub result: Result,
    /// Whether the profiles require it.
    pub required: bool,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Every required behaviour passed.
    Certified,
    /// A behaviour failed.
    Failed,
    /// A required behaviour was not exercised.
    Incomplete,
}

impl Certificate {
    /// The result of these findings.
    pub fn of(findings: &[Finding]) -> Self {
        let any = |is: fn(&Result) -> bool| findings.iter().any(|it| it.required && is(&it.result));
        if any(|it| matches!(it, Result::Failed(_))) {
            return Self::Failed;
        }
        let nothing = !findings.iter().any(|it| it.required);
        if nothing || any(|it| matches!(it, Result::Skipped(_))) {
            return Self::Incomplete;
        }
        Self::Certified
    }

    /// As printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certified => "CERTIFIED",
            Self::Failed => "FAILED",
            Self::Incomplete => "INCOMPLETE",
        }
    }
}

/// Runs every behaviour that the profiles require; calls `on_finding` after each.
pub async fn run(suite: &Suite, mut on_finding: impl FnMut(&Finding)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let asked = list().filter(|it| suite.requires(it));
    let asked: Vec<Behaviour> =
        asked.filter(|it| suite.only.is_none_or(|only| only == it.id)).collect();
    for profile in RUN_ORDER {
        let mine: Vec<Behaviour> =
            asked.iter().copied().filter(|it| it.profile == profile).collect();
        if mine.is_empty() {
            continue;
        }
        let mut opened = suite.open(profile).await;
        for behaviour in mine {
            let outcome = match &mut opened {
                Ok(open) => open.exercise(&behaviour, suite).await,
                Err(error) => Err(error.clone()),
            };
            let result = match outcome {
                Ok(()) => Result::Passed,
                Err(NotPassed::Failed(why)) => Result::Failed(why),
                Err(NotPassed::Skipped(why)) => Result::Skipped(why),
            };
            let finding = Finding { behaviour, result, required: true };
            on_finding(&finding);
            findings.push(finding);
        }
    }
    findings
}

/// A profile that is ready to run.
enum OpenProfile {
    /// With the program, if this suite started it.
    Live(
        Box<Probe>,
        #[expect(dead_code, reason = "it is killed when it is dropped")] Option<Box<Running>>,
    ),
    Restarted(Box<durability::Observed>),
}

impl Suite {
    fn requires(&self, behaviour: &Behaviour) -> bool {
        let has = |profile| self.profiles.contains(&profile);
        let wanted = has(behaviour.profile)
            || behaviour.id == 802 && has(Profile::Spot)
            || behaviour.deletes && behaviour.profile == Profile::Core && has(Profile::Cloud);
        wanted && !(behaviour.deletes && has(Profile::BareMetal))
    }

    async fn open(&self, profile: Profile) -> Outcome<OpenProfile> {
        let launcher = match (&self.target, profile) {
            (Target::Address(address, keyring), Profile::Core | Profile::Scale) => {
                return self.dial(address, keyring.as_ref(), profile);
            }
            (
                Target::Address(..),
                Profile::Cloud
                | Profile::BareMetal
                | Profile::Spot
                | Profile::Durable
                | Profile::Fault
                | Profile::Salvage,
            ) => {
                let why = "this profile starts the candidate itself: pass a program";
                return Err(NotPassed::Skipped(why.to_owned()));
            }
            (Target::Program(launcher), _) => launcher,
        };
        if profile == Profile::Durable {
            let state = self.scratch.join("durable.state");
            let before = durability::before(launcher, &state, self.seed).await?;
            let after = durability::after(launcher, &state, before).await?;
            return Ok(OpenProfile::Restarted(Box::new(after)));
        }
        let (count, more) = match profile {
            Profile::Scale => (self.scale_seed_count, Vec::new()),
            Profile::Fault | Profile::Salvage => {
                let seconds = failure::TRANSITION_TIMEOUT.as_secs();
                (self.seed_count, vec![format!("--transition-timeout={seconds}s")])
            }
            Profile::Core
            | Profile::Cloud
            | Profile::BareMetal
            | Profile::Spot
            | Profile::Durable => (self.seed_count, Vec::new()),
        };
        let started = launcher.start(count, None, &more).await;
        let running = started.map_err(|why| NotPassed::Failed(why.to_string()))?;
        let probe = durability::probe(&running.address, self.seed, profile.as_str())?;
        Ok(OpenProfile::Live(Box::new(probe), Some(Box::new(running))))
    }

    fn dial(
        &self,
        address: &str,
        keyring: Option<&Arc<Keyring>>,
        profile: Profile,
    ) -> Outcome<OpenProfile> {
        let channel = || {
            let channel = fleet::channel(address, keyring.cloned());
            channel.map_err(|why| NotPassed::Failed(why.to_string()))
        };
        let probe = Probe::new([channel()?, channel()?], self.seed, profile.as_str());
        Ok(OpenProfile::Live(Box::new(probe), None))
    }
}

impl OpenProfile {
    async fn exercise(&mut self, behaviour: &Behaviour, suite: &Suite) -> Outcome {
        let id = behaviour.id;
        let probe = match self {
            Self::Restarted(after) => return Box::pin(durability::run(id, after)).await,
            Self::Live(probe, _) => probe,
        };
        match behaviour.area {
            Area::Lifecycle => Box::pin(lifecycle::run(id, probe)).await,
            Area::Matrix => Box::pin(matrix::run(id, probe)).await,
            Area::Fencing => Box::pin(fencing::run(id, probe)).await,
            Area::Concurrency => Box::pin(concurrency::run(id, probe)).await,
            Area::Metadata => Box::pin(metadata::run(id, probe)).await,
            Area::Failure => Box::pin(failure::run(id, probe)).await,
            Area::Shape => Box::pin(shape::run(id, probe)).await,
            Area::Listing => Box::pin(listing::run(id, probe)).await,
            Area::Scale => Box::pin(scale::run(id, probe, suite.soak)).await,
            Area::Salvage => Box::pin(salvage::run(id, probe)).await,
            Area::Property => Box::pin(property::run(id, probe)).await,
            Area::Durability => Err(NotPassed::Skipped("the candidate was not killed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(result: Result) -> Finding {
        let behaviour = list().next().unwrap();
        Finding { behaviour, result, required: true }
    }

    // Requirement: PM-13
    #[test]
    fn skipped_behaviours_never_certify() {
        let passed = || finding(Result::Passed);
        let skipped = || finding(Result::Skipped("x".to_owned()));
        let failed = || finding(Result::Failed("x".to_owned()));
        assert_eq!(Certificate::of(&[]), Certificate::Incomplete);
        assert_eq!(Certificate::of(&[passed()]), Certificate::Certified);
        assert_eq!(Certificate::of(&[passed(), skipped()]), Certificate::Incomplete);
        assert_eq!(Certificate::of(&[failed(), skipped()]), Certificate::Failed);
    }
}
