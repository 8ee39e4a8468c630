//! The file system under the layer.

use super::core::Core;
use super::file::BindFile;
use super::making::Making;
use super::options::Settings;
use super::rates::Rates;
use crate::{DescriptorFile, Environment, unhindered};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, Error, FileKind,
    FileSystem, Layer, LayeredFile, Node, OpenFlags, Opened, OpenedDirectory, Reached, RenameFlags,
    Result, SetAttributes, Touches, Validity, Walked,
};

/// A file system with other owners and rules.
pub struct BindFs(Arc<Core>);

impl BindFs {
    /// `inner`, with `settings`.
    pub fn new(
        inner: Box<dyn FileSystem>,
        settings: Settings,
        environment: &Environment<'_>,
    ) -> Result<Self> {
        let plain = settings == Settings::default();
        let mounter = settings.as_mounter && environment.alone;
        let rates = Rates::of(&settings, environment)?;
        Ok(Self(Arc::new(Core {
            judges: settings.judges() || mounter,
            acts: inner.capabilities().checks_permissions,
            alone: environment.alone,
            touches: match (plain, rates.is_some()) {
                (true, _) => Touches::NOTHING,
                (false, true) => Touches::ALL,
                (false, false) => Touches::NO_DATA,
            },
            making: Making::default(),
            rates,
            keeper: environment.keeper,
            inner,
            settings,
        })))
    }

    /// Shows what `path` led to from directory `from`, and by the way `parent`, which loses its
    /// reference where that fails.
    fn reached(
        &self,
        caller: &Caller<'_>,
        (from, path): (Node, &[u8]),
        parent: Node,
        entry: Option<Entry>,
    ) -> Result<Option<Entry>> {
        let shown = entry.map(|entry| self.0.show_reached(caller, (from, path), entry));
        shown.transpose().inspect_err(|_| {
            if parent != from {
                self.0.inner.forget(parent, 1);
            }
        })
    }

    /// Whether paths lead where they lead below, by the same rights.
    fn leaves_paths(&self) -> bool {
        let settings = &self.0.settings;
        !self.0.judges && settings.excluded.is_empty() && !settings.resolves
    }

    /// Whether listings are this layer's, not those below.
    fn lists(&self) -> bool {
        let settings = &self.0.settings;
        !settings.excluded.is_empty() || settings.resolves || settings.block_files
    }

    fn wrap(
        &self,
        caller: &Caller<'_>,
        rules: usize,
        node: Node,
        opened: Opened,
    ) -> Result<Opened> {
        let core = &self.0;
        if core.touches.is_nothing() {
            return Ok(opened);
        }
        let file = match opened {
            Opened::Driven(file) => file,
            Opened::Backed(fd) => {
                let inode = core.inner.attributes(&Caller::SYSTEM, node)?.inode;
                Box::new(DescriptorFile::new(
                    unhindered(fd),
                    core.keeper,
                    node,
                    inode,
                ))
            }
        };
        let file = BindFile::new(file, Arc::clone(core), rules, caller);
        Ok(Opened::Driven(Box::new(LayeredFile(file))))
    }

    /// Shows what was opened with its `entry`, which loses its reference where that fails.
    fn entered(
        &self,
        caller: &Caller<'_>,
        rules: usize,
        (entry, opened): (Entry, Opened),
    ) -> Result<(Entry, Opened)> {
        let core = &self.0;
        let node = entry.attributes.node;
        let both = || {
            let attributes = core.shown(caller, core.rules(rules), entry.attributes)?;
            Ok((
                Entry { attributes },
                self.wrap(caller, rules, node, opened)?,
            ))
        };
        both().inspect_err(|_| core.inner.forget(node, 1))
    }

    /// Makes a name that is no regular file's that is opened, too.
    fn make(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        (kind, mode): (FileKind, u32),
        work: impl FnOnce(&Caller<'_>, u32) -> Result<Entry>,
    ) -> Result<Entry> {
        let core = &self.0;
        core.admit(caller)?;
        core.may_make(dir, name)?;
        let index = core.index_at(dir, name)?;
        let rules = core.rules(index);
        let undo = || {
            let _ = match kind {
                FileKind::Directory => core.inner.rmdir(caller, dir, name),
                _ => core.inner.unlink(caller, dir, name),
            };
        };
        let made = core.make(
            caller,
            (dir, rules),
            (kind, mode),
            work,
            |made: &mut Entry| made,
            undo,
        )?;
        let shown = core.shown(caller, rules, made.attributes);
        let shown = shown.inspect_err(|_| core.inner.forget(made.attributes.node, 1));
        Ok(Entry { attributes: shown? })
    }
}

impl Layer for BindFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.0.inner
    }

    fn touches(&self) -> Touches {
        self.0.touches
    }

    fn capabilities(&self) -> Capabilities {
        let below = self.0.inner.capabilities();
        Capabilities {
            checks_permissions: below.checks_permissions && !self.0.judges,
            immutable: below.immutable && !self.0.settings.mirrors(),
            locks: below.locks && !self.0.touches.data,
            ..below
        }
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let core = &self.0;
        core.admit(caller)?;
        core.find(dir, name)?;
        let look = || core.inner.lookup(caller, dir, name);
        let forget = |found: Entry| core.inner.forget(found.attributes.node, 1);
        let found = core.making.look(dir, look, forget)?;
        let attributes = found.attributes;
        if !core.settings.resolves || attributes.kind != FileKind::Symlink {
            return core.show_entry(caller, found);
        }
        let target = core.resolve(caller, dir, attributes.node);
        let Some(target) = target else {
            return core.show_entry(caller, found);
        };
        core.inner.forget(attributes.node, 1);
        core.show_entry(caller, target.into_entry())
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        if self.leaves_paths() {
            let walked = self.0.inner.walk(caller, from, path)?;
            let passed = &path[..walked.consumed];
            let entry = self.reached(caller, (from, passed), walked.parent, walked.entry)?;
            return Ok(Walked { entry, ..walked });
        }
        // One component: the front end goes on from there.
        let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
        let entry = self.lookup(caller, from, name)?;
        let leads_on = matches!(
            entry.attributes.kind,
            FileKind::Directory | FileKind::Symlink
        );
        if name.len() < path.len() && !leads_on {
            self.0.inner.forget(entry.attributes.node, 1);
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Walked {
            entry: Some(entry),
            parent: from,
            consumed: name.len(),
        })
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        if !self.leaves_paths() {
            return None;
        }
        let reached = self.0.inner.reach(caller, from, path)?;
        Some(reached.and_then(|reached| {
            let entry = self.reached(caller, (from, path), reached.parent, reached.entry)?;
            Ok(Reached { entry, ..reached })
        }))
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.0.show(caller, self.0.inner.attributes(caller, node)?)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        use FileKind::{Directory, Regular, Symlink};
        if !self.0.judges {
            return self.0.inner.access(caller, node, access);
        }
        let shown = self.attributes(caller, node)?;
        let stored = matches!(shown.kind, Regular | Directory | Symlink);
        if access.write() && stored && self.capabilities().read_only {
            return Err(Errno::EROFS.into());
        }
        caller.may(access, &shown)
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let core = &self.0;
        core.admit(caller)?;
        let opened = match core.device(node)? {
            Some(device) => core.open_device(device, node, flags)?,
            None => core.inner.open(caller, node, flags)?,
        };
        if flags.truncate() && core.clears(caller) {
            let set = |changes: &SetAttributes| core.inner.set_attributes(caller, node, changes);
            core.cleared(core.inner.attributes(caller, node)?, set)?;
        }
        self.wrap(caller, core.index(node)?, node, opened)
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let core = &self.0;
        let opened = match core.device(node)? {
            Some(device) => core.open_device(device, node, flags)?,
            None => core.inner.restore(caller, node, flags, state)?,
        };
        self.wrap(caller, core.index(node)?, node, opened)
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        self.0.admit(caller)?;
        let opened = self.0.inner.open_directory(caller, dir, flags)?;
        match self.lists() {
            // As `read_directory` gives them.
            true => Ok(OpenedDirectory::Stateless),
            false => Ok(opened),
        }
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        self.0.admit(caller)?;
        if !self.lists() {
            return self.0.inner.read_directory(caller, dir, from, sink);
        }
        let (hides, settings) = (self.0.hidden_in(dir)?, &self.0.settings);
        self.0
            .inner
            .read_directory(caller, dir, from, &mut |mut entry| {
                if hides(entry.name) {
                    return true;
                }
                match entry.kind {
                    FileKind::Symlink if settings.resolves => {
                        if let Ok(found) = self.lookup(caller, dir, entry.name) {
                            entry.kind = found.attributes.kind;
                            entry.inode = found.attributes.inode;
                            self.0.inner.forget(found.attributes.node, 1);
                        }
                    }
                    FileKind::BlockDevice if settings.block_files => entry.kind = FileKind::Regular,
                    _ => {}
                }
                sink(entry)
            })
    }

    fn validity(&self) -> Validity {
        // A link that is shown as a file leads elsewhere when it is moved.
        match self.0.settings.mirrors() || self.0.settings.resolves {
            true => Validity::NONE,
            false => self.0.inner.validity(),
        }
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.0.admit(caller)?;
        self.0.inner.readlink(caller, node)
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.0.admit(caller)?;
        self.0.may_use_xattr(caller, node, name, false)?;
        self.0.inner.get_xattr(caller, node, name)
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.0.admit(caller)?;
        self.0.may_list_xattrs(node)?;
        self.0.inner.list_xattr(caller, node)
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.0.admit(caller)?;
        self.0.may_use_xattr(caller, node, name, true)?;
        self.0.inner.set_xattr(caller, node, name, value, flags)
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.0.admit(caller)?;
        self.0.may_use_xattr(caller, node, name, true)?;
        self.0.inner.remove_xattr(caller, node, name)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let core = &self.0;
        core.admit(caller)?;
        let rules = core.rules(core.index(node)?);
        let own = || core.inner.attributes(caller, node);
        let set = |wanted: &SetAttributes| core.inner.set_attributes(caller, node, wanted);
        let changed = core.change(caller, rules, own, changes, set)?;
        core.shown(caller, rules, changed)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let core = &self.0;
        core.admit(caller)?;
        core.may_make(dir, name)?;
        let index = core.index_at(dir, name)?;
        let made = core.create(caller, (dir, name), flags, mode)?;
        self.entered(caller, index, made)
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let work = |caller: &Caller<'_>, mode| self.0.inner.mkdir(caller, dir, name, mode);
        self.make(caller, (dir, name), (FileKind::Directory, mode), work)
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        const KIND: u32 = 0o170000;
        // None: the driver's error.
        let kind = FileKind::of_mode(mode).unwrap_or(FileKind::Regular);
        let work = |caller: &Caller<'_>, bits: u32| {
            let mode = mode & KIND | bits;
            self.0.inner.mknod(caller, dir, name, mode, rdev)
        };
        self.make(caller, (dir, name), (kind, mode & !KIND), work)
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        if self.0.settings.resolves {
            return Err(Error::because(Errno::EPERM, "resolve-symlinks"));
        }
        let work = |caller: &Caller<'_>, _| self.0.inner.symlink(caller, dir, name, target);
        self.make(caller, (dir, name), (FileKind::Symlink, 0o777), work)
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.0.admit(caller)?;
        self.0.may_make(dir, name)?;
        self.0.may_link(node, (dir, name))?;
        let linked = self.0.inner.link(caller, node, dir, name)?;
        self.0.show_entry(caller, linked)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.admit(caller)?;
        self.0.find(dir, name)?;
        let rules = self.0.rules(self.0.index_at(dir, name)?);
        self.0.may_delete(caller, rules, (dir, name), false)?;
        self.0.unlink(caller, dir, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.admit(caller)?;
        self.0.find(dir, name)?;
        let rules = self.0.rules(self.0.index_at(dir, name)?);
        self.0.may_delete(caller, rules, (dir, name), true)?;
        self.0.inner.rmdir(caller, dir, name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let core = &self.0;
        core.admit(caller)?;
        core.find(from.0, from.1)?;
        core.may_make(to.0, to.1)?;
        if !core.may_rename(caller, (from, to), flags)? {
            return Ok(());
        }
        core.may_move(caller, from, to)?;
        if flags.exchange() {
            core.may_move(caller, to, from)?;
        }
        match core.behind(caller, to.0, to.1) {
            // What the link leads to is replaced, as bindfs does.
            Ok(Some(target)) if flags == RenameFlags(0) => {
                core.may_remove(caller, &target)?;
                let to = (target.dir, &target.name[..]);
                core.may_move(caller, from, to)?;
                if !core.may_rename(caller, (from, to), flags)? {
                    return Ok(());
                }
                core.inner.rename(caller, from, to, flags)
            }
            _ => core.inner.rename(caller, from, to, flags),
        }
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let core = &self.0;
        core.admit(caller)?;
        let index = core.index(dir)?;
        let made = core.make(
            caller,
            (dir, core.rules(index)),
            (FileKind::Regular, mode),
            |caller, mode| core.inner.tmpfile(caller, dir, flags, mode),
            |made: &mut (Entry, Opened)| &mut made.0,
            || (),
        )?;
        self.entered(caller, index, made)
    }

    fn kernel_node(&self, node: Node) -> Option<i32> {
        // A watch on a directory tells of names that are hidden.
        let hides = !self.0.settings.excluded.is_empty();
        self.0.inner.kernel_node(node).filter(|_| !hides)
    }

    fn identify(&self, caller: &Caller<'_>, fd: i32) -> Result<Entry> {
        let found = self.0.inner.identify(caller, fd)?;
        self.0.show_entry(caller, found)
    }

    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        let adopted = self.0.inner.adopt(caller, fd, flags)?;
        let node = adopted.0.attributes.node;
        let index = self.0.index(node);
        let index = index.inspect_err(|_| self.0.inner.forget(node, 1))?;
        self.entered(caller, index, adopted)
    }
}
