//! Truncation, both ways.

use super::{Container, State};
use crate::plfs::forks::forks;
use crate::plfs::writer::Writer;
use crate::plfs::{cut, host, meta};
use core::sync::atomic::Ordering::SeqCst;
use culvert::{Errno, Result};
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

impl Container {
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
            // It is cut, whatever becomes of the times.
            let _ = self.setup.touch(self.dir.fd());
            Ok(())
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
                writer.empty(&self.setup)?;
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
                Some(writer) => writer.left(left.count),
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
}
