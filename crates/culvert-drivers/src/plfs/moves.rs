//! What the processes of a run tell each other of renames: which inode was moved to which path. So
//! directories that are open, or worked in, and files of before exec(2), are found again where
//! another process has put them.
//!
//! An entry is read and written without a lock: whoever reads one compares what is at the path.
//! Newer entries take the places of older ones.

use super::shared::{OF_MOVES, Shared};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Words of an entry: its inode, how long its path is, and the path.
const ENTRY: usize = 64;
const ENTRIES: usize = OF_MOVES / ENTRY;
/// Longer paths are not told.
const LONGEST: usize = (ENTRY - 2) * 8;
/// Entries in which an inode may be.
const PLACES: usize = 8;

impl Shared {
    /// What has `inode` was renamed from `from` to `to`, and all below it, if it is a directory.
    pub fn moved(&self, inode: u64, from: &[u8], to: &[u8], is_directory: bool) {
        if is_directory {
            for at in 0..ENTRIES {
                let path = self.path(at);
                let rest = path.as_deref().and_then(|path| path.strip_prefix(from));
                if let Some(rest) = rest.filter(|rest| rest.starts_with(b"/")) {
                    self.put(at, None, &[to, rest].concat());
                }
            }
        }
        let places = || Self::places(inode);
        let is = |at: &usize, wanted| self.inode(*at) == Some(wanted);
        let old = places().find(|at| is(at, inode));
        let place = old.or_else(|| places().find(|at| is(at, 0)));
        // Whichever it is that has to go.
        let last = places().nth(to.len() % PLACES);
        if let Some(at) = place.or(last) {
            self.put(at, Some(inode), to);
        }
    }

    /// Where what has `inode` was renamed to last.
    pub fn place_of(&self, inode: u64) -> Option<Vec<u8>> {
        let at = Self::places(inode).find(|at| self.inode(*at) == Some(inode))?;
        self.path(at)
    }

    fn places(inode: u64) -> impl Iterator<Item = usize> {
        let first = (inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..PLACES).map(move |at| first.wrapping_add(at) % ENTRIES)
    }

    fn entry_word(&self, entry: usize, at: usize) -> Option<&AtomicU64> {
        self.move_word(entry * ENTRY + at)
    }

    fn inode(&self, entry: usize) -> Option<u64> {
        Some(self.entry_word(entry, 0)?.load(SeqCst))
    }

    fn path(&self, entry: usize) -> Option<Vec<u8>> {
        let length = self.entry_word(entry, 1)?.load(SeqCst) as usize;
        if length == 0 || length > LONGEST {
            return None;
        }
        let words = (0..length.div_ceil(8)).map_while(|at| self.entry_word(entry, 2 + at));
        let mut path: Vec<u8> = words
            .flat_map(|word| word.load(SeqCst).to_ne_bytes())
            .collect();
        path.truncate(length);
        Some(path)
    }

    /// Entry `entry` says `path`, of `inode` if that is another one than before; nothing where it
    /// is too long.
    fn put(&self, entry: usize, inode: Option<u64>, path: &[u8]) {
        let set = |at, value| {
            if let Some(word) = self.entry_word(entry, at) {
                word.store(value, SeqCst);
            }
        };
        set(1, 0);
        if let Some(inode) = inode {
            set(0, inode);
        }
        if path.len() > LONGEST {
            return;
        }
        for (at, bytes) in path.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            set(2 + at, u64::from_ne_bytes(word));
        }
        set(1, path.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::os::unix::ffi::OsStrExt;

    fn shared() -> Shared {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "culvert-moves-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, SeqCst)
        );
        let path = std::env::temp_dir().join(name);
        let bytes = path.as_os_str().as_bytes();
        Shared::prepare(bytes).unwrap();
        let shared = Shared::open(Some(bytes));
        std::fs::remove_file(&path).unwrap();
        shared
    }

    #[test]
    fn what_is_below_moves_along() {
        let shared = shared();
        assert_eq!(shared.place_of(7), None);
        shared.moved(7, b"d/e", b"d/f", true);
        shared.moved(8, b"a", b"d/f/long name of a file", false);
        shared.moved(9, b"d2", b"e2", true);
        shared.moved(5, b"d", b"x", true);
        assert_eq!(shared.place_of(7).unwrap(), b"x/f");
        assert_eq!(shared.place_of(8).unwrap(), b"x/f/long name of a file");
        assert_eq!(shared.place_of(9).unwrap(), b"e2");
        shared.moved(7, b"x/f", b"y", true);
        assert_eq!(shared.place_of(7).unwrap(), b"y");
        assert_eq!(shared.place_of(8).unwrap(), b"y/long name of a file");
    }

    #[test]
    fn what_does_not_fit_is_not_told() {
        let shared = shared();
        shared.moved(7, b"a", b"b", false);
        shared.moved(7, b"b", &[b'c'; LONGEST + 1], false);
        assert_eq!(shared.place_of(7), None);
        for inode in 100..100 + 3 * ENTRIES as u64 {
            shared.moved(inode, b"a", format!("b{inode}").as_bytes(), false);
            let found = shared.place_of(inode);
            assert_eq!(found.unwrap(), format!("b{inode}").as_bytes());
        }
        Shared::open(None).moved(7, b"a", b"b", true);
        assert_eq!(Shared::open(None).place_of(7), None);
    }
}
