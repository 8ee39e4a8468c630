//! One change of names at a time: that a name is on no branch is found, and made use of, at one
//! moment for all processes of a run.

use crate::{
    Environment,
    archive::host::terminated,
    descriptor::{Keeper, KeptFd},
};
use alloc::{format, vec::Vec};
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard, OnceCell};
use culvert_sys::fd::{self, LockCommand};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// The right to change names.
pub struct Names {
    own: Mutex<()>,
    /// A file whose lock the processes of the run take in turn, in their run directory: a record
    /// lock, which the kernel knows by the process, so that a child of fork has not its parent's.
    path: Option<Vec<u8>>,
    file: OnceCell<KeptFd>,
    keeper: Keeper,
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
        let path = directory.map(|run| {
            let name = format!("/union-{number:x}.lock");
            [run, name.as_bytes()].concat()
        });
        Self {
            own: Mutex::new(()),
            path,
            file: OnceCell::new(),
            keeper: environment.keeper,
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
        let path = self.path.as_deref().ok_or(Errno::ENOENT)?;
        let file = self.file.get_or_try_init(|| {
            let flags = OFlags::RDWR | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = fs::open(&terminated(path)?, flags, 0o600)?;
            Ok::<_, Errno>(self.keeper.keep(file))
        })?;
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
