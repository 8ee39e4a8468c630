//! Holds on a node ([`culvert::FileSystem::hold`]) of a driver that is made of others.

use alloc::vec::Vec;

/// How often the front end holds a node, and what is held for that in the drivers below.
pub struct Holds<T> {
    count: u64,
    below: Vec<T>,
}

impl<T> Default for Holds<T> {
    fn default() -> Self {
        Self {
            count: 0,
            below: Vec::new(),
        }
    }
}

impl<T: Clone> Holds<T> {
    /// One more. The first one holds what `below` says, which is the caller's to do.
    pub fn begin(&mut self, below: impl Iterator<Item = T>) -> Vec<T> {
        self.count += 1;
        if self.count > 1 {
            return Vec::new();
        }
        self.below = below.collect();
        self.below.clone()
    }

    /// One less. After the last one what is held below is the caller's to release.
    pub fn end(&mut self) -> Vec<T> {
        self.count = self.count.saturating_sub(1);
        match self.count {
            0 => core::mem::take(&mut self.below),
            _ => Vec::new(),
        }
    }
}
