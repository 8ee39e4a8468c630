//! Names of a directory that no branch but one has, while nothing happens in it (`learning.rs`).

use super::branch::{Branch, mix};
use super::searcher::Who;
use alloc::{sync::Weak, vec::Vec};
use culvert::Node;

/// What is known of one directory.
pub struct Absences {
    /// It.
    pub dir: Node,
    /// What it is on each branch.
    pub parts: Vec<Option<Node>>,
    /// The branches that there were.
    pub branches: Weak<Vec<Branch>>,
    /// Whose right to search it was.
    pub who: Who,
    /// The branch of which nothing is known.
    pub but: usize,
    /// Of the names on the others a number each, in order.
    pub names: Vec<u64>,
    /// Names that are not ASCII are among them, which may be others to a directory that folds case.
    pub is_odd: bool,
}

impl Absences {
    /// Whether the others lack `name`.
    pub fn lack(&self, name: &[u8]) -> bool {
        match self.is_odd || !name.is_ascii() {
            true => self.names.is_empty() && !self.is_odd,
            false => self.names.binary_search(&number(name)).is_err(),
        }
    }
}

/// A number for `name`, whose letters may be of either case.
pub fn number(name: &[u8]) -> u64 {
    let letters = name.iter().map(u8::to_ascii_lowercase);
    letters.fold(0x5eed, |sum, byte| mix(sum ^ u64::from(byte)))
}
