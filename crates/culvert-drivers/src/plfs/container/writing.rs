//! Writing: bytes, and then the record that makes them a part of the file.

use super::{Container, Dropping, State, hostdir};
use crate::KeptFd;
use crate::passthrough::kernel;
use crate::plfs::forks::forks;
use crate::plfs::index::Numbered;
use crate::plfs::layout::Record;
use crate::plfs::writer::{LARGEST, Times, Writer, Written};
use crate::plfs::{host, layout};
use core::sync::atomic::Ordering::SeqCst;
use culvert::{Errno, Result, Source};
use culvert_sys::fs;

impl Container {
    /// The writer of this process, made if there is none.
    pub(super) fn writer<'a>(&self, state: &'a mut State) -> Result<&'a mut Writer> {
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
        if let Some(service) = &self.setup.service
            && count > 0
        {
            self.tell(service, &mut state, offset + count as u64)?;
        }
        Ok(count)
    }

    pub(super) fn write_in(
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
    pub(super) fn data(&self, state: &mut State, from: &mut dyn Source) -> Result<Written> {
        if from.remaining() > 0 && self.special.load(SeqCst) {
            self.clear_special()?;
        }
        self.writer(state)?.data(&self.setup, from)
    }

    /// What was written last becomes the bytes at `offset`: how many.
    pub(super) fn place(
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
            .is_some_and(|writer| writer.must_touch(&self.setup, now))
        {
            // It is written, whatever becomes of the times: who had opened it may not set them any
            // more, after a chmod(2) of its owner's.
            if self.touch().is_ok() {
                self.note_times(state);
            }
        }
        Ok(record.length as usize)
    }

    /// Where times wait: what they are, now that this process has set them.
    fn note_times(&self, state: &mut State) {
        if !self.setup.syncs {
            return;
        }
        let found = host::status_now(self.dir.fd(), layout::ACCESS);
        if let Some(writer) = &mut state.writer {
            writer.times_are(found.ok().as_ref().map(Times::of));
        }
    }

    /// Sets the times of the file's content and status to the present: what cuts a file to the
    /// length that it has does that, and leaves the time of access alone. The access file is empty.
    pub(super) fn touch(&self) -> Result<()> {
        // By a descriptor, which saves a network file system a lookup.
        let proof = self.proof.lock();
        let set = |proof: &KeptFd| fs::ftruncate(proof.fd(), 0);
        match proof.as_ref().map(set) {
            Some(Ok(())) => Ok(()),
            // There is none, or it is not open for writing.
            _ => self.setup.touch(self.dir.fd()),
        }
    }

    /// Sets times that have waited; whether they have.
    pub(super) fn touch_if_due(&self, state: &mut State) -> bool {
        let writer = state.writer.as_mut();
        let writer = writer.filter(|writer| writer.made == forks());
        let Some(writer) = writer else { return false };
        let Some(written) = writer.touch_is_due() else {
            return false;
        };
        let found = host::status_now(self.dir.fd(), layout::ACCESS);
        if found.is_ok_and(|found| writer.are_of_others(&Times::of(&found), written)) {
            return false;
        }
        writer.touched(self.setup.nanoseconds());
        // What was written is written, whatever becomes of the times.
        let touched = self.touch().is_ok();
        self.note_times(state);
        touched
    }

    /// The same, for who asks for them.
    pub fn show_times(&self) -> bool {
        self.touch_if_due(&mut self.state.lock())
    }

    /// utimensat(2) has set times.
    pub fn times_were_set(&self) {
        if let Some(writer) = &mut self.state.lock().writer {
            writer.times_were_set();
        }
    }

    /// Takes note of a record that this process has made.
    pub(super) fn record(&self, state: &mut State, record: &Record) -> Result<()> {
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
        let at = at.filter(|at| follows && writer.records() == number(*at) + 1);
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
    pub(super) fn clear_special(&self) -> Result<()> {
        let status = host::status(self.dir.fd(), layout::ACCESS)?;
        let mode = u32::from(status.stx_mode) & 0o7777;
        let group = if mode & 0o010 != 0 { 0o2000 } else { 0 };
        let left = mode & !(0o4000 | group);
        if left != mode && !self.setup.is_privileged() {
            let name = kernel::Name::new(layout::ACCESS)?;
            fs::fchmodat(self.dir.fd(), name.terminated(), left)?;
        }
        self.special.store(false, SeqCst);
        Ok(())
    }
}
