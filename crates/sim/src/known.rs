//! What the product is known not to do yet, so that everything else can be held against it.
//!
//! Each switch is `true` once the product does its part; until then the seeds beside it go wrong
//! with `true`.

/// Whether empty reads are shown to a life that is being shown out, too.
///
/// The product believes absence as soon as deletion or a new generation was asked for, also behind
/// a tripped rail and before it asked anything to go: it tells `Deleted` of what stands (seeds 227,
/// 278, 279), or begins the next generation beside it (seeds 518, 635).
pub const RAIL_HOLDS_FOR_LEAVING: bool = false;

/// Whether everything composed must be on record with its uid when all is quiet.
///
/// A look that misses a composed object, or comes from another cluster, uses up its wake-up: in
/// `Ready` and `Failed` the product then rests until the next change (seed 12072).
pub const BLIND_LOOKS_ARE_REPEATED: bool = false;
