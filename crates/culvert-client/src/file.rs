//! An open file.

use crate::{
    ahead::Ahead,
    backing::BackingFile,
    changes::stripped,
    connection::Who,
    core::{Core, opcode},
    opens::Handle,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    any::Any,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::Waker,
};
use culvert::{
    Attributes, Caching, Caller, Errno, File, Lock, LockKind, LockOwner, OpenFlags, Readiness,
    Result, SetAttributes, Sink, Source, Wait, Waiter, Whence, sync::Mutex,
};
use culvert_slots::Held;
use culvert_wire::{
    InitFlags, Operation,
    structures::{
        CopyFileRangeIn, FallocateIn, FlushIn, FsyncIn, IoctlIn, LseekIn, OpenOut, PollIn,
    },
};

/// No number among files of several processes.
const ALONE: u64 = u64::MAX;
/// Several processes have it, and there was no number left: it is closed when the server ends.
const LEFT_OPEN: u64 = u64::MAX - 1;

/// A handle of the server's, in this process.
pub struct FuseFile {
    pub core: Arc<Core>,
    pub node: u64,
    pub handle: Handle,
    pub flags: OpenFlags,
    /// Who has opened it.
    opener: Who,
    /// The child of how many forks had it first.
    epoch: u32,
    /// Its number among the files of several processes.
    shared: AtomicU64,
    /// Whether it was asked if a write takes capabilities.
    capabilities_gone: AtomicBool,
    pub backing: Option<BackingFile>,
    /// How much is read ahead.
    pub ahead: Mutex<Ahead>,
    /// The server lets nothing be believed of it.
    pub refused: AtomicBool,
}

/// What the server's notifications are told by, and its end, which the guardian tells by them as
/// well, unless it is gone itself.
struct Told {
    fifo: Box<dyn Held>,
    server: Option<Box<dyn Held>>,
}

impl Waiter for Told {
    fn descriptor(&self) -> i32 {
        self.fifo.number()
    }

    fn ended(&self) -> Option<i32> {
        self.server.as_ref().map(|server| server.number())
    }
}

/// What goes over to the next program: handle, number, how it is open.
const SAVED: usize = 24;

impl FuseFile {
    /// The file of `handle`; its node is held from now on.
    pub fn new(
        core: &Arc<Core>,
        (who, node): (Who, u64),
        handle: Handle,
        flags: OpenFlags,
    ) -> Result<Box<Self>> {
        core.nodes.hold(node).inspect_err(|_| {
            core.release_handle(who, node, &handle, flags.0);
        })?;
        let mut file = Box::new(Self::of(core, (who, node), handle, flags));
        file.backing = BackingFile::of(&core.connection, &file.handle, flags)?;
        // `fuse_open`, fs/fuse/file.c.
        const PAGES_STAY: u32 = OpenOut::KEEP_CACHE | OpenOut::PASSTHROUGH;
        if handle.how & PAGES_STAY == 0 {
            core.words().content(node).changed();
        }
        Ok(file)
    }

    fn of(core: &Arc<Core>, (who, node): (Who, u64), handle: Handle, flags: OpenFlags) -> Self {
        Self {
            core: Arc::clone(core),
            node,
            handle,
            flags,
            opener: who,
            epoch: core.epoch(),
            shared: AtomicU64::new(ALONE),
            capabilities_gone: AtomicBool::new(false),
            backing: None,
            ahead: Mutex::new(Ahead::default()),
            refused: AtomicBool::new(false),
        }
    }

    /// The file that [`File::save`] has said; none: it cannot be.
    pub fn restored(
        core: &Arc<Core>,
        (who, node): (Who, u64),
        flags: OpenFlags,
        state: &[u8],
    ) -> Option<Box<Self>> {
        let word = |at: usize| Some(u64::from_ne_bytes(*state.get(at..at + 8)?.first_chunk()?));
        let (fh, number, how) = (word(0)?, word(8)?, word(16)?);
        let index = usize::try_from(number).ok()?;
        if state.len() != SAVED {
            return None;
        }
        let account = core.is_shared(index, node, fh)?;
        core.connection.settle_place();
        core.nodes.adopt(core.words(), node, account);
        let handle = Handle {
            fh: Some(fh),
            how: how as u32,
            backing: (how >> 32) as i32,
        };
        let mut file = Box::new(Self::of(core, (who, node), handle, flags));
        file.shared.store(number, Relaxed);
        file.backing = BackingFile::of(&core.connection, &file.handle, flags).ok()?;
        Some(file)
    }

    /// For whom a request on it is made.
    pub fn who(&self) -> Result<Who> {
        match self.core.connection.settings.caller {
            Some(caller) => self.core.who(&caller()),
            None => Ok(self.opener),
        }
    }

    /// What requests name it by.
    pub fn fh(&self) -> u64 {
        self.handle.fh.unwrap_or(0)
    }

    /// What POLL calls it: the same in all processes that have it, which the server tells of it at
    /// once. Who has another file of this name is told in vain.
    fn poll_number(&self) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.node.wrapping_mul(SPREAD) ^ self.fh()
    }

    fn number(&self) -> Option<u64> {
        Some(self.shared.load(Relaxed)).filter(|&number| number < LEFT_OPEN)
    }

    /// The file's content has changed.
    pub fn changed(&self) {
        self.core.content_changed(self.node);
    }

    /// Takes from the file what a write takes (`file_remove_privs`, fs/inode.c), where the server
    /// does not: `security.capability` once for each open file, set-user-ID whenever it is there.
    pub fn take_privileges(&self, who: Who) -> Result<()> {
        let agreed = &self.core.connection.agreed;
        if agreed.has(InitFlags::HANDLE_KILLPRIV) || agreed.has(InitFlags::HANDLE_KILLPRIV_V2) {
            return Ok(());
        }
        if !self.capabilities_gone.swap(true, Relaxed) {
            const NAME: &[u8] = b"security.capability";
            if self.core.xattr(who, self.node, NAME).is_ok() {
                self.core.take_xattr(who, self.node, NAME)?;
            }
        }
        let last = self.core.nodes.last_mode(self.node);
        if !who.keeps_privileges && last.is_some_and(|mode| stripped(mode).is_some()) {
            let found = self
                .core
                .ask_attributes(who, self.node, self.handle.fh)?
                .permissions;
            if let Some(mode) = stripped(found) {
                let changes = SetAttributes {
                    permissions: Some(mode),
                    ..SetAttributes::default()
                };
                self.core.change(who, self.node, &changes, self.handle.fh)?;
            }
        }
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        Ok(self
            .core
            .ask_attributes(self.who()?, self.node, self.handle.fh)?
            .size)
    }

    fn copy(&self, to: &Self, copy: CopyFileRangeIn) -> Result<Option<u64>> {
        let connection = &self.core.connection;
        let who = self.who()?;
        // `FUSE_COPY_FILE_RANGE_64` says more than 4 GiB.
        const SINCE_64: u32 = 45;
        let _changing = self.core.changing();
        let (number, count) = if connection.agreed.protocol.minor >= SINCE_64
            && !connection.lacks(opcode::COPY_FILE_RANGE_64)
        {
            let operation = Operation::CopyFileRange64 { copy };
            let number = opcode::COPY_FILE_RANGE_64;
            (number, connection.copied(who, self.node, &operation))
        } else {
            let copy = CopyFileRangeIn {
                len: copy.len.min(0xffff_f000),
                ..copy
            };
            let operation = Operation::CopyFileRange { copy };
            let number = opcode::COPY_FILE_RANGE;
            (number, connection.written(who, self.node, &operation))
        };
        to.changed();
        connection.unless_lacking(number, count)
    }
}

impl File for FuseFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        match &self.backing {
            Some(backing) => backing.read(offset, out),
            None if self.handle.how & OpenOut::DIRECT_IO != 0 => self.read_through(offset, out),
            None => self.read_cached(offset, out),
        }
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        if from.remaining() == 0 {
            return Ok(0);
        }
        self.take_privileges(self.who()?)?;
        let _changing = self.core.changing();
        let written = match &self.backing {
            Some(backing) => backing.write(offset, from),
            None => self.write_through(offset, from),
        };
        self.changed();
        written
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let _guard = self.core.append.lock();
        let end = self.size()?;
        Ok((end, self.write_at(end, from)?))
    }

    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        let who = self.core.who(caller)?;
        match self.core.known_attributes(self.node) {
            Some(found) => Ok(found),
            None => self.core.ask_attributes(who, self.node, self.handle.fh),
        }
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let changes = self.core.allowed_mode(caller, self.node, changes)?;
        let who = self.core.who(caller)?;
        self.core.change(who, self.node, &changes, self.handle.fh)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let connection = &self.core.connection;
        if connection.lacks(opcode::FSYNC) {
            return Ok(());
        }
        let fsync = FsyncIn {
            fh: self.fh(),
            fsync_flags: if data_only { FsyncIn::DATA_ONLY } else { 0 },
            padding: 0,
        };
        let done = connection.done(self.who()?, self.node, &Operation::Fsync { fsync });
        connection.unless_lacking(opcode::FSYNC, done).map(|_| ())
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let connection = &self.core.connection;
        // Keep the size, punch, zero: others are not sent (`fuse_file_fallocate`, fs/fuse/file.c).
        if mode & !(1 | 2 | 16) != 0 || connection.lacks(opcode::FALLOCATE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let who = self.who()?;
        self.take_privileges(who)?;
        let fallocate = FallocateIn {
            fh: self.fh(),
            offset,
            length,
            mode,
            padding: 0,
        };
        let _changing = self.core.changing();
        let done = connection.done(who, self.node, &Operation::Fallocate { fallocate });
        self.changed();
        match connection.unless_lacking(opcode::FALLOCATE, done)? {
            Some(()) => Ok(()),
            None => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let connection = &self.core.connection;
        if !connection.lacks(opcode::LSEEK) {
            let lseek = LseekIn {
                fh: self.fh(),
                offset,
                whence: match whence {
                    Whence::Data => 3,
                    Whence::Hole => 4,
                },
                padding: 0,
            };
            let found = connection.offset(self.who()?, self.node, &Operation::Lseek { lseek });
            if let Some(found) = connection.unless_lacking(opcode::LSEEK, found)? {
                return match i64::try_from(found.offset) {
                    Ok(_) => Ok(found.offset),
                    Err(_) => Err(Errno::EINVAL.into()),
                };
            }
        }
        // `fuse_lseek`, fs/fuse/file.c: where it is old, the size is asked for.
        let (core, node) = (&self.core, self.node);
        let size = match core.nodes.mostly_known(core.words(), core.moment(), node) {
            Some((known, true)) => known.size,
            _ => self.size()?,
        };
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        Ok(match whence {
            Whence::Data => offset,
            Whence::Hole => size,
        })
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let other = to.as_any().and_then(|to| to.downcast_ref::<Self>());
        let other = other.filter(|other| Arc::ptr_eq(&other.core, &self.core));
        let other = other.ok_or(Errno::EXDEV)?;
        if self.core.connection.lacks(opcode::COPY_FILE_RANGE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        other.take_privileges(other.who()?)?;
        let mut done = 0;
        while done < length {
            let copy = CopyFileRangeIn {
                fh_in: self.fh(),
                off_in: offset + done,
                nodeid_out: other.node,
                fh_out: other.fh(),
                off_out: to_offset + done,
                len: length - done,
                flags: 0,
            };
            match self.copy(other, copy) {
                Ok(Some(0)) => break,
                Ok(Some(count)) if count > length - done => return Err(Errno::EIO.into()),
                Ok(Some(count)) => done += count,
                Ok(None) if self.core.connection.lacks(opcode::COPY_FILE_RANGE) => {
                    return Err(Errno::EOPNOTSUPP.into());
                }
                // Not with 64 bits: once more with 32.
                Ok(None) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }

    fn with_kernel_file(&self, _: (u64, u64), _: bool, map: &mut dyn FnMut(i32)) -> Result<bool> {
        let Some(backing) = &self.backing else {
            return Ok(false);
        };
        map(backing.raw());
        Ok(true)
    }

    fn caching(&self) -> Caching {
        match self.handle.how {
            how if how & OpenOut::DIRECT_IO != 0 => Caching::Never,
            how if how & OpenOut::KEEP_CACHE != 0 => Caching::Keep,
            _ => Caching::UntilChanged,
        }
    }

    fn shared(&self) {
        if let (Some(fh), ALONE) = (self.handle.fh, self.shared.load(Relaxed)) {
            let number = self.core.share(self.node, fh);
            if number.is_none() {
                self.core.connection.channel.lent(self.node, fh);
            }
            let number = number.map_or(LEFT_OPEN, |index| index as u64);
            self.shared.store(number, Relaxed);
        }
        self.core.words().forked();
    }

    fn flush(&self) -> Result<()> {
        let connection = &self.core.connection;
        if !self.reports_at_close() {
            return Ok(());
        }
        let who = self.who()?;
        let flush = FlushIn {
            fh: self.fh(),
            lock_owner: u64::from(who.sent.pid),
            ..FlushIn::default()
        };
        let done = connection.done(who, self.node, &Operation::Flush { flush });
        connection.unless_lacking(opcode::FLUSH, done).map(|_| ())
    }

    fn reports_at_close(&self) -> bool {
        self.handle.how & OpenOut::NOFLUSH == 0 && !self.core.connection.lacks(opcode::FLUSH)
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        // `_IOC_DIR`: 1 the program writes, 2 it reads.
        let (direction, size) = (request >> 30, argument.len());
        let sent = if direction & 1 != 0 { &*argument } else { &[] };
        let out_size = if direction & 2 != 0 { size } else { 0 };
        let ioctl = IoctlIn {
            fh: self.fh(),
            cmd: request,
            out_size: out_size as u32,
            ..IoctlIn::default()
        };
        let operation = Operation::Ioctl {
            ioctl,
            data: culvert_wire::Data(sent),
        };
        let connection = &self.core.connection;
        let _changing = self.core.changing();
        let answer = connection.ioctl(self.who()?, self.node, &operation, out_size);
        self.changed();
        let (out, data) = match answer {
            Err(error) if error.errno() == Errno::ENOSYS => return Err(Errno::ENOTTY.into()),
            answer => answer?,
        };
        // Only /dev/cuse may ask for other areas (`fuse_do_ioctl`, fs/fuse/ioctl.c).
        if out.flags & IoctlIn::RETRY != 0 {
            return Err(Errno::EIO.into());
        }
        let result = Errno::check(out.result as isize)?;
        if let Some(place) = argument.get_mut(..data.len()) {
            place.copy_from_slice(&data);
        }
        Ok(result)
    }

    /// The waker is not kept: what is told comes by [`File::waiter`].
    fn poll(&self, waker: Option<&Waker>) -> Result<Readiness> {
        let connection = &self.core.connection;
        if connection.lacks(opcode::POLL) {
            return Ok(Readiness::ALWAYS);
        }
        // `fuse_file_poll`, fs/fuse/file.c.
        let (kh, flags) = match waker {
            Some(_) => (self.poll_number(), PollIn::SCHEDULE_NOTIFY),
            None => (0, 0),
        };
        let poll = PollIn {
            fh: self.fh(),
            kh,
            flags,
            events: u32::from(Readiness::ALWAYS.0) | 2,
        };
        let ready = connection.ready(self.who()?, self.node, &Operation::Poll { poll });
        Ok(match connection.unless_lacking(opcode::POLL, ready)? {
            Some(ready) => Readiness(ready.revents as u16),
            None => Readiness::ALWAYS,
        })
    }

    fn waiter(&self) -> Result<Option<Box<dyn Waiter>>> {
        let channel = &self.core.connection.channel;
        match channel.waiter(self.poll_number()) {
            Ok(fifo) => Ok(Some(Box::new(Told {
                fifo,
                server: channel.end_of_server(),
            }))),
            Err(Errno::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn get_lock(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.asked_lock(owner, lock)
    }

    fn set_lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        self.put_lock(owner, lock, wait)
    }

    fn flock(&self, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        self.put_flock(owner, kind, wait)
    }

    fn save(&self) -> Result<Vec<u8>> {
        // The next program may close it, and knows of no READ that the server has in hand.
        self.abandon_sent();
        self.shared();
        let (Some(fh), Some(number)) = (self.handle.fh, self.number()) else {
            return Ok(Vec::new());
        };
        let backing = self.handle.backing as u32;
        let how = u64::from(self.handle.how) | u64::from(backing) << 32;
        Ok([fh, number, how]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect())
    }
}

impl Drop for FuseFile {
    fn drop(&mut self) {
        // The server has no READ of it in hand when it is closed.
        self.abandon_sent();
        match self.shared.load(Relaxed) {
            // In a child the parent's is not the child's to close.
            ALONE if self.epoch == self.core.epoch() => {
                self.core
                    .release_handle(self.opener, self.node, &self.handle, self.flags.0);
            }
            ALONE | LEFT_OPEN => {}
            _ => self.core.end_shared(self.opener, self.node),
        }
        self.core.release(self.node);
    }
}
