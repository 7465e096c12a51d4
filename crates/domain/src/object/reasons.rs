//! Reasons: each variant stands beside its sentence, its severity and its page of the runbook.

use super::closed::closed_set;

closed_set! {
    /// How much a reason asks of an operator.
    "severity" Severity {
        /// Progress or rest: nothing is to be done.
        Info = "Info",
        /// It goes on by itself once something outside changes; worth a look if it lasts.
        Warning = "Warning",
        /// It does not go on before an operator acts.
        Critical = "Critical",
    }
}

/// What a reason means and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What causes it.
    pub cause: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// The page of a reason in the runbook. Words in braces stand for facts of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How much it asks of an operator.
    pub severity: Severity,
    /// What holds, in one sentence.
    pub sentence: &'static str,
    /// What it means and what to do, if anything should be done.
    pub advice: Option<Advice>,
}

/// Declares the closed set of a context's reasons, each with its page.
macro_rules! reasons {
    (
        $(#[$doc:meta])*
        $set:literal $name:ident {
            $($variant:ident: $severity:ident $sentence:literal
                $(=> $cause:expr, $remedy:expr)?;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[doc = $sentence] $variant,)+
        }

        $crate::object::closed::closed_words! {
            $set $name { $($variant = stringify!($variant),)+ }
        }

        impl $name {
            /// Its page of the runbook.
            pub const fn page(self) -> $crate::object::reasons::Page {
                match self {
                    $(Self::$variant => $crate::object::reasons::reasons! {
                        @page $severity $sentence $(=> $cause, $remedy)?
                    },)+
                }
            }
        }
    };
    (@page $severity:ident $sentence:literal) => {
        $crate::object::reasons::Page {
            severity: $crate::object::reasons::Severity::$severity,
            sentence: $sentence,
            advice: None,
        }
    };
    (@page $severity:ident $sentence:literal => $cause:expr, $remedy:expr) => {
        $crate::object::reasons::Page {
            severity: $crate::object::reasons::Severity::$severity,
            sentence: $sentence,
            advice: Some($crate::object::reasons::Advice { cause: $cause, remedy: $remedy }),
        }
    };
}

pub(crate) use reasons;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{provider_config, tombstone};
    use crate::usage::stray;
    use crate::{broker, direct, fleet, usage};

    /// The reasons of a context with their pages.
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
}
