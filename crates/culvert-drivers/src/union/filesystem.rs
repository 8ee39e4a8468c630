//! The file system, a call at a time.

use super::branch::Branch;
use super::control::{NAME, NODE};
use super::listing::OpenDirectory;
use super::options::{Exdev, Function};
use super::state::{Core, Shared};
use super::{ROOT, making, unfinished};
use crate::sorted_names::list;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem,
    Node, OpenFlags, Opened, OpenedDirectory, Reached, RenameFlags, Result, SetAttributes, StatFs,
    Validity,
};

/// Several file systems as one.
pub struct UnionFs(pub(super) Arc<Shared>);

impl UnionFs {
    fn core(&self) -> Core {
        let core = Core::now(&self.0);
        if self.0.names.somebody_was_killed() {
            core.finish_renames();
        }
        core
    }

    /// Whether each branch judges by itself the right to search, and to make something.
    fn all_judge(core: &Core) -> bool {
        let checks = |branch: &Branch| branch.fs.capabilities().checks_permissions;
        core.branches.iter().all(checks)
    }
}

impl FileSystem for UnionFs {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let core = self.core();
        core.lookup(caller, dir, name)
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        let core = self.core();
        match Self::all_judge(&core) {
            true => {
                let follow = core.settings().follow;
                core.reach(caller, from, path, follow)
            }
            false => None,
        }
    }

    fn reach_new(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        let core = self.core();
        let reached = match Self::all_judge(&core) {
            true => core.reach_new(caller, from, path),
            false => None,
        };
        reached.map(Ok).or_else(|| self.reach(caller, from, path))
    }

    fn attributes_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        access: Option<Access>,
    ) -> Option<Result<Attributes>> {
        let core = self.core();
        match Self::all_judge(&core) {
            true => core.attributes_at(caller, from, path, access),
            false => None,
        }
    }

    fn change_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        self.core().change_at(caller, from, path, changes)
    }

    fn unlink_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        self.core().unlink_at(caller, from, path)
    }

    fn rename_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        old: &[u8],
        new: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        self.core().rename_at(caller, from, old, new)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let core = self.core();
        if dir == ROOT {
            return Ok(ROOT);
        }
        let caller = Caller::SYSTEM;
        let parts = core.instances(&caller, dir)?;
        core.directory(&caller, dir)?;
        let mut gone = Errno::ENOENT.into();
        for part in parts {
            let branch = &core.branches[part.index].fs;
            match branch.parent(part.node) {
                Ok(above) => {
                    if let Some(node) = core.nodes.part_of(&core.branches[part.index], above) {
                        return Ok(node);
                    }
                    // Others have moved it to where nobody has looked yet.
                    let path = branch.path_of(above)?;
                    let node = core.walk(&caller, &path)?;
                    let path = branch.path_of(part.node)?;
                    let below = core.walk(&caller, &path);
                    core.nodes.forget(node, 1).give_back();
                    let below = below?;
                    core.nodes.forget(below, 1).give_back();
                    return Ok(node);
                }
                Err(error) => gone = error,
            }
        }
        Err(gone)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let core = self.core();
        if node == NODE {
            return Ok(NAME.to_vec());
        }
        core.nodes.with(node, |_| ())?;
        // What is known by its name has none where that is another's by now.
        let at = core.first(node).map_err(|error| match error.errno() {
            Errno::ESTALE => Errno::ENOENT.into(),
            _ => error,
        })?;
        let members = core.nodes.with(node, |known| known.members.clone())?;
        let mut gone = Errno::ENOENT.into();
        for member in members {
            match member.tree.fs.path_of(member.node) {
                Ok(path) => return Ok(path),
                Err(error) if error.errno() == Errno::ESTALE => {}
                Err(error) => gone = error,
            }
        }
        // It may have lost the name that the branch knows it by, and have another: a rename makes
        // one where a branch before would hide the new name.
        if gone.errno() == Errno::ENOENT
            && let Some((dir, name)) = core.place_of(node, at)
        {
            let above = self.path_of(dir)?;
            let slash = if above.is_empty() { &b""[..] } else { b"/" };
            return Ok([&above[..], slash, &name].concat());
        }
        Err(gone)
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let core = self.core();
        core.attributes(caller, node)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        let core = self.core();
        if node == NODE {
            return caller.may(access, &core.control.attributes());
        }
        if let Some((tree, part)) = core.elsewhere(node) {
            if access.write() {
                core.writable()?;
            }
            return tree.fs.access(caller, part, access);
        }
        let (index, part) = core.one(caller, node, Function::Access)?;
        let branch = &core.branches[index].fs;
        // That nothing is written on this branch is no reason that something is not to be written:
        // a directory is made on another.
        let kind = core.nodes.with(node, |known| known.kind)?;
        if access.write() && kind == FileKind::Directory && branch.capabilities().read_only {
            core.writable()?;
            return caller.may(access, &branch.attributes(caller, part)?);
        }
        if access.write() {
            core.writable()?;
        }
        branch.access(caller, part, access)
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let core = self.core();
        let (index, part) = core.one(caller, node, Function::Readlink)?;
        match core.branches[index].fs.readlink(caller, part) {
            // A file that is shown as one.
            Err(error) if error.errno() == Errno::EINVAL && core.settings().symlinkify => {
                core.told(caller, node, b"fullpath")
            }
            target => target,
        }
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let core = self.core();
        if node == NODE {
            return Err(Errno::EACCES.into());
        }
        if let Some((tree, part)) = core.elsewhere(node) {
            core.may_open(caller, (&*tree.fs, part), flags)?;
            let opened = tree.fs.open(caller, part, flags)?;
            return core.opened(node, (&tree, part), flags, opened);
        }
        let all;
        let at = match core.settings().policy(Function::Open).is_first() {
            true => core.first(node)?,
            false => {
                all = core.instances(caller, node)?;
                let one = core.asked(caller, Function::Open, &all)?;
                (one.index, one.node)
            }
        };
        let tree = &core.branches[at.0].tree;
        core.may_open(caller, (&*tree.fs, at.1), flags)?;
        core.judge_open(caller, node, at, flags)?;
        core.break_own_link(caller, node, at, flags)?;
        let opened = tree.fs.open(caller, at.1, flags)?;
        core.opened(node, (tree, at.1), flags, opened)
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        let core = self.core();
        let (index, part) = core.first(node)?;
        core.branches[index].fs.is_open_for_writing(part)
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let core = self.core();
        let (index, part) = core.first(node)?;
        let tree = &core.branches[index].tree;
        let opened = tree.fs.restore(caller, part, flags, state)?;
        core.opened(node, (tree, part), flags, opened)
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        _: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let core = self.core();
        let opened = OpenDirectory::new(&self.0, dir)?;
        core.judge_listing(caller, dir)?;
        Ok(OpenedDirectory::Driven(Box::new(opened)))
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let core = self.core();
        if !Self::all_judge(&core) {
            core.judge_listing(caller, dir)?;
        }
        let names = core.listing(caller, dir)?;
        list(&names, from, sink);
        Ok(())
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        let core = self.core();
        core.sync_directory(dir, data_only)
    }

    fn statfs(&self) -> Result<StatFs> {
        self.core().sum(None)
    }

    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        let core = self.core();
        if !core.settings().statfs_of_path || node == NODE {
            return core.sum(None);
        }
        // What has no name any more lies on all.
        let there = core.instances(&Caller::SYSTEM, node).ok();
        core.sum(there.as_deref())
    }

    fn validity(&self) -> Validity {
        let core = self.core();
        // Who is told of a link or of a move, and gets a symbolic one, is not to believe it for
        // long.
        let settings = core.settings();
        if (settings.link_exdev, settings.rename_exdev) != (Exdev::Error, Exdev::Error) {
            return Validity::NONE;
        }
        let all = core.branches.iter().map(|branch| branch.fs.validity());
        all.fold(Validity::SECOND, |least, one| Validity {
            entry: least.entry.min(one.entry),
            attributes: least.attributes.min(one.attributes),
            absent: least.absent.min(one.absent),
        })
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let core = self.core();
        if node == NODE {
            return core.control_value(name);
        }
        if let Some((tree, part)) = core.elsewhere(node) {
            return tree.fs.get_xattr(caller, part, name);
        }
        if let Some(word) = name.strip_prefix(b"user.mergerfs.") {
            return core.told(caller, node, word);
        }
        let (index, part) = core.one(caller, node, Function::Getxattr)?;
        core.branches[index].fs.get_xattr(caller, part, name)
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let core = self.core();
        if node == NODE {
            return Ok(core.control_names());
        }
        if let Some((tree, part)) = core.elsewhere(node) {
            return tree.fs.list_xattr(caller, part);
        }
        let (index, part) = core.one(caller, node, Function::Listxattr)?;
        let names = core.branches[index].fs.list_xattr(caller, part)?;
        Ok(unfinished::others(names))
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let core = self.core();
        if node == NODE {
            return core.set_option(caller, name, value);
        }
        unfinished::may_change(caller, name)?;
        core.on_each(caller, node, Function::SetXattr, &mut |branch, part| {
            branch.set_xattr(caller, part, name, value, flags)
        })
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let core = self.core();
        unfinished::may_change(caller, name)?;
        core.on_each(caller, node, Function::RemoveXattr, &mut |branch, part| {
            branch.remove_xattr(caller, part, name)
        })
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let core = self.core();
        let function = making::function(changes);
        let kind = core.nodes.with(node, |known| known.kind).ok();
        let mut after = None;
        core.on_each(caller, node, function, &mut |branch, part| {
            // The first one's are shown.
            let changed = branch.set_attributes(caller, part, changes)?;
            after.get_or_insert((core::ptr::from_ref(branch).cast::<()>(), changed));
            Ok(())
        })?;
        // Of a file that one branch has there is no more to be said.
        match after.filter(|_| kind == Some(FileKind::Regular)) {
            Some((branch, changed)) => core.attributes_after(caller, node, branch, changed),
            None => core.attributes(caller, node),
        }
    }

    fn change_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        let core = self.core();
        let function = making::function(changes);
        core.on_each(caller, node, function, &mut |branch, part| {
            branch.change_attributes(caller, part, changes)
        })
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let core = self.core();
        core.create_file(caller, dir, name, flags, mode)
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let core = self.core();
        core.make(caller, (dir, name), Function::Mkdir, &mut |branch, dir| {
            branch.mkdir(caller, dir, name, mode)
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
        let core = self.core();
        core.make(caller, (dir, name), Function::Mknod, &mut |branch, dir| {
            branch.mknod(caller, dir, name, mode, rdev)
        })
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let core = self.core();
        core.make(
            caller,
            (dir, name),
            Function::Symlink,
            &mut |branch, dir| branch.symlink(caller, dir, name, target),
        )
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let core = self.core();
        core.link_or_symlink(caller, node, (dir, name))
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let core = self.core();
        core.remove_file(caller, dir, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let core = self.core();
        core.remove_directory(caller, dir, name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let core = self.core();
        core.move_or_symlink(caller, from, to, flags)
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let core = self.core();
        core.create_unnamed(caller, dir, flags, mode)
    }

    fn forget(&self, node: Node, count: u64) {
        if node != ROOT {
            self.0.nodes.forget(node, count).give_back();
        }
    }

    fn hold(&self, node: Node) -> Result<()> {
        let core = self.core();
        if node == NODE {
            return Ok(());
        }
        if core.elsewhere(node).is_none() {
            core.first(node)?;
        }
        let held = core.nodes.hold(node)?;
        for (tree, part) in held {
            // Where it is gone already nothing is held, and its release says nothing.
            let _ = tree.fs.hold(part);
        }
        Ok(())
    }

    fn release(&self, node: Node) {
        let core = self.core();
        let (held, returned) = core.nodes.release(node);
        for (tree, part) in held {
            tree.fs.release(part);
        }
        returned.give_back();
    }

    fn sync(&self) -> Result<()> {
        let core = self.core();
        let mut branches = core.branches.iter();
        branches.try_for_each(|branch| branch.fs.sync())
    }

    /// A file is its branch's; a directory is none of its parts alone.
    fn kernel_node(&self, node: Node) -> Option<i32> {
        let core = self.core();
        let (index, part) = core.first(node).ok()?;
        let branch = &core.branches[index].fs;
        let found = branch.attributes(&Caller::SYSTEM, part).ok()?;
        (found.kind == FileKind::Regular).then(|| branch.kernel_node(part))?
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        let core = self.core();
        let (index, part) = core.first(node).ok()?;
        core.branches[index].fs.handed_down(part)
    }

    fn identify(&self, caller: &Caller<'_>, fd: i32) -> Result<Entry> {
        let core = self.core();
        let (index, entry) = core.by_descriptor(|branch| branch.identify(caller, fd))?;
        core.identified(caller, index, entry)
    }

    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        let core = self.core();
        let (index, (entry, opened)) =
            core.by_descriptor(|branch| branch.adopt(caller, fd, flags))?;
        let part = entry.attributes.node;
        let entry = core.identified(caller, index, entry)?;
        let node = entry.attributes.node;
        let at = (&core.branches[index].tree, part);
        match core.opened(node, at, flags, opened) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.forget(node, 1);
                Err(error)
            }
        }
    }

    fn forked(&self, shared_descriptors: bool) {
        // A turn of the parent's is not to be waited for.
        let core = Core::now(&self.0);
        core.names.forked();
        core.beliefs.forked();
        for branch in core.branches.iter() {
            branch.fs.forked(shared_descriptors);
        }
    }

    fn finish(&self) {
        let core = self.core();
        for branch in core.branches.iter() {
            branch.fs.finish();
        }
    }
}
