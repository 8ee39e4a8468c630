//! The functions of a library, as a driver by paths.

use alloc::{boxed::Box, format, sync::Arc, vec, vec::Vec};
use core::ffi::c_int;
use core::task::Waker;
use culvert::library::abi::{self, Stat, StatVfs};
use culvert::path::{PathDirectory, PathEntry, PathFileSystem, PathObserver};
use culvert::{
    Access, Attributes, Caching, Caller, Capabilities, Errno, Error, Lock, LockKind, LockOwner,
    Maps, OpenFlags, Readiness, RenameFlags, Result, SetAttributes, StatFs, Wait, Whence,
};
use culvert_sys::waits::Holding;

/// For so many names a directory is asked first, where the library does not say how many it has.
const NAMES: usize = 64;

/// What a program hands down of an open file is no larger, bytes.
const SAVED: usize = 4096;

/// Calls a function of the library on behalf of `$caller`; `$missing` is the error where it has
/// none.
macro_rules! call {
    ($inner:expr, $caller:expr, $name:ident($($argument:expr),*), $missing:expr) => {{
        let inner: &Inner = $inner;
        match inner.driver.$name {
            None => Err($missing.into()),
            Some(function) => {
                // Who forks meanwhile would leave its locks taken in the child.
                let _held = Holding::new();
                let _turn = inner.turn();
                let who = inner.who($caller);
                // SAFETY: driver.h says what each function may do with its arguments, which live as
                // long as the call; that it does is the library's promise.
                checked(stringify!($name), unsafe { function(inner.first(&who), $($argument),*) })
            }
        }
    }};
}

/// [`call`] on behalf of nobody, where what is missing is `ENOSYS`.
macro_rules! ask {
    ($inner:expr, $name:ident($($argument:expr),*)) => {
        call!($inner, &Caller::SYSTEM, $name($($argument),*), Errno::ENOSYS)
    };
}

mod answers;
mod changes;
mod directory;
mod library;
mod maps;
mod observer;
mod waits;
mod words;
mod xattrs;

use answers::{attributes, checked, flags, names, sized, space, string, unless_missing, within};
pub use library::Library;
use library::{Inner, O_CREAT, Open};
pub use words::Words;

impl PathFileSystem for Library {
    type Handle = Open;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.0.read_only,
            immutable: self.0.has(abi::IMMUTABLE),
            xattrs: self.0.driver.getxattr.is_some() && !self.0.has(abi::NO_XATTRS),
            hard_links: self.0.driver.link.is_some() && !self.0.has(abi::NO_LINKS),
            checks_permissions: self.0.judges(),
            polls: self.0.driver.poll.is_some() && !self.0.has(abi::NO_POLL),
            ..Capabilities::default()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        let (path, mut stat) = (string(path)?, Stat::default());
        ask!(&self.0, getattr(path.as_ptr(), &raw mut stat))?;
        attributes("getattr", &stat)
    }

    fn handle_attributes(&self, handle: &Open) -> Option<Result<Attributes>> {
        self.0.driver.fgetattr?;
        let mut stat = Stat::default();
        let asked = ask!(&self.0, fgetattr(handle.file, &raw mut stat));
        unless_missing(asked).map(|asked| asked.and_then(|()| attributes("fgetattr", &stat)))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let path = string(path)?;
        let mut count = NAMES;
        if self.0.driver.getdirentcount.is_some() {
            ask!(&self.0, getdirentcount(path.as_ptr(), &raw mut count))?;
        }
        names("getdirents", count, |entries, room, count| {
            ask!(&self.0, getdirents(path.as_ptr(), entries, room, count))
        })
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
    ) -> Result<Option<Box<dyn PathDirectory>>> {
        self.directory(caller, path)
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], wanted: OpenFlags) -> Result<Open> {
        // Who checks permissions itself is asked by nobody else.
        if self.0.judges() {
            let read = if wanted.read() { Access::READ.0 } else { 0 };
            let writes = wanted.write() || wanted.truncate();
            let write = if writes { Access::WRITE.0 } else { 0 };
            self.access(caller, path, Access(read | write))?;
        }
        self.opened(caller, path, flags(wanted), 0)
    }

    fn opens_files_only(&self) -> bool {
        self.0.has(abi::OPENS_FILES) && self.0.driver.fgetattr.is_some()
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        wanted: OpenFlags,
        state: &[u8],
    ) -> Result<Open> {
        // It was open: nobody asks again whether it may be.
        if self.0.driver.restore.is_none() {
            return self.opened(caller, path, flags(wanted), 0);
        }
        let (path, flags, mut file) = (string(path)?, flags(wanted), core::ptr::null_mut());
        let (bytes, size) = (state.as_ptr(), state.len());
        call!(
            &self.0,
            caller,
            restore(path.as_ptr(), flags, bytes, size, &raw mut file),
            Errno::ENOSYS
        )?;
        Ok(self.with(file))
    }

    fn save(&self, handle: &Open) -> Result<Vec<u8>> {
        if self.0.driver.save.is_none() {
            return Ok(Vec::new());
        }
        sized("save", SAVED, |bytes, size| {
            ask!(&self.0, save(handle.file, bytes, size))
        })
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        wanted: OpenFlags,
        mode: u32,
    ) -> Result<Open> {
        self.opened(caller, path, flags(wanted) | O_CREAT, mode)
    }

    fn read(&self, handle: &Open, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (mut done, room) = (0, out.len());
        ask!(
            &self.0,
            read(
                handle.file,
                out.as_mut_ptr(),
                room,
                offset as i64,
                &raw mut done
            )
        )?;
        within("read", done, room)
    }

    fn write(&self, handle: &Open, offset: u64, bytes: &[u8]) -> Result<usize> {
        let mut done = 0;
        call!(
            &self.0,
            &Caller::SYSTEM,
            write(
                handle.file,
                bytes.as_ptr(),
                bytes.len(),
                offset as i64,
                &raw mut done
            ),
            Errno::EBADF
        )?;
        within("write", done, bytes.len())
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let (path, mut target) = (string(path)?, vec![0_u8; 4096]);
        call!(
            &self.0,
            &Caller::SYSTEM,
            readlink(path.as_ptr(), target.as_mut_ptr().cast(), target.len()),
            Errno::EINVAL
        )?;
        let end = target.iter().position(|&byte| byte == 0);
        target.truncate(end.ok_or(Errno::ENAMETOOLONG)?);
        Ok(target)
    }

    fn statfs(&self) -> Result<StatFs> {
        let mut found = StatVfs::default();
        if self.0.driver.statfs.is_some() {
            ask!(&self.0, statfs(&raw mut found))?;
        }
        Ok(space(&found, self.0.read_only))
    }

    fn access(&self, caller: &Caller<'_>, path: &[u8], wanted: Access) -> Result<()> {
        let path = string(path)?;
        call!(
            &self.0,
            caller,
            access(path.as_ptr(), wanted.0 as c_int),
            Errno::ENOSYS
        )
    }

    fn keeps_unlinked(&self) -> bool {
        self.0.has(abi::KEEPS_UNLINKED)
    }

    fn caching(&self, handle: &Open) -> Caching {
        let mut how = 0;
        let asked = ask!(&self.0, caching(handle.file, &raw mut how));
        match (self.0.has(abi::NO_CACHE), asked.map(|()| how)) {
            (true, _) | (_, Ok(2)) => Caching::Never,
            (_, Ok(1)) => Caching::Keep,
            _ => Caching::default(),
        }
    }

    fn descriptor(&self, handle: &Open) -> Option<i32> {
        match handle.is_kernels {
            true => self.kernel_file(handle),
            false => None,
        }
    }

    fn copy_range(
        &self,
        (from, offset): (&Open, u64),
        (to, to_offset): (&Open, u64),
        length: u64,
    ) -> Result<u64> {
        let (mut done, length) = (0, usize::try_from(length).unwrap_or(usize::MAX));
        call!(
            &self.0,
            &Caller::SYSTEM,
            copy(
                from.file,
                offset as i64,
                to.file,
                to_offset as i64,
                length,
                &raw mut done
            ),
            Errno::EOPNOTSUPP
        )?;
        Ok(within("copy", done, length)? as u64)
    }

    fn ioctl(&self, handle: &Open, request: u32, argument: &mut [u8]) -> Result<usize> {
        let (mut result, size) = (0, argument.len());
        call!(
            &self.0,
            &Caller::SYSTEM,
            ioctl(
                handle.file,
                request,
                argument.as_mut_ptr().cast(),
                size,
                &raw mut result
            ),
            Errno::ENOTTY
        )?;
        usize::try_from(result)
            .map_err(|_| Error::because(Errno::EIO, format!("ioctl of the library gives {result}")))
    }

    fn poll(&self, handle: &Open, waker: Option<&Waker>) -> Result<Readiness> {
        handle.ready(waker)
    }

    fn get_lock(&self, handle: &Open, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        handle.lock_found(owner, lock)
    }

    fn set_lock(&self, handle: &Open, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        handle.lock(owner, lock, wait)
    }

    fn flock(&self, handle: &Open, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        handle.lock_whole(owner, kind, wait)
    }

    fn observe(&self, observer: Arc<dyn PathObserver>) -> bool {
        self.0.told(observer)
    }

    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        self.0.extended(maps)
    }

    fn sync_directory(&self, path: &[u8], data_only: bool) -> Result<()> {
        if self.0.driver.fsyncdir.is_none() {
            return self.sync_all();
        }
        let path = string(path)?;
        let data_only = c_int::from(data_only);
        ask!(&self.0, fsyncdir(path.as_ptr(), data_only))
    }

    fn sync_all(&self) -> Result<()> {
        match self.0.driver.syncfs {
            None => Ok(()),
            Some(_) => ask!(&self.0, syncfs()),
        }
    }

    fn allocate(&self, handle: &Open, mode: u32, offset: u64, length: u64) -> Result<()> {
        call!(
            &self.0,
            &Caller::SYSTEM,
            fallocate(handle.file, mode as c_int, offset as i64, length as i64),
            Errno::EOPNOTSUPP
        )
    }

    fn seek(&self, handle: &Open, offset: u64, whence: Whence) -> Option<Result<u64>> {
        self.0.driver.lseek?;
        // SEEK_DATA, SEEK_HOLE (lseek(2)).
        let whence = match whence {
            Whence::Data => 3,
            Whence::Hole => 4,
        };
        let mut found = 0;
        let asked = ask!(
            &self.0,
            lseek(handle.file, offset as i64, whence, &raw mut found)
        );
        let found = |()| u64::try_from(found).map_err(|_| Errno::EIO.into());
        unless_missing(asked).map(|asked| asked.and_then(found))
    }

    fn sync(&self, handle: &Open, data_only: bool) -> Result<()> {
        match self.0.driver.fsync {
            None => Ok(()),
            Some(_) => ask!(&self.0, fsync(handle.file, c_int::from(data_only))),
        }
    }

    fn flush(&self, handle: &Open) -> Result<()> {
        match self.0.driver.flush {
            None => Ok(()),
            Some(_) => ask!(&self.0, flush(handle.file)),
        }
    }

    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        self.0
            .change(caller.unwrap_or(&Caller::SYSTEM), path, changes)
    }

    fn set_handle_attributes(&self, handle: &Open, changes: &SetAttributes) -> Option<Result<()>> {
        handle.resize(changes)
    }

    fn mkdir(&self, caller: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, caller, mkdir(path.as_ptr(), mode), Errno::ENOSYS)
    }

    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        let path = string(path)?;
        call!(
            &self.0,
            caller,
            mknod(path.as_ptr(), mode, rdev),
            Errno::EPERM
        )
    }

    fn symlink(&self, caller: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        let (path, target) = (string(path)?, string(target)?);
        call!(
            &self.0,
            caller,
            symlink(target.as_ptr(), path.as_ptr()),
            Errno::EPERM
        )
    }

    fn link(&self, caller: &Caller<'_>, path: &[u8], new: &[u8]) -> Result<()> {
        let (path, new) = (string(path)?, string(new)?);
        call!(
            &self.0,
            caller,
            link(path.as_ptr(), new.as_ptr()),
            Errno::EPERM
        )
    }

    fn unlink(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, caller, unlink(path.as_ptr()), Errno::ENOSYS)
    }

    fn rmdir(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, caller, rmdir(path.as_ptr()), Errno::ENOSYS)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: &[u8],
        to: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (string(from)?, string(to)?);
        call!(
            &self.0,
            caller,
            rename(from.as_ptr(), to.as_ptr(), flags.0),
            Errno::ENOSYS
        )
    }

    fn get_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.0.get_xattr(caller, path, name)
    }

    fn list_xattr(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        self.0.list_xattr(caller, path)
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.0.set_xattr(caller, (path, name), value, flags)
    }

    fn remove_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        self.0.remove_xattr(caller, path, name)
    }
}

#[cfg(test)]
mod exported_tests;
#[cfg(test)]
mod tests;
