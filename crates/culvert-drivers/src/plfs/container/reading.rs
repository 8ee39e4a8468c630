//! Reading: sizes, bytes, holes.

use super::{Container, Dropping, MOST_OPEN, State, Subdir};
use crate::passthrough::kernel;
use crate::plfs::host;
use crate::plfs::index::Found;
use crate::plfs::layout::Record;
use alloc::format;
use alloc::vec::Vec;
use culvert::{Errno, Result, Sink};
use culvert_sys::raw::general as linux;

impl Container {
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
        let mut done = host::read_at(fd.fd(), physical, &mut piece)?;
        if done < piece.len() && self.setup.syncs {
            // The kernel has the size of a moment ago; the server says what it is now.
            let _ = kernel::status_now(fd.fd(), None);
            done = host::read_at(fd.fd(), physical, &mut piece)?;
        }
        match done == piece.len() {
            true => out.put(&piece),
            false => Err(self.wrong(
                &state.chunks[chunk].name,
                &format!("the data dropping ends before {}", physical + count as u64),
            )),
        }
    }

    /// With `append=own`, what this process alone knows of the end, as PLFS's `lazy_stat`.
    pub(super) fn own_size(&self, state: &State) -> Option<u64> {
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
}
