//! Room for what is filled: pages that were filled longest ago go first, of files that are filled
//! on demand, so that whoever touches them again gets them from the driver again. What was stored
//! in them is brought to their file before ([`culvert_cache::evict`]).

use culvert_cache::room;
use culvert_run::ShadowName;
use culvert_sys::PAGE64;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, Weak},
};

/// What is filled at most: 2 MiB take 1.4 ms. Above 64 KiB the cost of a byte does not fall any
/// more.
pub const MOST: u64 = 2 << 20;

/// How many windows stay, whatever the bound says: one instruction may need 32 pages at once (a
/// gather of 16 words, each on the border of two pages), and would never be done if these took each
/// other's place; four threads of the pager fill for four such at a time.
const STAY: usize = 4 * 32;
/// The same where the file system is full: less than the bound was to be had.
const STAY_WHERE_FULL: usize = 16;

/// What is filled at once at most, in bytes: so much that as many as [`STAY`] find room within the
/// bound, and one page at least.
pub fn most() -> u64 {
    let share = room::limit() / (2 * STAY as u64);
    let share = share.clamp(PAGE64, MOST);
    // A power of two.
    1 << share.ilog2()
}

/// What became of pages that were to be dropped.
pub enum Dropped {
    /// They are, so many bytes.
    Bytes(u64),
    /// So many bytes are, and others stay.
    Part(u64),
    /// They stay.
    Not,
    /// Somebody else has the file's lock.
    Locked,
}

/// A file whose pages can be dropped.
pub trait Droppable: Send + Sync {
    /// Which one.
    fn name(&self) -> ShadowName;

    /// Drops the pages of `range`. `slot`: the process that waits for room, and may have a lock.
    fn drop_pages(&self, range: (u64, u64), slot: u32) -> Dropped;
}

/// What was filled at one time.
struct Window {
    file: Weak<dyn Droppable>,
    range: (u64, u64),
}

/// The oldest first.
static FILLED: Mutex<VecDeque<Window>> = Mutex::new(VecDeque::new());

/// Held by who puts a page into a shadow without the lock of its file: what it has read may be old
/// by the time the page has gone and is missing again.
static WITHOUT_LOCK: RwLock<()> = RwLock::new(());

/// Nothing is dropped as long as this is held.
pub fn nothing_goes() -> RwLockReadGuard<'static, ()> {
    WITHOUT_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}

fn filled() -> std::sync::MutexGuard<'static, VecDeque<Window>> {
    FILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `range` of `file` is being filled.
pub fn note(file: Weak<dyn Droppable>, range: (u64, u64)) {
    filled().push_back(Window { file, range });
}

/// Makes room for `more` bytes as far as that can be done. Without the lock of a file. `slot`: the
/// process that waits for it, and may have one.
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
    drop_but(STAY, wanted, slot)
}

/// The same where a page found no room although the bound allows it.
pub fn drop_where_full(wanted: u64, slot: u32) -> u64 {
    drop_but(STAY_WHERE_FULL, wanted, slot)
}

/// Puts windows back that could not be dropped: others are tried first from now on, but those that
/// were filled last, `stay` of them, do not go for them.
fn put_back(filled: &mut VecDeque<Window>, kept: Vec<Window>, stay: usize) {
    let newest = filled.split_off(filled.len().saturating_sub(stay));
    filled.extend(kept);
    filled.extend(newest);
}

fn drop_but(stay: usize, wanted: u64, slot: u32) -> u64 {
    let _alone = WITHOUT_LOCK.write().unwrap_or_else(PoisonError::into_inner);
    let (mut freed, count) = (0, filled().len());
    // Whoever has the lock of one may keep it: it is waited for once, while faults of others wait
    // for us.
    let mut locked = Vec::new();
    let mut kept = Vec::new();
    for _ in stay..count {
        if freed >= wanted {
            break;
        }
        let Some(window) = filled().pop_front() else {
            break;
        };
        let Some(file) = window.file.upgrade() else {
            continue;
        };
        if locked.contains(&file.name()) {
            kept.push(window);
            continue;
        }
        match file.drop_pages(window.range, slot) {
            Dropped::Bytes(bytes) => freed += bytes,
            Dropped::Part(bytes) => {
                freed += bytes;
                kept.push(window);
            }
            Dropped::Not => kept.push(window),
            Dropped::Locked => {
                locked.push(file.name());
                kept.push(window);
            }
        }
    }
    put_back(&mut filled(), kept, stay);
    culvert_run::get().node_locks.filled(0, freed);
    freed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No file at all.
    enum Never {}

    impl Droppable for Never {
        fn name(&self) -> ShadowName {
            match *self {}
        }

        fn drop_pages(&self, _: (u64, u64), _: u32) -> Dropped {
            match *self {}
        }
    }

    #[test]
    fn what_cannot_be_dropped_does_not_take_the_place_of_what_was_just_filled() {
        let window = |at: u64| Window {
            file: Weak::<Never>::new(),
            range: (at, at + 1),
        };
        let mut filled: VecDeque<_> = (2..8).map(window).collect();
        put_back(&mut filled, [0, 1].map(window).into(), 4);
        let order: Vec<u64> = filled.iter().map(|window| window.range.0).collect();
        assert_eq!(order, [2, 3, 0, 1, 4, 5, 6, 7]);
        put_back(&mut filled, vec![window(9)], 100);
        assert_eq!(filled.front().map(|window| window.range.0), Some(9));
    }
}
