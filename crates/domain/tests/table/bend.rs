//! Breaks copies of a table and expects the walk to report each: a check must be able to fail.
//!
//! Every row is changed in each field, deleted and doubled, and every box of it is widened in each
//! fact that it narrows. The walk then visits only the cells in question, up to the first wrong
//! one.

use crate::parse::{Row, Table};
use crate::report::grouped;
use crate::shape::{Machine, Shape};
use crate::walk::{self, Kind};

/// How many copies were broken in each way.
#[derive(Default)]
struct Bent {
    changed: u64,
    deleted: u64,
    doubled: u64,
    widened: u64,
}

/// Breaks every row in every way.
pub(crate) fn check<C: Copy>(machine: &Machine<C>, table: &Table) -> Result<String, String> {
    let mut bent = Bent::default();
    for (index, row) in table.rows.iter().enumerate() {
        let bender = Bender { machine, table, index };
        for (number, masks) in row.boxes.iter().enumerate() {
            bent.changed += bender.change(masks)?;
            bent.deleted += bender.delete(masks)?;
            bent.doubled += bender.double(masks)?;
            bent.widened += bender.widen(number, masks)?;
        }
    }
    let Bent { changed, deleted, doubled, widened } = bent;
    if [changed, deleted, doubled, widened].contains(&0) {
        return Err("no row was broken".to_owned());
    }
    Ok(format!(
        "each of {} bent copies is reported \
         ({} changed, {deleted} deleted, {doubled} doubled, {} widened)",
        grouped(changed + deleted + doubled + widened),
        grouped(changed),
        grouped(widened),
    ))
}

/// Changes one row.
struct Bender<'a, C> {
    machine: &'a Machine<C>,
    table: &'a Table,
    index: usize,
}

impl<C: Copy> Bender<'_, C> {
    /// Puts another word into each field of the row's answer, and none after the last word.
    fn change(&self, masks: &[u32]) -> Result<u64, String> {
        let Shape { fields, .. } = &self.machine.shape;
        let cell: Vec<usize> = masks.iter().map(|set| set.trailing_zeros() as usize).collect();
        for (index, field) in fields.iter().enumerate() {
            let mut table = self.table.clone();
            let answer = &mut table.rows[self.index].answer;
            let said = answer.at(&cell).word(index);
            let other = said.map_or(0, |word| word + 1);
            answer.same.retain(|(same, _)| *same != index);
            answer.fixed = if other < field.words.len() {
                answer.fixed.with(index, other)
            } else {
                answer.fixed.without(index)
            };
            self.expect(&table, masks.to_vec(), Kind::Different, &[self.index])?;
        }
        Ok(fields.len() as u64)
    }

    /// Takes the row out.
    fn delete(&self, masks: &[u32]) -> Result<u64, String> {
        let mut table = self.table.clone();
        table.rows.remove(self.index);
        self.expect(&table, masks.to_vec(), Kind::Unmatched, &[])?;
        Ok(1)
    }

    /// Writes the row a second time.
    fn double(&self, masks: &[u32]) -> Result<u64, String> {
        let mut table = self.table.clone();
        table.rows.push(self.row().clone());
        let copy = self.table.rows.len();
        self.expect(&table, masks.to_vec(), Kind::Ambiguous, &[self.index, copy])?;
        Ok(1)
    }

    /// Lets the row match whatever one fact is, for each fact that it narrows.
    fn widen(&self, number: usize, masks: &[u32]) -> Result<u64, String> {
        let mut widened = 0;
        for (fact, everything) in self.machine.shape.everything().into_iter().enumerate() {
            let beyond = everything & !masks[fact];
            if beyond == 0 {
                continue;
            }
            let mut table = self.table.clone();
            table.rows[self.index].boxes[number][fact] = everything;
            let mut scope = masks.to_vec();
            scope[fact] = beyond;
            self.expect(&table, scope, Kind::Ambiguous, &[self.index])?;
            widened += 1;
        }
        Ok(widened)
    }

    fn row(&self) -> &Row {
        &self.table.rows[self.index]
    }

    /// Walks the cells in question and expects a finding that names the rows.
    fn expect(
        &self,
        table: &Table,
        scope: Vec<u32>,
        kind: Kind,
        rows: &[usize],
    ) -> Result<(), String> {
        let found = walk::first(self.machine, table, scope);
        let reported = found.as_ref().is_some_and(|found| {
            found.kind == kind && rows.iter().all(|row| found.rows.contains(row))
        });
        if reported {
            return Ok(());
        }
        Err(format!("line {}: broken to be {kind:?}, but found was {found:?}", self.row().line))
    }
}
