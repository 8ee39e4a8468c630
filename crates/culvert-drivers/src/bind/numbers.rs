//! Numbers of users and groups that are shown as others.

use alloc::{format, vec::Vec};
use culvert::{Errno, Error, Result};

/// Pairs of numbers, from the file's to the one shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pairs: Vec<(u32, u32)>,
    offset: i64,
}

impl Numbers {
    /// No pairs, `offset` added.
    pub fn offset(&mut self, offset: i64) {
        self.offset = offset;
    }

    /// Adds a pair; false where either is in one already.
    pub fn add(&mut self, from: u32, to: u32) -> bool {
        let known = |(left, right): &(u32, u32)| *left == from || *right == to;
        let fits = from == to || !self.pairs.iter().any(known);
        if fits && from != to {
            self.pairs.push((from, to));
        }
        fits
    }

    /// Whether all numbers stay.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.offset == 0
    }

    /// What is shown for the file's `id`. `EIO` where no number is left for it.
    pub fn shown(&self, id: u32) -> Result<u32> {
        let found = self.pairs.iter().find(|(from, _)| *from == id);
        moved(found.map_or(id, |(_, to)| *to), self.offset)
    }

    /// What the file has where `id` is shown.
    pub fn own(&self, id: u32) -> Result<u32> {
        self.unmoved(self.paired(id).unwrap_or(id))
    }

    /// `id` without the offset.
    pub fn unmoved(&self, id: u32) -> Result<u32> {
        moved(id, -self.offset)
    }

    /// Whether pairs and an offset are not both there.
    pub fn fit(&self) -> bool {
        self.pairs.is_empty() || self.offset == 0
    }

    /// What a pair says that the file has where `id` is shown.
    pub fn paired(&self, id: u32) -> Option<u32> {
        let found = self.pairs.iter().find(|(_, to)| *to == id);
        found.map(|(from, _)| *from)
    }
}

/// `id` and `offset`, within the numbers that bindfs allows.
fn moved(id: u32, offset: i64) -> Result<u32> {
    if offset == 0 {
        return Ok(id);
    }
    let sum = i64::from(id).checked_add(offset);
    let sum = sum.and_then(|sum| u32::try_from(sum).ok());
    sum.filter(|sum| *sum <= i32::MAX as u32).ok_or_else(|| {
        let text = format!("the number {id} and the offset {offset} make none that there is");
        Error::because(Errno::EIO, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        let mut numbers = Numbers::default();
        assert!(numbers.add(1, 2) && numbers.add(2, 1) && numbers.add(5, 5));
        assert!(!numbers.add(1, 3) && !numbers.add(3, 2));
        for (own, shown) in [(1, 2), (2, 1), (7, 7)] {
            assert_eq!(numbers.shown(own).unwrap(), shown);
            assert_eq!(numbers.own(shown).unwrap(), own);
        }
        let mut numbers = Numbers::default();
        numbers.offset(-10);
        assert_eq!(numbers.shown(15).unwrap(), 5);
        assert_eq!(numbers.own(5).unwrap(), 15);
        assert_eq!(numbers.shown(9).unwrap_err().errno(), Errno::EIO);
        numbers.offset(i64::from(u32::MAX));
        assert_eq!(numbers.shown(9).unwrap_err().errno(), Errno::EIO);
    }
}
