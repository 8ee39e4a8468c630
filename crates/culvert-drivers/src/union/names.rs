//! One change of names at a time: that a name is on no branch is found, and made use of, at one
//! moment for all processes of a run.

use crate::{Environment, archive::host::terminated, descriptor::KeptFd};
use alloc::format;
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard};
use culvert_sys::fd::{self, LockCommand};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// The right to change names.
pub struct Names {
    own: Mutex<()>,
    /// A file whose lock the processes of the run take in turn, in their run directory: a record
    /// lock, which the kernel knows by the process, so that a child of fork has not its parent's.
    file: Option<KeptFd>,
}

/// It, for as long as it is held.
pub struct Changing<'a> {
    names: &'a Names,
    is_locked: bool,
    _own: MutexGuard<'a, ()>,
}

impl Names {
    /// Of the mount with the `number`; in a process alone there is nobody else.
    pub fn new(number: u64, environment: &Environment<'_>) -> Self {
        let directory = environment.run_directory.filter(|_| !environment.alone);
        // Now: a child of vfork, or a program under a filter, could not open it for this process.
        let file = directory.and_then(|run| {
            let name = format!("/union-{number:x}.lock");
            let path = terminated(&[run, name.as_bytes()].concat()).ok()?;
            let flags = OFlags::RDWR | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            Some(environment.keeper.keep(fs::open(&path, flags, 0o600).ok()?))
        });
        Self {
            own: Mutex::new(()),
            file,
        }
    }

    /// Waits until nobody else changes names. A process that may not have the file goes on without.
    pub fn change(&self) -> Changing<'_> {
        let own = self.own.lock();
        let is_locked = self.lock(linux::F_WRLCK).is_ok();
        Changing {
            names: self,
            is_locked,
            _own: own,
        }
    }

    fn lock(&self, kind: u32) -> Result<(), Errno> {
        let file = self.file.as_ref().ok_or(Errno::ENOENT)?;
        loop {
            let mut lock = linux::flock {
                l_type: kind as i16,
                l_whence: 0,
                l_start: 0,
                l_len: 0,
                l_pid: 0,
            };
            match fd::lock(file.fd(), LockCommand::SETLKW, &mut lock) {
                Err(Errno::EINTR) => {}
                done => return done,
            }
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.is_locked {
            let _ = self.names.lock(linux::F_UNLCK);
        }
    }
}
