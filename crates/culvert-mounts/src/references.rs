//! References on nodes ("Nodes" at [`culvert::FileSystem`]), given back when nobody needs them any
//! more.

use crate::{MountId, MountTable};
use alloc::{sync::Arc, vec::Vec};
use core::fmt;
use culvert::{FileSystem, Node};

/// How many are kept without memory of their own: the thing itself, its directory, and what a link
/// or two led through.
const INLINE: usize = 3;

/// References that a walk was given, or that an open file or the working directory keeps: each goes
/// back to its driver when this is dropped.
pub struct References<'t> {
    table: Option<&'t MountTable>,
    /// How many of `first` there are.
    count: usize,
    first: [(MountId, Node); INLINE],
    more: Vec<(MountId, Node)>,
    hold: Option<Arc<Hold>>,
}

impl Default for References<'_> {
    fn default() -> Self {
        Self::of(None)
    }
}

impl<'t> References<'t> {
    /// None yet, of mounts in `table`.
    #[inline]
    pub const fn new(table: &'t MountTable) -> Self {
        Self::of(Some(table))
    }

    #[inline]
    const fn of(table: Option<&'t MountTable>) -> Self {
        Self {
            table,
            count: 0,
            first: [(MountId(0), Node(0)); INLINE],
            more: Vec::new(),
            hold: None,
        }
    }

    /// Keeps `hold`, too.
    pub fn keep(&mut self, hold: Option<Arc<Hold>>) {
        self.hold = hold;
    }

    /// Takes over one reference on `node`.
    #[inline]
    pub fn push(&mut self, mount: MountId, node: Node) {
        match self.first.get_mut(self.count) {
            Some(place) => {
                *place = (mount, node);
                self.count += 1;
            }
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
        let wanted = (mount, node);
        if let Some(at) = self.inline().iter().position(|held| *held == wanted) {
            self.count -= 1;
            self.first.swap(at, self.count);
            taken.push(mount, node);
        } else if let Some(at) = self.more.iter().position(|held| *held == wanted) {
            self.more.swap_remove(at);
            taken.push(mount, node);
        }
        taken
    }

    /// Hands everything on, what is held too; `table` is the one that it is from.
    pub fn take_all<'o>(&mut self, table: &'o MountTable) -> References<'o> {
        References {
            table: Some(table),
            count: core::mem::take(&mut self.count),
            first: self.first,
            more: core::mem::take(&mut self.more),
            hold: self.hold.take(),
        }
    }

    /// Takes over those of `others`, from the same table.
    pub fn join(&mut self, mut others: References<'t>) {
        self.table = self.table.or(others.table);
        for &(mount, node) in others.inline() {
            self.push(mount, node);
        }
        others.count = 0;
        self.more.append(&mut others.more);
    }

    /// Those kept without memory of their own.
    #[inline]
    fn inline(&self) -> &[(MountId, Node)] {
        &self.first[..self.count.min(INLINE)]
    }
}

impl Drop for References<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(table) = self.table else { return };
        for &(mount, node) in self.inline().iter().chain(&self.more) {
            if let Some(driver) = table.driver_if_open(mount) {
                driver.forget(node, 1);
            }
        }
    }
}

impl fmt::Debug for References<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list()
            .entries(self.inline().iter().chain(&self.more))
            .finish()
    }
}

/// A node that is held ([`FileSystem::hold`]) until this is dropped.
pub struct Hold {
    driver: &'static dyn FileSystem,
    mount: MountId,
    node: Node,
}

impl Hold {
    /// Holds `node`. None: it is gone already, and shows that as it can.
    pub fn of(table: &'static MountTable, mount: MountId, node: Node) -> Option<Self> {
        let driver = table.file_system(mount).ok()?;
        driver.hold(node).ok().map(|()| Self {
            driver,
            mount,
            node,
        })
    }
}

impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        (self.mount, self.node) == (other.mount, other.node)
    }
}

impl Eq for Hold {}

impl fmt::Debug for Hold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.mount, self.node).fmt(out)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.driver.release(self.node);
    }
}
