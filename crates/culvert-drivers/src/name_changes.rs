//! One change of names at a time, for all processes of a run: that there is no such name is found,
//! and made use of, at one moment.

use crate::{Keeper, OwnedFd, archive::host::terminated, descriptor::KeptFd};
use alloc::{ffi::CString, sync::Arc};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard};
use culvert_sys::fd::{self, LockCommand};
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::raw::general as linux;

/// The right to change names.
pub struct NameChanges {
    own: Mutex<()>,
    /// Those of this process, where it has none of the run's.
    alone: AtomicU64,
    shared: Option<Shared>,
}

/// What the processes of the run have together.
struct Shared {
    /// A file whose lock they take in turn. The lock is one of a description (fcntl(2),
    /// `F_OFD_SETLKW`), of which each process has its own: a program's record locks make no cycle
    /// with it, which would be `EDEADLK`.
    file: Mutex<Arc<KeptFd>>,
    path: CString,
    keeper: Keeper,
    /// How many changes there were.
    count: &'static AtomicU64,
}

/// The right, for as long as it is held.
pub struct Changing<'a> {
    names: &'a NameChanges,
    is_locked: bool,
    _own: MutexGuard<'a, ()>,
}

impl NameChanges {
    /// With the file `path` in the run directory, which is made here when it is missing; none: in a
    /// process alone there is nobody else. A process that may not have the file goes on without.
    pub fn new(path: Option<&[u8]>, keeper: Keeper) -> Self {
        Self {
            own: Mutex::new(()),
            alone: AtomicU64::new(0),
            // Now: a child of vfork, or a program under a filter, could not open it for this process.
            shared: path.and_then(|path| Shared::open(path, keeper).ok()),
        }
    }

    /// Waits until nobody else changes names.
    pub fn change(&self) -> Changing<'_> {
        let own = self.own.lock();
        Changing {
            names: self,
            is_locked: self.lock(linux::F_WRLCK).is_ok(),
            _own: own,
        }
    }

    /// How many changes were noted, by whichever process.
    pub fn count(&self) -> u64 {
        self.counter().load(Acquire)
    }

    /// This is the child of a fork, whose description is its parent's, too. `shared`: so is the table
    /// of descriptors, where that stays the parent's to close.
    pub fn forked(&self, shared: bool) {
        let Some(both) = &self.shared else { return };
        if let Ok(own) = open(&both.path) {
            let own = Arc::new(both.keeper.keep(own));
            let before = core::mem::replace(&mut *both.file.lock(), own);
            if shared {
                core::mem::forget(before);
            }
        }
    }

    fn counter(&self) -> &AtomicU64 {
        match &self.shared {
            Some(shared) => shared.count,
            None => &self.alone,
        }
    }

    fn lock(&self, kind: u32) -> Result<(), Errno> {
        let shared = self.shared.as_ref().ok_or(Errno::ENOENT)?;
        let file = shared.file.lock().clone();
        loop {
            let mut lock = linux::flock {
                l_type: kind as i16,
                l_whence: 0,
                l_start: 0,
                l_len: 0,
                l_pid: 0,
            };
            match fd::lock(file.fd(), LockCommand::OFD_SETLKW, &mut lock) {
                Err(Errno::EINTR) => {}
                done => return done,
            }
        }
    }
}

fn open(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fs::open(path, flags, 0o600)
}

impl Shared {
    fn open(path: &[u8], keeper: Keeper) -> Result<Self, Errno> {
        let path = terminated(path)?;
        let file = open(&path)?;
        let length = size_of::<AtomicU64>();
        // The first one makes it as long; to others it is so already.
        fs::ftruncate(&file, length as u64)?;
        let both = Protection::READ | Protection::WRITE;
        // Never unmapped: mounts live as long as their process.
        let mapped = Mapping::near(0, Of::file(&file), length, both)?.leak();
        Ok(Self {
            file: Mutex::new(Arc::new(keeper.keep(file))),
            path,
            keeper,
            // SAFETY: it is that long and stays; a page is aligned for anything, and any bytes are a
            // counter.
            count: unsafe { &*mapped.cast::<AtomicU64>() },
        })
    }
}

impl Changing<'_> {
    /// Notes a change: [`NameChanges::count`] is another from here on, and returned.
    pub fn note(&self) -> u64 {
        self.names.counter().fetch_add(1, AcqRel) + 1
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.is_locked {
            let _ = self.names.lock(linux::F_UNLCK);
        }
    }
}
