//! What the lookup of a call has found, for the change that the call makes next.
//!
//! A front end looks for a path, and then makes, moves, removes or changes what has it. A look at a
//! name in a directory says on which branches that is, and what the name is on them. To look again
//! is needed only where a process of the run has changed such a name or a directory in between, of
//! which the memory that they share tells ([`crate::name_changes`]). Each look at the same name
//! takes the place of the one before, and who makes use of it takes it away; so it is the call's
//! own.

use super::branch::Branch;
use crate::name_changes::Stamp;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use culvert::{Attributes, Node, sync::Mutex};

/// How many looks are kept: two for each thread that is in the middle of a rename, and no more than
/// are soon compared.
const MOST: usize = 4;

/// A look at a name in a directory.
pub struct Look {
    dir: Node,
    name: Vec<u8>,
    /// A moment before it.
    pub stamp: Stamp,
    /// The branches that there were.
    branches: Weak<Vec<Branch>>,
    /// How many of them were looked at, from the first on: the directory is what is known of it
    /// there.
    pub looked_at: usize,
    /// None was looked at, since this one alone may have the name, and is to make a file there or
    /// refuse.
    pub unseen: Option<usize>,
    /// Whether the directory is what is known of it on the others, too.
    pub whole: bool,
    /// What has the name on the last of those, and is no directory; none: nothing on any of them.
    pub found: Option<Attributes>,
}

impl Look {
    /// One at `place` on `branches`, after `stamp`: what was `found` on the last of the first so
    /// many.
    pub fn new(
        (dir, name): (Node, &[u8]),
        branches: &Arc<Vec<Branch>>,
        stamp: Stamp,
        (looked_at, whole): (usize, bool),
        found: Option<Attributes>,
    ) -> Self {
        Self {
            dir,
            name: name.to_vec(),
            stamp,
            branches: Arc::downgrade(branches),
            looked_at,
            unseen: None,
            whole,
            found,
        }
    }

    /// None at `place` after `stamp`, since branch `index` alone may have the name.
    pub fn none_but(
        place: (Node, &[u8]),
        branches: &Arc<Vec<Branch>>,
        stamp: Stamp,
        index: usize,
    ) -> Self {
        Self {
            unseen: Some(index),
            ..Self::new(place, branches, stamp, (0, true), None)
        }
    }

    /// Whether it has found that there is no such name: not where it looked at nothing.
    pub fn is_of_nothing(&self) -> bool {
        self.found.is_none() && self.unseen.is_none()
    }

    /// Whether it was one on `branches`.
    pub fn is_on(&self, branches: &Arc<Vec<Branch>>) -> bool {
        self.branches.as_ptr() == Arc::as_ptr(branches)
    }
}

/// The last ones.
#[derive(Default)]
pub struct Looks(Mutex<Vec<Look>>);

impl Looks {
    /// Notes `look`, in the place of the one before.
    pub fn note(&self, look: Look) {
        let mut all = self.0.lock();
        all.retain(|one| (one.dir, &one.name) != (look.dir, &look.name));
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(look);
    }

    /// That at `place`, which is there no more.
    pub fn take(&self, (dir, name): (Node, &[u8])) -> Option<Look> {
        let mut all = self.0.lock();
        let at = all
            .iter()
            .position(|one| (one.dir, &one.name[..]) == (dir, name));
        at.map(|at| all.swap_remove(at))
    }
}
