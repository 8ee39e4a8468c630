//! What this process stores in the nodes that it maps: recorded in the run before, watched
//! meanwhile, written back after.

use super::baseline;
use super::bytes::write_back;
use super::dirty::{self, Dirty};
use super::nodes::{
    CHANGES, FLUSHING, Node, SOME_STAY, STATE, between, forget_what_stayed, in_parts, set_watch,
};
use super::records::{self, Record};
use super::regions::Watch;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use culvert::{Caller, Errno};

impl Node {
    /// [`Node::record`] by somebody who has not got the node's lock.
    pub fn record_locked(&self, range: (u64, u64)) -> Result<(), Errno> {
        super::pager::introduce();
        records_for_one_more();
        let _lock = self.open.lock();
        self.record(range)
    }

    /// Notes in the run that `range` of it can be written from now on. The first time under the
    /// node's lock, and after `pager::introduce` (who brings what we have stored to the file if we
    /// are killed; else the next user of the file does).
    pub fn record(&self, range: (u64, u64)) -> Result<(), Errno> {
        match self.record.get() {
            Some(record) => record.widen(range),
            None => {
                let found = self.open.file()?.attributes(&Caller::SYSTEM);
                let identity = found.map_or(0, |found| records::identity(&found));
                let record = records::add(self.name, range, identity)?;
                if let Err(first) = self.record.set_first(record) {
                    record.free();
                    first.widen(range);
                }
            }
        }
        Ok(())
    }

    pub(super) fn take_record(&self) -> Option<&'static Record> {
        self.record.replace(None)
    }

    /// Whether it can be written.
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// Writes what was stored in `dirty` to the file. What fails is tried again the next time.
    pub fn write_back(&self, mut dirty: Dirty) -> culvert::Result<()> {
        dirty.take_over(&mut self.failed.lock());
        if dirty.ranges.is_empty() {
            return Ok(());
        }
        let result = self.write_back_now(&dirty);
        if result.is_err() {
            self.failed.lock().append(&mut dirty.ranges);
        }
        result
    }

    /// What was stored in `dirty` is not written to the file now: the record stays, for whoever
    /// comes when this process has ended.
    pub fn leave(&self, mut dirty: Dirty) {
        self.failed.lock().append(&mut dirty.ranges);
    }

    fn write_back_now(&self, dirty: &Dirty) -> culvert::Result<()> {
        if self.open.orphan().is_some() {
            return Ok(());
        }
        let file = self.open.file()?;
        let shadow = super::follow::followed(self.name)?;
        let shadow = shadow.ok_or(Errno::EIO)?;
        let _lock = self.open.lock();
        write_back(file, shadow.number(), &dirty.ranges, dirty.exact)?;
        baseline::mark_if_strangers(file, shadow.number())
    }
}

/// Where all records of the run are used up, those of processes that are gone are brought to their
/// files. Not to be called with a node's lock.
pub fn records_for_one_more() {
    if records::are_used_up() {
        super::recover_dead();
    }
}

/// Stores are allowed from `start` on, and watched where they were not.
pub fn allow(start: usize, length: usize) {
    for region in between(start, length) {
        let watch = match region.written {
            true => region.watch,
            false => dirty::watch(region.start, region.end - region.start),
        };
        STATE
            .lock()
            .regions
            .change(region.start, region.end, |region| {
                region.written = true;
                region.watch = watch;
            });
    }
}

/// What is mapped from `start` on is watched anew: moving a mapping, and making a process, ends
/// that. What was stored before has been asked for, or is another process's to know.
pub fn rewatch(start: usize, length: usize) {
    for region in between(start, length) {
        let watch = match region.written {
            true => dirty::watch(region.start, region.end - region.start),
            false => Watch::No,
        };
        set_watch(&region, watch);
    }
}

/// The same in the child of a fork, in which no page of them is there yet.
pub fn rewatch_absent() {
    in_parts(|part| {
        for region in part {
            let watch = match region.written {
                true => dirty::watch_absent(&region),
                false => Watch::No,
            };
            set_watch(&region, watch);
        }
    });
}

/// Pages from `start` on are about to go that may have been stored into, and where they were
/// nothing will tell. Under [`super::nodes::changing`].
pub fn pages_go(start: usize, length: usize) {
    for region in between(start, length) {
        if region.watch == Watch::Absent {
            set_watch(&region, Watch::No);
        }
    }
}

/// Stores from `start` on are not watched any more: all that is mapped there counts as stored into.
/// Under [`super::nodes::changing`].
pub fn unwatch(start: usize, length: usize) {
    for region in between(start, length) {
        // Marks may be left where nothing is watched any more.
        dirty::unwatch(region.start, region.end - region.start);
        set_watch(&region, Watch::No);
    }
}

/// This is the child of a fork: it has the mappings, and needs records of its own.
pub fn forked() {
    for lock in [&CHANGES, &FLUSHING] {
        if lock.is_locked() {
            // SAFETY: whoever has it is in the parent: it was in a hook for longer than a fork
            // waits, for the pager or a driver.
            unsafe { culvert_sys::sync::release_of_another(lock) };
        }
    }
    if SOME_STAY.load(Relaxed) {
        forget_what_stayed();
    }
    let nodes = STATE.lock().nodes.clone();
    for node in nodes {
        // What stands there is the parent's, and what could not be written back is the parent's to
        // try again.
        node.failed.lock().clear();
        node.record.set(None);
        let range = {
            let state = STATE.lock();
            let all = state.regions.all();
            let own = all.filter(|region| region.written && Arc::ptr_eq(&region.of, &node));
            own.fold((u64::MAX, 0), |range, region| {
                let bytes = region.bytes();
                (range.0.min(bytes.0), range.1.max(bytes.1))
            })
        };
        if range.0 < range.1
            && let Err(error) = node.record_locked(range)
        {
            culvert_sys::log!(
                "what this process stores in {} is lost if it is killed: {error}",
                node.name
            );
        }
    }
}
