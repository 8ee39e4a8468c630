//! References on nodes ("Nodes" at [`culvert::FileSystem`]), given back when nobody needs them any more.

use super::{MountId, MountTable};
use alloc::vec::Vec;
use core::fmt;
use culvert::Node;

/// How many are kept without memory of their own: the thing itself, its directory, and what a link or two led through.
const INLINE: usize = 3;

/// References that a walk was given, or that an open file or the working directory keeps: each goes back to its driver when this is dropped.
#[derive(Default)]
pub struct References<'t> {
    table: Option<&'t MountTable>,
    first: [Option<(MountId, Node)>; INLINE],
    more: Vec<(MountId, Node)>,
}

impl<'t> References<'t> {
    /// None yet, of mounts in `table`.
    pub fn new(table: &'t MountTable) -> Self {
        Self {
            table: Some(table),
            first: [None; INLINE],
            more: Vec::new(),
        }
    }

    /// Takes over one reference on `node`.
    #[inline]
    pub fn push(&mut self, mount: MountId, node: Node) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((mount, node)),
            None => self.more.push((mount, node)),
        }
    }

    /// Gives one reference on `node` back, if there is one.
    pub fn forget(&mut self, mount: MountId, node: Node) {
        if let Some(table) = self.table {
            drop(self.take(table, mount, node));
        }
    }

    /// Hands one reference on `node` on, if there is one; `table` is the one it is from.
    pub fn take<'o>(
        &mut self,
        table: &'o MountTable,
        mount: MountId,
        node: Node,
    ) -> References<'o> {
        let mut taken = References::new(table);
        let wanted = Some((mount, node));
        if let Some(place) = self.first.iter_mut().find(|place| **place == wanted) {
            taken.first[0] = place.take();
        } else if let Some(at) = self.more.iter().position(|held| Some(*held) == wanted) {
            taken.first[0] = Some(self.more.swap_remove(at));
        }
        taken
    }

    /// Takes over those of `others`, from the same table.
    pub fn join(&mut self, mut others: References<'t>) {
        self.table = self.table.or(others.table);
        for place in &mut others.first {
            if let Some((mount, node)) = place.take() {
                self.push(mount, node);
            }
        }
        self.more.append(&mut others.more);
    }
}

impl Drop for References<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(table) = self.table else { return };
        for (mount, node) in self.first.iter().flatten().chain(&self.more) {
            if let Some(driver) = table.driver_if_open(*mount) {
                driver.forget(*node, 1);
            }
        }
    }
}

impl fmt::Debug for References<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list()
            .entries(self.first.iter().flatten().chain(&self.more))
            .finish()
    }
}
