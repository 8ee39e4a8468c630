//! What is made: in the upper layer, where a whiteout may be in the place.

use super::copy_up::{Bytes, temporary};
use super::looking::{Above, Found};
use super::marks::Mark;
use super::state::{Core, Part};
use alloc::sync::Arc;
use culvert::{
    Access, Attributes, Caller, Entry, Errno, FileKind, FileSystem, Node, OpenFlags, Opened,
    RenameFlags, Result, SetAttributes,
};

/// Makes something in a directory of the upper layer by the name given.
type Make<'a, T> = &'a mut dyn FnMut(&dyn FileSystem, Node, &[u8]) -> Result<T>;

const SET_GROUP_ID: u32 = 0o2000;

/// Something new in the upper layer.
trait Made {
    fn attributes(&mut self) -> &mut Attributes;
}

impl Made for Entry {
    fn attributes(&mut self) -> &mut Attributes {
        &mut self.attributes
    }
}

impl Made for (Entry, Opened) {
    fn attributes(&mut self) -> &mut Attributes {
        &mut self.0.attributes
    }
}

impl Core {
    /// Whether `caller` may do `access` to `node`, where the mount judges.
    pub fn may(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        match self.capabilities.checks_permissions {
            true => self.access(caller, node, access),
            // The front end has judged.
            false => Ok(()),
        }
    }

    /// Whether `caller` may do `access` to `node`.
    pub fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        if access.write() {
            self.writable()?;
        }
        let parts = self.parts(node)?;
        let top = parts.top()?;
        let fs = self.fs(top);
        if top.layer == 0 && self.settings.upper {
            return fs.access(caller, top.node, access);
        }
        // That nothing is written to a lower layer is no reason.
        let by_mode = || caller.may(access, &fs.attributes(&Caller::SYSTEM, top.node)?);
        match fs.capabilities().read_only && access.write() {
            true => by_mode(),
            false => match fs.access(caller, top.node, access) {
                Err(error) if error.errno() == Errno::EROFS => by_mode(),
                judged => judged,
            },
        }
    }

    /// Whether `caller` may change names in `dir`.
    pub fn may_change(&self, caller: &Caller<'_>, dir: Node) -> Result<()> {
        self.may(caller, dir, Access(Access::WRITE.0 | Access::EXECUTE.0))
    }

    /// Whether `caller` may take a name from what belongs to user `owner` in `dir` (`may_delete`,
    /// fs/namei.c).
    pub fn may_remove(&self, caller: &Caller<'_>, dir: Node, owner: u32) -> Result<()> {
        const STICKY: u32 = 0o1000;
        self.may_change(caller, dir)?;
        if !self.capabilities.checks_permissions || caller.is_owner(owner) {
            return Ok(());
        }
        let shown = self.attributes(dir)?;
        match shown.permissions & STICKY != 0 && !caller.is_owner(shown.uid) {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }

    /// Makes `name` in `dir` by `make`; `EEXIST` where there is something.
    fn place<T: Made>(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        make: Make<'_, T>,
    ) -> Result<T> {
        let parts = self.directory(dir)?;
        if self.is_hidden(dir, name) {
            return Err(Errno::EEXIST.into());
        }
        if let Some(found) = self.find_in((dir, &parts), name)? {
            self.leave(found);
            return Err(Errno::EEXIST.into());
        }
        if self.layers[0].docker && super::marks::is_dockers(name) {
            return Err(Errno::EINVAL.into());
        }
        self.may_change(caller, dir)?;
        let over = self.copy_up(dir, Bytes::All)?;
        let above = self.above(&parts, name)?;
        let upper = self.upper()?;
        if above == Above::Whiteout {
            return self.place_over(caller, over, name, make);
        }
        let mut made = make(upper, over.node, name)?;
        let made_here = *made.attributes();
        // As `ovl_create_upper`: lower layers need not be asked, unless they may change while
        // nothing is mounted.
        let may_change = !self.moves_directories() && !self.settings.metacopy;
        if made_here.kind == FileKind::Directory && parts.is_merged() && !may_change {
            let _ = self.elevated(|| self.set_mark(made_here.node, Mark::Opaque, b"y"));
        }
        Ok(made)
    }

    /// The same over a whiteout: made in the work directory, and put in its place at one moment.
    fn place_over<T: Made>(
        &self,
        caller: &Caller<'_>,
        over: Part,
        name: &[u8],
        make: Make<'_, T>,
    ) -> Result<T> {
        let (upper, work) = (self.upper()?, self.work()?);
        let temporary = temporary();
        let mut made = self.elevated(|| make(upper, work, &temporary))?;
        let found = *made.attributes();
        let is_directory = found.kind == FileKind::Directory;
        let put = || {
            let over_it = upper.attributes(&Caller::SYSTEM, over.node)?;
            let mut changes = SetAttributes::default();
            if over_it.permissions & SET_GROUP_ID != 0 {
                changes.gid = Some(over_it.gid);
                let inherited = if is_directory { SET_GROUP_ID } else { 0 };
                changes.permissions = Some(found.permissions | inherited);
            } else if found.gid != caller.gid && !caller.is_system() {
                changes.gid = Some(caller.gid);
            }
            if !changes.is_empty() && found.kind != FileKind::Symlink {
                upper.change_attributes(&Caller::SYSTEM, found.node, &changes)?;
            }
            if is_directory {
                // What the whiteout hid stays hidden.
                self.set_mark(found.node, Mark::Opaque, b"y")?;
            }
            self.put_over((work, &temporary), (over.node, name), is_directory)
        };
        match self.elevated(put) {
            Ok(()) => {
                *made.attributes() = upper.attributes(&Caller::SYSTEM, found.node)?;
                Ok(made)
            }
            Err(error) => {
                let _ = self.elevated(|| self.clean(work, &temporary, is_directory));
                upper.forget(found.node, 1);
                Err(error)
            }
        }
    }

    /// Moves what is in the work directory over a whiteout.
    pub fn put_over(
        &self,
        (work, temporary): (Node, &[u8]),
        (over, name): (Node, &[u8]),
        is_directory: bool,
    ) -> Result<()> {
        let upper = self.upper()?;
        let system = &Caller::SYSTEM;
        let found = upper.lookup(system, over, name);
        // Docker's is beside it.
        let is_beside = found.is_err();
        if let Ok(found) = found {
            upper.forget(found.attributes.node, 1);
        }
        let flags = match is_directory && !is_beside {
            true => RenameFlags(RenameFlags::EXCHANGE),
            false => RenameFlags::default(),
        };
        upper.rename(system, (work, temporary), (over, name), flags)?;
        if is_directory && !is_beside {
            let _ = upper.unlink(system, work, temporary);
        }
        if is_beside {
            let _ = upper.unlink(system, over, &[b".wh.", name].concat());
        }
        Ok(())
    }

    /// The entry of what was made as `name` in `dir`.
    fn made(&self, place: Option<(Node, &[u8])>, attributes: Attributes) -> Result<Entry> {
        let number = self.number(0, attributes.node);
        let checked = self.look_for_changes();
        self.enter(place, Found::made(number, attributes), checked)
    }

    pub fn make(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        make: Make<'_, Entry>,
    ) -> Result<Entry> {
        self.writable()?;
        let _change = self.change();
        let entry = self.place(caller, (dir, name), make)?;
        self.made(Some((dir, name)), entry.attributes)
    }

    pub fn create_file(
        self: &Arc<Self>,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let change = self.change();
        if let Some(found) = self.find(dir, name)? {
            let kind = found.attributes.kind;
            let refused = match kind {
                _ if flags.exclusive() => Some(Errno::EEXIST),
                FileKind::Regular => None,
                FileKind::Directory => Some(Errno::EISDIR),
                FileKind::Symlink => Some(Errno::ELOOP),
                _ => Some(Errno::ENXIO),
            };
            if let Some(errno) = refused {
                self.leave(found);
                return Err(errno.into());
            }
            let entry = self.enter(Some((dir, name)), found, self.look_for_changes())?;
            drop(change);
            let node = entry.attributes.node;
            let open = || {
                let read = if flags.read() { Access::READ.0 } else { 0 };
                let writes = flags.write() || flags.truncate();
                let write = if writes { Access::WRITE.0 } else { 0 };
                self.access(caller, node, Access(read | write))?;
                let opened = self.open_node(caller, node, flags.without(OpenFlags::EXCLUSIVE))?;
                let attributes = self.attributes(node)?;
                Ok((Entry { attributes }, opened))
            };
            return open().inspect_err(|_| self.give_back(self.nodes.forget(node, 1)));
        }
        let flags = flags.with(OpenFlags::EXCLUSIVE);
        let (made, opened) = self.place(caller, (dir, name), &mut |upper, dir, name| {
            upper.create(caller, dir, name, flags, mode)
        })?;
        let entry = self.made(Some((dir, name)), made.attributes)?;
        self.with_opened(entry, flags, opened)
    }

    fn with_opened(
        self: &Arc<Self>,
        entry: Entry,
        flags: OpenFlags,
        opened: Opened,
    ) -> Result<(Entry, Opened)> {
        let node = entry.attributes.node;
        let part = self.nodes.with(node, |known| known.parts.top())??;
        match self.opened(node, part, flags, opened) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.give_back(self.nodes.forget(node, 1));
                Err(error)
            }
        }
    }

    pub fn create_unnamed(
        self: &Arc<Self>,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let _change = self.change();
        self.directory(dir)?;
        self.may_change(caller, dir)?;
        let over = self.copy_up(dir, Bytes::All)?;
        let (made, opened) = self.upper()?.tmpfile(caller, over.node, flags, mode)?;
        let entry = self.made(None, made.attributes)?;
        self.with_opened(entry, flags, opened)
    }

    pub fn add_name(
        &self,
        caller: &Caller<'_>,
        node: Node,
        (dir, name): (Node, &[u8]),
    ) -> Result<Entry> {
        self.writable()?;
        if self.nodes.with(node, |known| known.kind)? == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        let _change = self.change();
        // A copy of its bytes, too: the mark of their place is of one name.
        let part = self.copy_up(node, Bytes::All)?;
        let entry = self.place(caller, (dir, name), &mut |upper, dir, name| {
            upper.link(caller, part.node, dir, name)
        })?;
        let mut found = Found::made(node, entry.attributes);
        found.seen.number = node;
        // Copies of lower files are looked for there.
        let parts = self.directory(dir)?;
        if let Some(over) = parts.upper
            && node != self.number(0, part.node)
        {
            let _ = self.elevated(|| self.set_mark(over.node, Mark::Impure, b"y"));
        }
        self.enter(Some((dir, name)), found, self.look_for_changes())
    }
}
