//! Sync, and the last close.

use super::{Container, Dropping, State};
use crate::passthrough::kernel;
use crate::plfs::forks::forks;
use crate::plfs::{host, layout, locks};
use alloc::{collections::BTreeMap, vec::Vec};
use culvert::{Errno, Result};
use culvert_sys::raw::general as linux;

/// The names of index droppings that are on the disk, and what [`Dropping::synced`] says of each.
type Synced = BTreeMap<Vec<u8>, (u64, usize)>;

impl Container {
    /// fsync(2): what every process has written.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.push(&self.setup)?;
        self.touch_if_due(state);
        // What others have synced before is seen from now on, those of other runs and hosts too: so
        // MPI_File_sync has it.
        state.checked = 0;
        self.list(state)?;
        let mut synced = self.sync_told(state)?;
        let told = |one: &Dropping| synced.contains_key(&one.name);
        if !state.droppings.iter().all(told) {
            self.refresh(state)?;
            let others = self.sync_untold(state, &synced)?;
            synced.extend(others);
        }
        // The names of new droppings.
        let is_new = |one: &Dropping| {
            let now = synced.get(&one.name);
            now.is_some_and(|now| one.synced.is_none_or(|(_, chunks)| chunks != now.1))
        };
        let made = state.droppings.iter().any(is_new);
        for subdir in state.subdirs.iter().filter(|_| made) {
            let opened = kernel::open_directory(subdir.fd.fd(), 0, 0)?;
            culvert_sys::fs::waiting::fsync(&opened)?;
        }
        // Only now: whoever asks again after an error has all of it done.
        for dropping in &mut state.droppings {
            dropping.synced = synced.get(&dropping.name).copied().or(dropping.synced);
        }
        match data_only {
            true => Ok(()),
            false => match &*self.proof.lock() {
                Some(proof) => Ok(culvert_sys::fs::waiting::fsync(proof.fd())?),
                None => Ok(()),
            },
        }
    }

    /// Brings the droppings to the disk of which processes of the run tell how often they have
    /// grown, but for those that one of them has brought there since: their names.
    fn sync_told(&self, state: &State) -> Result<Synced> {
        let cuts = locks::cuts(self.dir.fd())?;
        let writer = state.writer.as_ref();
        let writer = writer.filter(|writer| writer.made == forks());
        let is_own = |one: &Dropping| writer.is_some_and(|own| own.index_name == one.name);
        let mut told = Synced::new();
        // Its own first: those of others, who sync at once, are on the disk then.
        let own = state.droppings.iter().filter(|one| is_own(one));
        let others = state.droppings.iter().filter(|one| !is_own(one));
        for dropping in own.chain(others) {
            let growth = self.setup.shared.growth(self.inode, &dropping.name);
            let Some(growth) = growth else { continue };
            if !growth.is_synced(cuts) {
                let count = growth.count();
                match writer.filter(|_| is_own(dropping)) {
                    Some(writer) => writer.sync()?,
                    None if !self.sync_by_name(state, dropping)? => continue,
                    None => {}
                }
                growth.synced(count, cuts);
            }
            told.insert(dropping.name.clone(), (0, 0));
        }
        Ok(told)
    }

    /// The same of a dropping of Culvert's, which has one data dropping; false where there is none.
    fn sync_by_name(&self, state: &State, dropping: &Dropping) -> Result<bool> {
        let dir = state.subdirs[dropping.subdir].fd.fd();
        let Some(writer) = layout::dropping(layout::INDEX, &dropping.name) else {
            return Ok(false);
        };
        for name in [&layout::data_name(&writer, writer.pid), &dropping.name] {
            match host::open(dir, name, linux::O_RDONLY | linux::O_NONBLOCK, 0) {
                Ok(opened) => culvert_sys::fs::waiting::fdatasync(&opened)?,
                Err(error) if error.errno() == Errno::ENOENT => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Brings all others to the disk, but for those that this process has brought there since they
    /// have grown: the names and the lengths of these.
    fn sync_untold(&self, state: &mut State, told: &Synced) -> Result<Synced> {
        let mut synced = Synced::new();
        for at in 0..state.droppings.len() {
            let dropping = &state.droppings[at];
            // Nothing was written there since this process has synced it: data have records.
            let before = dropping.synced;
            if told.contains_key(&dropping.name)
                || before.is_some_and(|(bytes, _)| bytes == dropping.seen)
            {
                continue;
            }
            for (_, chunk) in dropping.chunks.clone() {
                self.open_chunk(state, chunk as usize)?;
                if let Some(fd) = &state.chunks[chunk as usize].fd {
                    culvert_sys::fs::waiting::fdatasync(fd.fd())?;
                }
            }
            let index = self.open_index(state, at)?;
            culvert_sys::fs::waiting::fdatasync(&index)?;
            let dropping = &state.droppings[at];
            let now = (dropping.seen, dropping.chunks.len());
            synced.insert(dropping.name.clone(), now);
        }
        Ok(synced)
    }

    /// The last close of this process: what it wrote is known without the index from now on. True
    /// where it has no name any more.
    pub fn close(&self) -> bool {
        let mut state = self.state.lock();
        let removed = self.is_removed();
        if !removed {
            self.touch_if_due(&mut state);
        }
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

    /// Pushes records that wait, and times.
    pub fn push(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.push(&self.setup)?;
        self.touch_if_due(&mut state);
        Ok(())
    }
}
