//! What a name is on one branch.

use super::branch::Branch;
use super::state::Core;
use alloc::vec::Vec;
use culvert::{Attributes, Caller, Entry, FileKind, Node, Result};

/// What a name is on branches, in their order.
pub type All<'a> = Vec<(usize, Found<'a>)>;

/// Something on a branch, for as long as this lives.
pub struct Found<'a> {
    branch: &'a Branch,
    /// What it is.
    pub entry: Entry,
    lease: Lease<'a>,
}

/// What keeps it.
pub enum Lease<'a> {
    /// One reference of the branch's.
    Reference,
    /// A directory that the union has references on: one pin on that.
    Pin(&'a Core, Node),
    /// Nothing. It is known by its name alone, which was asked for after this moment of the table
    /// of nodes.
    Name(u64),
}

impl<'a> Found<'a> {
    /// `entry` of `branch`, which has given one reference.
    pub const fn new(branch: &'a Branch, entry: Entry) -> Self {
        Self {
            branch,
            entry,
            lease: Lease::Reference,
        }
    }

    /// The file that `attributes` describe, of which nothing but its name is known. It is none to
    /// be entered as a node.
    pub const fn seen(branch: &'a Branch, attributes: Attributes) -> Self {
        Self {
            branch,
            entry: Entry { attributes },
            lease: Lease::Name(0),
        }
    }

    /// Its node there.
    pub const fn node(&self) -> Node {
        self.entry.attributes.node
    }

    /// What it is.
    pub const fn kind(&self) -> FileKind {
        self.entry.attributes.kind
    }

    /// The entry, and what keeps it, which is the caller's from now on.
    pub fn take(mut self) -> (Entry, Lease<'a>) {
        // Nothing is left to be given back.
        let lease = core::mem::replace(&mut self.lease, Lease::Name(0));
        (self.entry, lease)
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        match self.lease {
            Lease::Reference => self.branch.fs.forget(self.node(), 1),
            Lease::Pin(core, node) => core.nodes.unpin(node).give_back(),
            Lease::Name(_) => {}
        }
    }
}

impl Core {
    /// What `name` in `dir` is on branch `index`. What is no directory may have no node there.
    pub fn find(
        &self,
        caller: &Caller<'_>,
        index: usize,
        dir: Node,
        name: &[u8],
    ) -> Result<Found<'_>> {
        let branch = &self.branches[index];
        let directory = branch.glance.and_then(|_| branch.fs.kernel_node(dir));
        let (Some(glance), Some(directory)) = (branch.glance, directory) else {
            return self.find_exactly(caller, index, dir, name);
        };
        let asked = self.nodes.now();
        let attributes = glance.look(directory, name)?;
        let lease = match attributes.kind {
            FileKind::Directory => match self.nodes.pin_part(branch, attributes.node, asked) {
                Some(node) => Lease::Pin(self, node),
                None => return self.find_exactly(caller, index, dir, name),
            },
            _ => Lease::Name(asked),
        };
        Ok(Found {
            branch,
            entry: Entry { attributes },
            lease,
        })
    }

    /// The same, with a reference.
    pub fn find_exactly(
        &self,
        caller: &Caller<'_>,
        index: usize,
        dir: Node,
        name: &[u8],
    ) -> Result<Found<'_>> {
        let branch = &self.branches[index];
        let entry = branch.fs.lookup(caller, dir, name)?;
        Ok(Found::new(branch, entry))
    }
}
