//! flock(2), and waiting for it.

use rustix::fs::{FlockOperation, NFS_SUPER_MAGIC, flock, fstatfs};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a lock that is wanted on NFS is not asked for again.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// Locks `fd`, exclusively or shared; `wait`s, if it is to.
///
/// A client of NFS that is not told by its server that a lock is free asks for it again after 30
/// seconds (`nfs4_retry_setlk`, fs/nfs/nfs4proc.c), so there it is asked for more often.
pub fn lock(fd: impl AsFd, exclusive: bool, wait: bool) -> Result<(), Errno> {
    let (at_once, waiting) = match exclusive {
        true => (
            FlockOperation::NonBlockingLockExclusive,
            FlockOperation::LockExclusive,
        ),
        false => (
            FlockOperation::NonBlockingLockShared,
            FlockOperation::LockShared,
        ),
    };
    let mut pause = SHORTEST;
    loop {
        match flock(&fd, at_once) {
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) if wait => {}
            other => return other,
        }
        if fstatfs(&fd).is_ok_and(|found| found.f_type == NFS_SUPER_MAGIC) {
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
            continue;
        }
        match flock(&fd, waiting) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
