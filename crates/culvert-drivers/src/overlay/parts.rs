//! What a node of an overlay is made of.

use crate::passthrough::mix;
use alloc::vec::Vec;
use culvert::{Errno, Node, Result};

/// What a node is in one layer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Which layer.
    pub layer: usize,
    /// Its node there.
    pub node: Node,
    /// Of a directory: there may be whiteouts in it that are files with an attribute.
    pub attribute_whiteouts: bool,
}

/// A directory, or a file.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// What it is in the upper layer.
    pub upper: Option<Part>,
    /// What it is in lower ones, the uppermost first; of a file that is copied what its bytes are,
    /// if they were not.
    pub lowers: Vec<Part>,
}

impl Parts {
    /// What is shown of it.
    pub fn top(&self) -> Result<Part> {
        let first = self.upper.as_ref().or(self.lowers.first());
        first.copied().ok_or(Errno::ESTALE.into())
    }

    /// All.
    pub fn all(&self) -> impl Iterator<Item = &Part> {
        self.upper.iter().chain(&self.lowers)
    }

    /// Whether it is made of several, or of a lower one.
    pub const fn is_merged(&self) -> bool {
        !self.lowers.is_empty()
    }
}

/// A number made of two others.
pub fn both(one: u64, other: u64) -> u64 {
    mix(mix(one) ^ other)
}
