//! Whether a place is still occupied: nothing is torn down under a record, or under its tombstone.

use thiserror::Error;
use usher_kernel::coded;

/// What a project or a namespace still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Rows that are not deleted.
    pub rows: u64,
    /// Deleted records whose names are still watched.
    pub tombstones: u64,
}

coded! {
    /// The place is still lived in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum Occupied {
        /// Records exist here.
        #[error("{0} resources still exist here")]
        Rows(u64) = "resources_live",
        /// Only tombstones do.
        #[error("{0} tombstones still exist here")]
        Tombstones(u64) = "tombstones_live",
    }
}

impl Occupancy {
    /// Agrees to a termination only when no record exists here.
    pub const fn vacate(self) -> Result<(), Occupied> {
        if self.rows > 0 {
            return Err(Occupied::Rows(self.rows));
        }
        if self.tombstones > 0 {
            return Err(Occupied::Tombstones(self.tombstones));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: A-20
    #[test]
    fn one_row_or_one_tombstone_is_enough_to_stay() {
        assert_eq!(Occupancy::default().vacate(), Ok(()));
        let rows = Occupancy { rows: 1, tombstones: 1 }.vacate().unwrap_err();
        assert_eq!(rows, Occupied::Rows(1));
        assert_eq!(rows.code(), "resources_live");
        assert_eq!(rows.to_string(), "1 resources still exist here");
        let tombstones = Occupancy { rows: 0, tombstones: 1 }.vacate().unwrap_err();
        assert_eq!(tombstones, Occupied::Tombstones(1));
        assert_eq!(tombstones.code(), "tombstones_live");
    }
}
