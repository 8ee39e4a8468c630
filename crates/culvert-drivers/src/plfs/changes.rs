//! Making, changing and removing files and directories.

use super::container::Container;
use super::filesystem::PlfsFs;
use super::host::{self, Dir};
use super::layout::{self, ACCESS};
use super::locks;
use super::object::Object;
use super::setup::{REMOVED, is_reserved, unused};
use super::table::{Handle, Opened, collect};
use crate::passthrough::attributes::{Target, change};
use crate::passthrough::kernel::{self, Name};
use alloc::{format, vec::Vec};
use core::sync::atomic::Ordering::SeqCst;
use culvert::{Caller, Errno, Error, OpenFlags, Result, SetAttributes};
use culvert_sys::fd::AsFd;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// access(2).
const WRITE: u32 = 2;

impl PlfsFs {
    /// The directory, on its back end, and the name of what is to be made at `path`.
    pub fn new_name(&self, path: &[u8]) -> Result<(Dir<'_>, Name)> {
        if is_reserved(path) {
            return Err(Errno::EINVAL.into());
        }
        host::above(self.setup.root(self.setup.canonical_of(path)), path)
    }

    /// creat(2): a container that is whole when it gets its name.
    pub fn create_file(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<Handle> {
        let at = self.setup.canonical_of(path);
        let (dir, name) = self.new_name(path)?;
        let wanted =
            flags.0 & (linux::O_ACCMODE | linux::O_APPEND) | linux::O_CREAT | linux::O_EXCL;
        if self.setup.flat {
            let made = host::open(dir, name.bytes(), wanted, mode)?;
            return Ok(Handle::Plain(self.setup.keeper.keep(made)));
        }
        if host::status(&dir, name.bytes()).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        let staged = unused();
        let made = self.stage(caller, &dir, &staged, wanted, mode);
        let named = made.and_then(|made| {
            let renamed = match host::rename(
                (&dir, &staged),
                (&dir, name.bytes()),
                linux::RENAME_NOREPLACE,
            ) {
                // The file system has no such flag; a container is never replaced, for it is not
                // empty (rename(2)).
                Err(Errno::EINVAL) => host::rename((&dir, &staged), (&dir, name.bytes()), 0),
                renamed => renamed,
            };
            match renamed {
                Err(Errno::ENOTEMPTY | Errno::ENOTDIR) => Err(Errno::EEXIST.into()),
                renamed => renamed.map(|()| made).map_err(Error::from),
            }
        });
        let (place, proof) = named.inspect_err(|_| {
            // What is left of it nobody sees, and rmdir(2) removes it.
            let _ = host::remove_tree(&dir, &staged, 2);
        })?;
        let status = kernel::status(&place, None)?;
        let key = (self.inode(&status), self.setup.keeper.table());
        let place = (place, kernel::identity(&status));
        let opened = Opened::new(&self.table, key, || {
            Ok(Container::new(&self.setup, at, place, key.0, proof))
        })?;
        opened
            .container()
            .special
            .fetch_or(mode & 0o6000 != 0, SeqCst);
        Ok(Handle::Container(opened))
    }

    /// The container `staged` in `dir`: its directory and its open access file.
    fn stage(
        &self,
        caller: &Caller<'_>,
        dir: &Dir<'_>,
        staged: &[u8],
        flags: u32,
        mode: u32,
    ) -> Result<(crate::OwnedFd, crate::OwnedFd)> {
        let around = layout::directory_mode(mode);
        host::make_directory(dir, staged, around)?;
        if caller.umask & 0o700 != 0 {
            fs::fchmodat(
                dir,
                Name::new(staged)?.terminated(),
                0o700 | around & !caller.umask,
            )?;
        }
        let place = host::open(dir, staged, linux::O_PATH | linux::O_DIRECTORY, 0)?;
        let proof = host::open(&place, ACCESS, flags, mode)?;
        host::make_directory(&place, layout::META, around)?;
        if caller.umask & 0o700 != 0 {
            let meta = host::open(&place, layout::META, linux::O_PATH, 0)?;
            host::for_owner(&meta, 0o700)?;
        }
        if mode & 0o022 != 0 {
            locks::make_shared(place.borrow(), fs::fstat(&proof)?.st_mode)?;
        }
        let version = format!("{}{}", layout::VERSION_TAG, self.setup.checksum);
        host::make_file(&place, version.as_bytes(), layout::DROPPING_MODE)?;
        Ok((place, proof))
    }

    /// mkdir(2): on all back ends.
    pub fn make_directory(&self, path: &[u8], mode: u32) -> Result<()> {
        let (dir, name) = self.new_name(path)?;
        fs::mkdirat(&dir, name.terminated(), mode)?;
        let own = self.setup.canonical_of(path);
        for at in (0..self.setup.backends.len()).filter(|at| *at != own) {
            let made = host::above(self.setup.root(at), path)
                .and_then(|(dir, name)| host::make_directory(dir, name.bytes(), mode));
            // Made when it is needed.
            if made.is_err_and(|error| error.errno() == Errno::ENOSPC) {
                fs::unlinkat(&dir, name.terminated(), AtFlags::REMOVEDIR)?;
                return Err(Errno::ENOSPC.into());
            }
        }
        Ok(())
    }

    /// rmdir(2): on all back ends, or on none.
    pub fn remove_directory(&self, path: &[u8]) -> Result<()> {
        let object = self.object(path)?;
        let own = object.at;
        if object.access.is_some() {
            return Err(Errno::ENOTDIR.into());
        }
        // What a process that was killed had not finished.
        for (name, _) in host::names(&object.place).unwrap_or_default() {
            if is_reserved(&name) {
                let _ = host::remove_tree(&object.place, &name, 2);
            }
        }
        // Last the one that is shown: it is the same directory when it stays.
        let others = (0..self.setup.backends.len()).filter(|at| *at != own);
        let mut removed = Vec::new();
        for at in others.chain([own]) {
            let gone = host::above(self.setup.root(at), path)
                .and_then(|(dir, name)| host::unlink(dir, name.bytes(), true));
            match gone {
                Ok(()) => removed.push(at),
                Err(error) if error.errno() == Errno::ENOENT && at != own => {}
                Err(error) => {
                    for at in removed {
                        let _ = self.make_again(at, path, &object.status);
                    }
                    return Err(match error.errno() {
                        Errno::EEXIST => Errno::ENOTEMPTY.into(),
                        _ => error,
                    });
                }
            }
        }
        Ok(())
    }

    /// The directory `path` on back end `at`, as `status` says that it is on another one.
    fn make_again(&self, at: usize, path: &[u8], status: &linux::statx) -> Result<()> {
        let (dir, name) = host::above(self.setup.root(at), path)?;
        host::make_directory(&dir, name.bytes(), 0o700)?;
        let made = host::open(&dir, name.bytes(), linux::O_PATH | linux::O_DIRECTORY, 0)?;
        // Who may not give it away keeps it.
        let _ = locks::belongs(&made, status);
        let changes = SetAttributes {
            permissions: Some(u32::from(status.stx_mode) & 0o7777),
            ..SetAttributes::default()
        };
        change(Target::Place(made.borrow()), &changes)
    }

    /// unlink(2).
    pub fn remove_file(&self, path: &[u8]) -> Result<()> {
        let object = self.object(path)?;
        if object.access.is_none() {
            let (dir, name) = host::above(self.setup.root(object.at), path)?;
            return host::unlink(dir, name.bytes(), false);
        }
        self.remove_container(path, &object)
    }

    /// Takes the container `object` away from `path`. At its last close it is removed.
    pub fn remove_container(&self, path: &[u8], object: &Object) -> Result<()> {
        let target = self.set_aside(path, object)?;
        self.finish_removal(&target, object);
        Ok(())
    }

    /// Moves the file `object` from `path` to among the removed, on all back ends or on none:
    /// where it is then, for [`PlfsFs::finish_removal`] or [`PlfsFs::bring_back`].
    pub fn set_aside(&self, path: &[u8], object: &Object) -> Result<Vec<u8>> {
        let target = self.aside(object.at, &unused())?;
        let others = (0..self.setup.backends.len()).filter(|at| *at != object.at);
        for at in core::iter::once(object.at).chain(others) {
            if let Err(error) = self.set_part_aside(path, object, &target, at) {
                self.bring_back(&target, path, object);
                return Err(error);
            }
        }
        for known in self.all_known(object) {
            known.removed.store(true, SeqCst);
        }
        Ok(target)
    }

    fn set_part_aside(&self, path: &[u8], object: &Object, target: &[u8], at: usize) -> Result<()> {
        let (dir, name) = match host::above(self.setup.root(at), path) {
            Err(error) if error.errno() == Errno::ENOENT && at != object.at => return Ok(()),
            found => found?,
        };
        if at != object.at {
            self.aside(at, b"")?;
        }
        let (away, new) = host::above(self.setup.root(at), target)?;
        match host::rename((&dir, name.bytes()), (&away, new.bytes()), 0) {
            Err(Errno::ENOENT) if at != object.at => Ok(()),
            renamed => Ok(renamed?),
        }
    }

    /// The file `object` that was set aside as `target` is at `path` again, as far as that can be.
    pub fn bring_back(&self, target: &[u8], path: &[u8], object: &Object) {
        for at in 0..self.setup.backends.len() {
            // There may be no part of it, or it was not moved.
            let back = match self.both(at, target, path, linux::RENAME_NOREPLACE) {
                // The file system has no such flag.
                Err(error) if error.errno() == Errno::EINVAL => self.both(at, target, path, 0),
                back => back,
            };
            if at == object.at && back.is_ok() {
                for known in self.all_known(object) {
                    known.removed.store(false, SeqCst);
                }
            }
        }
    }

    /// The file `object` that was set aside as `target` is removed, if nobody has it open.
    pub fn finish_removal(&self, target: &[u8], object: &Object) {
        if object.access.is_none() {
            // What cannot be removed now is no file of anybody's any more.
            if let Ok((dir, name)) = host::above(self.setup.root(object.at), target) {
                let _ = host::unlink(dir, name.bytes(), false);
            }
            return;
        }
        self.setup.shared.cut(self.inode(&object.status));
        if self.all_known(object).is_empty() {
            collect(&self.setup, object.at, target);
        }
    }

    /// The path for `name` among the removed on back end `at`, whose directory is made.
    fn aside(&self, at: usize, name: &[u8]) -> Result<Vec<u8>> {
        let root = self.setup.root(at);
        if host::make_directory(root, REMOVED, 0o1777)? {
            fs::fchmodat(root, Name::new(REMOVED)?.terminated(), 0o1777)?;
        }
        Ok([REMOVED, b"/", name].concat())
    }

    /// chmod(2), chown(2), utimensat(2), truncate(2).
    pub fn change(&self, path: &[u8], changes: &SetAttributes) -> Result<()> {
        let object = self.object(path)?;
        if object.access.is_some() {
            if changes.size.is_some() {
                // The droppings' modes are not the file's.
                let access = host::open(&object.place, ACCESS, linux::O_PATH, 0)?;
                kernel::access(access, WRITE)?;
            }
            let opened = self.container(&object, None)?;
            return self.change_container(opened.container(), changes);
        }
        change(Target::Place(object.place.borrow()), changes)?;
        if !host::is_directory(&object.status) {
            return Ok(());
        }
        for at in (0..self.setup.backends.len()).filter(|at| *at != object.at) {
            match host::place(self.setup.root(at), path) {
                Ok(place) => change(Target::Place(place.borrow()), changes)?,
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The same of a container: the access file has owner, mode and times; directories follow.
    pub fn change_container(&self, container: &Container, changes: &SetAttributes) -> Result<()> {
        let others = SetAttributes {
            size: None,
            ..*changes
        };
        if !others.is_empty() || changes.size.is_none() {
            let access = host::open(container.dir.fd(), ACCESS, linux::O_PATH, 0)?;
            change(Target::Place(access.borrow()), &others)?;
            if let Some(permissions) = changes.permissions {
                container.special.store(permissions & 0o6000 != 0, SeqCst);
            }
            self.follow(container, changes)?;
            if changes.mtime.is_some() {
                container.times_were_set();
            }
        }
        match changes.size {
            Some(size) => container.truncate(size),
            None => Ok(()),
        }
    }

    /// Directories and droppings get what the access file has got.
    fn follow(&self, container: &Container, changes: &SetAttributes) -> Result<()> {
        let around = SetAttributes {
            permissions: changes.permissions.map(layout::directory_mode),
            uid: changes.uid,
            gid: changes.gid,
            ..SetAttributes::default()
        };
        if around.is_empty() {
            return Ok(());
        }
        let inside = SetAttributes {
            permissions: None,
            ..around
        };
        let indexes = SetAttributes {
            permissions: changes.permissions.map(layout::shared_mode),
            ..around
        };
        let (mut state, dir) = (container.state.lock(), container.dir.fd());
        container.refresh(&mut state)?;
        let set = |dir: culvert_sys::fd::BorrowedFd<'_>, name: &[u8], to: &SetAttributes| {
            let place = host::open(dir, name, linux::O_PATH, 0)?;
            change(Target::Place(place.borrow()), to)
        };
        // Others' droppings are theirs: a change of group may not reach them.
        let theirs = |result: Result<()>| match result {
            Err(error) if matches!(error.errno(), Errno::EPERM | Errno::ENOENT) => Ok(()),
            result => result,
        };
        for subdir in &state.subdirs {
            let place = host::place(subdir.fd.fd(), b"")?;
            theirs(change(Target::Place(place.borrow()), &around))?;
            for (name, _) in host::names(&place)? {
                let to = match name.starts_with(layout::INDEX) {
                    true => &indexes,
                    false => &inside,
                };
                if !to.is_empty() {
                    theirs(set(place.borrow(), &name, to))?;
                }
            }
        }
        for name in [layout::META, layout::XATTRS] {
            theirs(set(dir.as_fd(), name, &around))?;
        }
        let locks = SetAttributes {
            permissions: changes.permissions.map(locks::lock_mode),
            ..around
        };
        // Who may not make them is not the owner of the container.
        let _ = locks::make_shared(dir, changes.permissions.unwrap_or(0));
        for name in locks::NAMES {
            theirs(set(dir.as_fd(), name, &locks))?;
        }
        let records = SetAttributes {
            permissions: changes.permissions.map(locks::records_mode),
            ..around
        };
        theirs(set(dir.as_fd(), locks::RECORDS, &records))?;
        let place = host::place(dir, b"")?;
        theirs(change(Target::Place(place.borrow()), &around))
    }
}
