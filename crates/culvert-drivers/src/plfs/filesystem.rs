//! The driver: paths to containers.

use super::container::Container;
use super::layout::ACCESS;
use super::object::{Object, access_of};
use super::setup::{self, Setup, is_reserved};
use super::table::{Handle, Opened, Table, collect};
use super::{forks, host, meta};
use crate::passthrough::attributes::{Target, attributes, change};
use crate::passthrough::kernel;
use crate::{KeptFd, OwnedFd};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::SeqCst;
use culvert::path::{PathEntry, PathFileSystem};
use culvert::{
    Access, Attributes, Caller, Capabilities, Errno, FileKind, Lock, LockOwner, Node, OpenFlags,
    RenameFlags, Result, SetAttributes, Sink, Source, StatFs, Timespec, Wait, Whence, sync::Mutex,
};
use culvert_sys::fs;
use culvert_sys::raw::general::{self as linux, statx};

/// See the module.
pub struct PlfsFs {
    pub setup: Arc<Setup>,
    pub table: Arc<Table>,
}

impl PlfsFs {
    pub fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            table: Arc::new(Mutex::new(BTreeMap::new())),
        }
    }

    /// What becomes of record locks that have no file: those of a plain file among containers are
    /// refused. By ENOSYS a kernel would keep all locks of the mount to itself from then on.
    fn no_locks(&self, handle: &Handle) -> Errno {
        match handle {
            Handle::Plain(_) if !self.setup.flat => Errno::ENOLCK,
            _ => Errno::ENOSYS,
        }
    }

    /// What `path` leads to.
    pub fn object(&self, path: &[u8]) -> Result<Object> {
        if is_reserved(path) {
            return Err(Errno::ENOENT.into());
        }
        let at = self.setup.canonical_of(path);
        let place = host::place(self.setup.root(at), path)?;
        let status = kernel::status(&place, None)?;
        let access = match host::is_directory(&status) {
            true => access_of(&place)?,
            false => None,
        };
        let found = Object {
            at,
            place,
            status,
            access,
        };
        // A directory is on all back ends, and is the one on the first, whatever its name is.
        let first = self.setup.canonical[0];
        if at != first && found.access.is_none() && host::is_directory(&found.status) {
            let place = host::place(self.setup.root(first), path);
            if let Ok(place) = place {
                let status = kernel::status(&place, None)?;
                return Ok(Object {
                    at: first,
                    place,
                    status,
                    access: None,
                });
            }
        }
        Ok(found)
    }

    /// The inode that is shown for what `status` describes: of other devices than the first back
    /// end's the number alone would make two files one.
    pub fn inode(&self, status: &statx) -> u64 {
        let (device, inode) = kernel::identity(status);
        let first =
            kernel::status(self.setup.root(0), None).map(|first| kernel::identity(&first).0);
        match first.is_ok_and(|first| first == device) || self.setup.backends.len() == 1 {
            true => inode,
            false => inode ^ device.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// The container of `object`, if this process has it open.
    pub fn known(&self, object: &Object) -> Option<Arc<Container>> {
        self.table.lock().get(&self.key(object)).cloned()
    }

    /// The same in all tables of descriptors: what they know without a descriptor is to be changed.
    pub fn all_known(&self, object: &Object) -> Vec<Arc<Container>> {
        let inode = self.inode(&object.status);
        let all = self.table.lock();
        let of_inode = all.range((inode, 0)..=(inode, usize::MAX));
        of_inode.map(|(_, known)| Arc::clone(known)).collect()
    }

    /// By what the calling thread knows the container of `object`.
    fn key(&self, object: &Object) -> (u64, usize) {
        (self.inode(&object.status), self.setup.keeper.table())
    }

    /// A directory was changed when it was changed on any back end.
    fn latest(&self, path: &[u8], mut found: Attributes) -> Attributes {
        for at in 0..self.setup.backends.len() {
            let place = host::place(self.setup.root(at), path);
            let status = place.and_then(|place| kernel::status(&place, None));
            if let Ok(other) = status.and_then(|status| attributes(Node(0), &status)) {
                found.mtime = found.mtime.max(other.mtime);
                found.ctime = found.ctime.max(other.ctime);
            }
        }
        found
    }

    fn attributes_of(&self, object: &Object) -> Result<Attributes> {
        let inode = self.inode(&object.status);
        let Some(access) = &object.access else {
            let found = attributes(Node(inode), &object.status)?;
            let directory = found.kind == FileKind::Directory;
            // Containers are directories too: the number says nothing.
            let links = if directory { 1 } else { found.links };
            return Ok(Attributes { links, ..found });
        };
        if let Some(known) = self.known(object) {
            return match known.show_times() {
                true => of_container(&known, &host::status(&object.place, ACCESS)?),
                false => of_container(&known, access),
            };
        }
        let names = meta::known(&object.place)?;
        let (size, bytes, when) = match !names.open && names.writers > 0 {
            true => (names.end, names.bytes, names.when),
            // Somebody writes, or nobody has ever: the indexes say it.
            false => {
                let opened = self.container(object, None)?;
                let (size, bytes) = opened.container().size()?;
                (size, bytes, names.when)
            }
        };
        filled(inode, access, size, bytes, when)
    }

    /// Whether the calling thread has the descriptors of `table`.
    fn here(&self, table: usize) -> Result<()> {
        match table == self.setup.keeper.table() {
            true => Ok(()),
            false => Err(Errno::ESTALE.into()),
        }
    }

    /// The attributes of a directory that is held on each back end, as [`PlfsFs::latest`] has them.
    fn attributes_of_held(&self, held: &[KeptFd], table: usize) -> Result<Attributes> {
        self.here(table)?;
        let mut found = None;
        for fd in held {
            let status = kernel::status(fd.fd(), None)?;
            let other = attributes(Node(self.inode(&status)), &status)?;
            let known = found.get_or_insert(Attributes {
                links: other.links.min(1),
                ..other
            });
            known.mtime = known.mtime.max(other.mtime);
            known.ctime = known.ctime.max(other.ctime);
        }
        found.ok_or(Errno::ESTALE.into())
    }

    /// Opens the container of `object`; `flags`: as what open(2) is to judge by.
    pub fn container(&self, object: &Object, flags: Option<OpenFlags>) -> Result<Opened> {
        let proof = match flags {
            Some(flags) => host::open_file(&object.place, ACCESS, flags.0 & linux::O_ACCMODE)?,
            // Who may look at a file need not be able to read it.
            None => host::open(&object.place, ACCESS, linux::O_PATH, 0)?,
        };
        let (key, identity) = (self.key(object), kernel::identity(&object.status));
        let special = object
            .access
            .is_some_and(|access| u32::from(access.stx_mode) & 0o6000 != 0);
        let opened = Opened::new(&self.table, key, || {
            let dir = (host::place(object.place.borrow(), b"")?, identity);
            Ok(Container::new(&self.setup, object.at, dir, key.0, proof))
        })?;
        opened.container().special.fetch_or(special, SeqCst);
        Ok(opened)
    }

    /// Removes what nobody has open of what was removed before.
    pub fn clean(&self) {
        for &at in &self.setup.canonical {
            let Ok(dir) = host::place(self.setup.root(at), setup::REMOVED) else {
                continue;
            };
            for (name, _) in host::names(&dir).unwrap_or_default() {
                collect(&self.setup, at, &[setup::REMOVED, b"/", &name].concat());
            }
        }
    }
}

/// Attributes of an open container.
fn of_container(container: &Container, access: &statx) -> Result<Attributes> {
    let (size, bytes) = container.size()?;
    let found = filled(container.inode, access, size, bytes, 0)?;
    let links = u32::from(!container.is_removed());
    Ok(Attributes { links, ..found })
}

/// The last write of a file that was open here was at most so long after its times were set,
/// nanoseconds: `TOUCH` of the writer, and a tick of the back end's clock.
const BETWEEN_TOUCHES: u64 = 8_000_000;

/// Attributes of a container: `when` it was written last, if its droppings say so, nanoseconds.
fn filled(inode: u64, access: &statx, size: u64, bytes: u64, when: u64) -> Result<Attributes> {
    let mut found = attributes(Node(inode), access)?;
    let written = Timespec {
        seconds: (when / 1_000_000_000) as i64,
        nanoseconds: (when % 1_000_000_000) as u32,
    };
    // Written after all that was done to the access file, as PLFS does it. Who writes here sets the
    // times of that every few milliseconds: they stay as they were when it was open.
    let seconds = u64::try_from(found.ctime.seconds).unwrap_or(0);
    let changed = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(found.ctime.nanoseconds.into());
    if when > changed.saturating_add(BETWEEN_TOUCHES) {
        (found.mtime, found.ctime) = (written, written);
    }
    Ok(Attributes {
        kind: FileKind::Regular,
        links: 1,
        size,
        blocks: bytes.div_ceil(512),
        ..found
    })
}

impl PathFileSystem for PlfsFs {
    type Handle = Handle;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.setup.read_only,
            xattrs: true,
            size_at_sync: self.setup.at_sync,
            locks: !self.setup.flat,
            // Each process writes into droppings of its own; ends are given out one at a time.
            parallel_writes: !self.setup.flat,
            // The kernel judges by the process's own rights.
            checks_permissions: true,
            ..Capabilities::default()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        let found = self.attributes_of(&self.object(path)?)?;
        Ok(
            match found.kind == FileKind::Directory && self.setup.backends.len() > 1 {
                true => self.latest(path, found),
                false => found,
            },
        )
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let mut entries = Vec::new();
        let own = self.setup.canonical_of(path);
        for at in 0..self.setup.backends.len() {
            let dir = match host::place(self.setup.root(at), path) {
                // Made before the back end was added.
                Err(error) if error.errno() == Errno::ENOENT && at != own => continue,
                dir => dir?,
            };
            for (name, kind) in host::names(&dir)? {
                // What a shadow back end alone has is a part of something.
                if is_reserved(&name) || self.setup.canonical_of(&name) != at {
                    continue;
                }
                let below = [path, if path.is_empty() { b"" } else { b"/" }, &name].concat();
                let found = match kind {
                    Some(FileKind::Directory) | None => self.object(&below),
                    Some(_) => host::status(&dir, &name).and_then(|status| {
                        Ok(Object {
                            at,
                            place: host::place(dir.borrow(), b"")?,
                            status,
                            access: None,
                        })
                    }),
                };
                entries.push(match found {
                    Ok(found) => PathEntry {
                        name,
                        kind: found.kind()?,
                        inode: self.inode(&found.status),
                    },
                    // Who may only read the directory sees the names.
                    Err(error) if error.errno() == Errno::EACCES => PathEntry {
                        name,
                        kind: kind.unwrap_or(FileKind::Regular),
                        inode: 0,
                    },
                    // Gone meanwhile.
                    Err(_) => continue,
                });
            }
        }
        Ok(entries)
    }

    fn open(&self, _: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<Handle> {
        let object = self.object(path)?;
        if object.access.is_none() {
            if object.kind()? != FileKind::Regular {
                return Err(Errno::ESTALE.into());
            }
            let keep = linux::O_ACCMODE | linux::O_TRUNC | linux::O_APPEND | linux::O_NOATIME;
            let (dir, name) = host::above(self.setup.root(object.at), path)?;
            let opened = host::open_file(dir, name.bytes(), flags.0 & keep)?;
            return Ok(Handle::Plain(self.setup.keeper.keep(opened)));
        }
        let opened = self.container(&object, Some(flags))?;
        opened.container().look_again();
        if flags.truncate() {
            opened.container().truncate(0)?;
        }
        Ok(Handle::Container(opened))
    }

    fn opens_files_only(&self) -> bool {
        true
    }

    fn read(&self, handle: &Handle, offset: u64, mut out: &mut [u8]) -> Result<usize> {
        match handle {
            Handle::Container(opened) => opened.usable()?.read(offset, &mut out),
            Handle::Plain(fd) => host::read_at(fd.fd(), offset, out),
            Handle::Directory { .. } => Err(Errno::EISDIR.into()),
        }
    }

    fn read_to(&self, handle: &Handle, offset: u64, out: &mut dyn Sink) -> Option<Result<usize>> {
        let Handle::Container(opened) = handle else {
            return None;
        };
        let usable = opened.usable();
        Some(usable.and_then(|container| container.read(offset, out)))
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        kernel::link_target(&self.object(path)?.place)
    }

    fn statfs(&self) -> Result<StatFs> {
        let found = fs::fstatfs(self.setup.root(self.setup.canonical[0]))?;
        Ok(StatFs {
            magic: found.f_type as u64,
            block_size: found.f_bsize as u32,
            blocks: found.f_blocks as u64,
            blocks_free: found.f_bfree as u64,
            blocks_available: found.f_bavail as u64,
            files: found.f_files as u64,
            files_free: found.f_ffree as u64,
            name_max: found.f_namelen as u32,
            read_only: self.setup.read_only,
        })
    }

    fn access(&self, _: &Caller<'_>, path: &[u8], access: Access) -> Result<()> {
        let object = self.object(path)?;
        if access.write() && self.setup.read_only {
            return Err(Errno::EROFS.into());
        }
        match object.access {
            Some(_) => kernel::access(
                host::open(&object.place, ACCESS, linux::O_PATH, 0)?,
                access.0,
            ),
            None => kernel::access(&object.place, access.0),
        }
    }

    fn handle_attributes(&self, handle: &Handle) -> Option<Result<Attributes>> {
        Some(match handle {
            Handle::Container(opened) => opened.usable().and_then(|container| {
                container.show_times();
                let access = host::status(container.dir.fd(), ACCESS)?;
                of_container(&container, &access)
            }),
            Handle::Plain(fd) => kernel::status(fd.fd(), None)
                .and_then(|status| attributes(Node(self.inode(&status)), &status)),
            Handle::Directory { held, table } => self.attributes_of_held(held, *table),
        })
    }

    fn keeps_unlinked(&self) -> bool {
        true
    }

    fn knows_moves(&self) -> bool {
        true
    }

    fn moved(&self, inode: u64) -> Option<Vec<u8>> {
        self.setup.shared.place_of(inode)
    }

    fn hold(&self, path: &[u8]) -> Option<Handle> {
        let first = self.setup.canonical[0];
        let others = (0..self.setup.backends.len()).filter(|at| *at != first);
        let places = core::iter::once(first).chain(others);
        let places = places.map(|at| host::place(self.setup.root(at), path));
        let mut held = Vec::new();
        for place in places {
            match place {
                Ok(place) => held.push(self.setup.keeper.keep(place)),
                Err(error) if error.errno() == Errno::ENOENT => {}
                // A part of the directory would be taken for all of it.
                Err(_) => return None,
            }
        }
        let table = self.setup.keeper.table();
        (!held.is_empty()).then_some(Handle::Directory { held, table })
    }

    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, _: u64) -> Result<()> {
        match FileKind::of_mode(mode) {
            None | Some(FileKind::Regular) => {
                let made = self.create_file(caller, path, OpenFlags::READ, mode & 0o7777);
                made.map(drop)
            }
            _ => Err(Errno::EPERM.into()),
        }
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<Handle> {
        self.create_file(caller, path, flags, mode)
    }

    fn write(&self, handle: &Handle, offset: u64, mut bytes: &[u8]) -> Result<usize> {
        match handle {
            Handle::Container(opened) => opened.usable()?.write(offset, &mut bytes),
            Handle::Plain(fd) => match host::write_at(fd.fd(), offset, bytes) {
                (0, Err(errno)) => Err(errno.into()),
                (count, _) => Ok(count),
            },
            Handle::Directory { .. } => Err(Errno::EISDIR.into()),
        }
    }

    fn append(&self, handle: &Handle, end: u64, mut bytes: &[u8]) -> Result<(u64, usize)> {
        match handle {
            Handle::Container(opened) => opened.usable()?.append(&mut bytes),
            Handle::Plain(fd) => {
                let count = fs::waiting::append(fd.fd(), bytes)?;
                let size = kernel::status(fd.fd(), None)?.stx_size;
                Ok((size.checked_sub(count as u64).unwrap_or(end), count))
            }
            Handle::Directory { .. } => Err(Errno::EISDIR.into()),
        }
    }

    fn write_from(
        &self,
        handle: &Handle,
        offset: u64,
        from: &mut dyn Source,
    ) -> Option<Result<usize>> {
        let Handle::Container(opened) = handle else {
            return None;
        };
        let usable = opened.usable();
        Some(usable.and_then(|container| container.write(offset, from)))
    }

    fn append_from(&self, handle: &Handle, from: &mut dyn Source) -> Option<Result<(u64, usize)>> {
        let Handle::Container(opened) = handle else {
            return None;
        };
        let usable = opened.usable();
        Some(usable.and_then(|container| container.append(from)))
    }

    fn seek(&self, handle: &Handle, offset: u64, whence: Whence) -> Option<Result<u64>> {
        let data = whence == Whence::Data;
        Some(match handle {
            Handle::Container(opened) => opened
                .usable()
                .and_then(|container| container.seek(offset, data)),
            Handle::Plain(fd) => {
                let whence = if data {
                    linux::SEEK_DATA
                } else {
                    linux::SEEK_HOLE
                };
                kernel::seek(fd.fd(), offset, whence)
            }
            Handle::Directory { .. } => Err(Errno::EISDIR.into()),
        })
    }

    fn sync(&self, handle: &Handle, data_only: bool) -> Result<()> {
        match handle {
            Handle::Container(opened) => opened.usable()?.sync(data_only),
            Handle::Plain(fd) if data_only => Ok(fs::waiting::fdatasync(fd.fd())?),
            Handle::Plain(fd) => Ok(fs::waiting::fsync(fd.fd())?),
            Handle::Directory { .. } => Err(Errno::EISDIR.into()),
        }
    }

    fn flush(&self, handle: &Handle) -> Result<()> {
        match handle {
            // A thread with another table of descriptors has nothing that waits.
            Handle::Container(opened) if opened.container().is_here() => opened.container().push(),
            Handle::Container(_) | Handle::Plain(_) | Handle::Directory { .. } => Ok(()),
        }
    }

    fn lock_file(&self, handle: &Handle, make: bool) -> Result<Option<OwnedFd>> {
        match handle {
            Handle::Container(opened) => opened.usable()?.records(make),
            Handle::Plain(_) | Handle::Directory { .. } => Ok(None),
        }
    }

    fn get_lock(&self, handle: &Handle, _: LockOwner, _: &Lock) -> Result<Option<Lock>> {
        Err(self.no_locks(handle).into())
    }

    fn set_lock(&self, handle: &Handle, _: LockOwner, _: &Lock, _: Wait<'_>) -> Result<()> {
        Err(self.no_locks(handle).into())
    }

    fn locked(&self, handle: &Handle) {
        if let Handle::Container(opened) = handle {
            opened.container().look_again();
        }
    }

    fn before_unlock(&self, handle: &Handle) -> Result<()> {
        match handle {
            Handle::Container(opened) if opened.container().is_here() => opened.container().show(),
            // A thread with another table of descriptors has nothing that waits.
            Handle::Container(_) | Handle::Plain(_) | Handle::Directory { .. } => Ok(()),
        }
    }

    fn set_attributes(
        &self,
        _: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        self.change(path, changes)
    }

    fn set_handle_attributes(
        &self,
        handle: &Handle,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        Some(match handle {
            Handle::Container(opened) => opened
                .usable()
                .and_then(|container| self.change_container(&container, changes)),
            Handle::Plain(fd) => change(Target::File(fd.fd()), changes),
            Handle::Directory { held, table } => self.here(*table).and_then(|()| {
                let mut all = held.iter();
                all.try_for_each(|fd| change(Target::Place(fd.fd()), changes))
            }),
        })
    }

    fn mkdir(&self, _: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        self.make_directory(path, mode)
    }

    fn symlink(&self, _: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        let (dir, name) = self.new_name(path)?;
        host::symlink(target, dir, name.bytes())
    }

    fn unlink(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        self.remove_file(path)
    }

    fn rmdir(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        self.remove_directory(path)
    }

    fn rename(&self, _: &Caller<'_>, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        self.move_to(from, to, flags)
    }

    fn get_xattr(&self, _: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        super::xattrs::get(&self.object(path)?, name)
    }

    fn list_xattr(&self, _: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        super::xattrs::list(&self.object(path)?)
    }

    fn set_xattr(
        &self,
        _: &Caller<'_>,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        super::xattrs::set(&self.object(path)?, name, value, flags)
    }

    fn remove_xattr(&self, _: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        super::xattrs::remove(&self.object(path)?, name)
    }

    fn forked(&self, shared_descriptors: bool) {
        forks::forked();
        self.setup.home.store(self.setup.keeper.table(), SeqCst);
        if shared_descriptors {
            return;
        }
        // What the parent locks by them would stay locked as long as this process has them, if the
        // parent were killed.
        for container in self.table.lock().values() {
            if let Some(mut state) = container.state.try_lock() {
                state.close_locks();
            }
        }
    }

    fn finish(&self) {
        let all: Vec<_> = self.table.lock().values().cloned().collect();
        for container in all.iter().filter(|container| container.is_here()) {
            container.close();
        }
    }
}
