//! The paths of nodes, for a program that decides by path (`CULVERT_PATHS` of culvert/extend.h).
//!
//! A path is composed of those of the directory and the name when the server answers what leads to
//! a node, and is known as long as both names may be believed. Each place of the table is that of
//! its node's hash: another one there replaces it. Records are read as those of
//! [`tables`](crate::tables).

use crate::{
    author::Maps,
    bpf::{self, is_array},
    extension::{now, until},
    tables::mixed,
};
use culvert_sys::{PAGE, memory::Mapping};
use culvert_wire::structures::EntryOut;
use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, Release, SeqCst},
        },
    },
};

/// The map of the object.
const NAME: &str = "culvert_paths";
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;
/// `FUSE_ROOT_ID`.
const ROOT: u64 = 1;
/// A path has so many bytes, with a byte 0 behind it.
const LENGTH: usize = 256;
const DIRECTORY: u32 = 0o040_000;
const TYPE: u32 = 0o170_000;

#[repr(C)]
struct Record {
    version: AtomicU64,
    /// Of the first record: how many places follow it.
    node: AtomicU64,
    until: AtomicU64,
    length: AtomicU64,
    words: [AtomicU64; LENGTH / 8],
}

/// The table.
#[derive(Debug)]
pub struct Paths {
    table: Mapping,
    places: usize,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// What stands in the table, by its place.
    kept: HashMap<usize, Kept>,
    /// The nodes of these, by directory and name.
    nodes: HashMap<(u64, Vec<u8>), u64>,
    /// Changes of names, begun and ended so far; under way.
    changes: u64,
    under_way: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    node: u64,
    path: Vec<u8>,
    until: u64,
    /// The root has none.
    name: Option<(u64, Vec<u8>)>,
    is_directory: bool,
}

/// A change of names that is under way.
#[derive(Debug)]
pub struct Moving {
    changes: u64,
    /// What the first name led to, and what was below it.
    moved: Vec<Kept>,
}

/// `path` from directory `from` on, with its slash; none: it is not below.
fn below<'p>(from: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(from)?;
    rest.starts_with(b"/").then_some(rest)
}

impl Paths {
    /// The table of an object that has one.
    ///
    /// # Errors
    /// It is of another kind, for people.
    pub fn of(maps: &Maps) -> Result<Option<Self>, String> {
        let Some((_, map)) = maps.iter().find(|(name, _)| name == NAME) else {
            return Ok(None);
        };
        let (kind, count) = (&map.kind, map.kind.max_entries as usize);
        let fits = is_array(kind.kind)
            && kind.flags & MAPPABLE != 0
            && kind.value_size as usize == size_of::<Record>()
            && count > 1;
        if !fits {
            return Err(format!("map {NAME} is not that of CULVERT_PATHS"));
        }
        let length = (count * size_of::<Record>()).next_multiple_of(PAGE);
        let table =
            bpf::mapped(&map.map, length).map_err(|error| format!("map {NAME}: {error}"))?;
        Ok(Some(Self::new(table, count)))
    }

    /// A mapping of zeroes, of so many records.
    fn new(table: Mapping, count: usize) -> Self {
        // The largest power of two that there is room for, the first record taken off.
        let places = 1 << (count - 1).ilog2();
        let made = Self {
            table,
            places,
            book: Mutex::default(),
        };
        for place in 1..=places {
            made.record(place).version.store(1, Relaxed);
        }
        made.root(&mut made.book());
        made.record(0).node.store(places as u64, SeqCst);
        made
    }

    fn record(&self, place: usize) -> &Record {
        assert!(place <= self.places);
        // SAFETY: the mapping has as many records and one more, lives as long as this, is aligned
        // to a page, and holds integers that the kernel reads alone.
        unsafe { &*(self.table.address() as *const Record).add(place) }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, node: u64) -> usize {
        1 + (mixed(0, node) as usize & (self.places - 1))
    }

    fn root(&self, book: &mut Book) {
        let root = Kept {
            node: ROOT,
            path: Vec::new(),
            until: u64::MAX,
            name: None,
            is_directory: true,
        };
        self.put(book, root);
    }

    fn kept<'b>(&self, book: &'b Book, node: u64) -> Option<&'b Kept> {
        let kept = book.kept.get(&self.place(node));
        kept.filter(|kept| kept.node == node)
    }

    fn put(&self, book: &mut Book, kept: Kept) {
        let place = self.place(kept.node);
        // All others go with it, and it costs one place.
        if book
            .kept
            .get(&place)
            .is_some_and(|there| there.node == ROOT)
        {
            return;
        }
        self.empty(book, place);
        let record = self.record(place);
        let version = record.version.load(Relaxed) | 1;
        record.version.store(version, SeqCst);
        record.node.store(kept.node, Relaxed);
        record.until.store(kept.until, Relaxed);
        record.length.store(kept.path.len() as u64, Relaxed);
        let mut bytes = [0; LENGTH];
        bytes[..kept.path.len()].copy_from_slice(&kept.path);
        for (there, word) in record.words.iter().zip(bytes.chunks_exact(8)) {
            there.store(u64::from_ne_bytes(word.try_into().expect("eight")), Relaxed);
        }
        record.version.store(version + 1, Release);
        if let Some(name) = &kept.name {
            book.nodes.insert(name.clone(), kept.node);
        }
        book.kept.insert(place, kept);
    }

    /// Nothing is known of the node that has the place.
    fn empty(&self, book: &mut Book, place: usize) -> Option<Kept> {
        let kept = book.kept.remove(&place)?;
        self.record(place).version.fetch_add(1, SeqCst);
        if let Some(name) = &kept.name {
            book.nodes.remove(name);
        }
        Some(kept)
    }

    fn drop_node(&self, book: &mut Book, node: u64) -> Option<Kept> {
        self.kept(book, node)?;
        self.empty(book, self.place(node))
    }

    /// Nothing is known any more of what the name leads to, nor of what is below it. The answer is
    /// what was known.
    fn drop_name(&self, book: &mut Book, name: (u64, &[u8])) -> Vec<Kept> {
        let node = book.nodes.get(&(name.0, name.1.to_vec())).copied();
        let Some(first) = node.and_then(|node| self.drop_node(book, node)) else {
            return Vec::new();
        };
        let mut gone = vec![first];
        if gone[0].is_directory {
            let all = book.kept.iter();
            let all = all.filter(|(_, kept)| below(&gone[0].path, &kept.path).is_some());
            let all: Vec<_> = all.map(|(place, _)| *place).collect();
            gone.extend(all.into_iter().filter_map(|place| self.empty(book, place)));
        }
        gone
    }

    fn drop_all(&self, book: &mut Book) {
        let all: Vec<_> = book.kept.keys().copied().collect();
        for place in all {
            self.empty(book, place);
        }
        self.root(book);
    }

    /// What [`Paths::entry`] wants to know: taken before the driver is asked.
    pub fn before(&self) -> u64 {
        let book = self.book();
        match book.under_way {
            0 => book.changes,
            // Never the count behind it.
            _ => u64::MAX,
        }
    }

    /// Before `names` go or lead elsewhere; what they lead to is moved with all that is below it,
    /// if `moves` says so. `node` gets another name; 0: none. Ended by [`Paths::end`].
    pub fn begin(&self, names: [Option<(u64, &[u8])>; 2], moves: [bool; 2], node: u64) -> Moving {
        let mut book = self.book();
        book.changes += 1;
        book.under_way += 1;
        if node != 0 {
            self.drop_node(&mut book, node);
        }
        let mut gone = [const { Vec::new() }; 2];
        for ((name, moves), gone) in names.into_iter().zip(moves).zip(&mut gone) {
            let Some(name) = name else { continue };
            *gone = self.drop_name(&mut book, name);
            // Whether it is a directory is not known, nor what is below it.
            if moves && gone.is_empty() {
                self.drop_all(&mut book);
            }
        }
        let [moved, _] = gone;
        Moving {
            changes: book.changes,
            moved,
        }
    }

    /// After it, before it is answered. `to`: where what the first name led to is now.
    pub fn end(&self, moving: Moving, to: Option<(u64, &[u8])>) {
        let mut book = self.book();
        let alone = book.changes == moving.changes && book.under_way == 1;
        book.under_way -= 1;
        book.changes += 1;
        let mut moved = moving.moved.into_iter();
        let (Some(top), Some(to), true) = (moved.next(), to, alone) else {
            return;
        };
        self.lead(&mut book, to, (top.node, top.is_directory), top.until);
        let Some(now) = self.kept(&book, top.node).cloned() else {
            return;
        };
        for mut kept in moved {
            let rest = below(&top.path, &kept.path).unwrap_or_default();
            let path = [&now.path[..], rest].concat();
            if path.len() < LENGTH {
                (kept.path, kept.until) = (path, kept.until.min(now.until));
                self.put(&mut book, kept);
            }
        }
    }

    /// The name leads to the node until then, as far as the path of the directory is known.
    fn lead(&self, book: &mut Book, name: (u64, &[u8]), node: (u64, bool), until: u64) {
        let Some(dir) = self.kept(book, name.0) else {
            self.drop_node(book, node.0);
            return;
        };
        let between: &[u8] = if dir.path.is_empty() { b"" } else { b"/" };
        let path = [&dir.path, between, name.1].concat();
        let until = until.min(dir.until);
        if path.len() >= LENGTH || until <= now() {
            self.drop_node(book, node.0);
            return;
        }
        let kept = Kept {
            node: node.0,
            path,
            until,
            name: Some((name.0, name.1.to_vec())),
            is_directory: node.1,
        };
        self.put(book, kept);
    }

    /// What leads to a node was answered with `entry`.
    pub fn entry(&self, dir: u64, name: &[u8], entry: &EntryOut, before: u64) {
        let mut book = self.book();
        let node = entry.nodeid;
        let is_directory = entry.attr.mode & TYPE == DIRECTORY;
        let known = book.nodes.get(&(dir, name.to_vec())).copied();
        if known.is_some_and(|known| known != node) {
            self.drop_name(&mut book, (dir, name));
        }
        if node == 0 || node == ROOT {
            return;
        }
        // A directory that others have moved: what is below it is elsewhere, too.
        let moved = self.kept(&book, node).and_then(|kept| kept.name.clone());
        let moved = moved.filter(|(from, was)| (*from, &was[..]) != (dir, name));
        if let Some((from, was)) = moved {
            self.drop_name(&mut book, (from, &was));
        }
        let until = until(entry.entry_valid, entry.entry_valid_nsec);
        // One of several names is not its path.
        let is_one = is_directory || entry.attr.nlink == 1;
        match until.filter(|_| is_one && before == book.changes && book.under_way == 0) {
            Some(until) => self.lead(&mut book, (dir, name), (node, is_directory), until),
            None => drop(self.drop_node(&mut book, node)),
        }
    }

    /// The path of `node` is not known.
    pub fn unknown(&self, node: u64) {
        self.drop_node(&mut self.book(), node);
    }

    /// Others have changed what the name leads to; none: perhaps all names.
    pub fn changed(&self, name: Option<(u64, &[u8])>) {
        let mut book = self.book();
        // An answer that was asked for before is from before.
        book.changes += 1;
        if name.is_none_or(|name| self.drop_name(&mut book, name).is_empty()) {
            self.drop_all(&mut book);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_sys::{flags::Protection, memory::Of};
    use culvert_wire::structures::Attr;

    fn made(count: usize) -> Paths {
        let both = Protection::READ | Protection::WRITE;
        let length = (count * size_of::<Record>()).next_multiple_of(PAGE);
        Paths::new(
            Mapping::near(0, Of::Nothing, length, both).expect("memory"),
            count,
        )
    }

    fn entry(node: u64, mode: u32) -> EntryOut {
        EntryOut {
            nodeid: node,
            entry_valid: 60,
            attr: Attr {
                mode,
                nlink: 1,
                ..Attr::default()
            },
            ..EntryOut::default()
        }
    }

    const DIR: u32 = DIRECTORY | 0o755;
    const FILE: u32 = 0o100_644;

    /// As the program does it (`culvert_path_of` of culvert/extend.h).
    fn read(paths: &Paths, node: u64) -> Option<String> {
        assert_eq!(paths.record(0).node.load(SeqCst), paths.places as u64);
        let record = paths.record(paths.place(node));
        let there = record.version.load(SeqCst) & 1 == 0
            && record.node.load(Relaxed) == node
            && record.until.load(Relaxed) > now();
        let words = record.words.iter().map(|word| word.load(Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let length = record.length.load(Relaxed) as usize;
        assert!(!there || bytes[length..].iter().all(|byte| *byte == 0));
        there.then(|| String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// `a/b/f` and `a/g`, nodes 2, 3, 4 and 5.
    fn filled() -> Paths {
        let paths = made(1025);
        for (dir, name, node, mode) in [
            (1, "a", 2, DIR),
            (2, "b", 3, DIR),
            (3, "f", 4, FILE),
            (2, "g", 5, FILE),
        ] {
            let before = paths.before();
            paths.entry(dir, name.as_bytes(), &entry(node, mode), before);
        }
        paths
    }

    fn all(paths: &Paths) -> Vec<String> {
        let all = (1..8).filter_map(|node| Some(format!("{node}:{}", read(paths, node)?)));
        all.collect()
    }

    #[test]
    fn paths_are_made_of_names_that_were_answered() {
        let paths = filled();
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b", "4:a/b/f", "5:a/g"]);
        // Of a directory that is not known, too long, of several names, not to be believed.
        let before = paths.before();
        paths.entry(9, b"x", &entry(6, FILE), before);
        let long = [b'l'; 255];
        paths.entry(2, &long, &entry(6, FILE), before);
        paths.entry(1, &long[..254], &entry(7, FILE), before);
        assert!(read(&paths, 6).is_none() && read(&paths, 7).is_some());
        let mut linked = entry(7, FILE);
        linked.attr.nlink = 2;
        paths.entry(1, b"seven", &linked, before);
        let mut stale = entry(6, FILE);
        stale.entry_valid = 0;
        paths.entry(1, b"six", &stale, before);
        assert!(read(&paths, 6).is_none() && read(&paths, 7).is_none());
        // A name that leads elsewhere by now, or nowhere.
        paths.entry(2, b"g", &entry(6, FILE), before);
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b", "4:a/b/f", "6:a/g"]);
        paths.entry(2, b"g", &EntryOut::default(), before);
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b", "4:a/b/f"]);
    }

    #[test]
    fn a_directory_that_moves_takes_all_paths_below_it() {
        let paths = filled();
        let names = [Some((1, &b"a"[..])), Some((1, &b"z"[..]))];
        let moving = paths.begin(names, [true, false], 0);
        // From here on, not only when it is answered.
        assert_eq!(all(&paths), ["1:"]);
        paths.end(moving, Some((1, b"z")));
        assert_eq!(all(&paths), ["1:", "2:z", "3:z/b", "4:z/b/f", "5:z/g"]);
        let names = [Some((2, &b"b"[..])), Some((1, &b"c"[..]))];
        let moving = paths.begin(names, [true, false], 0);
        paths.end(moving, Some((1, b"c")));
        assert_eq!(all(&paths), ["1:", "2:z", "3:c", "4:c/f", "5:z/g"]);
        let before = paths.before();
        // By others, which the name tells.
        paths.entry(1, b"y", &entry(2, DIR), before);
        assert_eq!(all(&paths), ["1:", "2:y", "3:c", "4:c/f"]);
    }

    #[test]
    fn an_unknown_name_that_moves_may_be_a_directory_of_any_path() {
        let paths = filled();
        let names = [Some((2, &b"other"[..])), Some((1, &b"z"[..]))];
        let moving = paths.begin(names, [true, false], 0);
        paths.end(moving, Some((1, b"z")));
        assert_eq!(all(&paths), ["1:"]);
        let paths = filled();
        paths.changed(Some((1, b"other")));
        assert_eq!(all(&paths), ["1:"]);
        let paths = filled();
        paths.changed(Some((2, b"b")));
        assert_eq!(all(&paths), ["1:", "2:a", "5:a/g"]);
        paths.changed(None);
        assert_eq!(all(&paths), ["1:"]);
    }

    #[test]
    fn an_answer_from_before_a_change_gives_no_path() {
        let paths = filled();
        let before = paths.before();
        let moving = paths.begin([Some((2, b"g")), None], [false; 2], 0);
        let during = paths.before();
        paths.entry(2, b"h", &entry(6, FILE), before);
        paths.entry(2, b"i", &entry(7, FILE), during);
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b", "4:a/b/f"]);
        paths.end(moving, None);
        paths.entry(2, b"h", &entry(6, FILE), before);
        paths.entry(2, b"i", &entry(7, FILE), during);
        // Nor does it leave the path that was there.
        paths.entry(3, b"f", &entry(4, FILE), before);
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b"]);
        let before = paths.before();
        paths.entry(3, b"f", &entry(4, FILE), before);
        // A second name.
        let moving = paths.begin([None, None], [false; 2], 4);
        assert_eq!(all(&paths), ["1:", "2:a", "3:a/b"]);
        paths.end(moving, None);
    }

    #[test]
    fn a_table_that_is_full_forgets_and_tells_nothing_wrong() {
        let paths = made(9);
        assert_eq!(paths.places, 8);
        let before = paths.before();
        for node in 2..100 {
            let name = format!("f{node}");
            paths.entry(1, name.as_bytes(), &entry(node, FILE), before);
        }
        let known = (2..100).filter_map(|node| Some((node, read(&paths, node)?)));
        let known: Vec<_> = known.collect();
        assert!(known.len() <= 8 && known.len() > 4);
        for (node, path) in known {
            assert_eq!(path, format!("f{node}"));
        }
        assert_eq!(read(&paths, 1).as_deref(), Some(""));
        let book = paths.book();
        assert!(book.kept.len() <= 8 && book.nodes.len() < book.kept.len());
    }
}
