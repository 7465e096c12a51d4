//! The phases of a direct resource.

use crate::object::closed::closed_set;

closed_set! {
    /// Where a direct resource is: the shadow of what was seen, not a program counter.
    "direct phase" Phase {
        /// Accepted; nothing was created for it.
        Pending = "Pending",
        /// Its identity is on record and its cloud object is being made.
        Creating = "Creating",
        /// The cloud object is as declared.
        Ready = "Ready",
        /// Deletion was requested.
        Deleting = "Deleting",
        /// It was released; sticky. What a late request creates is deleted for a while.
        Deleted = "Deleted",
    }
}
