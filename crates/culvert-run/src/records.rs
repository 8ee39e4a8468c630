//! Which processes map which nodes so that they can be written: a table in the run directory that
//! outlives them.
//!
//! A record is there before the mapping and goes after its bytes have been written back, so that
//! those of a process that was killed say where bytes may be that the driver has not got. Whose it
//! is says a slot ([`crate::node_locks`]); whether that process lives, the kernel.

use crate::ShadowName;
pub use crate::mappings::{NOBODY, Record, owners_in, prepare};
use crate::mappings::{RECORDS, map};
use crate::node_locks::{Mapped, NodeLocks};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Errno, Node};
use culvert_mounts::MountId;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The process's slot.
    pub owner: u32,
    /// The node.
    pub name: ShadowName,
    /// First byte and the one after the last.
    pub range: (u64, u64),
    /// The file's [`identity`].
    pub identity: u64,
}

/// What tells a file from a later one that got its number: when it was made, where the driver knows
/// that; 0: unknown.
pub fn identity(of: &Attributes) -> u64 {
    of.btime.map_or(0, |made| {
        (made.seconds as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(made.nanoseconds.into())
    })
}

impl Record {
    fn said(&self) -> Option<Said> {
        let owner = self.owner.load(Acquire);
        let end = self.end.load(Acquire);
        let said = Said {
            owner,
            name: ShadowName {
                mount: MountId(self.mount.load(Relaxed) as u16),
                node: Node(self.node.load(Relaxed)),
            },
            range: (self.start.load(Relaxed), end),
            identity: 0,
        };
        (owner != 0 && said.range.0 < end && self.owner.load(Acquire) == owner).then_some(said)
    }

    /// Makes the record's range hold `range` too.
    pub fn widen(&self, range: (u64, u64)) {
        self.start.fetch_min(range.0, AcqRel);
        self.end.fetch_max(range.1, AcqRel);
    }

    /// Nothing is mapped any more, and what was written has been written back.
    pub fn free(&self) {
        let Some(said) = self.said() else { return };
        self.end.store(0, Release);
        self.owner.store(0, Release);
        if let Some(group) = group(said.name) {
            group.records.fetch_sub(1, AcqRel);
        }
    }

    /// Takes the record over for `me` from the `owner` that it had when it was looked at, which was
    /// gone; what it says now, or none when somebody else was faster. That may have been long ago:
    /// if it was freed meanwhile and is another one, whose owner has the same slot, it stays that
    /// owner's unless `is_wanted` says otherwise.
    pub fn take_over(
        &self,
        owner: u32,
        me: u32,
        is_wanted: impl FnOnce(&Said) -> bool,
    ) -> Option<Said> {
        let taken = self.owner.compare_exchange(owner, me, AcqRel, Acquire);
        taken.ok()?;
        let now = self.said().map(|said| Said { owner, ..said });
        if now.as_ref().is_some_and(is_wanted) {
            return now;
        }
        // It may have been freed again in the meantime.
        let _ = self.owner.compare_exchange(me, owner, AcqRel, Relaxed);
        None
    }

    /// What was taken over is left to whoever comes next.
    pub fn give_back(&self) {
        self.owner.store(NOBODY, Release);
    }
}

fn group(name: ShadowName) -> Option<Mapped> {
    crate::get().node_locks.mapped(name)
}

impl Record {
    /// Makes it `me`'s, if it is nobody's.
    fn take(&self, me: u32) -> bool {
        self.owner.load(Relaxed) == 0 && self.owner.compare_exchange(0, me, AcqRel, Relaxed).is_ok()
    }

    /// The same of one that says nothing, because its process was killed while it was adding or
    /// freeing it.
    fn take_half(&self, me: u32) -> bool {
        let owner = self.owner.load(Acquire);
        owner != 0
            && owner != me
            && self.end.load(Acquire) == 0
            && is_gone(owner)
            && self
                .owner
                .compare_exchange(owner, me, AcqRel, Relaxed)
                .is_ok()
    }
}

/// Whether [`add`] would find none that is free. Who is about to need one then brings what
/// processes that are gone have stored to their files, for which it must not have a node's lock.
pub fn are_used_up() -> bool {
    map(false).is_ok_and(|table| {
        let free = |record: &Record| record.owner.load(Relaxed) == 0;
        table.used().len() == RECORDS && !table.records.iter().any(free)
    })
}

/// A record of this process for the bytes `range` of the node of `name`, which must not be empty;
/// `ENOMEM` when there are too many, or there is no room for the table. `identity`: [`identity`] of
/// its file.
pub fn add(name: ShadowName, range: (u64, u64), identity: u64) -> Result<&'static Record, Errno> {
    let (Ok(table), Some(group)) = (map(true), group(name)) else {
        culvert_sys::log!("mappings cannot be recorded: no room in the run directory");
        return Err(Errno::ENOMEM);
    };
    let me = crate::get().node_locks.owner();
    let all = || table.records.iter().zip(&table.identities).enumerate();
    let found = all()
        .find(|(_, (record, _))| record.take(me))
        .or_else(|| all().find(|(_, (record, _))| record.take_half(me)));
    if let Some((index, (record, place))) = found {
        record.mount.store(u32::from(name.mount.0), Relaxed);
        record.node.store(name.node.0, Relaxed);
        record.start.store(range.0, Relaxed);
        place.store(identity, Relaxed);
        table.used.fetch_max(index as u32 + 1, AcqRel);
        // Who is killed before the next line leaves a count that is too high, which costs others a
        // look.
        group.records.fetch_add(1, AcqRel);
        record.end.store(range.1, Release);
        return Ok(record);
    }
    culvert_sys::log!("more than {RECORDS} files are mapped so that they can be written: refused");
    Err(Errno::ENOMEM)
}

/// Whether any process has, or had when it was killed, a mapping of the node that can be written.
#[inline]
pub fn any(name: ShadowName) -> Result<bool, Errno> {
    match group(name).is_some_and(|group| group.records.load(Acquire) != 0) {
        true => of(name).map(|found| !found.is_empty()),
        false => Ok(false),
    }
}

/// What tells the file of `record`, one of the table's, from a later one of the same number.
pub fn identity_of(record: &'static Record) -> u64 {
    let Ok(table) = map(false) else { return 0 };
    let mut all = table.records.iter().zip(&table.identities);
    all.find(|(one, _)| core::ptr::eq(*one, record))
        .map_or(0, |(_, identity)| identity.load(Relaxed))
}

/// All valid records for which `wanted` says so. An error: the table cannot be looked at.
pub fn all(wanted: impl Fn(&Said) -> bool) -> Result<Vec<(&'static Record, Said)>, Errno> {
    let table = match map(false) {
        // There is none, or it is not this process's to look at.
        Err(Errno::ENOENT | Errno::EACCES | Errno::EPERM) => return Ok(Vec::new()),
        table => table?,
    };
    let used = table.used().iter().zip(&table.identities);
    let said = used.filter_map(|(record, identity)| {
        let said = Said {
            identity: identity.load(Relaxed),
            ..record.said()?
        };
        wanted(&said).then_some((record, said))
    });
    Ok(said.collect())
}

/// The records of one node.
pub fn of(name: ShadowName) -> Result<Vec<(&'static Record, Said)>, Errno> {
    all(|said| said.name == name)
}

/// Whether the process of `owner` is gone.
pub fn is_gone(owner: u32) -> bool {
    owner == NOBODY || !crate::get().node_locks.lives(owner)
}

/// The same of one that has closed its connection to the pager: a thread's number is given back
/// later than that.
pub fn has_ended(owner: u32) -> bool {
    NodeLocks::is_thread(owner) || is_gone(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, AtomicU64};

    fn record(owner: u32) -> Record {
        Record {
            owner: AtomicU32::new(owner),
            mount: AtomicU32::new(1),
            node: AtomicU64::new(7),
            start: AtomicU64::new(0),
            end: AtomicU64::new(4096),
        }
    }

    /// Of two that look at the same time one is slow: the other has brought what is there to the
    /// file, and the process that is new in that slot has the record.
    #[test]
    fn a_record_that_has_become_a_living_processes_stays_its() {
        let record = record(5);
        assert_eq!(record.take_over(5, 9, |_| false), None);
        assert_eq!(record.said().map(|said| said.owner), Some(5));
    }

    #[test]
    fn who_takes_a_record_over_learns_what_it_says_now() {
        let record = record(5);
        record.widen((0, 8192));
        let said = record.take_over(5, 9, |said| said.owner == 5);
        assert_eq!(said.map(|said| said.range), Some((0, 8192)));
        assert_eq!(record.said().map(|said| said.owner), Some(9));
        assert_eq!(record.take_over(5, 10, |_| true), None);
    }

    #[test]
    fn what_says_nothing_yet_is_left_to_its_owner() {
        let record = record(5);
        record.end.store(0, Relaxed);
        assert_eq!(record.take_over(5, 9, |_| true), None);
        assert_eq!(record.owner.load(Relaxed), 5);
    }
}
