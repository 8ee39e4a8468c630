//! A library and its open files: what is called, and on whose behalf.

use super::answers::{checked, string, unless_missing};
use super::maps::LentMaps;
use super::observer::Observer;
use super::words::Words;
use alloc::{format, sync::Arc, vec::Vec};
use core::ffi::{c_int, c_void};
use culvert::library::abi::{self, Driver};
use culvert::mount::Mount;
use culvert::sync::{Mutex, MutexGuard};
use culvert::{Caller, Errno, Error, Maps, Result};
use culvert_sys::flags::OFlags;
use culvert_sys::waits::Holding;
use culvert_sys::{BorrowedFd, OwnedFd, fs};

pub(super) const O_CREAT: c_int = 0o100;

/// A library's file system.
pub struct Library(pub(super) Arc<Inner>);

pub struct Inner {
    pub(super) driver: Driver,
    state: *mut c_void,
    /// `CULVERT_IMMUTABLE` and the others.
    flags: u64,
    pub(super) read_only: bool,
    one_at_a_time: Option<Mutex<()>>,
    /// `init` has answered 0: `finalize` is owed.
    begun: bool,
    /// Whom the library may tell of changes for as long as it is there.
    pub(super) observers: Mutex<Vec<Arc<Observer>>>,
    /// The maps that it was given, for as long.
    maps: Mutex<Vec<Arc<LentMaps>>>,
}

// SAFETY: the library has promised to be called by several threads, or is called by one at a time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An open file of the library's.
pub struct Open {
    pub(super) file: *mut c_void,
    pub(super) of: Arc<Inner>,
    /// It has a descriptor of the kernel's.
    pub(super) is_kernels: bool,
}

// SAFETY: as of `Inner`, whose functions alone use it.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl Inner {
    /// What `init` has made, for tests of drivers that are exported.
    #[cfg(test)]
    pub(super) const fn state(&self) -> *mut c_void {
        self.state
    }

    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.one_at_a_time.as_ref().map(|one| one.lock())
    }

    pub(super) const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// `caller` as a library sees it that has asked for it.
    pub(super) const fn who(&self, caller: &Caller<'_>) -> abi::Caller {
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
    pub(super) const fn first(&self, who: &abi::Caller) -> *mut c_void {
        match self.has(abi::CALLERS) {
            true => core::ptr::from_ref(who).cast_mut().cast(),
            false => self.state,
        }
    }

    /// `access` decides what modes would.
    pub(super) const fn judges(&self) -> bool {
        self.driver.access.is_some() && !self.has(abi::NO_ACCESS)
    }

    /// Gives the library `maps`; what it answers.
    pub(super) fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        let Some(extended) = self.driver.extended else {
            return Ok(());
        };
        let lent = LentMaps::new(maps);
        let head = lent.head();
        // They stay where they are until the library is at its end.
        self.maps.lock().push(lent);
        let (_held, _turn) = (Holding::new(), self.turn());
        let who = self.who(&Caller::SYSTEM);
        // SAFETY: driver.h: maps that are there until `finalize` has returned.
        let asked = checked("extended", unsafe { extended(self.first(&who), head) });
        unless_missing(asked).unwrap_or(Ok(()))
    }
}

/// Behind the last open file's end, which needs the state: after `FileSystem::finish`, too, files
/// are closed.
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
            observers: Mutex::new(Vec::new()),
            maps: Mutex::new(Vec::new()),
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

    /// The directory of the kernel's that the file system is, if it is one, opened for its names
    /// alone.
    ///
    /// # Errors
    /// What the library returns; `EIO`: what it gives is no directory, or cannot be entered.
    pub fn tree(&self) -> Result<Option<OwnedFd>> {
        let mut fd = -1;
        let Some(asked) = unless_missing(ask!(&self.0, tree(&raw mut fd))) else {
            return Ok(None);
        };
        asked?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Below zero there is none, but the working directory.
        let opened = match fd {
            0.. => fs::openat(BorrowedFd::number(fd), c".", flags, 0),
            _ => Err(Errno::EBADF),
        };
        let refused = |errno| {
            let why = match errno {
                Errno::EBADF | Errno::ENOTDIR => "is no directory",
                _ => "cannot be entered",
            };
            let text = format!("tree of the library gives {fd}, which {why}: {errno}");
            Error::because(Errno::EIO, text)
        };
        opened.map(Some).map_err(refused)
    }

    /// Whether it says that nothing can be changed.
    pub fn says_read_only(&self) -> bool {
        self.0.has(abi::READ_ONLY)
    }

    pub(super) fn opened(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: c_int,
        mode: u32,
    ) -> Result<Open> {
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
        Ok(self.with(file))
    }

    /// An open file by what the library has put into `*file`.
    pub(super) fn with(&self, file: *mut c_void) -> Open {
        let mut open = Open {
            file,
            of: Arc::clone(&self.0),
            is_kernels: false,
        };
        open.is_kernels = self.kernel_file(&open).is_some();
        open
    }

    /// The descriptor that `open` has now.
    pub(super) fn kernel_file(&self, open: &Open) -> Option<i32> {
        self.0.driver.descriptor?;
        let mut fd = -1;
        let asked = ask!(&self.0, descriptor(open.file, &raw mut fd));
        asked.ok().map(|()| fd).filter(|&fd| fd >= 0)
    }
}
