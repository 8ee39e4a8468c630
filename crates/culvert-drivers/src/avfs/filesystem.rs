//! The file system under the layer.

use super::inside::{Inside, What};
use super::table::{Table, decode, encode};
use super::within::Rules;
use crate::Keeper;
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU64;
use culvert::{
    Access, Attributes, Call, Caller, DirectoryPlusSink, DirectorySink, Entry, Errno, FileSystem,
    Layer, Node, OpenFlags, Opened, OpenedDirectory, Operation, Reached, Result, StatFs, Timespec,
    Touches, Validity, Walked, sync::Mutex,
};

/// Where a node is.
pub enum Place {
    Below,
    In(u32, Arc<Inside>, Node),
}

/// A file system whose files are looked into.
pub struct AvfsFs {
    pub(super) below: Box<dyn FileSystem>,
    pub(super) keeper: Keeper,
    pub(super) rules: Rules,
    pub(super) table: Table,
    pub(super) open: Mutex<BTreeMap<u32, Arc<Inside>>>,
    pub(super) clock: AtomicU64,
}

impl AvfsFs {
    /// `below`, whose files are looked into by `rules`.
    pub fn new(below: Box<dyn FileSystem>, rules: Rules, table: Table, keeper: Keeper) -> Self {
        Self {
            below,
            keeper,
            rules,
            table,
            open: Mutex::default(),
            clock: AtomicU64::new(0),
        }
    }

    /// Whether `caller` may do `access` to what is in a file, where the front end leaves that to
    /// the driver below. To execute what may not be read is refused by that.
    pub(super) fn judge(
        &self,
        caller: &Caller<'_>,
        access: Access,
        (number, inside, inner): (u32, &Inside, Node),
    ) -> Result<()> {
        match self.below.capabilities().checks_permissions {
            true => caller.may(access, &inside.attributes(number, inner)?),
            false => Ok(()),
        }
    }

    fn open_within(
        caller: &Caller<'_>,
        (number, inside, inner): (u32, &Inside, Node),
        flags: OpenFlags,
    ) -> Result<Opened> {
        let opened = inside.within()?.archive().open(caller, inner, flags)?;
        let attributes = inside.attributes(number, inner)?;
        Ok(super::file::shown(opened, attributes))
    }

    /// Does one thing with what is below, another with what is in a file.
    fn either<T>(
        &self,
        node: Node,
        below: impl FnOnce(&dyn FileSystem) -> Result<T>,
        within: impl FnOnce(u32, &Inside, Node) -> Result<T>,
    ) -> Result<T> {
        match self.place(node)? {
            Place::Below => below(&*self.below),
            Place::In(number, inside, inner) => within(number, &inside, inner),
        }
    }
}

fn has_sign(name: &[u8]) -> bool {
    name.contains(&b'#')
}

impl Layer for AvfsFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.below
    }

    fn touches(&self) -> Touches {
        Touches::NO_DATA
    }

    /// What is in a file is not changed.
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let to = call.to.map(|(node, _)| node);
        for node in [Some(call.node), to].into_iter().flatten() {
            if let Place::In(..) = self.place(node)? {
                return Err(match call.operation {
                    Operation::SyncDirectory | Operation::Statfs => Errno::EINVAL,
                    _ => Errno::EROFS,
                }
                .into());
            }
        }
        work()
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        match self.plain(caller, dir, name) {
            Err(error) if error.errno() == Errno::ENOENT && has_sign(name) => {
                self.virtually(caller, dir, name)
            }
            found => found,
        }
    }

    /// To the first name with a `#`, then over it alone.
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let sign = path.iter().position(|&byte| byte == b'#');
        let before = &path[..sign.unwrap_or(path.len())];
        let plain = match sign {
            None => path,
            Some(_) => &path[..before.iter().rposition(|&byte| byte == b'/').unwrap_or(0)],
        };
        if plain.is_empty() {
            let end = path.iter().position(|&byte| byte == b'/');
            let name = &path[..end.unwrap_or(path.len())];
            return Ok(Walked {
                entry: Some(self.lookup(caller, from, name)?),
                parent: from,
                consumed: name.len(),
            });
        }
        match self.place(from)? {
            Place::Below => self.below.walk(caller, from, plain),
            Place::In(number, inside, inner) => {
                self.judge(caller, Access::EXECUTE, (number, &inside, inner))?;
                let walked = inside.within()?.archive().walk(caller, inner, plain)?;
                let entry = walked.entry.map(|entry| Entry {
                    attributes: inside.shown(number, entry.attributes),
                });
                Ok(Walked {
                    entry,
                    parent: encode(number, walked.parent),
                    ..walked
                })
            }
        }
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        match !has_sign(path) && decode(from).is_none() {
            true => self.below.reach(caller, from, path),
            false => None,
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.either(
            dir,
            |below| below.parent(dir),
            |number, inside, inner| match inner == inside.top() {
                true => Ok(inside.directory),
                false => {
                    let parent = inside.within()?.archive().parent(inner)?;
                    Ok(encode(number, parent))
                }
            },
        )
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.path(node)
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.either(
            node,
            |below| below.attributes(caller, node),
            |number, inside, inner| inside.attributes(number, inner),
        )
    }

    fn birth_time(&self, caller: &Caller<'_>, node: Node) -> Result<Option<Timespec>> {
        self.either(
            node,
            |below| below.birth_time(caller, node),
            |_, _, _| Ok(None),
        )
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.either(
            node,
            |below| below.access(caller, node, access),
            |number, inside, inner| {
                if access.write() {
                    return Err(Errno::EROFS.into());
                }
                caller.may(access, &inside.attributes(number, inner)?)
            },
        )
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.readlink(caller, node),
            |_, inside, inner| match &inside.what {
                What::Link(target) => Ok(target.clone()),
                What::Within(within) => within.archive().readlink(caller, inner),
            },
        )
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.either(
            node,
            |below| below.open(caller, node, flags),
            |number, inside, inner| {
                if flags.read() {
                    self.judge(caller, Access::READ, (number, inside, inner))?;
                }
                Self::open_within(caller, (number, inside, inner), flags)
            },
        )
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        match self.place(node)? {
            Place::Below => self.below.restore(caller, node, flags, state),
            // It is open already: nobody is asked again.
            Place::In(number, inside, inner) => {
                let flags = flags.without(OpenFlags::TRUNCATE);
                Self::open_within(caller, (number, &inside, inner), flags)
            }
        }
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.either(node, |below| below.hold(node), |_, _, _| Ok(()))
    }

    fn release(&self, node: Node) {
        if let Ok(Place::Below) = self.place(node) {
            self.below.release(node);
        }
    }

    fn forget(&self, node: Node, count: u64) {
        if let Ok(Place::Below) = self.place(node) {
            self.below.forget(node, count);
        }
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        self.either(
            node,
            |below| below.is_open_for_writing(node),
            |_, _, _| Ok(false),
        )
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        self.either(
            dir,
            |below| below.open_directory(caller, dir, flags),
            |_, _, _| Ok(OpenedDirectory::Stateless),
        )
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        match self.place(dir)? {
            Place::Below => self.below.read_directory(caller, dir, from, sink),
            Place::In(number, inside, inner) => {
                let archive = inside.within()?.archive();
                archive.read_directory(caller, inner, from, &mut |mut entry| {
                    entry.inode = encode(number, Node(entry.inode)).0;
                    sink(entry)
                })
            }
        }
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        match self.place(dir)? {
            Place::Below => self.below.read_directory_plus(caller, dir, from, sink),
            Place::In(number, inside, inner) => {
                let archive = inside.within()?.archive();
                archive.read_directory_plus(caller, inner, from, &mut |mut entry, found| {
                    entry.inode = encode(number, Node(entry.inode)).0;
                    let found = found.map(|found| Entry {
                        attributes: inside.shown(number, found.attributes),
                    });
                    sink(entry, found)
                })
            }
        }
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.either(
            dir,
            |below| below.sync_directory(dir, data_only),
            |_, _, _| Ok(()),
        )
    }

    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        self.either(
            node,
            |below| below.statfs_of(node),
            |_, inside, _| inside.within()?.archive().statfs(),
        )
    }

    /// Who changes `x.tgz`, makes or removes it, says nothing of `x.tgz#`.
    fn validity(&self) -> Validity {
        let (valid, second) = (self.below.validity(), Validity::SECOND);
        match self.below.capabilities().immutable {
            true => valid,
            false => Validity {
                entry: valid.entry.min(second.entry),
                attributes: valid.attributes.min(second.attributes),
                absent: valid.absent.min(second.absent),
            },
        }
    }

    fn is_unobserved(&self, node: Node) -> bool {
        !matches!(self.place(node), Ok(Place::Below)) || self.below.is_unobserved(node)
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.get_xattr(caller, node, name),
            |number, inside, inner| {
                // As xattr_permission (fs/xattr.c) has it.
                if name.starts_with(b"user.") {
                    self.judge(caller, Access::READ, (number, inside, inner))?;
                }
                match &inside.what {
                    What::Within(within) => within.archive().get_xattr(caller, inner, name),
                    What::Link(_) => Err(Errno::ENODATA.into()),
                }
            },
        )
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.list_xattr(caller, node),
            |_, inside, inner| match &inside.what {
                What::Within(within) => within.archive().list_xattr(caller, inner),
                What::Link(_) => Ok(Vec::new()),
            },
        )
    }

    /// A file in a file has no other name outside.
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        for node in [node, dir] {
            if let Place::In(..) = self.place(node)? {
                return Err(Errno::EXDEV.into());
            }
        }
        self.below.link(caller, node, dir, name)
    }

    fn kernel_node(&self, node: Node) -> Option<i32> {
        // Of a directory the kernel sees all but what is in its files.
        match self.place(node) {
            Ok(Place::Below) => self.below.kernel_node(node),
            _ => None,
        }
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        match self.place(node) {
            Ok(Place::Below) => self.below.handed_down(node),
            _ => None,
        }
    }
}
