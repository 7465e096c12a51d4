//! What becomes of the cloud object when its Kubernetes object is deleted.

use crate::object::closed::closed_set;

closed_set! {
    /// The value of the annotation `usher.dev/deletion-policy`.
    "deletion policy" Policy {
        /// Delete what is identified; an orphan is held until an operator decides. The default.
        Hold = "hold",
        /// Delete what is identified; an orphan is released, and recorded.
        ReleaseWithRecord = "release-with-record",
        /// Do not touch the cloud object, whatever is known of it.
        Abandon = "abandon",
    }
}

/// Reads the annotation. A missing value is the default; an unreadable one is distinguished from
/// it, so that a misspelt `abandon` deletes nothing.
pub fn read(annotation: Option<&str>) -> Result<Policy, crate::object::closed::UnknownWord> {
    annotation.map_or(Ok(Policy::Hold), str::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: I-18
    #[test]
    fn no_word_is_the_default_and_an_unknown_word_is_none() {
        assert_eq!(read(None), Ok(Policy::Hold));
        for policy in Policy::ALL {
            assert_eq!(read(Some(policy.as_str())), Ok(*policy));
        }
        for word in ["", "Abandon", "abandon ", "delete", "none"] {
            assert!(read(Some(word)).is_err(), "{word}");
        }
    }
}
