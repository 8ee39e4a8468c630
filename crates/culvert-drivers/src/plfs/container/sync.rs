//! Sync, and the last close.

use super::Container;
use crate::passthrough::kernel;
use crate::plfs::forks::forks;
use alloc::vec::Vec;
use culvert::Result;

impl Container {
    /// fsync(2): what every process has written.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.push()?;
        self.touch_if_due(state);
        // What others have synced before is seen from now on, those of other runs and hosts too: so
        // MPI_File_sync has it.
        state.checked = 0;
        self.refresh(state)?;
        let (mut grown, mut made) = (Vec::new(), false);
        for at in 0..state.droppings.len() {
            let dropping = &state.droppings[at];
            // Nothing was written there since this process has synced it: data have records.
            let synced = dropping.synced;
            if synced.is_some_and(|(bytes, _)| bytes == dropping.seen) {
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
            made |= synced.is_none_or(|(_, chunks)| chunks != state.droppings[at].chunks.len());
            grown.push(at);
        }
        // The names of new droppings.
        for subdir in state.subdirs.iter().filter(|_| made) {
            let opened = kernel::open_directory(subdir.fd.fd(), 0, 0)?;
            culvert_sys::fs::waiting::fsync(&opened)?;
        }
        // Only now: whoever asks again after an error has all of it done.
        for at in grown {
            let dropping = &mut state.droppings[at];
            dropping.synced = Some((dropping.seen, dropping.chunks.len()));
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
        state.push()?;
        self.touch_if_due(&mut state);
        Ok(())
    }
}
