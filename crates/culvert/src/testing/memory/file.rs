//! An open file of [`super::Memory`].

use super::{
    SharedState,
    state::{Content, State},
};
use crate::{Attributes, Caller, Errno, File, Node, Result, SetAttributes, Sink, Source, Whence};
use std::{any::Any, sync::MutexGuard, vec::Vec};

pub(super) struct MemoryFile {
    pub(super) state: SharedState,
    pub(super) node: Node,
    pub(super) superuser: bool,
}

impl MemoryFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no operation panics under the lock")
    }
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut state = self.state();
        let now = state.now();
        let inode = state.inode_mut(self.node)?;
        let Content::File(pages) = &inode.content else {
            return Err(Errno::EISDIR.into());
        };
        let count = pages.read(offset, out)?;
        if count > 0 && inode.atime <= inode.mtime {
            inode.atime = now; // relatime, mount(8)
        }
        Ok(count)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        self.state()
            .write(self.node, Some(offset), from, self.superuser)
            .map(|(_, count)| count)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.state().write(self.node, None, from, self.superuser)
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        self.state().attributes(self.node)
    }

    fn set_attributes(&self, _: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        self.state()
            .change(self.node, changes, true, self.superuser)
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        const KEEP_SIZE: u32 = 1;
        const PUNCH_HOLE: u32 = 2;
        let mut state = self.state();
        let size = state.attributes(self.node)?.size;
        let end = offset
            .checked_add(length)
            .filter(|&end| end <= i64::MAX as u64);
        let end = end.ok_or(Errno::EFBIG)?;
        match mode {
            0 if end > size => state.truncate(self.node, end, self.superuser),
            0 => Ok(()),
            KEEP_SIZE => Ok(()),
            m if m == KEEP_SIZE | PUNCH_HOLE => state.punch(self.node, offset, length),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        self.state()
            .pages_of(self.node)?
            .seek(offset, whence == Whence::Data)
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().and_then(|any| any.downcast_ref::<Self>());
        let to = to.ok_or(Errno::EXDEV)?;
        let mut state = self.state();
        if self.node == to.node && offset.abs_diff(to_offset) < length {
            return Err(Errno::EINVAL.into());
        }
        let pages = state.pages_of(self.node)?;
        let length = length.min(pages.size.saturating_sub(offset));
        let mut bytes = vec_of(length as usize);
        pages.read(offset, &mut bytes.as_mut_slice())?;
        let source = &mut bytes.as_slice();
        let (_, count) = state.write(to.node, Some(to_offset), source, to.superuser)?;
        Ok(count as u64)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

fn vec_of(length: usize) -> Vec<u8> {
    std::vec![0; length]
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.state();
        if let Ok(inode) = state.inode_mut(self.node) {
            inode.opens -= 1;
            state.drop_unused(self.node);
        }
    }
}
