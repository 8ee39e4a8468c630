//! What a name in a tree of the kernel's is, without a node: for drivers over this one that hold
//! its directories and would let go of everything else at once.

use super::attributes::{Target, attributes, change};
use super::kernel::{self, Name};
use super::nodes::number;
use super::options::Options;
use culvert::{Access, Attributes, FileSystem, Result, SetAttributes, mount::Mount};
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

    /// The number of the mount on which `fd`, a descriptor of the tree's, is seen (mountinfo of
    /// proc(5)); none: this kernel does not tell (before Linux 5.8).
    pub fn mount(self, fd: i32) -> Option<u64> {
        let place = kernel::place(BorrowedFd::number(fd)).ok()?;
        Some(place.2).filter(|&number| number != 0)
    }

    /// What [`FileSystem::lookup`] of `name` in the directory `dir`, a descriptor of the tree's,
    /// would say. No reference comes with it: the node may not be valid.
    pub fn look(self, dir: i32, name: &[u8]) -> Result<Attributes> {
        self.look_home(dir, name).map(|found| found.0)
    }

    /// The same, and whether it lies on the file system of the root.
    pub fn look_home(self, dir: i32, name: &[u8]) -> Result<(Attributes, bool)> {
        let status = kernel::status(BorrowedFd::number(dir), Some(&Name::new(name)?))?;
        let identity = kernel::identity(&status);
        let attributes = attributes(number(self.home, identity), &status)?;
        Ok((attributes, identity.0 == self.home))
    }

    /// Whether `name` in the directory `dir`, a descriptor of the tree's, grants `access` to
    /// whoever this thread acts as. A link grants all.
    ///
    /// - `ENOSYS`, `EPERM`: only its node tells.
    pub fn access(self, dir: i32, name: &[u8], access: Access) -> Result<()> {
        kernel::access_at(BorrowedFd::number(dir), &Name::new(name)?, access.0)
    }

    /// Gives `name` in `dir`, which must be no link, new `permissions`.
    ///
    /// - `EOPNOTSUPP`: it is a link.
    /// - `ENOSYS`, `EPERM`, `EINVAL`: perhaps there is no such call here.
    pub fn permit(self, dir: i32, name: &[u8], permissions: u32) -> Result<()> {
        let changes = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        let name = Name::new(name)?;
        change(Target::Name(BorrowedFd::number(dir), &name), &changes)
    }
}
