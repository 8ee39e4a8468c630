//! Room for what is filled: pages that were filled longest ago go first, of files that are filled on demand, so that whoever touches them again gets them
//! from the driver again.
//!
//! Only pages that no process can have stored into: those of ranges that are recorded as mapped so that they can be written stay.

use super::file::File;
use culvert_preload::paging::room;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, Weak},
};

/// What was filled at one time.
struct Window {
    file: Weak<File>,
    range: (u64, u64),
}

/// The oldest first.
static FILLED: Mutex<VecDeque<Window>> = Mutex::new(VecDeque::new());

/// Held by who puts a page into a shadow without the lock of its file: what it has read may be old by the time the page has gone and is missing again.
static WITHOUT_LOCK: RwLock<()> = RwLock::new(());

/// Nothing is dropped as long as this is held.
pub fn nothing_goes() -> RwLockReadGuard<'static, ()> {
    WITHOUT_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}

fn filled() -> std::sync::MutexGuard<'static, VecDeque<Window>> {
    FILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `range` of `file` is being filled.
pub fn note(file: Weak<File>, range: (u64, u64)) {
    filled().push_back(Window { file, range });
}

/// Makes room for `more` bytes as far as that can be done. Without the lock of a file. `slot`: the process that waits for it, and may have one.
pub fn make(more: u64, slot: u32) {
    let short = room::missing(more);
    if short == 0 {
        return;
    }
    let wanted = short.saturating_add(room::slack());
    let freed = drop_oldest(wanted, slot);
    if freed < short {
        room::empty_unused(wanted - freed);
    }
}

/// Drops pages until `wanted` bytes are free; how many are. As [`make`].
pub fn drop_oldest(wanted: u64, slot: u32) -> u64 {
    let _alone = WITHOUT_LOCK.write().unwrap_or_else(PoisonError::into_inner);
    let (mut freed, count) = (0, filled().len());
    for _ in 0..count {
        if freed >= wanted {
            break;
        }
        let Some(window) = filled().pop_front() else {
            break;
        };
        let Some(file) = window.file.upgrade() else {
            continue;
        };
        match file.drop_clean(window.range, slot) {
            Some(bytes) => freed += bytes,
            None => filled().push_back(window),
        }
    }
    room::changed(0, freed);
    freed
}
