//! What a name in a tree of the kernel's is, without a node: for drivers over this one that hold its
//! directories and would let go of everything else at once.

use super::attributes::attributes;
use super::kernel::{self, Name};
use super::nodes::number;
use super::options::Options;
use culvert::{Attributes, FileSystem, Result, mount::Mount};
use culvert_sys::fd::BorrowedFd;

/// A look at names of one tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    /// The device of the root.
    home: u64,
}

impl Glance {
    /// Of `fs`, which `mount` is, should it be a tree of the kernel's.
    pub fn of(mount: &Mount, fs: &dyn FileSystem) -> Option<Self> {
        let has_layers = mount.option("layer").is_some();
        if mount.driver != "passthrough" || has_layers || Options::travelled(mount).ok()?.driven {
            return None;
        }
        let root = fs.kernel_node(fs.root())?;
        let status = kernel::status(BorrowedFd::number(root), None).ok()?;
        let (home, _) = kernel::identity(&status);
        Some(Self { home })
    }

    /// Whether `fd`, a descriptor of the tree's, lies on the file system of its root.
    pub fn is_home(self, fd: i32) -> bool {
        let status = kernel::status(BorrowedFd::number(fd), None);
        status.is_ok_and(|status| kernel::identity(&status).0 == self.home)
    }

    /// What [`FileSystem::lookup`] of `name` in the directory `dir`, a descriptor of the tree's,
    /// would say. No reference comes with it: the node may not be valid.
    pub fn look(self, dir: i32, name: &[u8]) -> Result<Attributes> {
        let status = kernel::status(BorrowedFd::number(dir), Some(&Name::new(name)?))?;
        attributes(number(self.home, kernel::identity(&status)), &status)
    }
}
