//! The file system: nodes in, the kernel's calls out.

use super::attributes::{self, Target, attributes};
use super::file::{DescriptorFile, unhindered};
use super::holds::Holds;
use super::kernel::{self, Link, Name, proc_needed};
use super::named::changed;
use super::nodes::Nodes;
use super::object::Object;
use super::options::Options;
use super::watch::{WATCHED, Watch};
use crate::descriptor::{Keeper, KeptFd, NodeBook, OwnedFd, duplicate};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Backing, Caller, Capabilities, DirectorySink, Entry, Errno, Error, File,
    FileKind, FileSystem, Node, Observed, Observer, OpenFlags, Opened, OpenedDirectory, Reached,
    RenameFlags, Result, SetAttributes, StatFs, Validity,
};
use culvert_sys::fd::{self, BorrowedFd, Command};
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general::{O_APPEND, O_CLOEXEC, O_DIRECT};

/// Flags of a program's that its descriptor alone has, not the driver's.
const HINDERING: u32 = O_APPEND | O_DIRECT;

/// A directory of the kernel's as a file system.
///
/// Every operation is done by the process itself, as itself: its user, groups, capabilities, umask
/// and limits decide, not those in [`Caller`].
pub struct PassthroughFs {
    pub(super) nodes: Arc<Nodes>,
    pub(super) holds: Holds,
    keeper: Keeper,
    pub(super) options: Options,
    pub(super) watch: Option<Watch>,
    book: Option<&'static dyn NodeBook>,
}

impl PassthroughFs {
    /// The tree below `root`, a directory opened with `O_PATH`, which is `identity` (device, inode).
    /// Descriptors that it keeps are `keeper`'s; its nodes are those in `book`, and stand there;
    /// `limit` of them may have a descriptor at a time, all if there is none.
    pub fn new(
        root: OwnedFd,
        identity: (u64, u64),
        options: Options,
        keeper: Keeper,
        book: Option<&'static dyn NodeBook>,
        limit: Option<usize>,
    ) -> Self {
        let mut nodes = Nodes::new(root, identity, keeper, book, limit);
        // Below layers of programs. Not in servers, which act for others, and where it counts by
        // which names nodes were found.
        nodes.sees = options.backed && limit.is_none() && book.is_none() && !options.watch;
        Self {
            nodes: Arc::new(nodes),
            holds: Holds::new(keeper),
            keeper,
            options,
            watch: options.watch.then(Watch::default),
            book,
        }
    }

    /// The directory `node`.
    pub(super) fn directory(&self, node: Node) -> Result<Arc<Object>> {
        let object = self.object(node)?;
        match object.kind {
            FileKind::Directory => Ok(object),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// The file `node`, open in `descriptor` with `flags`, as the front end is to get it. The
    /// descriptor is closed by execve(2), or as [`Self::on_exec`] says.
    pub(super) fn opened(&self, node: Node, descriptor: OwnedFd, flags: OpenFlags) -> Opened {
        if !self.drives() && !self.options.backed {
            return Opened::Backed(descriptor);
        }
        let descriptor = match flags.0 & HINDERING {
            0 => descriptor,
            _ => unhindered(descriptor),
        };
        Opened::Driven(match self.lends(flags) {
            true => {
                let file = DescriptorFile::lending(descriptor, self.keeper, node, node.0);
                self.pinned(node, file)
            }
            false => self.driven(node, self.keeper.keep(descriptor)),
        })
    }

    /// What of `O_CLOEXEC` a file is to be opened with: what becomes the program's is the program's
    /// in this, too.
    pub(super) fn on_exec(&self, flags: OpenFlags) -> u32 {
        match self.lends(flags) {
            true => flags.0 & O_CLOEXEC,
            false => O_CLOEXEC,
        }
    }

    /// Whether what is opened with `flags` becomes the program's.
    fn lends(&self, flags: OpenFlags) -> bool {
        flags.has(OpenFlags::LENDS) && self.offers_backed()
    }

    /// The same as [`Self::opened`] of a `descriptor` that is closed by execve(2).
    pub(super) fn opened_closed_on_exec(
        &self,
        node: Node,
        descriptor: OwnedFd,
        flags: OpenFlags,
    ) -> Opened {
        if self.on_exec(flags) == 0 {
            let _ = fd::fcntl(&descriptor, Command::SETFD, 0);
        }
        self.opened(node, descriptor, flags)
    }

    /// Whether files are driven, but for what concerns their bytes.
    fn offers_backed(&self) -> bool {
        self.options.backed && !self.drives()
    }

    fn driven(&self, node: Node, held: KeptFd) -> Box<dyn File> {
        let file = DescriptorFile::on(held, node, node.0).backed(self.offers_backed());
        self.pinned(node, file.hidden(self.options.no_descriptor))
    }

    fn pinned(&self, node: Node, file: DescriptorFile) -> Box<dyn File> {
        let pin = self.nodes.pin_file(node, file.held());
        Box::new(file.keeping(Box::new(pin)))
    }

    /// Whether files are served by calls. Read-only ones must be unless the kernel's mount is
    /// read-only, too: on a descriptor that may only read, the kernel still changes modes, owners,
    /// times and attributes.
    fn drives(&self) -> bool {
        let options = &self.options;
        let changed = options.read_only && !options.bound;
        options.driven || changed || options.backed && options.no_descriptor
    }
}

impl FileSystem for PassthroughFs {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.options.read_only,
            xattrs: true,
            hard_links: true,
            checks_permissions: true,
            transient_nodes: true,
            locks: !self.options.no_descriptor,
            ..Capabilities::default()
        }
    }

    fn root(&self) -> Node {
        self.nodes.root().0
    }

    fn lookup(&self, _caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let (object, name) = (self.directory(dir)?, Name::new(name)?);
        self.nodes.looked_in(dir);
        match self.watching() {
            Some(watch) => self.find_watched(watch, dir, &object, &name),
            None => self.find(dir, &object, &name),
        }
    }

    /// The directories on the way are passed by the kernel at once.
    fn reach(&self, _: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        // Where nodes are closed, and where they are watched, it counts by which names they were
        // found.
        if self.nodes.closes() || self.watching().is_some() {
            return None;
        }
        match self.find_below(from, path) {
            Err(error)
                if matches!(
                    error.errno(),
                    Errno::ELOOP | Errno::EXDEV | Errno::ENOSYS | Errno::EPERM | Errno::EAGAIN
                ) =>
            {
                None
            }
            reached => Some(reached),
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let object = self.directory(dir)?;
        if dir == self.root() {
            return Ok(dir);
        }
        let above = kernel::open_parent(object.fd())?;
        let status = kernel::status(&above, None)?;
        // A directory that was moved out of the source has no parent here (`path_connected`,
        // fs/namei.c).
        if !self.holds(above.borrow())? {
            return Err(Errno::ENOENT.into());
        }
        self.nodes.above(dir, above, &status)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let object = self.object(node).map_err(|error| match error.errno() {
            // What is known by its name has none where that is another's by now.
            Errno::ESTALE if self.nodes.knows(node) => Errno::ENOENT.into(),
            _ => error,
        })?;
        let path = kernel::path_of(object.fd())?;
        let path = self.below_root(&path)?.ok_or(Errno::ENOENT)?;
        // The kernel marks names that are gone, and marks are not told from names.
        const GONE: &[u8] = b" (deleted)";
        let marked = path.ends_with(GONE);
        match marked && !self.leads_to(&path, &object) {
            true => Err(Errno::ENOENT.into()),
            false => Ok(path),
        }
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        if let Some(named) = self.nodes.named(node) {
            return attributes(node, &named.status()?);
        }
        let object = self.object(node)?;
        attributes(node, &kernel::status(object.fd(), None)?)
    }

    fn access(&self, _caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        let named = self.nodes.named(node);
        let object = match &named {
            Some(named) => named.directory.clone(),
            None => self.object(node)?,
        };
        let kind = named.as_ref().map_or(object.kind, |named| named.kind);
        let stored = matches!(
            kind,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        if access.write() && stored && self.options.read_only {
            return Err(Errno::EROFS.into());
        }
        // The thread acts as the caller, for access(2) too.
        match named {
            Some(named) => match kernel::access_at(object.fd(), &named.name, access.0) {
                // Before Linux 5.8, or under a filter that does not know the call.
                Err(error) if matches!(error.errno(), Errno::ENOSYS | Errno::EPERM) => {
                    kernel::access(self.object(node)?.fd(), access.0)
                }
                answer => answer.map_err(changed),
            },
            None => kernel::access(object.fd(), access.0),
        }
    }

    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        if let Some(named) = self.nodes.named(node) {
            if named.kind != FileKind::Symlink {
                return Err(Errno::EINVAL.into());
            }
            let target = fs::read_link(named.directory.fd(), named.name.terminated());
            return target.map_err(|errno| match errno {
                // It was one.
                Errno::EINVAL => Errno::ESTALE.into(),
                errno => changed(errno),
            });
        }
        let object = self.object(node)?;
        match object.kind {
            FileKind::Symlink => kernel::link_target(object.fd()),
            _ => Err(Errno::EINVAL.into()),
        }
    }

    fn open(&self, _caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        if let Some(named) = self.nodes.named(node)
            && let Some(opened) = self.open_named(node, &named, flags)
        {
            return opened;
        }
        let object = self.object(node)?;
        self.open_object(node, &object, flags)
    }

    fn open_directory(
        &self,
        _caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let object = self.directory(dir)?;
        let kept = flags.0 & (kernel::O_NOATIME | kernel::O_NONBLOCK);
        let opened = kernel::open_directory(object.fd(), kept, 0)?;
        Ok(OpenedDirectory::Backed(opened))
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let object = self.directory(dir)?;
        self.list(dir, &object, from, sink)
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        let object = self.directory(dir)?;
        let opened = kernel::open_directory(object.fd(), 0, 0)?;
        Ok(match data_only {
            true => fs::waiting::fdatasync(&opened),
            false => fs::waiting::fsync(&opened),
        }?)
    }

    fn statfs(&self) -> Result<StatFs> {
        let found = fs::fstatfs(self.nodes.root().1.fd())?;
        const ST_RDONLY: i64 = 1;
        Ok(StatFs {
            magic: found.f_type as u64,
            block_size: found.f_bsize as u32,
            blocks: found.f_blocks as u64,
            blocks_free: found.f_bfree as u64,
            blocks_available: found.f_bavail as u64,
            files: found.f_files as u64,
            files_free: found.f_ffree as u64,
            name_max: found.f_namelen as u32,
            read_only: self.options.read_only || found.f_flags & ST_RDONLY != 0,
        })
    }

    fn get_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        kernel::xattr(self.object(node)?.fd(), name)
    }

    fn list_xattr(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        kernel::xattr_names(self.object(node)?.fd())
    }

    fn set_xattr(
        &self,
        _caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.writable()?;
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        proc_needed(fs::setxattr(link.path(), &name, value, flags))
    }

    fn remove_xattr(&self, _caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        proc_needed(fs::removexattr(link.path(), &name))
    }

    fn set_attributes(
        &self,
        _caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.writable()?;
        if let Some(named) = self.nodes.named(node)
            && let Some(changed) = self.change_named(node, &named, changes)
        {
            return changed;
        }
        let object = self.object(node)?;
        attributes::change(Target::Place(object.fd()), changes)?;
        attributes(node, &kernel::status(object.fd(), None)?)
    }

    fn change_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        self.writable()?;
        match self.nodes.named(node) {
            Some(named) => match self.permit_named(&named, changes) {
                Some(done) => done,
                None => self.set_attributes(caller, node, changes).map(drop),
            },
            None => attributes::change(Target::Place(self.object(node)?.fd()), changes),
        }
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.create_file(caller, dir, name, flags, mode)
    }

    fn mkdir(&self, _caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        self.make(dir, name, FileKind::Directory, |dir, name| {
            fs::mkdirat(dir, name, mode)
        })
    }

    fn mknod(
        &self,
        _caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        // mknod(2) takes a device number of 32 bits (`new_decode_dev`, include/linux/kdev_t.h).
        let device = u32::try_from(rdev).map_err(|_| Errno::EINVAL)?;
        // None: the kernel's EINVAL.
        let kind = FileKind::of_mode(mode).unwrap_or(FileKind::Regular);
        self.make(dir, name, kind, |dir, name| {
            fs::mknodat(dir, name, mode, device)
        })
    }

    fn symlink(
        &self,
        _caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry> {
        let target = kernel::terminated(target)?;
        self.make(dir, name, FileKind::Symlink, |dir, name| {
            fs::symlinkat(&target, dir, name)
        })
    }

    fn link(&self, _caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.add_name(node, dir, name)
    }

    fn unlink(&self, _caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.remove(dir, name, AtFlags::empty())
    }

    fn rmdir(&self, _caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.remove(dir, name, AtFlags::REMOVEDIR)
    }

    fn rename(
        &self,
        _caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.move_name(from, to, flags)
    }

    fn tmpfile(
        &self,
        _caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.create_unnamed(dir, flags, mode)
    }

    fn forget(&self, node: Node, count: u64) {
        self.nodes.forget(node, count);
        if let Some(watch) = self.watching() {
            watch.forgotten(node, |node| self.nodes.references(node));
        }
    }

    fn validity(&self) -> Validity {
        match self.watching() {
            Some(_) => WATCHED,
            None => Validity::SECOND,
        }
    }

    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        let Some(watch) = &self.watch else {
            return Observed::Never;
        };
        match watch.start(observer.clone(), self.nodes.root()) {
            Ok(list) => {
                // What a server before this one knew may have changed unseen.
                let mut nodes = Vec::new();
                if let Some(book) = self.book {
                    book.each(&mut |_, node, _| nodes.push(Node(node)));
                    book.each_away(&mut |_, node, _, _| nodes.push(Node(node)));
                }
                if !nodes.is_empty() {
                    watch.tell_all(nodes.into_iter().chain([self.root()]));
                }
                Observed::Descriptor(list)
            }
            Err(error) => {
                observer.report(&format!("watch: nothing can be watched: {error}"));
                Observed::Never
            }
        }
    }

    fn look(&self) {
        if let Some(watch) = &self.watch {
            watch.look();
        }
    }

    fn is_unobserved(&self, node: Node) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.misses(node))
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.holds.hold(&self.nodes, node)
    }

    fn release(&self, node: Node) {
        self.holds.release(node);
    }

    fn sync(&self) -> Result<()> {
        let root = self.nodes.root().1.fd();
        let opened = kernel::open_directory(root, 0, 0)?;
        Ok(fs::waiting::syncfs(&opened)?)
    }

    fn backing(&self) -> Option<Backing> {
        if self.drives() {
            return None;
        }
        Some(Backing {
            root: self.nodes.root().1.fd().raw(),
            links: self.options.links,
            bound: self.options.bound,
        })
    }

    fn kernel_node(&self, node: Node) -> Option<i32> {
        self.object(node).ok().map(|object| object.fd().raw())
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        self.kernel_node(node)
    }

    fn identify(&self, _: &Caller<'_>, fd: i32) -> Result<Entry> {
        let fd = BorrowedFd::number(fd);
        let status = kernel::status(fd, None)?;
        if !self.holds(fd)? {
            return Err(Error::new(Errno::EXDEV));
        }
        if let Some(node) = self.nodes.refer(&status, self.nodes.now(), None) {
            let attributes = attributes(node, &status)?;
            return Ok(Entry { attributes });
        }
        self.entry(kernel::reopen(fd, kernel::O_PATH)?, None)
    }

    fn adopt(&self, caller: &Caller<'_>, fd: i32, _flags: OpenFlags) -> Result<(Entry, Opened)> {
        let entry = self.identify(caller, fd)?;
        let node = entry.attributes.node;
        let own = match self.keeper.lends(fd) {
            true => Ok(self.keeper.borrow(fd)),
            false => duplicate(BorrowedFd::number(fd)).map(|file| self.keeper.keep(file)),
        };
        match own {
            Ok(file) => Ok((entry, Opened::Driven(self.driven(node, file)))),
            Err(error) => {
                self.nodes.forget(node, 1);
                Err(error.into())
            }
        }
    }
}
