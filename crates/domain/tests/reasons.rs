//! Every reason of every context has its page of the runbook.

use usher_domain::broker::{self, provider_config, tombstone};
use usher_domain::object::reasons::{Page, Severity};
use usher_domain::usage::{self, stray};
use usher_domain::{direct, fleet};

macro_rules! pages {
    ($($name:ty),+) => {
        [$(<$name>::ALL.iter().map(|it| (it.as_str(), it.page())).collect(),)+]
    };
}

// Requirement: T-35
#[test]
fn every_reason_has_a_page_that_says_what_to_do() {
    let contexts: [Vec<(&str, Page)>; 7] = pages![
        broker::reason::Reason,
        provider_config::Reason,
        tombstone::Reason,
        usage::reason::Reason,
        stray::Reason,
        direct::reason::Reason,
        fleet::reason::Reason
    ];
    for (reason, page) in contexts.into_iter().flatten() {
        assert!(!page.sentence.is_empty(), "{reason}");
        assert!(page.severity == Severity::Info || page.advice.is_some(), "{reason}");
        for text in page.advice.iter().flat_map(|it| [it.cause, it.remedy]) {
            assert!(!text.is_empty() && !text.ends_with('.'), "{reason}: {text}");
        }
    }
}
