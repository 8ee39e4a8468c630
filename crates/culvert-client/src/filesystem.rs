//! The driver: each operation of the API by the requests that the kernel would send.

use crate::{
    Settings, attributes::statfs, connection::Connection, core::Core, directory::FuseDirectory,
    file::FuseFile,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem,
    Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result, SetAttributes, StatFs, Timespec,
    Validity, Walked,
};
use culvert_slots::Channel;
use culvert_wire::{InitFlags, Operation, ROOT_ID};

/// A FUSE server's file system.
pub struct FuseFs {
    core: Arc<Core>,
}

impl FuseFs {
    /// The file system of the server at the other end of `channel`, whose INIT was
    /// [`crate::capabilities::request`].
    ///
    /// # Errors
    /// `EPROTO`: there is no version that both speak.
    pub fn new(channel: Box<dyn Channel>, settings: Settings) -> Result<Self> {
        let core = Core::new(Connection::new(channel, settings)?);
        Ok(Self {
            core: Arc::new(core),
        })
    }

    fn entry(attributes: Result<Attributes>) -> Result<Entry> {
        attributes.map(|attributes| Entry { attributes })
    }

    /// An entry and its open file; without the one there is no reference for the other.
    fn opened(
        &self,
        caller: &Caller<'_>,
        (attributes, handle): (Attributes, crate::opens::Handle),
        flags: OpenFlags,
    ) -> Result<(Entry, Opened)> {
        let node = attributes.node.0;
        let who = self.core.who(caller)?;
        match FuseFile::new(&self.core, (who, node), handle, flags) {
            Ok(file) => Ok((Entry { attributes }, Opened::Driven(file))),
            Err(error) => {
                self.core.forget(node, 1);
                Err(error)
            }
        }
    }
}

/// What a server is told of: flags of open(2), which the front end's own are not.
fn of_open(flags: OpenFlags) -> OpenFlags {
    flags.without(OpenFlags::LENDS)
}

impl FileSystem for FuseFs {
    fn capabilities(&self) -> Capabilities {
        let settings = &self.core.connection.settings;
        Capabilities {
            read_only: settings.read_only,
            xattrs: true,
            hard_links: true,
            checks_permissions: !settings.default_permissions,
            transient_nodes: true,
            access_time_lags: true,
            waits: true,
            polls: true,
            locks: self.core.connection.agreed.has(InitFlags::POSIX_LOCKS),
            ..Capabilities::default()
        }
    }

    fn root(&self) -> Node {
        Node(ROOT_ID)
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let who = self.core.who(caller)?;
        Self::entry(self.core.find(who, dir.0, name))
    }

    /// Directories on the way are believed to be what they were as long as their names are, which
    /// costs no request where only their attributes are old.
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let core = &self.core;
        let who = core.who(caller)?;
        let judges = core.connection.settings.default_permissions;
        let (mut dir, mut consumed) = (from.0, 0);
        let passed = |dir: u64| {
            if dir != from.0 {
                core.forget(dir, 1);
            }
        };
        loop {
            let rest = path.get(consumed..).unwrap_or_default();
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let is_last = end.is_none();
            let step = match is_last {
                true => None,
                false => core.nodes.step(core.words(), core.moment(), dir, name),
            };
            let known = match step.filter(|_| judges) {
                None => step,
                Some(next) => match core.nodes.rights(core.words(), core.moment(), next) {
                    Some(found) => {
                        caller.may(Access::EXECUTE, &found).inspect_err(|_| {
                            core.forget(next, 1);
                            passed(dir);
                        })?;
                        step
                    }
                    None => {
                        core.forget(next, 1);
                        None
                    }
                },
            };
            consumed += name.len();
            if let Some(next) = known {
                passed(dir);
                (dir, consumed) = (next, consumed + 1);
                continue;
            }
            let found = core.find(who, dir, name).inspect_err(|_| passed(dir))?;
            if is_last || found.kind == FileKind::Symlink {
                return Ok(Walked {
                    entry: Some(Entry { attributes: found }),
                    parent: Node(dir),
                    consumed,
                });
            }
            passed(dir);
            dir = found.node.0;
            if judges && found.kind == FileKind::Directory {
                caller
                    .may(Access::EXECUTE, &found)
                    .inspect_err(|_| passed(dir))?;
            }
            consumed += 1;
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.core.nodes.parent(dir.0)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.core.nodes.path(self.core.words(), node.0)
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.core.attributes(self.core.who(caller)?, node.0)
    }

    fn known_rights(&self, caller: &Caller<'_>, node: Node) -> Option<Attributes> {
        self.core.who(caller).ok()?;
        self.core.rights(node.0)
    }

    fn birth_time(&self, caller: &Caller<'_>, node: Node) -> Result<Option<Timespec>> {
        self.core.birth_time(self.core.who(caller)?, node.0)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.core.judge(caller, node.0, access)
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.core.target(self.core.who(caller)?, node.0)
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let (who, flags) = (self.core.who(caller)?, of_open(flags));
        let handle = self.core.open_file(who, node.0, flags)?;
        let file = FuseFile::new(&self.core, (who, node.0), handle, flags)?;
        Ok(Opened::Driven(file))
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let who = self.core.who(caller)?;
        match FuseFile::restored(&self.core, (who, node.0), flags, state) {
            Some(file) => Ok(Opened::Driven(file)),
            None => self.open(caller, node, flags.without(OpenFlags::TRUNCATE)),
        }
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let who = self.core.who(caller)?;
        let at = self.core.open_listing(who, dir.0, flags.0)?;
        let directory = FuseDirectory::new(&self.core, at, who)?;
        Ok(OpenedDirectory::Driven(Box::new(directory)))
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let who = self.core.who(caller)?;
        let at = self.core.open_listing(who, dir.0, 0)?;
        let listed = self.core.list(who, at, from, sink);
        self.core.close_listing(who, at);
        listed.map(|_| ())
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        let who = self.core.connection.owner();
        let at = self.core.open_listing(who, dir.0, 0)?;
        let synced = self.core.sync_listing(who, at, data_only);
        self.core.close_listing(who, at);
        synced
    }

    fn statfs(&self) -> Result<StatFs> {
        let connection = &self.core.connection;
        let out = connection.statfs(connection.owner(), ROOT_ID, &Operation::Statfs {})?;
        Ok(statfs(&out.st, connection.settings.read_only))
    }

    fn validity(&self) -> Validity {
        // The server says it with each answer.
        Validity::NONE
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.core.xattr(self.core.who(caller)?, node.0, name)
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.core.xattrs(self.core.who(caller)?, node.0)
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let who = self.core.who(caller)?;
        self.core.put_xattr(who, node.0, name, value, flags)
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.core.take_xattr(self.core.who(caller)?, node.0, name)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let changes = self.core.allowed_mode(caller, node.0, changes)?;
        self.core
            .change(self.core.who(caller)?, node.0, &changes, None)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let flags = of_open(flags);
        let made = self.core.create_file(caller, (dir.0, name), flags, mode)?;
        self.opened(caller, made, flags)
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        Self::entry(self.core.make_directory(caller, (dir.0, name), mode))
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        Self::entry(self.core.make_node(caller, (dir.0, name), mode, rdev))
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        Self::entry(self.core.make_link(caller, (dir.0, name), target))
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        Self::entry(self.core.link_node(caller, node.0, (dir.0, name)))
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        if let Some((_, FileKind::Directory)) = self.core.nodes.last(dir.0, name) {
            let found = self.core.find(self.core.who(caller)?, dir.0, name)?;
            self.core.forget(found.node.0, 1);
            if found.kind == FileKind::Directory {
                return Err(Errno::EISDIR.into());
            }
        }
        self.core.remove(caller, (dir.0, name), false)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.core.remove(caller, (dir.0, name), true)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = ((from.0.0, from.1), (to.0.0, to.1));
        self.core.move_name(caller, from, to, flags)
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let flags = of_open(flags);
        let made = self.core.create_unnamed(caller, dir.0, flags, mode)?;
        self.opened(caller, made, flags)
    }

    fn forget(&self, node: Node, count: u64) {
        self.core.forget(node.0, count);
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.core.nodes.hold(node.0)
    }

    fn release(&self, node: Node) {
        self.core.release(node.0);
    }

    fn has_ended(&self) -> bool {
        self.core.connection.channel.has_ended()
    }

    fn forked(&self, _shared_descriptors: bool) {
        self.core.epoch.fetch_add(1, Relaxed);
        self.core.words().forked();
        self.core.connection.forked();
        if self.core.nodes.has_accounts() {
            self.core.connection.settle_place();
        }
        self.core.nodes.forked(self.core.words());
    }

    fn finish(&self) {
        let back = self.core.nodes.drop_unused(self.core.words());
        self.core.give_back(back);
        if !self.core.nodes.holds_any() {
            self.core.connection.leave_place();
        }
    }
}
