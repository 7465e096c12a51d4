//! Values that many share, kept once and known by a small number.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of counted values with numbers that are reused once the value is unused.
#[derive(Clone, Debug)]
pub(super) struct Interner<T> {
    numbers: BTreeMap<Arc<T>, u32>,
    values: Vec<Option<(Arc<T>, u32)>>,
    free: Vec<u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), values: vec![], free: vec![] }
    }
}

impl<T: Ord + Clone> Interner<T> {
    /// The number of a value, with one more user, and whether the value is new.
    pub(super) fn take(&mut self, value: &T) -> (u32, bool) {
        if let Some(number) = self.numbers.get(value).copied() {
            self.keep(number);
            return (number, false);
        }
        let value = Arc::new(value.clone());
        let number = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
        });
        self.numbers.insert(Arc::clone(&value), number);
        if let Some(slot) = self.values.get_mut(number as usize) {
            *slot = Some((value, 1));
        }
        (number, true)
    }

    /// One more user of a number that is in use.
    pub(super) fn keep(&mut self, number: u32) {
        if let Some(Some((_, users))) = self.values.get_mut(number as usize) {
            *users += 1;
        }
    }

    /// One user less; whether it was the last.
    pub(super) fn give_back(&mut self, number: u32) -> bool {
        let Some(slot) = self.values.get_mut(number as usize) else { return false };
        let Some((value, users)) = slot else { return false };
        *users -= 1;
        if *users > 0 {
            return false;
        }
        self.numbers.remove(value);
        *slot = None;
        self.free.push(number);
        true
    }

    /// The value of a number.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref().map(|(value, _)| value.as_ref())
    }

    /// Every value in use, by its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0_u32..).zip(&self.values);
        numbered.filter_map(|(number, it)| it.as_ref().map(|(value, _)| (number, value.as_ref())))
    }

    /// The bytes that its tables occupy, and what the values point to.
    pub(super) fn bytes(&self, beyond: impl Fn(&T) -> usize) -> usize {
        let node = size_of::<(Arc<T>, u32)>() + size_of::<T>() + 16;
        self.values.capacity() * size_of::<Option<(Arc<T>, u32)>>()
            + self.numbers.len() * node * 3 / 2
            + self.free.capacity() * 4
            + self.iter().map(|(_, value)| beyond(value)).sum::<usize>()
    }
}

/// Keeps a value under a number that an interner gave.
pub(super) fn put<T>(list: &mut Vec<T>, number: u32, value: T) {
    match list.get_mut(number as usize) {
        Some(slot) => *slot = value,
        None => list.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: F-34
    #[test]
    fn a_number_is_kept_while_it_is_used() {
        let mut interner = Interner::<String>::default();
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(
            (interner.take(&a), interner.take(&a), interner.take(&b)),
            ((0, true), (0, false), (1, true))
        );
        assert!(!interner.give_back(0));
        assert_eq!(interner.get(0), Some(&a));
        assert!(interner.give_back(0));
        assert_eq!(interner.get(0), None);
        assert_eq!(interner.take(&"c".to_owned()), (0, true), "numbers are reused");
        let all: Vec<_> = interner.iter().map(|(number, it)| (number, it.as_str())).collect();
        assert_eq!(all, [(0, "c"), (1, "b")]);
        assert!(!interner.give_back(9));
        assert!(interner.bytes(String::len) > interner.bytes(|_| 0));
    }
}
