//! The file system: what is asked, and who does it.

use super::copy_up::Bytes;
use super::listing::OpenDirectory;
use super::state::Core;
use crate::sorted_names::list;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem,
    Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result, SetAttributes, StatFs, Validity,
};

/// Lower layers and one that takes the changes, as one.
pub struct OverlayFs(pub Arc<Core>);

impl Core {
    /// fsync(2) of a directory: of its upper part, since lower ones do not change.
    pub fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        match self.directory(dir)?.upper {
            Some(part) if !self.settings.volatile => {
                self.fs(part).sync_directory(part.node, data_only)
            }
            _ => Ok(()),
        }
    }

    /// What `node` is in the upper layer, where an attribute of it is to be changed.
    fn raised(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<super::state::Part> {
        self.writable()?;
        let parts = self.parts(node)?;
        if let Some(part) = parts.upper {
            return Ok(part);
        }
        let found = self.attributes(node)?;
        let is_refused = name.starts_with(b"user.") && !super::looking::has_attributes(found.kind)
            || name.starts_with(b"system.") && !caller.is_owner(found.uid)
            || name.starts_with(b"trusted.") && !caller.has(culvert::Rights::SYS_ADMIN);
        if is_refused {
            return Err(Errno::EPERM.into());
        }
        if name.starts_with(b"user.") {
            self.may(caller, node, Access::WRITE)?;
        }
        let _change = self.change();
        self.copy_up(node, Bytes::Wanted)
    }
}

impl FileSystem for OverlayFs {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn root(&self) -> Node {
        self.0.root
    }

    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.0.lookup((dir, name))
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.0.parent_of(dir)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.0.path_of(node)
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.0.attributes(node)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.0.access(caller, node, access)
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let part = self.0.parts(node)?.top()?;
        self.0
            .as_mounter(|| self.0.fs(part).readlink(caller, part.node))
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let core = &self.0;
        if core.capabilities.checks_permissions {
            let read = if flags.read() { Access::READ.0 } else { 0 };
            let writes = flags.write() || flags.truncate();
            let write = if writes { Access::WRITE.0 } else { 0 };
            core.access(caller, node, Access(read | write))?;
        }
        match core.nodes.with(node, |known| known.kind)? {
            FileKind::Regular => core.open_node(caller, node, flags),
            FileKind::Directory => Err(Errno::EISDIR.into()),
            FileKind::Symlink => Err(Errno::ELOOP.into()),
            _ => Err(Errno::ENXIO.into()),
        }
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        let part = self.0.parts(node)?.top()?;
        self.0.fs(part).is_open_for_writing(part.node)
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let core = &self.0;
        let parts = core.parts(node)?;
        let part = match parts.lowers.last() {
            Some(bytes) if !flags.write() => *bytes,
            _ => parts.top()?,
        };
        let opened = core.fs(part).restore(caller, part.node, flags, state)?;
        core.opened(node, part, flags, opened)
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        _: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let opened = OpenDirectory::new(&self.0, dir)?;
        self.0.may(caller, dir, Access::READ)?;
        Ok(OpenedDirectory::Driven(Box::new(opened)))
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let names = self.0.listing(dir)?;
        list(&names, from, sink);
        Ok(())
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.0.sync_directory(dir, data_only)
    }

    fn statfs(&self) -> Result<StatFs> {
        let found = self.0.layers[0].fs.statfs()?;
        const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
        Ok(StatFs {
            magic: OVERLAYFS_SUPER_MAGIC,
            read_only: found.read_only || self.0.settings.read_only,
            ..found
        })
    }

    fn validity(&self) -> Validity {
        let can = self.0.capabilities;
        if can.read_only && can.immutable {
            return Validity::FOREVER;
        }
        let all = self.0.layers.iter().map(|layer| layer.fs.validity());
        all.fold(Validity::SECOND, |least, one| Validity {
            entry: least.entry.min(one.entry),
            attributes: least.attributes.min(one.attributes),
            absent: least.absent.min(one.absent),
        })
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let core = &self.0;
        let part = core.parts(node)?.top()?;
        let name = core.stored_xattr(name);
        core.fs(part).get_xattr(caller, part.node, &name)
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let core = &self.0;
        let part = core.parts(node)?.top()?;
        let all = core.fs(part).list_xattr(caller, part.node)?;
        let mut shown = Vec::new();
        let names = all.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        for name in names.filter_map(|name| core.shown_xattr(name)) {
            shown.extend_from_slice(&name);
            shown.push(0);
        }
        Ok(shown)
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let core = &self.0;
        let part = core.raised(caller, node, name)?;
        let name = core.stored_xattr(name);
        core.fs(part)
            .set_xattr(caller, part.node, &name, value, flags)
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let core = &self.0;
        core.writable()?;
        if core.parts(node)?.upper.is_none() {
            // Nothing is copied for what is not there.
            self.get_xattr(caller, node, name)?;
        }
        let part = core.raised(caller, node, name)?;
        let name = core.stored_xattr(name);
        core.fs(part).remove_xattr(caller, part.node, &name)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.0.set_attributes(caller, node, changes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.0.create_file(caller, (dir, name), flags, mode)
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        self.0.make(caller, (dir, name), &mut |upper, dir, name| {
            upper.mkdir(caller, dir, name, mode)
        })
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        // It would be a whiteout (`ovl_mknod`).
        if FileKind::of_mode(mode) == Some(FileKind::CharacterDevice) && rdev == 0 {
            return Err(Errno::EPERM.into());
        }
        self.0.make(caller, (dir, name), &mut |upper, dir, name| {
            upper.mknod(caller, dir, name, mode, rdev)
        })
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        self.0.make(caller, (dir, name), &mut |upper, dir, name| {
            upper.symlink(caller, dir, name, target)
        })
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.0.add_name(caller, node, (dir, name))
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.remove(caller, (dir, name), false)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.remove(caller, (dir, name), true)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.0.move_name(caller, from, to, flags)
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.0.create_unnamed(caller, dir, flags, mode)
    }

    fn forget(&self, node: Node, count: u64) {
        if node != self.0.root {
            self.0.give_back(self.0.nodes.forget(node, count));
        }
    }

    fn hold(&self, node: Node) -> Result<()> {
        for part in self.0.nodes.hold(node)? {
            // Where it is gone already nothing is held, and its release says nothing.
            let _ = self.0.fs(part).hold(part.node);
        }
        Ok(())
    }

    fn release(&self, node: Node) {
        let (held, returned) = self.0.nodes.release(node);
        for part in held {
            self.0.fs(part).release(part.node);
        }
        self.0.give_back(returned);
    }

    fn sync(&self) -> Result<()> {
        match self.0.settings.read_only || self.0.settings.volatile {
            true => Ok(()),
            false => self.0.layers[0].fs.sync(),
        }
    }

    /// A file in the upper layer is that one's; a directory is none of its parts alone, and what is
    /// in a lower layer may be copied.
    fn kernel_node(&self, node: Node) -> Option<i32> {
        let parts = self.0.parts(node).ok()?;
        let kind = self.0.nodes.with(node, |known| known.kind).ok()?;
        let part = parts.top().ok()?;
        let stays = parts.upper.is_some() || self.0.settings.read_only;
        (kind == FileKind::Regular && stays && !(parts.upper.is_some() && parts.is_merged()))
            .then(|| self.0.fs(part).kernel_node(part.node))?
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        let part = self.0.parts(node).ok()?.top().ok()?;
        self.0.fs(part).handed_down(part.node)
    }

    fn identify(&self, caller: &Caller<'_>, fd: i32) -> Result<Entry> {
        let core = &self.0;
        let (index, entry) = core.by_descriptor(|layer| layer.identify(caller, fd))?;
        core.identified(index, entry)
    }

    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        let core = &self.0;
        let (index, (entry, opened)) =
            core.by_descriptor(|layer| layer.adopt(caller, fd, flags))?;
        let part = super::state::Part {
            layer: index,
            node: entry.attributes.node,
            attribute_whiteouts: false,
        };
        let entry = core.identified(index, entry)?;
        let node = entry.attributes.node;
        match core.opened(node, part, flags, opened) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.forget(node, 1);
                Err(error)
            }
        }
    }

    fn forked(&self, shared_descriptors: bool) {
        self.0.names.forked();
        for layer in &self.0.layers {
            layer.fs.forked(shared_descriptors);
        }
    }

    fn finish(&self) {
        for layer in &self.0.layers {
            layer.fs.finish();
        }
    }
}
