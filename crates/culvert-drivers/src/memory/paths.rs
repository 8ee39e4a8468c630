//! Where paths of directories lead, as this process found last: so that a long path costs what a
//! short one does.
//!
//! What is kept counts while [`header::PATHS`] stands, which every transaction increments that
//! removes, moves or closes a directory to somebody. It is read and compared within
//! [`Core::steady`], so that it belongs to the same state of the names as what is kept. New names,
//! and names of files, change nothing here.

use super::{
    core::{Core, Inode, split},
    layout::{header, inode},
    transaction::Transaction,
};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use culvert::{Access, Caller, Errno, FileKind, Node, Result};

/// Places for paths; each path has one.
const PLACES: usize = 64;
/// Words of the longest path that is kept.
const WORDS: usize = 16;
/// In [`Place::searcher`]: everybody may search the directories.
const EVERYBODY: u64 = u64::MAX;

/// A path and where it leads. Several threads read and write it: what is read counts only if `turn`
/// was even and has not changed.
#[derive(Default)]
struct Place {
    turn: AtomicU64,
    generation: AtomicU64,
    from: AtomicU64,
    length: AtomicU64,
    /// The user who may search all directories of the path but the last, as their owner.
    searcher: AtomicU64,
    node: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The paths that one process knows.
pub struct Paths(Box<[Place]>);

impl Default for Paths {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Place::default()).collect())
    }
}

/// The bytes of `path` as words: eight at a time, the last eight again. Together with the length
/// they say all.
#[inline(always)]
fn words(path: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let whole = path.chunks_exact(8);
    let rest = match path.last_chunk::<8>() {
        Some(_) if whole.remainder().is_empty() => None,
        Some(last) => Some(u64::from_le_bytes(*last)),
        None => {
            let bytes = path.iter().rev();
            Some(bytes.fold(0, |word, &byte| word << 8 | u64::from(byte)))
        }
    };
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap_or_default());
    whole.map(word).chain(rest)
}

impl Paths {
    /// The place of `path` from directory `from`; none for a path that is too long.
    #[inline]
    fn place(&self, from: Node, path: &[u8]) -> Option<&Place> {
        if path.len() > WORDS * 8 {
            return None;
        }
        let mut hash = from.0 ^ path.len() as u64;
        for word in words(path) {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 32;
        }
        self.0.get(hash as usize % PLACES)
    }
}

impl Place {
    /// The directory, if this is the place of `path`, still counts, and `caller` may search what is
    /// passed.
    #[inline]
    fn get(&self, generation: u64, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Node> {
        let turn = self.turn.load(Acquire);
        let searcher = self.searcher.load(Relaxed);
        let fits = turn & 1 == 0
            && self.generation.load(Relaxed) == generation
            && self.from.load(Relaxed) == from.0
            && self.length.load(Relaxed) == path.len() as u64
            && (searcher == EVERYBODY || searcher == caller.uid.into() || caller.searches_all())
            && words(path)
                .zip(&self.words)
                .all(|(word, kept)| kept.load(Relaxed) == word);
        let node = Node(self.node.load(Relaxed));
        fence(Acquire);
        (fits && self.turn.load(Relaxed) == turn).then_some(node)
    }

    /// Keeps `node` for `path`, unless another thread writes here.
    fn keep(&self, generation: u64, searcher: u64, from: Node, path: &[u8], node: Node) {
        let turn = self.turn.load(Relaxed);
        let begun = turn & 1 == 0
            && self
                .turn
                .compare_exchange(turn, turn + 1, AcqRel, Relaxed)
                .is_ok();
        if !begun {
            return;
        }
        fence(Release);
        self.generation.store(generation, Relaxed);
        self.from.store(from.0, Relaxed);
        self.length.store(path.len() as u64, Relaxed);
        self.searcher.store(searcher, Relaxed);
        self.node.store(node.0, Relaxed);
        for (word, kept) in words(path).zip(&self.words) {
            kept.store(word, Relaxed);
        }
        self.turn.store(turn + 2, Release);
    }
}

/// Whether `caller` may search `dir`: EACCES when not.
#[inline]
pub fn may_search(caller: &Caller<'_>, dir: &Inode<'_>) -> Result<()> {
    if dir.mode() & 0o111 == 0o111 {
        return Ok(());
    }
    let (uid, gid) = split(dir.get(inode::OWNER));
    caller.may_as(
        Access::EXECUTE,
        (uid, gid),
        dir.mode() & 0o7777,
        FileKind::Directory,
    )
}

impl Core {
    /// The directory that `path` leads to from `from`, every directory on the way searched by
    /// `caller`, but not that one. None: it must be walked step by step, for there is a link on the
    /// way. Within [`Core::steady`].
    #[inline]
    pub fn directory_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Result<Option<Node>> {
        let generation = self.header(header::PATHS)?;
        let place = self.paths.place(from, path);
        if let Some(known) = place.and_then(|place| place.get(generation, caller, from, path)) {
            return Ok(Some(known));
        }
        self.walk_to(caller, from, path)
    }

    #[cold]
    fn walk_to(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Option<Node>> {
        let sequence = self.image.header(header::SEQUENCE)?;
        let before = sequence.load(Acquire);
        let generation = self.header(header::PATHS)?;
        let (mut at, mut everybody, mut owner) = (self.directory(from)?, true, true);
        for name in path.split(|&byte| byte == b'/') {
            may_search(caller, &at)?;
            let mode = at.mode();
            let all = mode & 0o111 == 0o111;
            everybody &= all;
            owner &= all || at.get(inode::OWNER) as u32 == caller.uid && mode & 0o100 != 0;
            let found = self.find(&at, name)?.ok_or(Errno::ENOENT)?;
            at = self.inode(found.inode)?;
            match FileKind::of_mode(at.mode()) {
                Some(FileKind::Directory) => {}
                Some(FileKind::Symlink) => return Ok(None),
                _ => return Err(Errno::ENOTDIR.into()),
            }
        }
        let node = at.node();
        fence(Acquire);
        let steady = before & 1 == 0 && sequence.load(Relaxed) == before;
        if steady
            && (everybody || owner)
            && let Some(place) = self.paths.place(from, path)
        {
            let searcher = if everybody {
                EVERYBODY
            } else {
                caller.uid.into()
            };
            place.keep(generation, searcher, from, path, node);
        }
        Ok(Some(node))
    }
}

impl Transaction<'_> {
    /// A directory is removed, moved, or gets another owner or mode: paths through it are to be
    /// walked again.
    pub fn paths_change(&mut self) -> Result<()> {
        self.add(header::PATHS * 8, 1)
    }
}
