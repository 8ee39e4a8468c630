//! An open file.

use super::{
    core::{Core, Inode, split, unpack_time},
    kernel_files::is_scarce,
    layout::{flag, inode},
};
use crate::KeptFd;
use alloc::sync::Arc;
use core::{any::Any, sync::atomic::Ordering::*};
use culvert::{
    Attributes, Caller, Errno, File, Node, OpenFlags, Result, Rights, SetAttributes, Sink, Source,
    Whence,
};
use culvert_sys::{fd::BorrowedFd, raw::general as linux, sync::OnceCell};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
/// relatime moves atime once a day in any case (mount(8)).
const DAY: i64 = 86_400;

/// What the changes of one caller leave of a file's mode.
#[derive(Clone, Copy)]
pub struct Keeps {
    /// Writes leave everything (`CAP_FSETID`).
    pub all: bool,
    /// It may set set-group-ID, and what takes that leaves it where the group may not execute: the
    /// caller is in the file's group.
    pub set_group_id: bool,
}

impl Keeps {
    /// For a file of group `gid`. A kernel mount does not tell the caller's groups: there the
    /// kernel has judged by them already (`setattr_prepare`, fs/attr.c).
    pub fn of(caller: &Caller<'_>, gid: u32) -> Self {
        Self {
            all: caller.has(Rights::FSETID),
            set_group_id: caller.rights.is_none() || caller.keeps_set_group_id(gid),
        }
    }
}

/// An open file: lists the inode as open while it lives.
pub struct MemoryFile {
    core: Arc<Core>,
    /// Of `core`: its mappings stay as long as it does.
    inode: Inode<'static>,
    node: Node,
    keeps: Keeps,
    no_atime: bool,
    /// Open for writing.
    writes: bool,
    /// The file of its own, once it has one and this process's own table of descriptors was asked
    /// for it.
    own: OnceCell<KeptFd>,
}

impl MemoryFile {
    /// Opens `node` for `flags`.
    pub fn new(
        core: &Arc<Core>,
        node: Node,
        flags: OpenFlags,
        caller: &Caller<'_>,
    ) -> Result<Self> {
        let inode = core.open(node, flags.write())?;
        let (_, gid) = split(inode.get(inode::OWNER));
        // SAFETY: the words lie in a mapping that lives as long as `core`, which the file keeps.
        let inode = unsafe { core::mem::transmute::<Inode<'_>, Inode<'static>>(inode) };
        Ok(Self {
            core: Arc::clone(core),
            inode,
            node,
            keeps: Keeps::of(caller, gid),
            no_atime: flags.no_atime(),
            writes: flags.write(),
            own: OnceCell::new(),
        })
    }

    fn inode(&self) -> Inode<'_> {
        self.inode
    }

    /// Runs `run` on the file of its own, with this open's access mode.
    fn with_own<R>(&self, run: impl FnOnce(BorrowedFd<'_>) -> Result<R>) -> Result<R> {
        let flags = match self.writes {
            true => linux::O_RDWR,
            false => linux::O_RDONLY,
        };
        let keeper = self.core.keeper;
        let own_table = keeper.table() == 0;
        if let Some(own) = self.own.get().filter(|_| own_table) {
            return run(own.fd());
        }
        let file = self.core.open_external(&self.inode, flags)?;
        // In another table: kept, it would be known where the memory is, but open only here.
        if !own_table || is_scarce(&file) {
            return run(file.borrow());
        }
        let own = self
            .own
            .get_or_try_init(|| Ok::<_, Errno>(keeper.keep(file)))?;
        run(own.fd())
    }

    /// Writes at `offset`; none: at the end. Where, and how many bytes.
    fn write(&self, offset: Option<u64>, from: &mut dyn Source) -> Result<(u64, usize)> {
        if let (Some(offset), 0) = (offset, from.remaining()) {
            return Ok((offset, 0));
        }
        let of = self.inode();
        let _held = self.core.lock_exclusive(&of, &|| from.interrupted())?;
        let offset = offset.unwrap_or_else(|| of.get(inode::SIZE));
        if from.remaining() == 0 {
            return Ok((offset, 0));
        }
        let count = match of.is_external() {
            true => self.with_own(|fd| self.core.write_external(&of, fd, offset, from))?,
            false => self.core.write(&of, offset, from)?,
        };
        if count > 0 {
            self.core.drop_privileges(&of, self.keeps)?;
        }
        Ok((offset, count))
    }

    fn accessed(&self, of: &Inode<'_>) {
        if self.no_atime {
            return;
        }
        let (atime, mtime, ctime) = (
            of.get(inode::ATIME),
            of.get(inode::MTIME),
            of.get(inode::CTIME),
        );
        if atime > mtime && atime > ctime {
            let now = self.core.clock.coarse();
            if now - unpack_time(atime).seconds < DAY {
                return;
            }
        }
        of.put(inode::ATIME, self.core.now());
    }
}

impl Core {
    /// What a write or a change of size takes from the mode (`file_remove_privs`, fs/inode.c).
    pub fn drop_privileges(&self, of: &Inode<'_>, keeps: Keeps) -> Result<()> {
        let privileged = of.mode() & (SET_UID | SET_GID) != 0 || of.get(inode::XATTRS) != 0;
        if keeps.all || !privileged {
            return Ok(());
        }
        self.transact(|change| change.drop_privileges(of, keeps))
    }
}

impl super::transaction::Transaction<'_> {
    /// Takes set-user-ID, set-group-ID where the group may execute or the caller is not in it, and
    /// capabilities away (`setattr_should_drop_sgid`, fs/attr.c).
    pub fn drop_privileges(&mut self, of: &Inode<'_>, keeps: Keeps) -> Result<()> {
        let mode = of.mode();
        let mut lost = mode & SET_UID;
        if mode & 0o010 != 0 || !keeps.set_group_id {
            lost |= mode & SET_GID;
        }
        if lost != 0 {
            self.set_state(of, 0, lost.into())?;
        }
        if of.get(inode::XATTRS) != 0 {
            match self.set_xattr(of, b"security.capability", None, 0) {
                Err(error) if error.errno() == culvert::Errno::ENODATA => {}
                other => other?,
            }
        }
        Ok(())
    }
}

impl File for MemoryFile {
    fn reports_at_close(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let of = self.inode();
        let held = self.core.lock_shared(&of, &|| out.interrupted())?;
        let count = match of.is_external() {
            true => self.with_own(|fd| self.core.read_external(&of, fd, offset, out))?,
            false => self.core.read(&of, offset, out)?,
        };
        drop(held);
        if count > 0 {
            self.accessed(&of);
        }
        Ok(count)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        Ok(self.write(Some(offset), from)?.1)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.write(None, from)
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        let of = self.inode();
        self.core.steady(|| self.core.attributes(&of))
    }

    fn set_attributes(&self, _: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        self.core.set_attributes(self.node, changes, self.keeps)
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let of = self.inode();
        let _held = self.core.lock_exclusive(&of, &|| false)?;
        match of.is_external() {
            true => self.with_own(|fd| self.core.allocate_external(&of, fd, mode, offset, length)),
            false => self.core.allocate_range(&of, mode, offset, length),
        }?;
        self.core.drop_privileges(&of, self.keeps)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let of = self.inode();
        let _held = self.core.lock_shared(&of, &|| false)?;
        match of.is_external() {
            true => self.with_own(|fd| self.core.seek_external(&of, fd, offset, whence)),
            false => self.core.seek(&of, offset, whence),
        }
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().and_then(|any| any.downcast_ref::<Self>());
        // Another file system in memory has nodes of the same numbers.
        let to = to.filter(|to| Arc::ptr_eq(&self.core, &to.core));
        let to = to.ok_or(culvert::Errno::EXDEV)?;
        let size = self.inode().get(inode::SIZE);
        let length = length.min(size.saturating_sub(offset));
        if self.node == to.node && offset.abs_diff(to_offset) < length {
            return Err(culvert::Errno::EINVAL.into());
        }
        let mut buffer = alloc::vec![0u8; length.min(64 << 10) as usize];
        let mut done = 0;
        while done < length {
            let part = (length - done).min(buffer.len() as u64) as usize;
            let read = self.read_at(offset + done, &mut &mut buffer[..part]);
            let copied = read.and_then(|read| match read {
                0 => Ok(0),
                read => to.write_at(to_offset + done, &mut &buffer[..read]),
            });
            match copied {
                Ok(0) => break,
                Ok(count) => done += count as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        let of = self.inode();
        let _held = self.core.lock_shared(&of, &|| false)?;
        self.core.ask_regions(&of, request, argument)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn with_kernel_file(
        &self,
        range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        if self.core.files.is_none() {
            return Ok(false);
        }
        let of = self.inode();
        if !of.is_external() || stores {
            let _held = self.core.lock_exclusive(&of, &|| false)?;
            self.core.move_out(&of)?;
            if stores {
                self.with_own(|fd| self.core.reserve_external(&of, fd, range))?;
            }
        }
        self.with_own(|fd| {
            map(fd.raw());
            Ok(())
        })?;
        self.accessed(&of);
        Ok(true)
    }

    fn confined(&self) {
        if self.inode().is_external() {
            let _ = self.with_own(|_| Ok(()));
        }
    }

    fn shared(&self) {
        let _ = self.core.mark_shared(&self.inode());
    }
}

impl Core {
    /// A description of the file is kept by the kernel from now on: this run says so.
    pub fn mark_shared(&self, of: &Inode<'_>) -> Result<()> {
        let mine = 1u64 << self.run_number.load(Relaxed);
        if of.get(inode::RUNS) & mine != 0 || self.in_use.is_none() {
            return Ok(());
        }
        self.transact(|change| match of.has(flag::FREE) {
            true => Ok(()),
            false => change.set_word(of, inode::RUNS, of.get(inode::RUNS) | mine),
        })
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if let Some(own) = self.own.get()
            && self.core.keeper.table() == own.table()
        {
            // What was stored through mappings is seen here at the latest.
            let _ = self.core.recount(&self.inode, own.fd());
        }
        // Closed first: whether anybody else has it decides what becomes of a file without a name.
        drop(core::mem::take(&mut self.own));
        self.core.close(self.node.0 as u32, self.writes);
    }
}
