//! An open container: its droppings, the merged index, and what this process writes.
//!
//! The index is merged when it is first asked for, and then goes on from the tail of each index
//! dropping: nothing is read twice, however often reads and writes take turns.

mod append;
mod hostdir;

use super::forks::forks;
use super::host;
use super::index::{Found, Index, Numbered};
use super::layout::{self, Record};
use super::service::Service;
use super::setup::Setup;
use super::writer::{LARGEST, Writer, Written};
use super::{cut, meta};
use crate::archive::warning::printable;
use crate::passthrough::kernel;
use crate::{KeptFd, OwnedFd};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use culvert::{Errno, Error, Result, Sink, Source, sync::Mutex};
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// Most droppings of each kind that a container keeps open.
pub const MOST_OPEN: usize = 64;

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
    turn: Option<append::Turn>,
    /// Writes that are no appends, told of by locks.
    writes: u32,
    /// When the service refused to hold the file, nanoseconds; 0: it has not.
    refused: u64,
    /// What a service that holds the file has locked, and in which process it was opened.
    holder: Option<(u32, KeptFd)>,
}

impl State {
    fn new(limit: usize) -> Self {
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
    pub fn push(&mut self) -> Result<()> {
        match self.writer.as_mut().filter(|writer| writer.made == forks()) {
            Some(writer) => writer.push(),
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

    /// What the bytes from `offset` on are.
    fn find(&self, state: &mut State, offset: u64) -> Result<Found> {
        let (index, droppings, subdirs) = (&state.index, &mut state.droppings, &state.subdirs);
        let open = &mut state.open_indexes;
        index.find(offset, &mut |from| {
            self.time_of(droppings, subdirs, open, from)
        })
    }

    /// When record `number` of dropping `from` was written.
    fn time_of(
        &self,
        droppings: &mut [Dropping],
        subdirs: &[Subdir],
        open: &mut Vec<u32>,
        (from, number): (u32, u64),
    ) -> Result<f64> {
        if droppings[from as usize].fd.is_none() {
            while open.len() >= MOST_OPEN {
                let oldest = open.remove(0);
                droppings[oldest as usize].fd = None;
            }
            let dropping = &mut droppings[from as usize];
            let dir = subdirs[dropping.subdir].fd.fd();
            let opened = host::open(dir, &dropping.name, linux::O_RDONLY | linux::O_NONBLOCK, 0)?;
            dropping.fd = Some(self.setup.keeper.keep(opened));
            open.push(from);
        }
        let dropping = &droppings[from as usize];
        let mut bytes = [0; Record::SIZE];
        if let Some(fd) = &dropping.fd {
            host::read_at(fd.fd(), number * Record::SIZE as u64, &mut bytes)?;
        }
        let record = Record::decode(&bytes);
        record
            .map(|record| record.end)
            .ok_or_else(|| self.wrong(&dropping.name, "it has changed"))
    }

    /// Reads from `offset` on.
    pub fn read(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut looked = self.refresh(state)? || self.setup.at_sync;
        let mut done = 0;
        while out.remaining() > 0 {
            let wanted = |length| {
                out.remaining()
                    .min(usize::try_from(length).unwrap_or(usize::MAX))
            };
            let count = match self.find(state, offset + done as u64) {
                Err(error) if done == 0 => return Err(error),
                // Who was told of a size by somebody finds the bytes.
                Ok(Found::End) if !core::mem::replace(&mut looked, true) => {
                    state.checked = 0;
                    if self.refresh(state).is_err() {
                        break;
                    }
                    continue;
                }
                Err(_) | Ok(Found::End) => break,
                Ok(Found::Hole(length)) => {
                    let count = wanted(length);
                    out.put_zeroes(count)
                }
                Ok(Found::Data(chunk, physical, length)) => {
                    let count = wanted(length);
                    self.read_chunk(state, chunk as usize, (physical, count), out)
                }
            };
            match count {
                Err(error) if done == 0 => return Err(error),
                Err(_) | Ok(0) => break,
                Ok(count) => done += count,
            }
        }
        Ok(done)
    }

    /// Up to `count` bytes from `physical` on: how many.
    fn read_chunk(
        &self,
        state: &mut State,
        chunk: usize,
        (physical, count): (u64, usize),
        out: &mut dyn Sink,
    ) -> Result<usize> {
        self.open_chunk(state, chunk)?;
        let fd = state.chunks[chunk].fd.as_ref().ok_or(Errno::EIO)?;
        let direct = out.read_from(fd.raw(), physical, count);
        if direct > 0 {
            return Ok(direct.min(count));
        }
        // It cannot, or there is nothing.
        let mut piece = alloc::vec![0; count.min(host::PIECE)];
        match host::read_at(fd.fd(), physical, &mut piece)? == piece.len() {
            true => out.put(&piece),
            false => Err(self.wrong(
                &state.chunks[chunk].name,
                &format!("the data dropping ends before {}", physical + count as u64),
            )),
        }
    }

    /// With `append=own`, what this process alone knows of the end, as PLFS's `lazy_stat`.
    fn own_size(&self, state: &State) -> Option<u64> {
        let own = !self.setup.lock_appends && state.loaded;
        let reach = state.writer.as_ref().map_or(0, |writer| writer.reach);
        own.then(|| state.index.size().max(reach))
    }

    /// Size, and bytes written.
    pub fn size(&self) -> Result<(u64, u64)> {
        let mut state = self.state.lock();
        if let Some(size) = self.own_size(&state) {
            return Ok((size, state.index.bytes()));
        }
        self.look(&mut state);
        self.refresh(&mut state)?;
        Ok((state.index.size(), state.index.bytes()))
    }

    /// lseek(2), SEEK_DATA or SEEK_HOLE.
    pub fn seek(&self, offset: u64, data: bool) -> Result<u64> {
        let mut state = self.state.lock();
        let state = &mut *state;
        self.refresh(state)?;
        let (index, droppings, subdirs) = (&state.index, &mut state.droppings, &state.subdirs);
        let open = &mut state.open_indexes;
        index.seek(offset, data, &mut |from| {
            self.time_of(droppings, subdirs, open, from)
        })
    }

    /// The writer of this process, made if there is none.
    fn writer<'a>(&self, state: &'a mut State) -> Result<&'a mut Writer> {
        // After a fork the parent's is the parent's.
        if state
            .writer
            .as_ref()
            .is_some_and(|writer| writer.made != forks())
        {
            state.writer = None;
        }
        if state.writer.is_none() {
            let subdir = hostdir::for_writing(self, state)?;
            let dir = state.subdirs[subdir].fd.fd();
            let made = Writer::make(&self.setup, self.dir.fd(), self.inode, dir)?;
            state.writer = Some(made);
        }
        state.writer.as_mut().ok_or_else(|| Errno::EIO.into())
    }

    /// Writes what `from` has at `offset`: how many bytes.
    pub fn write(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let mut state = self.state.lock();
        let count = self.write_in(&mut state, offset, from, self.setup.lazy)?;
        if let Some(service) = &self.setup.service {
            self.tell(service, &mut state, offset + count as u64)?;
        }
        Ok(count)
    }

    fn write_in(
        &self,
        state: &mut State,
        offset: u64,
        from: &mut dyn Source,
        lazy: bool,
    ) -> Result<usize> {
        if from.remaining() > 0 && offset >= LARGEST {
            return Err(Errno::EFBIG.into());
        }
        let written = self.data(state, from)?;
        self.place(state, offset, &written, lazy)
    }

    /// Writes what `from` has to this process's data dropping. It is no part of the file before
    /// [`Self::place`], and this thread has the state until then.
    fn data(&self, state: &mut State, from: &mut dyn Source) -> Result<Written> {
        if from.remaining() > 0 && self.special.load(SeqCst) {
            self.clear_special()?;
        }
        self.writer(state)?.data(&self.setup, from)
    }

    /// What was written last becomes the bytes at `offset`: how many.
    fn place(
        &self,
        state: &mut State,
        offset: u64,
        written: &Written,
        lazy: bool,
    ) -> Result<usize> {
        if written.length == 0 {
            return Ok(0);
        }
        // It has the data.
        let writer = state.writer.as_mut().ok_or(Errno::EIO)?;
        let record = writer.record(&self.setup, offset, written, lazy)?;
        self.record(state, &record)?;
        let now = self.setup.nanoseconds();
        if state
            .writer
            .as_mut()
            .is_some_and(|writer| writer.must_touch(now))
        {
            self.setup.touch(self.dir.fd())?;
        }
        Ok(record.length as usize)
    }

    /// utimensat(2) has set times.
    pub fn times_were_set(&self) {
        if let Some(writer) = &mut self.state.lock().writer {
            writer.times_were_set();
        }
    }

    /// Takes note of a record that this process has made.
    fn record(&self, state: &mut State, record: &Record) -> Result<()> {
        let lazy = self.setup.lazy;
        let before = self.setup.shared.changed(self.inode);
        let Some(writer) = &state.writer else {
            return Ok(());
        };
        // The index goes on with it, if nothing else has happened: else it is read.
        let own = |one: &Dropping| one.name == writer.index_name;
        let at = state.droppings.iter().position(own);
        let follows = state.loaded && (state.stamp == before || self.setup.at_sync) && !lazy;
        let number = |at: usize| state.droppings[at].seen / Record::SIZE as u64;
        let at = at.filter(|at| follows && writer.records == number(*at) + 1);
        let Some(at) = at else {
            // Who reads next sees it in any case.
            state.checked = 0;
            return Ok(());
        };
        let number = number(at);
        let chunk = self.chunk(state, at, record.id)?;
        let next = Numbered {
            record: *record,
            chunk,
            from: (at as u32, number),
        };
        let added = state.index.add_all(core::iter::once(next));
        if added.and_then(|()| state.index.settle()).is_err() {
            // The write is done. Who reads next reads all records together, of which runs become.
            state.forget(self.setup.extents);
            return Ok(());
        }
        state.droppings[at].seen += Record::SIZE as u64;
        state.droppings[at].changed = 0;
        state.stamp = before.wrapping_add(1);
        Ok(())
    }

    /// What a write owes to set-user-ID and set-group-ID (`file_remove_privs`, fs/inode.c).
    fn clear_special(&self) -> Result<()> {
        let status = host::status(self.dir.fd(), layout::ACCESS)?;
        let mode = u32::from(status.stx_mode) & 0o7777;
        let group = if mode & 0o010 != 0 { 0o2000 } else { 0 };
        let left = mode & !(0o4000 | group);
        if left != mode && !self.setup.is_privileged() {
            let name = kernel::Name::new(layout::ACCESS)?;
            culvert_sys::fs::fchmodat(self.dir.fd(), name.terminated(), left)?;
        }
        self.special.store(false, SeqCst);
        Ok(())
    }

    /// Cuts or extends the file.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let mut state = self.state.lock();
        self.exclusively_now(&mut state, |state| {
            self.refresh(state)?;
            if size > i64::MAX as u64 {
                return Err(Errno::EFBIG.into());
            }
            if self.special.load(SeqCst) {
                self.clear_special()?;
            }
            let now = state.index.size();
            if size > now {
                let record = self.writer(state)?.extend(&self.setup, size)?;
                self.record(state, &record)?;
            } else if size < now {
                let cut = self.cut(state, size);
                self.setup.shared.cut(self.inode);
                state.forget(self.setup.extents);
                cut?;
            }
            self.setup.touch(self.dir.fd())
        })
    }

    /// Takes back what lies behind `size` in all index droppings.
    fn cut(&self, state: &mut State, size: u64) -> Result<()> {
        // Before, for whoever is killed while he cuts.
        self.count_cut(state)?;
        let mut reach = 0;
        for at in 0..state.droppings.len() {
            let dropping = &state.droppings[at];
            let dir = state.subdirs[dropping.subdir].fd.fd();
            let own =
                |writer: &&mut Writer| writer.index_name == dropping.name && writer.made == forks();
            let mut own = state.writer.as_mut().filter(own);
            if size == 0
                && let Some(writer) = own
            {
                writer.empty()?;
                continue;
            }
            let flags = linux::O_RDWR | linux::O_NONBLOCK;
            let file = match host::open(dir, &dropping.name, flags, 0) {
                Err(error) if error.errno() == Errno::ENOENT => continue,
                opened => opened?,
            };
            // Nobody but us writes into it any more.
            let quiet = own.is_some() || host::lock(&file, true, false).is_ok();
            let left = cut::records(&file, size, quiet)?;
            if self.setup.syncs {
                culvert_sys::fs::waiting::fdatasync(&file)?;
            }
            reach = reach.max(left.reach);
            match &mut own {
                Some(writer) => writer.records = left.count,
                None if quiet && left.count == 0 => {
                    match host::unlink(dir, &dropping.name, false) {
                        // Its writer has just made another one.
                        Err(error) if error.errno() != Errno::ENOENT => return Err(error),
                        _ => {}
                    }
                    for (_, chunk) in &dropping.chunks {
                        // What has no record is never read.
                        let _ = host::unlink(dir, &state.chunks[*chunk as usize].name, false);
                    }
                }
                None => {}
            }
        }
        if let Some(writer) = &mut state.writer {
            writer.reach = writer.reach.min(size);
        }
        self.count_cut(state)?;
        meta::cut(self.dir.fd(), size)?;
        // Strangers see by its time that it was cut. Who may not set it has cut it all the same.
        let _ = fs::utimensat(self.dir.fd(), Some(c"."), None, AtFlags::empty());
        // A hole at the end.
        if reach < size {
            self.writer(state)?.extend(&self.setup, size)?;
        }
        Ok(())
    }

    /// fsync(2): what every process has written.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.push()?;
        // What others have synced before is seen from now on, those of other runs and hosts too: so
        // MPI_File_sync has it.
        state.checked = 0;
        self.refresh(state)?;
        for chunk in 0..state.chunks.len() {
            self.open_chunk(state, chunk)?;
            if let Some(fd) = &state.chunks[chunk].fd {
                culvert_sys::fs::waiting::fdatasync(fd.fd())?;
            }
        }
        for at in 0..state.droppings.len() {
            let index = self.open_index(state, at)?;
            culvert_sys::fs::waiting::fdatasync(&index)?;
        }
        // The names of new droppings.
        for subdir in &state.subdirs {
            let opened = kernel::open_directory(subdir.fd.fd(), 0, 0)?;
            culvert_sys::fs::waiting::fsync(&opened)?;
        }
        match data_only {
            true => Ok(()),
            false => match &*self.proof.lock() {
                Some(proof) => Ok(culvert_sys::fs::waiting::fsync(proof.fd())?),
                None => Ok(()),
            },
        }
    }

    /// The last close of this process: what it wrote is known without the index from now on. True
    /// where it has no name any more.
    pub fn close(&self) -> bool {
        let mut state = self.state.lock();
        let removed = self.is_removed();
        let writer = state.writer.take().filter(|writer| writer.made == forks());
        if let Some(writer) = writer {
            // There is nobody to tell of errors: what was written is in the index all the same.
            let _ = writer.close(&self.setup, self.dir.fd(), removed);
            self.setup.shared.changed(self.inode);
        }
        removed
    }

    /// It is not used any more: who removes it need not wait for this process.
    pub fn unlock(&self) {
        *self.proof.lock() = None;
    }

    /// Pushes records that wait.
    pub fn push(&self) -> Result<()> {
        self.state.lock().push()
    }
}
