//! The functions of a library, as a driver by paths.

use crate::abi::{self, Dirent, Driver, Mounted, Stat, StatVfs};
use culvert::mount::Mount;
use culvert::path::{PathEntry, PathFileSystem};
use culvert::{
    Access, Attributes, Caching, Caller, Capabilities, Errno, Error, FileKind, OpenFlags,
    RenameFlags, Result, SetAttributes, StatFs, Timespec, Whence,
};
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const O_CREAT: c_int = 0o100;
/// `UTIME_OMIT` (utimensat(2)).
const UTIME_OMIT: i64 = (1 << 30) - 2;
/// (uid_t)-1.
const UNCHANGED: u32 = u32::MAX;
/// For so many names a directory is asked first, where the library does not say how many it has.
const NAMES: usize = 64;
/// No directory has more.
const MOST_NAMES: usize = 1 << 22;

/// A library's file system.
pub struct Library(Arc<Inner>);

struct Inner {
    driver: Driver,
    state: *mut c_void,
    read_only: bool,
    one_at_a_time: Option<Mutex<()>>,
    /// `init` has answered 0: `finalize` is owed.
    begun: bool,
}

// SAFETY: the library has promised to be called by several threads, or is called by one at a time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An open file of the library's.
pub struct Open {
    file: *mut c_void,
    of: Arc<Inner>,
}

// SAFETY: as of `Inner`, whose functions alone use it.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

/// What function `name` has returned.
fn checked(name: &str, result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        // `fuse_dev_do_write` (fs/fuse/dev.c) takes none from 512 on.
        1..512 => Err(Errno::new(result).into()),
        _ => Err(Error::because(
            Errno::EIO,
            format!("{name} of the library has returned {result}, which is no errno"),
        )),
    }
}

/// Calls a function of the library; `$missing` is the error where it has none.
macro_rules! call {
    ($inner:expr, $name:ident($($argument:expr),*), $missing:expr) => {{
        let inner: &Inner = $inner;
        match inner.driver.$name {
            None => Err($missing.into()),
            Some(function) => {
                let _turn = inner.turn();
                // SAFETY: driver.h says what each function may do with its arguments, which live as
                // long as the call; that it does is the library's promise.
                checked(stringify!($name), unsafe { function(inner.state, $($argument),*) })
            }
        }
    }};
}

fn string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::EINVAL.into())
}

/// `name` of the library has said that it has put `done` bytes where `room` are.
fn within(name: &str, done: usize, room: usize) -> Result<usize> {
    match done <= room {
        true => Ok(done),
        false => Err(Error::because(
            Errno::EIO,
            format!("{name} of the library says {done} of {room} bytes"),
        )),
    }
}

impl Inner {
    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let one = self.one_at_a_time.as_ref();
        one.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has(&self, flag: u64) -> bool {
        self.driver.flags & flag != 0
    }
}

/// Behind the last open file's end, which needs the state: after `FileSystem::finish`, too, files are
/// closed.
impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(finalize) = self.driver.finalize.filter(|_| self.begun) {
            // SAFETY: once, with what `init` has given; nobody else has `self` any more.
            unsafe { finalize(self.state) };
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = call!(&self.of, close(self.file), Errno::ENOSYS);
    }
}

impl Library {
    /// The file system that `driver` makes of `mount`.
    ///
    /// # Errors
    /// What `init` returns.
    pub fn begin(driver: Driver, mount: &Mount) -> Result<Self> {
        let changes = [
            driver.write.is_some(),
            driver.unlink.is_some(),
            driver.mkdir.is_some(),
            driver.symlink.is_some(),
            driver.rename.is_some(),
            driver.chmod.is_some(),
        ];
        let mut inner = Inner {
            driver,
            state: std::ptr::null_mut(),
            read_only: mount.read_only() || !changes.contains(&true),
            one_at_a_time: (driver.flags & abi::ONE_AT_A_TIME != 0).then(Mutex::default),
            begun: false,
        };
        let source = string(&mount.source)?;
        let target = string(&mount.target)?;
        let options = mount.options.iter();
        let options = options.filter(|(name, _)| !matches!(name.as_str(), "ro" | "rw"));
        let options = options.map(|(name, value)| match value.is_empty() {
            true => string(name.as_bytes()),
            false => string(&[name.as_bytes(), b"=", value].concat()),
        });
        let options = options.collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mounted = Mounted {
            source: source.as_ptr(),
            target: target.as_ptr(),
            options: pointers.as_ptr(),
            option_count: pointers.len(),
            read_only: c_int::from(inner.read_only),
        };
        if let Some(init) = driver.init {
            let mut state = std::ptr::null_mut();
            // SAFETY: both live as long as the call.
            let result = unsafe { init(&raw const mounted, &raw mut state) };
            checked("init", result)?;
            inner.state = state;
        }
        inner.begun = true;
        Ok(Self(Arc::new(inner)))
    }

    fn opened(&self, path: &[u8], flags: c_int, mode: u32) -> Result<Open> {
        let path = string(path)?;
        let mut file = std::ptr::null_mut();
        // A library without it has no state for an open file.
        if self.0.driver.open.is_some() || flags & O_CREAT != 0 {
            let open = call!(
                &self.0,
                open(path.as_ptr(), flags, mode, &raw mut file),
                Errno::ENOSYS
            );
            open?;
        }
        Ok(Open {
            file,
            of: Arc::clone(&self.0),
        })
    }
}

/// The flags of open(2) that the library sees.
const fn flags(flags: OpenFlags) -> c_int {
    flags.without(OpenFlags::LENDS).0 as c_int
}

fn time([seconds, nanoseconds]: [i64; 2]) -> Timespec {
    let nanoseconds = u32::try_from(nanoseconds).ok();
    Timespec {
        seconds,
        nanoseconds: nanoseconds.filter(|&one| one < 1_000_000_000).unwrap_or(0),
    }
}

fn kind(name: &str, mode: u32) -> Result<FileKind> {
    FileKind::of_mode(mode).ok_or_else(|| {
        Error::because(
            Errno::EIO,
            format!("{name} of the library gives mode 0{mode:o}, which is no type of a file"),
        )
    })
}

fn attributes(name: &str, stat: &Stat) -> Result<Attributes> {
    let mut found = Attributes::new(kind(name, stat.mode)?, stat.mode & 0o7777);
    found.inode = stat.ino;
    if let Ok(links @ 1..) = u32::try_from(stat.nlink) {
        found.links = links;
    }
    (found.uid, found.gid, found.rdev) = (stat.uid, stat.gid, stat.rdev);
    found.size = u64::try_from(stat.size).unwrap_or(0);
    found.blocks = u64::try_from(stat.blocks).unwrap_or(0);
    if let Ok(size @ 1..) = u32::try_from(stat.blksize) {
        found.block_size = size;
    }
    found.atime = time(stat.atime);
    found.mtime = time(stat.mtime);
    found.ctime = time(stat.ctime);
    Ok(found)
}

fn times(changes: &SetAttributes) -> [i64; 4] {
    let one = |time: Option<Timespec>| match time {
        Some(time) => [time.seconds, i64::from(time.nanoseconds)],
        None => [0, UTIME_OMIT],
    };
    let ([a, b], [c, d]) = (one(changes.atime), one(changes.mtime));
    [a, b, c, d]
}

impl PathFileSystem for Library {
    type Handle = Open;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.0.read_only,
            immutable: self.0.has(abi::IMMUTABLE),
            xattrs: self.0.driver.getxattr.is_some(),
            hard_links: self.0.driver.link.is_some(),
            checks_permissions: self.0.driver.access.is_some(),
            ..Capabilities::default()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        let (path, mut stat) = (string(path)?, Stat::default());
        call!(
            &self.0,
            getattr(path.as_ptr(), &raw mut stat),
            Errno::ENOSYS
        )?;
        attributes("getattr", &stat)
    }

    fn handle_attributes(&self, handle: &Open) -> Option<Result<Attributes>> {
        self.0.driver.fgetattr?;
        let mut stat = Stat::default();
        let asked = call!(&self.0, fgetattr(handle.file, &raw mut stat), Errno::ENOSYS);
        Some(asked.and_then(|()| attributes("fgetattr", &stat)))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let path = string(path)?;
        let (mut room, mut count) = (NAMES, 0);
        if self.0.driver.getdirentcount.is_some() {
            call!(
                &self.0,
                getdirentcount(path.as_ptr(), &raw mut count),
                Errno::ENOSYS
            )?;
            room = count.clamp(1, MOST_NAMES);
        }
        loop {
            let none = Dirent {
                inode: 0,
                kind: 0,
                name: [0; 256],
            };
            let mut entries = vec![none; room];
            count = 0;
            call!(
                &self.0,
                getdirents(path.as_ptr(), entries.as_mut_ptr(), room, &raw mut count),
                Errno::ENOSYS
            )?;
            if count > MOST_NAMES {
                return Err(Error::because(
                    Errno::EOVERFLOW,
                    format!(
                        "getdirents of the library says {count} names; {MOST_NAMES} are the most"
                    ),
                ));
            }
            if count > room {
                room = count;
                continue;
            }
            let found = entries.iter().take(count).map(entry);
            let mut found = found.collect::<Result<Vec<_>>>()?;
            found.retain(|one| !matches!(&one.name[..], b"." | b".."));
            return Ok(found);
        }
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], wanted: OpenFlags) -> Result<Open> {
        // Who checks permissions itself is asked by nobody else.
        if self.0.driver.access.is_some() {
            let read = if wanted.read() { Access::READ.0 } else { 0 };
            let writes = wanted.write() || wanted.truncate();
            let write = if writes { Access::WRITE.0 } else { 0 };
            self.access(caller, path, Access(read | write))?;
        }
        self.opened(path, flags(wanted), 0)
    }

    fn restore(
        &self,
        _: &Caller<'_>,
        path: &[u8],
        wanted: OpenFlags,
        _state: &[u8],
    ) -> Result<Open> {
        // It was open: nobody asks again whether it may be.
        self.opened(path, flags(wanted), 0)
    }

    fn create(&self, _: &Caller<'_>, path: &[u8], wanted: OpenFlags, mode: u32) -> Result<Open> {
        self.opened(path, flags(wanted) | O_CREAT, mode)
    }

    fn read(&self, handle: &Open, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (mut done, room) = (0, out.len());
        call!(
            &self.0,
            read(
                handle.file,
                out.as_mut_ptr(),
                room,
                offset as i64,
                &raw mut done
            ),
            Errno::ENOSYS
        )?;
        within("read", done, room)
    }

    fn write(&self, handle: &Open, offset: u64, bytes: &[u8]) -> Result<usize> {
        let mut done = 0;
        call!(
            &self.0,
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
            call!(&self.0, statfs(&raw mut found), Errno::ENOSYS)?;
        }
        let or = |value: u64, other: u32| match u32::try_from(value) {
            Ok(value @ 1..) => value,
            _ => other,
        };
        Ok(StatFs {
            block_size: or(found.frsize, or(found.bsize, 4096)),
            blocks: found.blocks,
            blocks_free: found.bfree,
            blocks_available: found.bavail,
            files: found.files,
            files_free: found.ffree,
            name_max: or(found.namemax, 255),
            read_only: self.0.read_only,
            ..StatFs::default()
        })
    }

    fn access(&self, _: &Caller<'_>, path: &[u8], wanted: Access) -> Result<()> {
        let path = string(path)?;
        call!(
            &self.0,
            access(path.as_ptr(), wanted.0 as c_int),
            Errno::ENOSYS
        )
    }

    fn keeps_unlinked(&self) -> bool {
        self.0.has(abi::KEEPS_UNLINKED)
    }

    fn caching(&self, _: &Open) -> Caching {
        match self.0.has(abi::NO_CACHE) {
            true => Caching::Never,
            false => Caching::default(),
        }
    }

    fn allocate(&self, handle: &Open, mode: u32, offset: u64, length: u64) -> Result<()> {
        call!(
            &self.0,
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
        let asked = call!(
            &self.0,
            lseek(handle.file, offset as i64, whence, &raw mut found),
            Errno::ENOSYS
        );
        let found = |()| u64::try_from(found).map_err(|_| Errno::EIO.into());
        Some(asked.and_then(found))
    }

    fn sync(&self, handle: &Open, data_only: bool) -> Result<()> {
        match self.0.driver.fsync {
            None => Ok(()),
            Some(_) => call!(
                &self.0,
                fsync(handle.file, c_int::from(data_only)),
                Errno::ENOSYS
            ),
        }
    }

    fn flush(&self, handle: &Open) -> Result<()> {
        match self.0.driver.flush {
            None => Ok(()),
            Some(_) => call!(&self.0, flush(handle.file), Errno::ENOSYS),
        }
    }

    fn set_attributes(
        &self,
        _: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let path = string(path)?;
        let path = path.as_ptr();
        if let Some(size) = changes.size {
            call!(&self.0, truncate(path, size as i64), Errno::ENOSYS)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            let [uid, gid] = [changes.uid, changes.gid].map(|one| one.unwrap_or(UNCHANGED));
            call!(&self.0, chown(path, uid, gid), Errno::EPERM)?;
        }
        if let Some(permissions) = changes.permissions {
            call!(&self.0, chmod(path, permissions), Errno::EPERM)?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            let times = times(changes);
            call!(&self.0, utime(path, &raw const times), Errno::EPERM)?;
        }
        Ok(())
    }

    fn set_handle_attributes(&self, handle: &Open, changes: &SetAttributes) -> Option<Result<()>> {
        let size = changes.size?;
        let is_all = *changes
            == SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
        (is_all && self.0.driver.ftruncate.is_some())
            .then(|| call!(&self.0, ftruncate(handle.file, size as i64), Errno::ENOSYS))
    }

    fn mkdir(&self, _: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, mkdir(path.as_ptr(), mode), Errno::ENOSYS)
    }

    fn mknod(&self, _: &Caller<'_>, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, mknod(path.as_ptr(), mode, rdev), Errno::EPERM)
    }

    fn symlink(&self, _: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        let (path, target) = (string(path)?, string(target)?);
        call!(
            &self.0,
            symlink(target.as_ptr(), path.as_ptr()),
            Errno::EPERM
        )
    }

    fn link(&self, _: &Caller<'_>, path: &[u8], new: &[u8]) -> Result<()> {
        let (path, new) = (string(path)?, string(new)?);
        call!(&self.0, link(path.as_ptr(), new.as_ptr()), Errno::EPERM)
    }

    fn unlink(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, unlink(path.as_ptr()), Errno::ENOSYS)
    }

    fn rmdir(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        let path = string(path)?;
        call!(&self.0, rmdir(path.as_ptr()), Errno::ENOSYS)
    }

    fn rename(&self, _: &Caller<'_>, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let (from, to) = (string(from)?, string(to)?);
        call!(
            &self.0,
            rename(from.as_ptr(), to.as_ptr(), flags.0),
            Errno::ENOSYS
        )
    }

    fn get_xattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let (path, name) = (string(path)?, string(name)?);
        sized("getxattr", |value, size| {
            call!(
                &self.0,
                getxattr(path.as_ptr(), name.as_ptr(), value, size),
                Errno::EOPNOTSUPP
            )
        })
    }

    fn list_xattr(&self, path: &[u8]) -> Result<Vec<u8>> {
        if self.0.driver.listxattr.is_none() {
            return Ok(Vec::new());
        }
        let path = string(path)?;
        sized("listxattr", |names, size| {
            call!(
                &self.0,
                listxattr(path.as_ptr(), names, size),
                Errno::EOPNOTSUPP
            )
        })
    }

    fn set_xattr(&self, path: &[u8], name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        call!(
            &self.0,
            setxattr(
                path.as_ptr(),
                name.as_ptr(),
                value.as_ptr(),
                value.len(),
                flags as c_int
            ),
            Errno::EOPNOTSUPP
        )
    }

    fn remove_xattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        call!(
            &self.0,
            removexattr(path.as_ptr(), name.as_ptr()),
            Errno::EOPNOTSUPP
        )
    }
}

/// What `ask` puts into a buffer as large as an attribute may be (`XATTR_SIZE_MAX`).
fn sized(name: &str, ask: impl FnOnce(*mut u8, *mut usize) -> Result<()>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let mut size = bytes.len();
    ask(bytes.as_mut_ptr(), &raw mut size)?;
    bytes.truncate(within(name, size, bytes.len())?);
    Ok(bytes)
}

fn entry(found: &Dirent) -> Result<PathEntry> {
    let end = found.name.iter().position(|&byte| byte == 0);
    let name = end.and_then(|end| found.name.get(..end));
    let name = name.filter(|name| !name.is_empty() && !name.contains(&b'/'));
    let name = name.ok_or_else(|| {
        Error::because(
            Errno::EIO,
            "getdirents of the library gives a name that is none",
        )
    })?;
    Ok(PathEntry {
        name: name.to_vec(),
        kind: kind("getdirents", found.kind)?,
        inode: found.inode,
    })
}

#[cfg(test)]
mod tests;
