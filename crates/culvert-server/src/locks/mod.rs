//! Locks of the mount's users that others see too: on the files behind the mount, by a description
//! for each holder.
//!
//! The kernel asks for them where `posix-locks` and `flock-locks` were agreed on. Who excludes whom
//! is then decided by the kernel where the files are, for users of the mount and everybody else in
//! one place. Here stands who the holders are: a process or a description, by the number that FUSE
//! gives them (`lk_owner`). Record locks of a process go when it closes any descriptor of the file
//! (FLUSH, which is why no open is `FOPEN_NOFLUSH` then), those of a description with the open file
//! itself.
//!
//! A wait takes a thread of its own ([`waiting`]), since those that wait must not keep away who is
//! to release the lock.

mod description;
#[cfg(test)]
mod tests;
pub mod waiting;

use crate::{
    handover::{Handover, Holding},
    report::report,
};
use culvert::{Lock, LockKind, Node, Result};
use culvert_sys::BorrowedFd;
use description::Description;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use waiting::Waiting;

/// What kind of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockFamily {
    /// fcntl(2)'s, of bytes.
    Record = 1,
    /// flock(2)'s.
    Flock = 2,
}

/// Who holds locks, on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The file.
    pub node: Node,
    /// `lk_owner`.
    pub owner: u64,
    /// Which locks.
    pub kind: LockFamily,
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// By whom.
    pub holder: Holder,
    /// By which open file.
    pub fh: u64,
    /// The lock; with the process that asks.
    pub lock: Lock,
}

/// What a holder has.
#[derive(Debug)]
struct HeldLocks {
    description: Arc<Description>,
    fh: u64,
    pid: u32,
    /// Where it stands in the handover.
    record: Option<usize>,
}

/// The holders of a connection.
#[derive(Debug, Default)]
pub struct Locks {
    holders: Mutex<HashMap<Holder, HeldLocks>>,
    /// How many there are: who closes a file on a mount without locks does not wait for others.
    count: AtomicUsize,
    waiting: Waiting,
    handover: &'static Handover,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that can be locked.
const fn whole(kind: LockKind) -> Lock {
    Lock {
        kind,
        start: 0,
        end: i64::MAX as u64,
        pid: 0,
    }
}

impl Locks {
    /// Those that an earlier server has left in `handover`.
    pub fn of(handover: &'static Handover) -> Self {
        let locks = Self {
            handover,
            ..Self::default()
        };
        for (record, holding) in handover.locks.each() {
            let Ok(description) = Description::left(holding.fd, holding.identity) else {
                report(format_args!("a lock is lost"));
                handover.locks.clear(record);
                continue;
            };
            let holder = Holder {
                node: Node(holding.node),
                owner: holding.owner,
                kind: if holding.kind == LockFamily::Flock as u32 {
                    LockFamily::Flock
                } else {
                    LockFamily::Record
                },
            };
            let held = HeldLocks {
                description: Arc::new(description),
                fh: holding.fh,
                pid: holding.pid,
                record: Some(record),
            };
            lock(&locks.holders).insert(holder, held);
            locks.count.fetch_add(1, SeqCst);
        }
        locks
    }

    /// The description of who asks, made if `file`, the open file that he asks by, is given.
    fn description(
        &self,
        asked: &Asked,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Arc<Description>>> {
        let mut holders = lock(&self.holders);
        if let Some(held) = holders.get_mut(&asked.holder) {
            (held.fh, held.pid) = (asked.fh, asked.lock.pid);
            // flock(2) asks nothing of the mode in which the file is open.
            if let Some(file) = file
                && asked.holder.kind == LockFamily::Record
                && !held.description.can(asked.lock.kind)
            {
                let new = Arc::new(exchanged(&held.description, file)?);
                let old = std::mem::replace(&mut held.description, new);
                // Before the old number may be another's.
                self.note(asked.holder, held);
                drop(old);
            }
            self.note(asked.holder, held);
            return Ok(Some(held.description.clone()));
        }
        let Some(file) = file else { return Ok(None) };
        let description = Arc::new(Description::of(file)?);
        self.keep(&mut holders, asked, description.clone());
        Ok(Some(description))
    }

    fn keep(
        &self,
        holders: &mut HashMap<Holder, HeldLocks>,
        asked: &Asked,
        description: Arc<Description>,
    ) {
        let mut held = HeldLocks {
            description,
            fh: asked.fh,
            pid: asked.lock.pid,
            record: None,
        };
        let holding = self.holding(asked.holder, &held);
        held.record = self.handover.locks.add(&holding);
        holders.insert(asked.holder, held);
        self.count.fetch_add(1, SeqCst);
    }

    /// What the next server is to know of `held`.
    fn holding(&self, holder: Holder, held: &HeldLocks) -> Holding {
        Holding {
            kind: holder.kind as u32,
            owner: holder.owner,
            node: holder.node.0,
            fh: held.fh,
            pid: held.pid,
            fd: held.description.number(),
            identity: self.handover.identity(held.description.file()),
        }
    }

    fn note(&self, holder: Holder, held: &HeldLocks) {
        if let Some(record) = held.record {
            let holding = self.holding(holder, held);
            self.handover.locks.set(record, &holding);
        }
    }

    /// Sets or releases without waiting, by the open file `file`; false: somebody else's lock is in
    /// the way. With the server's own rights.
    pub fn set(&self, asked: &Asked, file: BorrowedFd<'_>) -> Result<bool> {
        let releases = asked.lock.kind == LockKind::Unlock;
        let Some(description) = self.description(asked, (!releases).then_some(file))? else {
            return Ok(true);
        };
        match asked.holder.kind {
            LockFamily::Record => description.set(&asked.lock),
            LockFamily::Flock => Ok(description.flock(asked.lock.kind, false)?),
        }
    }

    /// The lock that is in the way of `asked`, and its process, as far as that is known: 0 for a
    /// description's of somebody who does not use the mount.
    pub fn conflict(&self, asked: &Asked, file: BorrowedFd<'_>) -> Result<Option<Lock>> {
        let own = lock(&self.holders)
            .get(&asked.holder)
            .map(|held| held.description.clone());
        let description = match own {
            Some(description) => description,
            None => Arc::new(Description::of(file)?),
        };
        let found = self.blocker(asked.holder, &description, &asked.lock)?;
        Ok(found.map(|(found, _)| found))
    }

    /// What is in the way of `wanted`, which `holder` asks for by `description`, and who holds it
    /// if that is a user of the mount.
    fn blocker(
        &self,
        holder: Holder,
        description: &Description,
        wanted: &Lock,
    ) -> Result<Option<(Lock, Option<Holder>)>> {
        let Some(found) = description.conflict(wanted)? else {
            return Ok(None);
        };
        if found.pid != 0 {
            return Ok(Some((found, None)));
        }
        let holders = lock(&self.holders);
        let others = holders.iter().filter(|(other, _)| {
            other.node == holder.node && other.kind == LockFamily::Record && **other != holder
        });
        for (other, held) in others {
            if held.description.held().contains(&found) {
                let pid = held.pid;
                return Ok(Some((Lock { pid, ..found }, Some(*other))));
            }
        }
        Ok(Some((found, None)))
    }

    /// `owner` has closed a descriptor of `node`: its record locks there go (fcntl(2)).
    pub fn closed(&self, node: Node, owner: u64) {
        if self.count.load(SeqCst) > 0 {
            let kind = LockFamily::Record;
            let holder = Holder { node, owner, kind };
            let held = lock(&self.holders).remove(&holder);
            self.drop_held(held.into_iter());
        }
    }

    /// The open file `fh` has ended: what its description held goes, and what else was set by it.
    pub fn released(&self, fh: u64) {
        if self.count.load(SeqCst) > 0 {
            let ended = lock(&self.holders)
                .extract_if(|_, held| held.fh == fh)
                .collect::<Vec<_>>();
            self.drop_held(ended.into_iter().map(|(_, held)| held));
        }
    }

    fn drop_held(&self, ended: impl Iterator<Item = HeldLocks>) {
        for held in ended {
            self.count.fetch_sub(1, SeqCst);
            // Not only by closing: a wait of the same holder may have the description too.
            let _ = held.description.set(&whole(LockKind::Unlock));
            let _ = held.description.flock(LockKind::Unlock, false);
            if let Some(record) = held.record {
                self.handover.locks.clear(record);
            }
        }
    }
}

/// A description of `file` in the place of `old`, which cannot have exclusive locks: so all that it
/// has are shared, and nobody can keep the other from having them too.
fn exchanged(old: &Description, file: BorrowedFd<'_>) -> Result<Description> {
    let new = Description::of(file)?;
    for held in old.held() {
        new.set(&held)?;
    }
    Ok(new)
}
