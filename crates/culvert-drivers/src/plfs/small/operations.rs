//! The operations of the driver.

use super::format::{self, DIRECTORY, Event, STATUS};
use super::pack::Call;
use super::{Handle, SmallFs, hidden, missing, split};
use crate::passthrough::attributes::attributes;
use crate::passthrough::kernel;
use crate::plfs::host;
use alloc::vec::Vec;
use culvert::path::{PathEntry, PathFileSystem};
use culvert::{
    Access, Attributes, Caller, Capabilities, Errno, FileKind, Node, OpenFlags, RenameFlags,
    Result, SetAttributes, StatFs, Timespec,
};
use culvert_sys::raw::general as linux;

fn attributes_of(call: &Call<'_>, number: u64) -> Result<Attributes> {
    let file = call.file(number)?;
    let status = host::status(call.dirs[0].as_ref().ok_or(Errno::ESTALE)?, STATUS)?;
    let time = |time: u64| Timespec {
        seconds: (time >> 32) as i64,
        nanoseconds: (time as u32).min(999_999) * 1000,
    };
    Ok(Attributes {
        kind: FileKind::Regular,
        links: u32::from(file.name.is_some()),
        size: file.size,
        blocks: file.bytes().div_ceil(512),
        atime: time(file.time()),
        mtime: time(file.time()),
        ctime: time(file.changed),
        btime: None,
        ..attributes(Node(number), &status)?
    })
}

impl PathFileSystem for SmallFs {
    type Handle = Handle;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            xattrs: false,
            size_at_sync: false,
            parallel_writes: false,
            ..self.plain.capabilities()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        match self.at(path, |_, call, number| attributes_of(call, number))? {
            Some(found) => Ok(found),
            None => self.plain.attributes(path),
        }
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let mut entries = self.plain.list(path)?;
        entries.retain(|entry| entry.name != DIRECTORY);
        let Some(dirs) = self.dirs(path)? else {
            return Ok(entries);
        };
        let pack = self.pack(&dirs)?;
        self.call(&pack, &dirs, |call| {
            call.look()?;
            let names = call.state.files.names.iter();
            entries.extend(names.map(|(name, &inode)| PathEntry {
                name: name.clone(),
                kind: FileKind::Regular,
                inode,
            }));
            Ok(())
        })?;
        Ok(entries)
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<Handle> {
        let small = self.at(path, |pack, call, number| {
            let dir = call.dirs[0].as_ref().ok_or(Errno::ESTALE)?;
            let status = host::open(dir, STATUS, linux::O_PATH, 0)?;
            let mode = flags.0 & linux::O_ACCMODE;
            if mode != linux::O_WRONLY {
                kernel::access(&status, linux::R_OK)?;
            }
            if mode != linux::O_RDONLY {
                kernel::access(dir, linux::W_OK | linux::X_OK)?;
            }
            if flags.truncate() {
                let _lock = call.lock()?;
                call.truncate(number, 0)?;
            }
            self.handle(pack, call, number)
        })?;
        match small {
            Some(small) => Ok(small),
            None => self.plain.open(caller, path, flags).map(Handle::Plain),
        }
    }

    fn opens_files_only(&self) -> bool {
        true
    }

    fn read(&self, handle: &Handle, offset: u64, out: &mut [u8]) -> Result<usize> {
        match handle {
            Handle::Small(small) => self.with(small, |call| call.read(small.number, offset, out)),
            Handle::Plain(plain) => self.plain.read(plain, offset, out),
        }
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.plain.readlink(path)
    }

    fn statfs(&self) -> Result<StatFs> {
        self.plain.statfs()
    }

    fn access(&self, caller: &Caller<'_>, path: &[u8], access: Access) -> Result<()> {
        let small = self.at(path, |_, call, _| {
            if access.write() && self.setup().read_only {
                return Err(Errno::EROFS.into());
            }
            let dir = call.dirs[0].as_ref().ok_or(Errno::ESTALE)?;
            let status = host::open(dir, STATUS, linux::O_PATH, 0)?;
            kernel::access(&status, access.0 & !linux::W_OK)?;
            match access.write() {
                true => kernel::access(dir, linux::W_OK | linux::X_OK),
                false => Ok(()),
            }
        })?;
        match small {
            Some(()) => Ok(()),
            None => self.plain.access(caller, path, access),
        }
    }

    fn handle_attributes(&self, handle: &Handle) -> Option<Result<Attributes>> {
        match handle {
            Handle::Small(small) => {
                Some(self.with(small, |call| attributes_of(call, small.number)))
            }
            Handle::Plain(plain) => self.plain.handle_attributes(plain),
        }
    }

    fn keeps_unlinked(&self) -> bool {
        true
    }

    fn knows_moves(&self) -> bool {
        true
    }

    fn moved(&self, inode: u64) -> Option<Vec<u8>> {
        self.plain.moved(inode)
    }

    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, _: u64) -> Result<()> {
        match FileKind::of_mode(mode) {
            None | Some(FileKind::Regular) => {
                let made = self.create(caller, path, OpenFlags::READ, mode & 0o7777);
                made.map(drop)
            }
            _ => Err(Errno::EPERM.into()),
        }
    }

    fn create(&self, _: &Caller<'_>, path: &[u8], _: OpenFlags, _: u32) -> Result<Handle> {
        let (directory, name) = split(path);
        if hidden(path) || !format::is_name(name) {
            return Err(Errno::EINVAL.into());
        }
        let dirs = self.make_dirs(directory)?;
        let pack = self.pack(&dirs)?;
        self.call(&pack, &dirs, |call| {
            let _lock = call.lock()?;
            if call.named(name).is_some() || self.is_plain(path)? {
                return Err(Errno::EEXIST.into());
            }
            call.record(Event::Create(name))?;
            let number = call.named(name).ok_or(Errno::EIO)?;
            self.handle(&pack, call, number)
        })
    }

    fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<usize> {
        match handle {
            Handle::Small(small) => {
                self.with(small, |call| call.write(small.number, offset, bytes, false))
            }
            Handle::Plain(plain) => self.plain.write(plain, offset, bytes),
        }
    }

    fn append(&self, handle: &Handle, end: u64, bytes: &[u8]) -> Result<(u64, usize)> {
        match handle {
            Handle::Small(small) => self.with(small, |call| {
                let _lock = call.lock()?;
                let end = call.file(small.number)?.size;
                Ok((end, call.write(small.number, end, bytes, true)?))
            }),
            Handle::Plain(plain) => self.plain.append(plain, end, bytes),
        }
    }

    fn sync(&self, handle: &Handle, data_only: bool) -> Result<()> {
        match handle {
            Handle::Small(small) => self.with(small, |call| call.sync()),
            Handle::Plain(plain) => self.plain.sync(plain, data_only),
        }
    }

    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let small = self.at(path, |_, call, number| self.change(call, number, changes))?;
        match small {
            Some(()) => Ok(()),
            None => self.plain.set_attributes(caller, path, changes),
        }
    }

    fn set_handle_attributes(
        &self,
        handle: &Handle,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        match handle {
            Handle::Small(small) => {
                Some(self.with(small, |call| self.change(call, small.number, changes)))
            }
            Handle::Plain(plain) => self.plain.set_handle_attributes(plain, changes),
        }
    }

    fn mkdir(&self, caller: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        self.vacant(path, || self.plain.mkdir(caller, path, mode))
    }

    fn symlink(&self, caller: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        self.vacant(path, || self.plain.symlink(caller, path, target))
    }

    fn unlink(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        let name = split(path).1;
        match self.locked(path, |_, call, _| call.record(Event::Delete(name)))? {
            Some(()) => Ok(()),
            None => self.plain.unlink(caller, path),
        }
    }

    fn rmdir(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        self.clear(path)?;
        self.plain.rmdir(caller, path)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: &[u8],
        to: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let ((old, name), (new, other)) = (split(from), split(to));
        if from
            .strip_prefix(to)
            .is_some_and(|rest| rest.starts_with(b"/"))
        {
            return Err(Errno::ENOTEMPTY.into());
        }
        let target = self.at(to, |_, call, number| {
            attributes_of(call, number).map(|_| ())
        })?;
        let small = self.locked(from, |_, call, _| {
            if flags.0 & !RenameFlags::NO_REPLACE != 0 || !format::is_name(other) {
                return Err(Errno::EINVAL.into());
            }
            let plain = match self.plain.attributes(to) {
                found if missing(&found) => None,
                found => Some(found?.kind),
            };
            match plain {
                _ if flags.no_replace() && (target.is_some() || plain.is_some()) => {
                    return Err(Errno::EEXIST.into());
                }
                Some(FileKind::Directory) => return Err(Errno::EISDIR.into()),
                // A record is about names in one directory.
                _ if old != new => return Err(Errno::EXDEV.into()),
                Some(_) => self.plain.unlink(caller, to)?,
                None => {}
            }
            match name == other {
                true => Ok(()),
                false => call.record(Event::Rename(name, other)),
            }
        })?;
        if small.is_some() {
            return Ok(());
        }
        let kind = self.plain.attributes(from)?.kind;
        match target {
            None if kind == FileKind::Directory && from != to && self.is_plain(to)? => {
                self.clear(to)?;
            }
            None => {}
            Some(()) if flags.no_replace() => return Err(Errno::EEXIST.into()),
            Some(()) if flags.exchange() => return Err(Errno::EINVAL.into()),
            Some(()) if kind == FileKind::Directory => return Err(Errno::ENOTDIR.into()),
            Some(()) => self.unlink(caller, to)?,
        }
        self.plain.rename(caller, from, to, flags)
    }

    fn forked(&self, shared_descriptors: bool) {
        self.plain.forked(shared_descriptors);
    }
}
