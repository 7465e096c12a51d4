//! Reasons: each variant is declared with its sentence, its severity and its page of the runbook.

use super::closed::closed_set;

closed_set! {
    /// How much a reason asks of an operator.
    "severity" Severity {
        /// In progress or idle: no action is needed.
        Info = "Info",
        /// It continues by itself once something outside changes; worth checking if it lasts.
        Warning = "Warning",
        /// It does not continue before an operator acts.
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

/// The page of a reason in the runbook. Words in braces are replaced by facts of the object.
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
