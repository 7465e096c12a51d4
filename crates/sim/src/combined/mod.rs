//! All worlds at once: a resource of the broker whose XR composes a machine of the fleet, a direct
//! resource in the cloud, and a Usage by which the direct resource holds the machine.
//!
//! Each world keeps its own outside, drivers, faults and checkers. [`couple`] joins them: a part of
//! the XR is an object that the Usages' admission guards, and it is removed when the record behind
//! it releases it.

pub mod beyond;
pub mod breakage;
pub mod couple;
pub mod scenario;
