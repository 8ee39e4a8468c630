//! The paths that a process keeps (`paths`), and how several threads read and write one.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use culvert::{Caller, Node};

/// Places for paths; each path has one.
const PLACES: usize = 64;
/// Words of the longest path that is kept.
const WORDS: usize = 16;
/// In [`KnownPath::searcher`]: everybody may search the directories.
pub const EVERYBODY: u64 = u64::MAX;

/// A path and where it leads. Several threads read and write it: what is read counts only if `turn`
/// was even and has not changed.
#[derive(Default)]
pub struct KnownPath {
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
pub struct KnownPaths(Box<[KnownPath]>);

impl Default for KnownPaths {
    fn default() -> Self {
        Self((0..PLACES).map(|_| KnownPath::default()).collect())
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

impl KnownPaths {
    /// The place of `path` from directory `from`; none for a path that is too long.
    #[inline]
    pub fn place(&self, from: Node, path: &[u8]) -> Option<&KnownPath> {
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

impl KnownPath {
    /// The directory, if this is the place of `path`, still counts, and `caller` may search what is
    /// passed.
    #[inline]
    pub fn get(
        &self,
        generation: u64,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Option<Node> {
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
    pub fn keep(&self, generation: u64, searcher: u64, from: Node, path: &[u8], node: Node) {
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
