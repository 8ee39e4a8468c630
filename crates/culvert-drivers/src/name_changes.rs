//! One change of names at a time, for all processes of a run: that there is no such name is found,
//! and made use of, at one moment.

use crate::{Keeper, archive::host::terminated, descriptor::KeptFd};
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
    /// A file whose lock they take in turn: a record lock, which the kernel knows by the process, so
    /// that a child of fork has not its parent's.
    file: KeptFd,
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

    fn counter(&self) -> &AtomicU64 {
        match &self.shared {
            Some(shared) => shared.count,
            None => &self.alone,
        }
    }

    fn lock(&self, kind: u32) -> Result<(), Errno> {
        let shared = self.shared.as_ref().ok_or(Errno::ENOENT)?;
        loop {
            let mut lock = linux::flock {
                l_type: kind as i16,
                l_whence: 0,
                l_start: 0,
                l_len: 0,
                l_pid: 0,
            };
            match fd::lock(shared.file.fd(), LockCommand::SETLKW, &mut lock) {
                Err(Errno::EINTR) => {}
                done => return done,
            }
        }
    }
}

impl Shared {
    fn open(path: &[u8], keeper: Keeper) -> Result<Self, Errno> {
        let path = terminated(path)?;
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(&path, flags, 0o600)?;
        let length = size_of::<AtomicU64>();
        // The first one makes it as long; to others it is so already.
        fs::ftruncate(&file, length as u64)?;
        let both = Protection::READ | Protection::WRITE;
        // Never unmapped: mounts live as long as their process.
        let mapped = Mapping::near(0, Of::file(&file), length, both)?.leak();
        Ok(Self {
            file: keeper.keep(file),
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
