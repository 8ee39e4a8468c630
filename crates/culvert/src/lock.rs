//! Locks that a driver keeps itself (a distributed one, a passthrough to a real file): fcntl(2)'s
//! record locks and flock(2).

/// Who holds a lock: opaque, equal for two requests of one holder. A process for `F_SETLK`, a
/// description for `F_OFD_SETLK` and flock(2) (FUSE's `lk_owner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// How a lock excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Together with other shared ones (`F_RDLCK`, `LOCK_SH`).
    Shared,
    /// Alone (`F_WRLCK`, `LOCK_EX`).
    Exclusive,
    /// None: what is held there is released (`F_UNLCK`, `LOCK_UN`).
    Unlock,
}

/// A record lock (fcntl(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// How it excludes.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `i64::MAX` stands for "to the end however far it grows" (`l_len` 0).
    pub end: u64,
    /// The process told by `F_GETLK`; 0 for a description's lock.
    pub pid: u32,
}

/// What to do when a lock is held by another.
#[derive(Clone, Copy)]
pub enum Wait<'a> {
    /// Fail with `EAGAIN` (`F_SETLK`, `LOCK_NB`).
    Never,
    /// Wait (`F_SETLKW`) until granted, or until this says that the waiter was interrupted: then
    /// `EINTR`.
    UntilInterrupted(&'a (dyn Fn() -> bool + Sync)),
}
