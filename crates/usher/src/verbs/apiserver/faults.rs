//! The file of faults: rules in TOML, of which the first that matches a request counts.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use usher_apiserver::{COLLECTOR, Fault, RequestKind};

const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The rules of a file.
#[derive(Debug)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    user: Option<Pattern>,
    verbs: Vec<&'static str>,
    resource: Pattern,
    subresource: Pattern,
    namespace: Pattern,
    name: Pattern,
    /// How often it still matches.
    left: Option<AtomicU64>,
    fault: Fault,
}

/// A text, the start of one, or any.
#[derive(Debug)]
enum Pattern {
    Any,
    Exact(String),
    Prefix(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    #[serde(default)]
    rule: Vec<DeclaredRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredRule {
    user: Option<String>,
    verb: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    times: Option<u64>,
    refuse: Option<u16>,
    retry_after_seconds: Option<u64>,
    lose_answer: Option<u16>,
    never_answer: Option<bool>,
    delay_ms: Option<u64>,
    read_behind: Option<u64>,
    end_watch_after: Option<usize>,
    break_watch_after: Option<usize>,
    delay_events_ms: Option<u64>,
}

/// Reads a file of rules; an error is one sentence.
pub(super) fn read(path: &Path) -> Result<Rules, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| format!("failed to read the faults in {shown}: {why}"))?;
    parse(&text).map_err(|why| format!("invalid faults in {shown}: {why}"))
}

fn parse(text: &str) -> Result<Rules, String> {
    let declared: Declared = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    if declared.rule.is_empty() {
        return Err("it has no [[rule]]".to_owned());
    }
    let rules =
        declared.rule.into_iter().zip(1..).map(|(declared, number)| {
            declared.check().map_err(|why| format!("rule {number}: {why}"))
        });
    Ok(Rules(rules.collect::<Result<_, _>>()?))
}

impl Rules {
    /// The fault of a request.
    pub(super) fn fault(&self, request: &RequestKind) -> Fault {
        let found = self.0.iter().find(|rule| rule.matches(request) && rule.take());
        found.map_or(Fault::None, |rule| rule.fault.clone())
    }
}

impl Rule {
    fn matches(&self, request: &RequestKind) -> bool {
        let by_user = match &self.user {
            Some(user) => user.fits(&request.user),
            None => request.user != COLLECTOR,
        };
        by_user
            && self.verbs.contains(&request.verb.as_str())
            && self.resource.fits(&request.resource)
            && self.subresource.fits(&request.subresource)
            && self.namespace.fits(&request.namespace)
            && self.name.fits(&request.name)
    }

    /// Counts a match; false if there were enough.
    fn take(&self) -> bool {
        self.left.as_ref().is_none_or(|left| {
            let less = |left: u64| left.checked_sub(1);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        })
    }
}

impl Pattern {
    fn of(text: Option<String>) -> Self {
        match text {
            None => Self::Any,
            Some(text) => match text.strip_suffix('*') {
                Some(start) => Self::Prefix(start.to_owned()),
                None => Self::Exact(text),
            },
        }
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => text == wanted,
            Self::Prefix(start) => text.starts_with(start.as_str()),
        }
    }
}

impl DeclaredRule {
    fn check(self) -> Result<Rule, String> {
        if self.times == Some(0) {
            return Err("times is 0, expected at least 1".to_owned());
        }
        if let Some(resource) = self.resource.as_ref().filter(|it| it.contains('/')) {
            return Err(format!(
                "resource \"{resource}\" has a slash, expected plural.group and subresource apart"
            ));
        }
        let fault = self.fault()?;
        let verbs = verbs_of(&fault, self.verb.as_deref())?;
        Ok(Rule {
            user: self.user.map(|user| Pattern::of(Some(user))),
            verbs,
            resource: Pattern::of(self.resource),
            subresource: Pattern::of(self.subresource),
            namespace: Pattern::of(self.namespace),
            name: Pattern::of(self.name),
            left: self.times.map(AtomicU64::new),
            fault,
        })
    }

    /// The one fault of the rule.
    fn fault(&self) -> Result<Fault, String> {
        let refuse = self.refuse.map(|code| match self.retry_after_seconds {
            Some(seconds) => Fault::RetryAfter { code, seconds },
            None => Fault::Refuse(code),
        });
        for (key, code) in [("refuse", self.refuse), ("lose_answer", self.lose_answer)] {
            if let Some(code) = code.filter(|code| !(400..600).contains(code)) {
                return Err(format!("{key} is {code}, expected a status from 400 to 599"));
            }
        }
        if self.retry_after_seconds.is_some() && refuse.is_none() {
            return Err("retry_after_seconds needs refuse".to_owned());
        }
        if self.never_answer == Some(false) {
            return Err("never_answer is false, expected true or no such key".to_owned());
        }
        let given: Vec<Fault> = [
            refuse,
            self.lose_answer.map(Fault::LoseAnswer),
            self.never_answer.map(|_| Fault::NeverAnswer),
            self.delay_ms.map(|ms| Fault::Delay(Duration::from_millis(ms))),
            self.read_behind.map(Fault::ReadBehind),
            self.end_watch_after.map(Fault::EndWatchAfter),
            self.break_watch_after.map(Fault::BreakWatchAfter),
            self.delay_events_ms.map(|ms| Fault::DelayEvents(Duration::from_millis(ms))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let [fault] = given.as_slice() else {
            return Err(format!(
                "it has {} faults, expected one of refuse, lose_answer, never_answer, delay_ms, \
                 read_behind, end_watch_after, break_watch_after, delay_events_ms",
                given.len()
            ));
        };
        Ok(fault.clone())
    }
}

/// The verbs that a rule matches: a fault that only a watch or a read can have is never counted for
/// another request.
fn verbs_of(fault: &Fault, given: Option<&str>) -> Result<Vec<&'static str>, String> {
    let possible: &[&'static str] = match fault {
        Fault::EndWatchAfter(_) | Fault::BreakWatchAfter(_) | Fault::DelayEvents(_) => &["watch"],
        Fault::ReadBehind(_) => &["get", "list"],
        Fault::None
        | Fault::Refuse(_)
        | Fault::RetryAfter { .. }
        | Fault::LoseAnswer(_)
        | Fault::NeverAnswer
        | Fault::Delay(_) => &VERBS,
    };
    let Some(given) = given else { return Ok(possible.to_vec()) };
    let found = possible.iter().copied().find(|verb| *verb == given);
    let known = possible.join(", ");
    found
        .map(|verb| vec![verb])
        .ok_or_else(|| format!("verb \"{given}\" does not fit, expected one of {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(user: &str, verb: &str, name: &str) -> RequestKind {
        RequestKind {
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: "widgets.example.com".to_owned(),
            subresource: "status".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    // Requirement: AK-66
    #[test]
    fn the_first_rule_that_matches_and_is_not_used_up_counts() {
        let rules = parse(
            "[[rule]]\nverb = \"update\"\nresource = \"widgets*\"\nsubresource = \"status\"\n\
             name = \"a*\"\ntimes = 2\nrefuse = 429\nretry_after_seconds = 3\n\
             [[rule]]\nuser = \"admin\"\nbreak_watch_after = 1\n\
             [[rule]]\ndelay_ms = 5\n",
        )
        .expect("rules");
        let delay = Fault::Delay(Duration::from_millis(5));
        let slow = Fault::RetryAfter { code: 429, seconds: 3 };
        let asked = [
            (("admin", "update", "ab"), &slow),
            (("admin", "update", "b"), &delay),
            (("x", "update", "a"), &slow),
            (("x", "update", "a"), &delay),
            (("admin", "watch", ""), &Fault::BreakWatchAfter(1)),
            (("x", "watch", ""), &delay),
            ((COLLECTOR, "delete", "a"), &Fault::None),
        ];
        for ((user, verb, name), wanted) in asked {
            assert_eq!(&rules.fault(&request(user, verb, name)), wanted, "{user} {verb} {name}");
        }
    }

    // Requirement: AK-66
    #[test]
    fn every_mistake_is_one_sentence() {
        let cases = [
            ("", "it has no [[rule]]"),
            ("[[rule]]\n", "rule 1: it has 0 faults, expected one of refuse"),
            ("[[rule]]\nrefuse = 500\ndelay_ms = 1\n", "rule 1: it has 2 faults"),
            ("[[rule]]\nrefuse = 200\n", "rule 1: refuse is 200, expected a status from 400"),
            ("[[rule]]\nrefuse = 70000\n", "line 2: invalid value"),
            ("[[rule]]\n\nverbs = 1\n", "line 3: unknown field `verbs`"),
            ("[[rule]\n", "line 1: "),
            ("[[rule]]\nretry_after_seconds = 1\ndelay_ms = 1\n", "rule 1: retry_after_seconds"),
            ("[[rule]]\nrefuse = 500\ntimes = 0\n", "rule 1: times is 0"),
            ("[[rule]]\nnever_answer = false\n", "rule 1: never_answer is false"),
            ("[[rule]]\nrefuse = 500\n[[rule]]\nverb = \"put\"\nrefuse = 500\n", "rule 2: verb"),
            ("[[rule]]\nverb = \"get\"\nend_watch_after = 1\n", "rule 1: verb \"get\" does not"),
            ("[[rule]]\nresource = \"a/status\"\nrefuse = 500\n", "rule 1: resource \"a/status\""),
        ];
        for (text, wanted) in cases {
            let why = parse(text).expect_err(text);
            assert!(why.starts_with(wanted) && !why.contains('\n'), "{text:?}: {why}");
        }
    }
}
