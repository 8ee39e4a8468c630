//! What one process knows of one memory file system.

use super::{
    image::{Image, damaged},
    inode_blocks::InodeBlocks,
    known_paths::KnownPaths,
    layout::{self, BLOCK, header, inode},
    open_inodes::OpenInodes,
};
use crate::InUse;
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};
use culvert::{Errno, Node, Result, SharedMut, Timespec};
use culvert_sys::sync::Mutex;

/// One process's view of the shared file.
pub struct Core {
    /// The shared file.
    pub image: Image,
    /// What proves that this process lives: the child of a fork has none at first.
    pub proof: Mutex<Option<crate::Proof>>,
    /// A description for the locks of slots that are nobody's, while something is taken from the
    /// dead.
    pub vacant: Mutex<Option<crate::KeptFd>>,
    /// Keeps descriptors.
    pub keeper: crate::Keeper,
    /// This process's slot and 1; 0 when it has none.
    pub slot: AtomicU32,
    /// Address of the slot.
    pub slot_at: AtomicPtr<layout::Slot>,
    /// Which inodes this process has open.
    pub opened: Mutex<OpenInodes>,
    /// The run, for a file system that several runs may use.
    pub run: Option<Vec<u8>>,
    /// Where files have their own files.
    pub files: Option<super::kernel_files::Directory>,
    /// Number of the run.
    pub run_number: AtomicU32,
    /// See [`crate::Environment::in_use`].
    pub in_use: Option<InUse>,
    /// Where inodes lie.
    pub places: InodeBlocks,
    /// Where paths of directories lead.
    pub paths: KnownPaths,
    /// The clock.
    pub clock: culvert_sys::clock::Clock,
}

/// An inode: its number and its words.
#[derive(Clone, Copy)]
pub struct Inode<'a> {
    /// Its number.
    pub number: u32,
    /// Where it lies in the shared file.
    pub offset: u64,
    words: &'a [AtomicU64; WORDS],
}

/// Words of an inode.
const WORDS: usize = layout::INODE as usize / 8;

impl<'a> Inode<'a> {
    /// The inode `number` whose words lie at `offset`.
    #[inline(always)]
    pub const fn new(number: u32, offset: u64, words: &'a [AtomicU64; WORDS]) -> Self {
        Self {
            number,
            offset,
            words,
        }
    }

    /// Word `index`.
    #[inline(always)]
    pub fn get(&self, index: u64) -> u64 {
        self.words[(index & 15) as usize].load(Acquire)
    }

    /// Stores word `index` at once, outside any transaction.
    #[inline]
    pub fn put(&self, index: u64, value: u64) {
        self.words[(index & 15) as usize].store(value, Release);
    }

    /// The word itself.
    pub fn word(&self, index: u64) -> &'a AtomicU64 {
        &self.words[(index & 15) as usize]
    }

    /// The lock of the content.
    #[inline]
    pub fn lock(&self) -> &'a AtomicU32 {
        // SAFETY: half a word, which is touched as such alone; little-endian, as x86-64 is.
        unsafe { &*core::ptr::from_ref(self.word(inode::LOCK)).cast() }
    }

    /// The content that lies in the inode.
    #[inline]
    pub fn inline(&self) -> SharedMut<'a> {
        let words = &self.words[inode::INLINE_AT as usize..];
        // SAFETY: in mapped memory, as in `Image::span`.
        unsafe { SharedMut::new(words.as_ptr().cast_mut().cast(), words.len() * 8) }
    }

    /// Whether the content, as far as there is any, lies in the inode.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.get(inode::ROOT) == 0
    }

    /// Where word `index` lies.
    #[inline]
    pub const fn at(&self, index: u64) -> u64 {
        self.offset + index * 8
    }

    /// The node that it is now.
    #[inline]
    pub fn node(&self) -> Node {
        node(self.number, self.get(inode::STATE))
    }

    /// Type and permission bits.
    #[inline]
    pub fn mode(&self) -> u32 {
        self.get(inode::STATE) as u32 & 0xffff
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode() & 0o170000 == 0o040000
    }

    /// Number of names.
    pub fn links(&self) -> u32 {
        self.get(inode::LINKS) as u32
    }

    /// Whether `flag` is set.
    pub fn has(&self, flag: u64) -> bool {
        self.get(inode::STATE) & flag != 0
    }
}

/// The node of inode `number` in state `state`.
#[inline]
pub const fn node(number: u32, state: u64) -> Node {
    Node(number as u64 | (state >> 32) << 32)
}

/// Two halves as a word.
pub const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The halves of a word.
pub const fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Core {
    /// Word `index` of the header.
    #[inline]
    pub fn header(&self, index: u64) -> Result<u64> {
        Ok(self.image.header(index)?.load(Acquire))
    }

    /// The inode that `node` names: `ESTALE` when it names another one by now.
    #[inline]
    pub fn node(&self, wanted: Node) -> Result<Inode<'_>> {
        let found = self.inode(wanted.0 as u32)?;
        match found.node() == wanted {
            true => Ok(found),
            false => Err(Errno::ESTALE.into()),
        }
    }

    /// The directory that `node` names.
    #[inline]
    pub fn directory(&self, node: Node) -> Result<Inode<'_>> {
        let found = self.node(node)?;
        match found.is_directory() {
            true => Ok(found),
            false => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Runs `look` on metadata that do not change meanwhile, without a lock: it runs again when
    /// they did. It must take whatever it meets for possible.
    #[inline(always)]
    pub fn steady<T>(&self, mut look: impl FnMut() -> Result<T>) -> Result<T> {
        let sequence = self.image.header(header::SEQUENCE)?;
        for _ in 0..64 {
            let before = sequence.load(Acquire);
            if before & 1 != 0 {
                core::hint::spin_loop();
                continue;
            }
            let result = look();
            fence(Acquire);
            if sequence.load(Relaxed) == before {
                return result;
            }
        }
        let _lock = self.lock()?;
        look()
    }

    /// The present, as inodes keep it.
    pub fn now(&self) -> u64 {
        let (seconds, nanoseconds) = self.clock.now();
        pack_time(Timespec {
            seconds,
            nanoseconds,
        })
    }

    /// A zeroed buffer.
    pub fn room(&self) -> Box<[u8]> {
        alloc::vec![0; BLOCK as usize].into_boxed_slice()
    }
}

/// 34 bits of seconds from 1901 on and 30 bits of nanoseconds, so that a time changes in one store.
/// Times outside 1901 to 2446 end at these, as ext4's do.
pub fn pack_time(time: Timespec) -> u64 {
    const FIRST: i64 = -(1 << 31);
    const LAST: i64 = FIRST + (1 << 34) - 1;
    let seconds = time.seconds.clamp(FIRST, LAST);
    let nanoseconds = match seconds == time.seconds {
        true => time.nanoseconds.min(999_999_999),
        false => 0,
    };
    ((seconds - FIRST) as u64) << 30 | u64::from(nanoseconds)
}

/// The time that [`pack_time`] packed.
pub const fn unpack_time(word: u64) -> Timespec {
    Timespec {
        seconds: (word >> 30) as i64 - (1 << 31),
        nanoseconds: (word & ((1 << 30) - 1)) as u32 % 1_000_000_000,
    }
}

/// What a walk along a list that never ends is answered with.
pub fn endless() -> culvert::Error {
    damaged("a list without an end")
}
