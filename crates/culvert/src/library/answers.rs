//! Between Rust's values and C's, as both sides of the ABI need them.

use super::abi::{Dirent, Flock, Stat, StatVfs};
use crate::{Attributes, FileKind, Lock, LockKind, SetAttributes, StatFs, Timespec};

/// `UTIME_OMIT` (utimensat(2)).
pub const UTIME_OMIT: i64 = (1 << 30) - 2;

/// (uid_t)-1.
pub const UNCHANGED: u32 = u32::MAX;

const fn time(time: Timespec) -> [i64; 2] {
    [time.seconds, time.nanoseconds as i64]
}

/// A time of C's; nanoseconds that are none are 0.
pub fn time_of([seconds, nanoseconds]: [i64; 2]) -> Timespec {
    let nanoseconds = u32::try_from(nanoseconds).ok();
    Timespec {
        seconds,
        nanoseconds: nanoseconds.filter(|&one| one < 1_000_000_000).unwrap_or(0),
    }
}

impl From<&Attributes> for Stat {
    fn from(found: &Attributes) -> Self {
        Self {
            ino: found.inode,
            nlink: found.links.into(),
            mode: found.kind as u32 | found.permissions & 0o7777,
            uid: found.uid,
            gid: found.gid,
            rdev: found.rdev,
            size: i64::try_from(found.size).unwrap_or(i64::MAX),
            blksize: found.block_size.into(),
            blocks: i64::try_from(found.blocks).unwrap_or(i64::MAX),
            atime: time(found.atime),
            mtime: time(found.mtime),
            ctime: time(found.ctime),
            ..Self::default()
        }
    }
}

impl Stat {
    /// What it says; none: its mode is no type of a file.
    pub fn attributes(&self) -> Option<Attributes> {
        let mut found = Attributes::new(FileKind::of_mode(self.mode)?, self.mode & 0o7777);
        found.inode = self.ino;
        if let Ok(links @ 1..) = u32::try_from(self.nlink) {
            found.links = links;
        }
        (found.uid, found.gid, found.rdev) = (self.uid, self.gid, self.rdev);
        found.size = u64::try_from(self.size).unwrap_or(0);
        found.blocks = u64::try_from(self.blocks).unwrap_or(0);
        if let Ok(size @ 1..) = u32::try_from(self.blksize) {
            found.block_size = size;
        }
        found.atime = time_of(self.atime);
        found.mtime = time_of(self.mtime);
        found.ctime = time_of(self.ctime);
        Some(found)
    }
}

impl From<&StatFs> for StatVfs {
    fn from(found: &StatFs) -> Self {
        Self {
            bsize: found.block_size.into(),
            frsize: found.block_size.into(),
            blocks: found.blocks,
            bfree: found.blocks_free,
            bavail: found.blocks_available,
            files: found.files,
            ffree: found.files_free,
            favail: found.files_free,
            namemax: found.name_max.into(),
            ..Self::default()
        }
    }
}

impl Dirent {
    /// Room for one.
    pub const NONE: Self = Self {
        inode: 0,
        kind: 0,
        name: [0; 256],
    };

    /// Whether `name` fits, which it then has.
    pub fn set(&mut self, name: &[u8], kind: FileKind, inode: u64) -> bool {
        *self = Self::NONE;
        (self.inode, self.kind) = (inode, kind as u32);
        // One byte stays for the NUL.
        let room = self.name.get_mut(..name.len()).filter(|_| name.len() < 256);
        room.map(|room| room.copy_from_slice(name)).is_some()
    }
}

/// To the end, however far it grows.
const EVER: u64 = i64::MAX as u64;

impl From<&Lock> for Flock {
    fn from(lock: &Lock) -> Self {
        Self {
            // F_RDLCK, F_WRLCK, F_UNLCK (fcntl(2)).
            kind: match lock.kind {
                LockKind::Shared => 0,
                LockKind::Exclusive => 1,
                LockKind::Unlock => 2,
            },
            start: i64::try_from(lock.start).unwrap_or(i64::MAX),
            len: match lock.end {
                EVER.. => 0,
                end => (end.saturating_sub(lock.start) as i64).saturating_add(1),
            },
            pid: lock.pid as i32,
            ..Self::default()
        }
    }
}

impl Flock {
    /// What it says; none: it is no range from the start of a file on, or no lock.
    pub fn lock(&self) -> Option<Lock> {
        let kind = match self.kind {
            0 => LockKind::Shared,
            1 => LockKind::Exclusive,
            2 => LockKind::Unlock,
            _ => return None,
        };
        let start = u64::try_from(self.start).ok()?;
        let end = match u64::try_from(self.len).ok()? {
            0 => EVER,
            len => start.checked_add(len - 1).filter(|&end| end <= EVER)?,
        };
        Some(Lock {
            kind,
            start,
            end,
            pid: u32::try_from(self.pid).unwrap_or(0),
        })
        .filter(|_| self.whence == 0)
    }
}

/// `times` of `utime`.
pub fn times(changes: &SetAttributes) -> [i64; 4] {
    let one = |chosen: Option<Timespec>| chosen.map_or([0, UTIME_OMIT], time);
    let ([a, b], [c, d]) = (one(changes.atime), one(changes.mtime));
    [a, b, c, d]
}
