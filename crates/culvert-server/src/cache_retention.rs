//! What the kernel's page cache still holds of files and directories that were closed: whether it
//! may be kept at the next open.
//!
//! A time of change (`st_ctime`, which no program can set) that is the same as at an earlier open
//! means the same content, if it was old enough then: what changes right after a look may get the
//! time of before it, since clocks of file systems tick coarsely.

use crate::buffer::shrink;
use culvert::{Attributes, Node, Timespec, Validity};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The coarsest clock of a file system is FAT's, of two seconds; ext3's and NFSv2's have one.
const COARSEST: i64 = 2_500_000_000;
/// Larger files are better not held twice, here and in the backing file system.
const SMALL: u64 = 128 << 10;
/// At which open for reading without a change between a file that the kernel could read by itself
/// is kept in the page cache of the mount instead: each read of a backing file makes the next stat
/// ask for its time of access (`fuse_file_accessed`, fs/fuse/passthrough.c).
const OFTEN: u32 = 3;

/// A file's or directory's last open.
#[derive(Clone, Copy, Debug)]
struct Seen {
    changed: Timespec,
    size: u64,
    /// `changed` was old enough when it was seen.
    settled: bool,
    /// Opens for reading since it changed.
    opens: u32,
    /// Its pages, or the listing, may be cached since then.
    cached: Option<Instant>,
}

/// What an open may be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is cached is still right.
    pub keep: bool,
    /// The page cache of the mount serves it better than the kernel's own reads of the backing
    /// file.
    pub often_read: bool,
}

/// The last opens, by node, as long as the kernel knows the node.
#[derive(Debug, Default)]
pub struct CacheRetention(Mutex<HashMap<Node, Seen>>);

impl CacheRetention {
    fn seen(&self) -> MutexGuard<'_, HashMap<Node, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `node` is being opened as `found` is now, `writes`: to be changed.
    pub fn open(&self, node: Node, found: &Attributes, writes: bool) -> Advice {
        self.open_at(node, found, writes, now())
    }

    fn open_at(&self, node: Node, found: &Attributes, writes: bool, now: i64) -> Advice {
        let fresh = Seen {
            changed: found.ctime,
            size: found.size,
            settled: nanoseconds(found.ctime).saturating_add(COARSEST) < now,
            opens: 0,
            cached: None,
        };
        let mut seen = self.seen();
        let known = seen.entry(node).or_insert(fresh);
        let same = known.settled && known.changed == fresh.changed && known.size == fresh.size;
        if !same {
            *known = fresh;
        }
        known.opens = match writes {
            true => 0,
            false => known.opens.saturating_add(1),
        };
        Advice {
            keep: known.cached.is_some(),
            often_read: known.opens >= OFTEN && known.settled && found.size <= SMALL,
        }
    }

    /// Whether the listing of directory `dir`, opened as `found` is now, may be kept. Not longer
    /// than the attributes that came with it, for a new one brings them all at once.
    pub fn open_directory(&self, dir: Node, found: &Attributes, valid: Validity) -> bool {
        let keep = self.open(dir, found, false).keep;
        let mut seen = self.seen();
        let Some(known) = seen.get_mut(&dir) else {
            return false;
        };
        let valid = Duration::from_nanos(valid.attributes.min(valid.entry));
        let fresh = known.cached.is_some_and(|since| since.elapsed() < valid);
        if !(keep && fresh) {
            known.cached = known.settled.then(Instant::now);
        }
        keep && fresh
    }

    /// Whether what the kernel reads from now on through this open of `node` is `cached`.
    pub fn opened(&self, node: Node, cached: bool) {
        if let Some(known) = self.seen().get_mut(&node) {
            known.cached = (cached && known.settled).then(Instant::now);
        }
    }

    /// The kernel forgets `node`.
    pub fn forget(&self, node: Node) {
        let mut seen = self.seen();
        seen.remove(&node);
        shrink(&mut seen);
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

const fn nanoseconds(time: Timespec) -> i64 {
    time.seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(time.nanoseconds as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node(7);
    const LATER: i64 = 1_000_000_000_000;

    fn file(changed: i64, size: u64) -> Attributes {
        let ctime = Timespec {
            seconds: changed / 1_000_000_000,
            nanoseconds: (changed % 1_000_000_000) as u32,
        };
        let kind = culvert::FileKind::Regular;
        Attributes {
            ctime,
            size,
            ..Attributes::new(kind, 0o644)
        }
    }

    #[test]
    fn pages_are_kept_while_nothing_changes() {
        let history = CacheRetention::default();
        let open = |found: &Attributes| {
            let advice = history.open_at(NODE, found, false, LATER);
            history.opened(NODE, true);
            advice.keep
        };
        let (old, new) = (file(5, 10), file(6, 10));
        assert!(!open(&old) && open(&old) && open(&old));
        assert!(!open(&new) && open(&new));
        assert!(!open(&file(6, 11)));
        history.forget(NODE);
        assert!(!open(&file(6, 11)));
    }

    #[test]
    fn a_change_within_a_tick_of_the_clock_is_not_missed() {
        let history = CacheRetention::default();
        let young = file(LATER - COARSEST, 10);
        for _ in 0..5 {
            let advice = history.open_at(NODE, &young, false, LATER);
            assert!(!advice.keep && !advice.often_read);
            history.opened(NODE, true);
        }
        // Seen again when it is old, it could have changed since: only from here on.
        assert!(!history.open_at(NODE, &young, false, LATER + 1).keep);
        history.opened(NODE, true);
        assert!(history.open_at(NODE, &young, false, LATER + 1).keep);
    }

    #[test]
    fn what_the_kernel_reads_by_itself_is_not_kept() {
        let history = CacheRetention::default();
        let found = file(5, 10);
        for _ in 0..3 {
            assert!(!history.open_at(NODE, &found, false, LATER).keep);
            history.opened(NODE, false);
        }
    }

    #[test]
    fn small_files_that_are_only_read_are_told() {
        let history = CacheRetention::default();
        let open = |size, writes| {
            let advice = history.open_at(NODE, &file(5, size), writes, LATER);
            advice.often_read
        };
        assert!(!open(10, false) && !open(10, false) && open(10, false));
        assert!(!open(10, true) && !open(10, false));
        history.forget(NODE);
        assert!((0..5).all(|_| !open(SMALL + 1, false)));
    }

    #[test]
    fn listings_are_kept_as_long_as_their_attributes() {
        let history = CacheRetention::default();
        let dir = file(5, 0);
        assert!(!history.open_directory(NODE, &dir, Validity::FOREVER));
        assert!(history.open_directory(NODE, &dir, Validity::FOREVER));
        assert!(!history.open_directory(NODE, &dir, Validity::NONE));
        assert!(!history.open_directory(NODE, &file(6, 0), Validity::FOREVER));
    }
}
