//! Locks that a server keeps: GETLK, SETLK, SETLKW.

use crate::file::FuseFile;
use culvert::{Errno, Lock, LockKind, LockOwner, Result, Wait};
use culvert_wire::{
    InitFlags, Operation,
    structures::{FileLock, LkIn},
};

const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

const fn number(kind: LockKind) -> u32 {
    match kind {
        LockKind::Shared => F_RDLCK,
        LockKind::Exclusive => F_WRLCK,
        LockKind::Unlock => F_UNLCK,
    }
}

impl FuseFile {
    fn lock_in(&self, owner: LockOwner, lock: &Lock, lk_flags: u32) -> LkIn {
        LkIn {
            fh: self.fh(),
            owner: owner.0,
            lk: FileLock {
                start: lock.start,
                end: lock.end,
                r#type: number(lock.kind),
                pid: lock.pid,
            },
            lk_flags,
            padding: 0,
        }
    }

    /// `ENOSYS`: the server keeps no such locks; the front end does.
    fn keeps(&self, flag: InitFlags) -> Result<()> {
        match self.core.connection.agreed.has(flag) {
            true => Ok(()),
            false => Err(Errno::ENOSYS.into()),
        }
    }

    /// GETLK (`fuse_getlk`, `convert_fuse_file_lock`, fs/fuse/file.c).
    pub fn asked_lock(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.keeps(InitFlags::POSIX_LOCKS)?;
        let lock = self.lock_in(owner, lock, 0);
        let connection = &self.core.connection;
        let found = connection
            .lock(self.who()?, self.node, &Operation::Getlk { lock })?
            .lk;
        let kind = match found.r#type {
            F_UNLCK => return Ok(None),
            F_RDLCK => LockKind::Shared,
            F_WRLCK => LockKind::Exclusive,
            _ => return Err(Errno::EIO.into()),
        };
        let most = i64::MAX as u64;
        if found.start > most || found.end > most || found.end < found.start {
            return Err(Errno::EIO.into());
        }
        Ok(Some(Lock {
            kind,
            start: found.start,
            end: found.end,
            pid: found.pid,
        }))
    }

    fn put(&self, lock: LkIn, wait: Wait<'_>) -> Result<()> {
        let waits = matches!(wait, Wait::UntilInterrupted(_)) && lock.lk.r#type != F_UNLCK;
        let operation = match waits {
            // A signal makes an INTERRUPT of it, and EINTR.
            true => Operation::Setlkw { lock },
            false => Operation::Setlk { lock },
        };
        self.core
            .connection
            .done(self.who()?, self.node, &operation)
    }

    /// SETLK and SETLKW.
    pub fn put_lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        self.keeps(InitFlags::POSIX_LOCKS)?;
        self.put(self.lock_in(owner, lock, 0), wait)
    }

    /// The same of flock(2).
    pub fn put_flock(&self, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        self.keeps(InitFlags::FLOCK_LOCKS)?;
        let whole = Lock {
            kind,
            start: 0,
            end: i64::MAX as u64,
            pid: 0,
        };
        self.put(self.lock_in(owner, &whole, LkIn::FLOCK), wait)
    }
}
