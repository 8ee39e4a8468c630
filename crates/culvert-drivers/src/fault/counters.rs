//! How many operations each rule has met, and how many of them it struck.

use alloc::{boxed::Box, ffi::CString, format, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::Errno;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of};

/// One counter for each rule. A counter holds both numbers, so that they change in one step.
pub enum Counters {
    /// Of this process. A child of fork goes on with a copy.
    Own(Box<[AtomicU64]>),
    /// Of all processes that map the same file.
    Shared(&'static [AtomicU64]),
}

/// Bits of a counter that hold the number of strikes.
const STRUCK_BITS: u32 = 24;
/// The largest number of strikes, 16 million. Both numbers stop at their largest.
pub const STRUCK_MAX: u64 = (1 << STRUCK_BITS) - 1;
/// The largest number of operations, a trillion.
const MET_MAX: u64 = u64::MAX >> STRUCK_BITS;

impl Counters {
    /// New counters of this process.
    pub fn own(rules: usize) -> Self {
        Self::Own((0..rules).map(|_| AtomicU64::new(0)).collect())
    }

    /// The counters in the file `path` of [`create`]; `EBADMSG` when it is not of that size.
    pub fn shared(path: &[u8], rules: usize) -> Result<Self, Errno> {
        if rules == 0 {
            return Ok(Self::Shared(&[]));
        }
        let length = rules * size_of::<AtomicU64>();
        let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(&path, flags, 0)?;
        if fs::fstat(&file)?.st_size != length as i64 {
            return Err(Errno::EBADMSG);
        }
        let both = Protection::READ | Protection::WRITE;
        // Never unmapped: mounts live as long as their process.
        let mapped = Mapping::near(0, Of::file(&file), length, both)?.leak();
        // SAFETY: it is `length` bytes long and stays. A page is aligned for anything, and any
        // bytes are counters.
        Ok(Self::Shared(unsafe {
            core::slice::from_raw_parts(mapped.cast::<AtomicU64>(), rules)
        }))
    }

    fn all(&self) -> &[AtomicU64] {
        match self {
            Self::Own(counters) => counters,
            Self::Shared(counters) => counters,
        }
    }

    /// Whether the next operation of `rule` would be struck, by `strikes` as for
    /// [`Counters::count`].
    pub fn would_strike(&self, rule: usize, strikes: impl Fn(u64, u64) -> bool) -> bool {
        self.all().get(rule).is_some_and(|counter| {
            let now = counter.load(Relaxed);
            strikes(now >> STRUCK_BITS, now & STRUCK_MAX)
        })
    }

    /// Counts an operation for `rule`. `strikes` says of its number, from 0 on, and of the number
    /// of strikes before, whether it is struck; the number of one that is, is returned.
    pub fn count(&self, rule: usize, strikes: impl Fn(u64, u64) -> bool) -> Option<u64> {
        let counter = self.all().get(rule)?;
        let mut now = counter.load(Relaxed);
        loop {
            let (met, struck) = (now >> STRUCK_BITS, now & STRUCK_MAX);
            let hit = strikes(met, struck);
            let next =
                (met + 1).min(MET_MAX) << STRUCK_BITS | (struck + u64::from(hit)).min(STRUCK_MAX);
            match counter.compare_exchange_weak(now, next, Relaxed, Relaxed) {
                Ok(_) => return hit.then_some(met),
                Err(other) => now = other,
            }
        }
    }
}

/// Makes a file of counters at zero for `rules` rules in `directory`, and returns its path.
pub fn create(directory: &[u8], rules: usize) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
    let mut number = 0;
    loop {
        let path = [directory, format!("/fault.{number}").as_bytes()].concat();
        let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
        match fs::open(&path, flags, 0o600) {
            Err(Errno::EEXIST) => number += 1,
            Err(errno) => return Err(errno),
            Ok(file) => {
                fs::ftruncate(&file, (rules * size_of::<AtomicU64>()) as u64)?;
                return Ok(path.into_bytes());
            }
        }
    }
}
