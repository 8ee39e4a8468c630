//! The functions of a library, as a driver by paths.

use alloc::{ffi::CString, format, string::String, sync::Arc, vec, vec::Vec};
use core::ffi::{CStr, c_char, c_int, c_void};
use culvert::library::abi::{self, Dirent, Driver, Mounted, Stat, StatVfs};
use culvert::library::{UNCHANGED, times};
use culvert::mount::Mount;
use culvert::path::{PathEntry, PathFileSystem};
use culvert::sync::{Mutex, MutexGuard};
use culvert::{
    Access, Attributes, Caching, Caller, Capabilities, Errno, Error, FileKind, OpenFlags,
    RenameFlags, Result, SetAttributes, StatFs, Whence,
};
use culvert_sys::waits::Holding;

const O_CREAT: c_int = 0o100;
/// For so many names a directory is asked first, where the library does not say how many it has.
const NAMES: usize = 64;
/// No directory has more.
const MOST_NAMES: usize = 1 << 22;
/// Room for why `init` fails, bytes.
const REASON: usize = 512;

/// A library's file system.
pub struct Library(Arc<Inner>);

struct Inner {
    driver: Driver,
    state: *mut c_void,
    /// `CULVERT_IMMUTABLE` and the others.
    flags: u64,
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
    /// It has a descriptor of the kernel's.
    is_kernels: bool,
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

/// Calls a function of the library on behalf of `$caller`; `$missing` is the error where it has none.
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
        self.one_at_a_time.as_ref().map(|one| one.lock())
    }

    const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// `caller` as a library sees it that has asked for it.
    const fn who(&self, caller: &Caller<'_>) -> abi::Caller {
        abi::Caller {
            state: self.state,
            uid: caller.uid,
            gid: caller.gid,
            groups: caller.groups.as_ptr(),
            group_count: caller.groups.len(),
            pid: caller.pid,
            umask: caller.umask,
        }
    }

    /// The first argument of a function.
    const fn first(&self, who: &abi::Caller) -> *mut c_void {
        match self.has(abi::CALLERS) {
            true => core::ptr::from_ref(who).cast_mut().cast(),
            false => self.state,
        }
    }

    /// `access` decides what modes would.
    const fn judges(&self) -> bool {
        self.driver.access.is_some() && !self.has(abi::NO_ACCESS)
    }
}

/// Behind the last open file's end, which needs the state: after `FileSystem::finish`, too, files are
/// closed.
impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(finalize) = self.driver.finalize.filter(|_| self.begun) {
            let _held = Holding::new();
            // SAFETY: once, with what `init` has given; nobody else has `self` any more.
            unsafe { finalize(self.state) };
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = call!(&self.of, &Caller::SYSTEM, close(self.file), Errno::ENOSYS);
    }
}

/// The words of a mount, as C has them, and room for a reason.
pub struct Words {
    source: CString,
    target: CString,
    _options: Vec<CString>,
    pointers: Vec<*const c_char>,
    reason: [c_char; REASON],
}

impl Words {
    /// Those of `mount`.
    ///
    /// # Errors
    /// `EINVAL`: one has a NUL.
    pub fn of(mount: &Mount) -> Result<Self> {
        let options = mount.options.iter();
        let options = options.filter(|(name, _)| !matches!(name.as_str(), "ro" | "rw"));
        let options = options.map(|(name, value)| match value.is_empty() {
            true => string(name.as_bytes()),
            false => string(&[name.as_bytes(), b"=", value].concat()),
        });
        let options = options.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            source: string(&mount.source)?,
            target: string(&mount.target)?,
            pointers: options.iter().map(|option| option.as_ptr()).collect(),
            _options: options,
            reason: [0; REASON],
        })
    }

    /// The structure, valid as long as `self` stays where it is.
    pub fn mounted(&mut self, read_only: bool) -> Mounted {
        Mounted {
            source: self.source.as_ptr(),
            target: self.target.as_ptr(),
            options: self.pointers.as_ptr(),
            option_count: self.pointers.len(),
            read_only: c_int::from(read_only),
            reason: self.reason.as_mut_ptr(),
            reason_size: self.reason.len(),
        }
    }

    /// What the library has said.
    pub fn said(&self) -> Option<String> {
        said(&self.reason)
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
            state: core::ptr::null_mut(),
            flags: driver.flags,
            read_only: mount.read_only() || !changes.contains(&true),
            one_at_a_time: (driver.flags & abi::ONE_AT_A_TIME != 0).then(|| Mutex::new(())),
            begun: false,
        };
        let mut words = Words::of(mount)?;
        let mounted = words.mounted(inner.read_only);
        if let Some(init) = driver.init {
            let mut state = core::ptr::null_mut();
            let _held = Holding::new();
            // SAFETY: both live as long as the call.
            let result = unsafe { init(&raw const mounted, &raw mut state) };
            checked("init", result).map_err(|error| {
                let errno = error.errno();
                match words.said() {
                    Some(words) => Error::because(errno, words),
                    None => error,
                }
            })?;
            inner.state = state;
        }
        inner.begun = true;
        if driver.capabilities.is_some() {
            let flags = &raw mut inner.flags;
            call!(&inner, &Caller::SYSTEM, capabilities(flags), Errno::ENOSYS)?;
            inner.read_only |= inner.has(abi::READ_ONLY);
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Whether it says that nothing it keeps between calls matters to others (`CULVERT_STATELESS`).
    pub fn is_stateless(&self) -> bool {
        self.0.has(abi::STATELESS)
    }

    fn opened(&self, caller: &Caller<'_>, path: &[u8], flags: c_int, mode: u32) -> Result<Open> {
        let path = string(path)?;
        let mut file = core::ptr::null_mut();
        // A library without it has no state for an open file.
        if self.0.driver.open.is_some() || flags & O_CREAT != 0 {
            let open = call!(
                &self.0,
                caller,
                open(path.as_ptr(), flags, mode, &raw mut file),
                Errno::ENOSYS
            );
            open?;
        }
        let mut open = Open {
            file,
            of: Arc::clone(&self.0),
            is_kernels: false,
        };
        open.is_kernels = self.kernel_file(&open).is_some();
        Ok(open)
    }
}

impl Library {
    /// The descriptor that `open` has now.
    fn kernel_file(&self, open: &Open) -> Option<i32> {
        self.0.driver.descriptor?;
        let mut fd = -1;
        let asked = call!(
            &self.0,
            &Caller::SYSTEM,
            descriptor(open.file, &raw mut fd),
            Errno::ENOSYS
        );
        asked.ok().map(|()| fd).filter(|&fd| fd >= 0)
    }
}

/// What `init` has said.
fn said(reason: &[c_char; REASON]) -> Option<String> {
    let bytes = reason.map(|byte| byte as u8);
    let words = CStr::from_bytes_until_nul(&bytes).ok()?;
    let words = String::from_utf8_lossy(words.to_bytes()).into_owned();
    Some(words).filter(|words| !words.is_empty())
}

/// Nothing where the answer is that the library has no such function for this.
fn unless_missing<R>(answer: Result<R>) -> Option<Result<R>> {
    match answer {
        Err(error) if error.errno() == Errno::ENOSYS => None,
        answer => Some(answer),
    }
}

/// The flags of open(2) that the library sees.
const fn flags(flags: OpenFlags) -> c_int {
    flags.without(OpenFlags::LENDS).0 as c_int
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
    kind(name, stat.mode)?;
    Ok(stat.attributes().ok_or(Errno::EIO)?)
}

impl PathFileSystem for Library {
    type Handle = Open;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.0.read_only,
            immutable: self.0.has(abi::IMMUTABLE),
            xattrs: self.0.driver.getxattr.is_some() && !self.0.has(abi::NO_XATTRS),
            hard_links: self.0.driver.link.is_some() && !self.0.has(abi::NO_LINKS),
            checks_permissions: self.0.judges(),
            ..Capabilities::default()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        let (path, mut stat) = (string(path)?, Stat::default());
        call!(
            &self.0,
            &Caller::SYSTEM,
            getattr(path.as_ptr(), &raw mut stat),
            Errno::ENOSYS
        )?;
        attributes("getattr", &stat)
    }

    fn handle_attributes(&self, handle: &Open) -> Option<Result<Attributes>> {
        self.0.driver.fgetattr?;
        let mut stat = Stat::default();
        let asked = call!(
            &self.0,
            &Caller::SYSTEM,
            fgetattr(handle.file, &raw mut stat),
            Errno::ENOSYS
        );
        unless_missing(asked).map(|asked| asked.and_then(|()| attributes("fgetattr", &stat)))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let path = string(path)?;
        let (mut room, mut count) = (NAMES, 0);
        if self.0.driver.getdirentcount.is_some() {
            call!(
                &self.0,
                &Caller::SYSTEM,
                getdirentcount(path.as_ptr(), &raw mut count),
                Errno::ENOSYS
            )?;
            room = count.clamp(1, MOST_NAMES);
        }
        loop {
            let mut entries = vec![Dirent::NONE; room];
            count = 0;
            call!(
                &self.0,
                &Caller::SYSTEM,
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
        if self.0.judges() {
            let read = if wanted.read() { Access::READ.0 } else { 0 };
            let writes = wanted.write() || wanted.truncate();
            let write = if writes { Access::WRITE.0 } else { 0 };
            self.access(caller, path, Access(read | write))?;
        }
        self.opened(caller, path, flags(wanted), 0)
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        wanted: OpenFlags,
        _state: &[u8],
    ) -> Result<Open> {
        // It was open: nobody asks again whether it may be.
        self.opened(caller, path, flags(wanted), 0)
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
        call!(
            &self.0,
            &Caller::SYSTEM,
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
            call!(
                &self.0,
                &Caller::SYSTEM,
                statfs(&raw mut found),
                Errno::ENOSYS
            )?;
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
        let asked = call!(
            &self.0,
            &Caller::SYSTEM,
            caching(handle.file, &raw mut how),
            Errno::ENOSYS
        );
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

    fn sync_directory(&self, path: &[u8], data_only: bool) -> Result<()> {
        if self.0.driver.fsyncdir.is_none() {
            return self.sync_all();
        }
        let path = string(path)?;
        let data_only = c_int::from(data_only);
        call!(
            &self.0,
            &Caller::SYSTEM,
            fsyncdir(path.as_ptr(), data_only),
            Errno::ENOSYS
        )
    }

    fn sync_all(&self) -> Result<()> {
        match self.0.driver.syncfs {
            None => Ok(()),
            Some(_) => call!(&self.0, &Caller::SYSTEM, syncfs(), Errno::ENOSYS),
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
        let asked = call!(
            &self.0,
            &Caller::SYSTEM,
            lseek(handle.file, offset as i64, whence, &raw mut found),
            Errno::ENOSYS
        );
        let found = |()| u64::try_from(found).map_err(|_| Errno::EIO.into());
        unless_missing(asked).map(|asked| asked.and_then(found))
    }

    fn sync(&self, handle: &Open, data_only: bool) -> Result<()> {
        match self.0.driver.fsync {
            None => Ok(()),
            Some(_) => call!(
                &self.0,
                &Caller::SYSTEM,
                fsync(handle.file, c_int::from(data_only)),
                Errno::ENOSYS
            ),
        }
    }

    fn flush(&self, handle: &Open) -> Result<()> {
        match self.0.driver.flush {
            None => Ok(()),
            Some(_) => call!(&self.0, &Caller::SYSTEM, flush(handle.file), Errno::ENOSYS),
        }
    }

    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let path = string(path)?;
        let path = path.as_ptr();
        if let Some(size) = changes.size {
            call!(
                &self.0,
                caller.unwrap_or(&Caller::SYSTEM),
                truncate(path, size as i64),
                Errno::ENOSYS
            )?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            let [uid, gid] = [changes.uid, changes.gid].map(|one| one.unwrap_or(UNCHANGED));
            call!(
                &self.0,
                caller.unwrap_or(&Caller::SYSTEM),
                chown(path, uid, gid),
                Errno::EPERM
            )?;
        }
        if let Some(permissions) = changes.permissions {
            call!(
                &self.0,
                caller.unwrap_or(&Caller::SYSTEM),
                chmod(path, permissions),
                Errno::EPERM
            )?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            let times = times(changes);
            call!(
                &self.0,
                caller.unwrap_or(&Caller::SYSTEM),
                utime(path, &raw const times),
                Errno::EPERM
            )?;
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
        if !is_all || self.0.driver.ftruncate.is_none() {
            return None;
        }
        unless_missing(call!(
            &self.0,
            &Caller::SYSTEM,
            ftruncate(handle.file, size as i64),
            Errno::ENOSYS
        ))
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
        let (path, name) = (string(path)?, string(name)?);
        sized("getxattr", |value, size| {
            call!(
                &self.0,
                caller,
                getxattr(path.as_ptr(), name.as_ptr(), value, size),
                Errno::EOPNOTSUPP
            )
        })
    }

    fn list_xattr(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        if self.0.driver.listxattr.is_none() {
            return Ok(Vec::new());
        }
        let path = string(path)?;
        sized("listxattr", |names, size| {
            call!(
                &self.0,
                caller,
                listxattr(path.as_ptr(), names, size),
                Errno::EOPNOTSUPP
            )
        })
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        call!(
            &self.0,
            caller,
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

    fn remove_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        call!(
            &self.0,
            caller,
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
