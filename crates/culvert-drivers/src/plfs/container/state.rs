//! What an open container knows, and what is open in it.

use super::append::Turn;
use crate::KeptFd;
use crate::plfs::forks::forks;
use crate::plfs::index::Index;
use crate::plfs::setup::Setup;
use crate::plfs::writer::Writer;
use alloc::vec::Vec;
use culvert::Result;

/// Most droppings of each kind that a container keeps open.
pub const MOST_OPEN: usize = 64;

/// A directory of droppings.
pub struct Subdir {
    pub name: Vec<u8>,
    pub fd: KeptFd,
    /// When it had changed when it was last listed; 0: list it again.
    pub listed: u64,
}

pub struct Dropping {
    pub subdir: usize,
    pub name: Vec<u8>,
    /// Bytes of it that are in the index.
    pub seen: u64,
    /// When it had changed last by then; 0: not known.
    pub changed: u64,
    /// Bytes of it, and how many data droppings, that were there when this process brought them to
    /// the disk; neither, where that is in the run's memory.
    pub synced: Option<(u64, usize)>,
    /// The numbers of its data droppings, by writer.
    pub chunks: Vec<(u32, u32)>,
    pub fd: Option<KeptFd>,
}

pub struct Chunk {
    pub subdir: usize,
    pub name: Vec<u8>,
    pub fd: Option<KeptFd>,
}

/// What changes.
pub struct State {
    pub subdirs: Vec<Subdir>,
    pub listed: u64,
    pub droppings: Vec<Dropping>,
    pub chunks: Vec<Chunk>,
    pub open_chunks: Vec<usize>,
    /// Index droppings that are open.
    pub open_indexes: Vec<u32>,
    pub index: Index,
    pub loaded: bool,
    /// The counters of [`super::shared`] when the index was last right.
    pub stamp: u64,
    pub cuts: u64,
    pub checked: u64,
    pub writer: Option<Writer>,
    /// What appends exclude each other by, and in which process it was opened.
    pub lock: Option<(u32, KeptFd)>,
    /// The service's turn, as far as this process knows.
    pub(super) turn: Option<Turn>,
    /// Writes that are no appends, told of by locks.
    pub(super) writes: u32,
    /// When the service refused to hold the file, nanoseconds; 0: it has not.
    pub(super) refused: u64,
    /// What a service that holds the file has locked, and in which process it was opened.
    pub(super) holder: Option<(u32, KeptFd)>,
}

impl State {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            subdirs: Vec::new(),
            listed: 0,
            droppings: Vec::new(),
            chunks: Vec::new(),
            open_chunks: Vec::new(),
            open_indexes: Vec::new(),
            index: Index::new(limit),
            loaded: false,
            stamp: 0,
            cuts: 0,
            checked: 0,
            writer: None,
            lock: None,
            turn: None,
            writes: 0,
            refused: 0,
            holder: None,
        }
    }

    /// Pushes records of this process that wait.
    pub fn push(&mut self, setup: &Setup) -> Result<()> {
        match self.writer.as_mut().filter(|writer| writer.made == forks()) {
            Some(writer) => writer.push(setup),
            None => Ok(()),
        }
    }

    /// Closes what this process locks.
    pub fn close_locks(&mut self) {
        (self.lock, self.holder) = (None, None);
    }

    /// Forgets all that was read; directories of droppings stay, and the writer.
    pub fn forget(&mut self, limit: usize) {
        self.index = Index::new(limit);
        self.droppings.clear();
        self.chunks.clear();
        self.open_chunks.clear();
        self.open_indexes.clear();
        self.loaded = false;
        for subdir in &mut self.subdirs {
            subdir.listed = 0;
        }
    }
}
