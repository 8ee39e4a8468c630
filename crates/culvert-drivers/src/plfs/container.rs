//! An open container: its droppings, the merged index, and what this process writes.
//!
//! The index is merged when it is first asked for, and then goes on from the tail of each index
//! dropping: nothing is read twice, however often reads and writes take turns.

mod append;
mod hostdir;
mod reading;
mod state;
mod sync;
mod truncate;
mod writing;

pub use self::state::{Chunk, Dropping, MOST_OPEN, State, Subdir};
use super::host;
use super::layout;
use super::locks;
use super::service::Service;
use super::setup::Setup;
use crate::archive::warning::printable;
use crate::passthrough::kernel;
use crate::{KeptFd, OwnedFd};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use culvert::{Errno, Error, Result, sync::Mutex};
use culvert_sys::raw::general as linux;

/// See the module.
pub struct Container {
    pub setup: Arc<Setup>,
    /// The number of its canonical back end.
    canonical: AtomicUsize,
    /// Its directory there, `O_PATH`.
    pub dir: KeptFd,
    /// The device and the inode of that.
    identity: (u64, u64),
    pub inode: u64,
    /// The table of descriptors in which all of it is open.
    table: usize,
    /// The access file; locked, so that nobody removes what is still used.
    proof: Mutex<Option<KeptFd>>,
    /// It has no name any more.
    pub removed: AtomicBool,
    /// The access file has set-user-ID or set-group-ID.
    pub special: AtomicBool,
    /// How many handles there are, counted by the table of containers.
    pub opens: AtomicU32,
    pub state: Mutex<State>,
}

impl Container {
    /// The container in `dir`, a directory of this `identity`, whose access file is `proof`.
    pub fn new(
        setup: &Arc<Setup>,
        canonical: usize,
        (dir, identity): (OwnedFd, (u64, u64)),
        inode: u64,
        proof: OwnedFd,
    ) -> Self {
        // Nobody has it exclusively for longer than a removal, and then it is gone anyway.
        let _ = host::lock(&proof, false, false);
        Self {
            setup: Arc::clone(setup),
            canonical: AtomicUsize::new(canonical),
            dir: setup.keeper.keep(dir),
            identity,
            inode,
            table: setup.keeper.table(),
            proof: Mutex::new(Some(setup.keeper.keep(proof))),
            removed: AtomicBool::new(false),
            special: AtomicBool::new(false),
            opens: AtomicU32::new(0),
            state: Mutex::new(State::new(setup.extents)),
        }
    }

    /// The same for one call of a thread with another table of descriptors, which may have the
    /// numbers of this one's: copies of them, or something else.
    ///
    /// # Errors
    /// `ESTALE`: something else.
    pub fn once(&self) -> Result<Self> {
        let dir = host::place(self.dir.fd(), b"").map_err(|_| Errno::ESTALE)?;
        if kernel::identity(&kernel::status(&dir, None)?) != self.identity {
            return Err(Errno::ESTALE.into());
        }
        // Who has it open keeps it; this one may have to sync it.
        let modes = [linux::O_RDONLY, linux::O_WRONLY].map(|mode| mode | linux::O_NONBLOCK);
        let open = |mode| host::open(&dir, layout::ACCESS, mode, 0);
        let proof = modes.into_iter().find_map(|mode| open(mode).ok());
        let proof = match proof {
            Some(proof) => proof,
            None => open(linux::O_PATH)?,
        };
        let dir = (dir, self.identity);
        let made = Self::new(&self.setup, self.canonical(), dir, self.inode, proof);
        made.removed.store(self.removed.load(SeqCst), SeqCst);
        made.special.store(self.special.load(SeqCst), SeqCst);
        Ok(made)
    }

    /// Whether the calling thread has the descriptors in it.
    pub fn is_here(&self) -> bool {
        self.table == self.setup.keeper.table()
    }

    /// By what the process knows it.
    pub fn key(&self) -> (u64, usize) {
        (self.inode, self.table)
    }

    /// The service, which the process alone asks for positions: what a thread with another table of
    /// descriptors connects, nobody else could use.
    fn service(&self) -> Option<&Service> {
        let service = self.setup.service.as_ref();
        service.filter(|_| self.is_home())
    }

    /// Whether it is open in the process's own table of descriptors.
    pub fn is_home(&self) -> bool {
        self.setup.home.load(SeqCst) == self.table
    }

    /// The number of its canonical back end.
    pub fn canonical(&self) -> usize {
        self.canonical.load(SeqCst)
    }

    /// rename(2) has moved it to the canonical back end `at`.
    pub fn moved(&self, at: usize) {
        self.canonical.store(at, SeqCst);
        if !self.is_here() {
            // The directories that it has open have moved along.
            return;
        }
        let mut state = self.state.lock();
        // Directories of droppings may have become others.
        state.subdirs.clear();
        state.forget(self.setup.extents);
    }

    /// It is opened once more: what others have changed is seen from now on.
    pub fn look_again(&self) {
        self.state.lock().checked = 0;
    }

    /// The back end is asked for what processes of other runs have written a moment ago, unless
    /// that is for open and sync alone.
    fn look(&self, state: &mut State) {
        if !self.setup.at_sync {
            state.checked = 0;
        }
    }

    /// Its path below its back end, as it is now.
    pub fn path(&self) -> Result<Vec<u8>> {
        let own = host::path_of(self.dir.fd())?;
        let (known, all) = (self.canonical(), 0..self.setup.backends.len());
        for at in core::iter::once(known).chain(all.filter(|at| *at != known)) {
            let root = host::path_of(self.setup.root(at))?;
            let below = own.strip_prefix(&root[..]);
            let below = below.and_then(|below| match &root[..] {
                b"/" => Some(below),
                _ => below.strip_prefix(b"/"),
            });
            if let Some(below) = below {
                // Another process has renamed it.
                self.canonical.store(at, SeqCst);
                return Ok(below.to_vec());
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// A descriptor of the file that stands for its record locks.
    pub fn records(&self, make: bool) -> Result<Option<OwnedFd>> {
        match make {
            true => locks::open(self.dir.fd(), locks::RECORDS).map(Some),
            false => locks::open_found(self.dir.fd(), locks::RECORDS),
        }
    }

    /// Whether it lies where removed ones wait for their last close.
    pub fn is_removed(&self) -> bool {
        self.removed.load(SeqCst) || {
            let path = host::path_of(self.dir.fd());
            let removed = path.is_ok_and(|path| super::setup::is_aside(&path));
            self.removed.store(removed, SeqCst);
            removed
        }
    }

    pub fn wrong(&self, what: &[u8], text: &str) -> Error {
        let path = self.path().unwrap_or_default();
        let (path, what) = (printable(&path), printable(what));
        Error::because(Errno::EIO, format!("container {path}: {what}: {text}"))
    }
}
