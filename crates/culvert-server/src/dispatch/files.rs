//! Open files.

use super::{
    DONE, Outcome,
    data::{Reading, Writing},
};
use crate::{
    capabilities::KEEP_CACHE,
    handover::{Open, Reopen},
    opened::{OpenFile, file_in},
    session::{Context, Session},
};
use culvert::{
    Caching, Caller, Entry, Errno, Error, File, Node, OpenFlags, Opened, Result, Whence,
};
use culvert_sys::BorrowedFd;
use culvert_wire::{
    Answer, Data, InitFlags,
    structures::{
        CopyFileRangeIn, CopyFileRangeOut, CreateIn, FallocateIn, FlushIn, FsyncIn, LseekIn,
        LseekOut, OpenIn, OpenOut, ReadIn, ReleaseIn, WriteIn, WriteOut,
    },
};
use std::sync::Arc;

/// `__FMODE_EXEC` (include/linux/fs.h): the open is execve(2)'s.
const EXECUTE: u32 = 0o40;
pub(super) const APPEND: u32 = OpenFlags::APPEND.0;
/// Flags that say what the open is for: `O_ACCMODE`, `O_TRUNC`, `O_APPEND`, `O_DSYNC`, `O_SYNC`,
/// `O_NOATIME`. The rest (`O_DIRECT` among them) is between the program and the kernel.
pub(super) const MEANT: u32 = 0o3 | 0o1000 | APPEND | 0o10000 | 0o4000000 | 0o1000000;

impl Session {
    /// The open file `number`, of `node`; `EBADF`: it is not that, or is lost.
    pub(crate) fn file(&self, node: Node, number: u64) -> Result<Arc<OpenFile>> {
        let open = self.file_if_open(node, number);
        open.ok_or_else(|| Error::because(Errno::EBADF, "request on a file that is not open"))
    }

    /// The same; none where there is no such file.
    pub(super) fn file_if_open(&self, node: Node, number: u64) -> Option<Arc<OpenFile>> {
        let open = self.files.get(number);
        open.filter(|open| open.node == node && !open.lost)
    }

    /// The open file `number`, or that of `node` where files are not opened.
    pub(super) fn file_of(&self, node: Node, number: u64) -> Result<Arc<OpenFile>> {
        if number != 0 || !self.opens_nothing() {
            return self.file(node, number);
        }
        self.zero_open.get(node, || {
            let opened = self.filesystem.open(&Caller::SYSTEM, node, OpenFlags(0))?;
            Ok(OpenFile {
                file: file_in(opened, node),
                node,
                counted: None,
                stores: false,
                lost: false,
            })
        })
    }

    /// Whether OPEN is answered with ENOSYS where it can be.
    const fn opens_nothing(&self) -> bool {
        self.protocol.flags.contains(InitFlags::NO_OPEN_SUPPORT)
    }

    pub(super) fn open(
        &self,
        context: &mut Context<'_>,
        node: Node,
        open: &OpenIn,
    ) -> Outcome<'static> {
        let flags = OpenFlags(open.flags & MEANT);
        if flags.write() || flags.truncate() {
            self.check_writable()?;
        }
        // The kernel has checked that it may be executed; the backing file may still forbid
        // reading.
        if open.flags & EXECUTE != 0 && self.acts {
            context.identity.server()?;
        }
        let killed = open.open_flags & OpenIn::KILL_SUIDGID != 0;
        if killed && self.acts {
            context.identity.lose_set_id()?;
        }
        let (opened, flags) = self.open_as(context, node, flags, killed)?;
        // No more of these requests.
        if self.opens_nothing()
            && let Opened::Driven(file) = &opened
            && file.caching() != Caching::Never
        {
            return Err(Errno::ENOSYS.into());
        }
        Ok(Answer::Opened {
            open: self.opened(context, node, opened, flags, false),
        })
    }

    /// Makes a file, or an unnamed one, and opens it.
    pub(super) fn create(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        create: &CreateIn,
        name: Option<&[u8]>,
    ) -> Outcome<'static> {
        self.check_writable()?;
        let flags = self.cached(OpenFlags(create.flags & (MEANT | OpenFlags::EXCLUSIVE.0)));
        // The kernel adds the type.
        let mode = self.masked(create.mode & 0o7777, create.umask);
        if create.open_flags & OpenIn::KILL_SUIDGID != 0 && self.acts {
            context.identity.lose_set_id()?;
        }
        let caller = self.caller(context, Some(create.umask))?;
        // Who makes by ids that the kernel has mapped may more than the caller: what exists by now
        // is found again, and opened by OPEN, which the kernel judges.
        let anew = self.acts
            && name.is_some()
            && !flags.exclusive()
            && self.protocol.flags.contains(InitFlags::ALLOW_IDMAP);
        let flags = match anew {
            true => OpenFlags(flags.0 | OpenFlags::EXCLUSIVE.0),
            false => flags,
        };
        let made = match name {
            Some(name) => self.filesystem.create(&caller, dir, name, flags, mode),
            None => self.filesystem.tmpfile(&caller, dir, flags, mode),
        };
        let (entry, opened): (Entry, Opened) = made.map_err(|error| match error.errno() {
            Errno::EEXIST if anew => Errno::ESTALE.into(),
            _ => error,
        })?;
        // How long the attributes are believed depends on the open.
        let open = self.opened(context, entry.attributes.node, opened, flags, true);
        Ok(Answer::Created {
            entry: self.entry_out(&entry),
            open,
        })
    }

    /// Keeps what was opened, or `made`; what the kernel is told of it.
    pub(super) fn opened(
        &self,
        context: &mut Context<'_>,
        node: Node,
        opened: Opened,
        flags: OpenFlags,
        made: bool,
    ) -> OpenOut {
        // Where the data are the kernel's nothing is delayed that closing could report.
        let (kind, number) = match &opened {
            Opened::Backed(fd) => (Reopen::Backed, fd.raw()),
            Opened::Driven(_) => (Reopen::Driven, -1),
        };
        let handover = self.settings.handover;
        let identity = match kind {
            Reopen::Backed => handover.identity(BorrowedFd::number(number)),
            _ => [0; 2],
        };
        let file = file_in(opened, node);
        let mut open_flags = match kind == Reopen::Backed || !file.reports_at_close() {
            // FLUSH says whose record locks go.
            true if !self.protocol.flags.contains(InitFlags::POSIX_LOCKS) => OpenOut::NOFLUSH,
            _ => 0,
        };
        // Nobody but the kernel changes it.
        let ours = self.validity.attributes == u64::MAX;
        let mut often_read = false;
        // With `valid=0` nothing is believed that an earlier open has seen.
        let keeps = self.validity.attributes > 0 && !self.settings.without(KEEP_CACHE);
        open_flags |= match file.caching() {
            Caching::UntilChanged if made || !keeps => 0,
            Caching::UntilChanged if ours => OpenOut::KEEP_CACHE,
            Caching::UntilChanged => {
                let found = file.attributes(&Caller::SYSTEM);
                let advice =
                    found.map(|found| self.cache_retention.open(node, &found, flags.write()));
                often_read = advice.as_ref().is_ok_and(|advice| advice.often_read);
                match advice.is_ok_and(|advice| advice.keep) {
                    true => OpenOut::KEEP_CACHE,
                    false => 0,
                }
            }
            Caching::Keep => OpenOut::KEEP_CACHE,
            // The driver is called from several threads at once, and orders what overlaps.
            Caching::Never => OpenOut::DIRECT_IO | OpenOut::PARALLEL_DIRECT_WRITES,
        };
        if self.writes_through(flags) {
            open_flags |= OpenOut::DIRECT_IO;
        }
        let mut backing_id = 0;
        let counted = self.protocol.flags.contains(InitFlags::PASSTHROUGH)
            && open_flags & OpenOut::DIRECT_IO == 0;
        let may_store = flags.read() && flags.write();
        if counted && let Some(number) = self.backing(context, node, &*file, flags, often_read) {
            backing_id = number;
            // The two exclude each other (`fuse_file_io_open`, fs/fuse/iomode.c).
            open_flags = open_flags & !OpenOut::KEEP_CACHE | OpenOut::PASSTHROUGH;
            if may_store && !made {
                self.outdated(context, node);
            }
        }
        if !made {
            self.cache_retention.opened(node, backing_id == 0);
        }
        let stores = may_store && backing_id == 0;
        if stores {
            let kept = open_flags & OpenOut::KEEP_CACHE != 0;
            self.mapped_writers.open(node, kept);
        }
        // The next server has it too, should this one be killed: a driver must not take its user
        // for gone.
        if handover.has_keeper() {
            file.shared();
        }
        let fh = self.files.insert(OpenFile {
            file,
            node,
            counted: counted.then_some(may_store),
            stores,
            lost: false,
        });
        let open = Open {
            kind,
            node: node.0,
            flags: flags.0,
            fd: number,
            identity,
            backing: if counted { backing_id } else { -1 },
            request: context.unique(),
        };
        handover.files.set(fh, &open);
        OpenOut {
            fh,
            open_flags,
            backing_id,
        }
    }

    /// The number of the backing file by which the kernel is to serve this open.
    ///
    /// It then writes with the rights of the thread that registered the file: one without
    /// CAP_FSETID, so that a write clears set-user-ID for everybody (root's writes natively do not:
    /// too much is cleared rather than too little), and without CAP_SYS_RESOURCE, so that nobody's
    /// writes go beyond quotas.
    fn backing(
        &self,
        context: &mut Context<'_>,
        node: Node,
        file: &dyn File,
        flags: OpenFlags,
        often_read: bool,
    ) -> Option<i32> {
        // The kernel opens the backing file with O_APPEND too, and does not take it off when the
        // program does (fcntl(2), F_SETFL).
        let passes = !flags.append() && !often_read && file.may_be_passed();
        let fd = file.descriptor().filter(|_| passes);
        let fd = fd.map(BorrowedFd::number);
        // None is registered with root's rights; but the open counts, and is served as others of
        // its node that overlap with it.
        let fd = fd.filter(|_| context.identity.lose_special_rights().is_ok());
        let stores = flags.read() && flags.write();
        self.backings.open(node, fd, stores, context.channel)
    }

    pub(crate) fn release(
        &self,
        context: &mut Context<'_>,
        node: Node,
        release: &ReleaseIn,
    ) -> Outcome<'static> {
        let open = self.files.get(release.fh);
        if open.is_some_and(|open| open.node != node) {
            return Err(Error::because(
                Errno::EBADF,
                "another file was to be closed",
            ));
        }
        // Before the number is another's.
        self.settings.handover.files.clear(release.fh);
        let Some(open) = self.files.remove(release.fh) else {
            return DONE;
        };
        if let Some(stores) = open.counted {
            self.backings.close(open.node, stores, context.channel);
        }
        if open.stores {
            self.mapped_writers.close(open.node);
        }
        DONE
    }

    pub(super) fn read<'o>(
        &self,
        context: &Context<'_>,
        node: Node,
        read: &ReadIn,
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        let open = self.file_of(node, read.fh)?;
        if is_awaited(read) {
            self.interrupts.is_awaited(context.hand);
        }
        self.mapped_writers.read(node);
        let size = out.len().min(read.size as usize).min(reach(read.offset)?);
        let mut sink = Reading {
            rest: &mut out[..size],
            hand: context.hand,
        };
        let mut count = open.file.read_at(read.offset, &mut sink)?;
        // A short reply is the end of the file to the kernel's cache (`fuse_short_read`,
        // fs/fuse/file.c): where an archive has been cut off, that is the answer.
        while count > 0 && count < size && self.filesystem.capabilities().immutable {
            match open.file.read_at(read.offset + count as u64, &mut sink)? {
                0 => break,
                more => count += more,
            }
        }
        Ok(Answer::Data {
            data: Data(&out[..count.min(size)]),
        })
    }

    pub(super) fn write(
        &self,
        context: &mut Context<'_>,
        node: Node,
        write: &WriteIn,
        data: &[u8],
        done: usize,
    ) -> Outcome<'static> {
        let open = self.file(node, write.fh)?;
        match write.write_flags & WriteIn::KILL_SUIDGID != 0 {
            true => self.act_for_writer(context, node)?,
            false if self.acts => context.identity.server()?,
            false => {}
        }
        let data = &data[..data.len().min(reach(write.offset)?)];
        let mut source = Writing {
            rest: data.get(done..).unwrap_or_default(),
            hand: context.hand,
        };
        let count = match self.appends(write) {
            true if source.rest.is_empty() && done > 0 => 0,
            true => open.file.append(&mut source)?.1,
            false => open.file.write_at(write.offset, &mut source)?,
        } + done;
        Ok(Answer::Written {
            written: WriteOut {
                size: count as u32,
                padding: 0,
            },
        })
    }

    pub(super) fn flush(&self, node: Node, flush: &FlushIn) -> Outcome<'static> {
        // No more of these: what was not opened for writing delays nothing.
        if flush.fh == 0 && self.opens_nothing() {
            return Err(Errno::ENOSYS.into());
        }
        self.file(node, flush.fh)?.file.flush()?;
        DONE
    }

    pub(super) fn fsync(&self, node: Node, fsync: &FsyncIn) -> Outcome<'static> {
        let data_only = fsync.fsync_flags & FsyncIn::DATA_ONLY != 0;
        self.file_of(node, fsync.fh)?.file.sync(data_only)?;
        DONE
    }

    pub(super) fn lseek(&self, node: Node, lseek: &LseekIn) -> Outcome<'static> {
        let whence = match lseek.whence {
            3 => Whence::Data,
            4 => Whence::Hole,
            _ => return Err(Errno::EINVAL.into()),
        };
        // As any place behind the end (lseek(2)).
        reach(lseek.offset).map_err(|_| Errno::ENXIO)?;
        let open = self.file_of(node, lseek.fh)?;
        let offset = if self.mapped_writers.may_be_in_holes(node) {
            let size = open.file.attributes(&Caller::SYSTEM)?.size;
            match whence {
                _ if lseek.offset >= size => return Err(Errno::ENXIO.into()),
                Whence::Hole => size,
                _ => lseek.offset,
            }
        } else {
            open.file.seek(lseek.offset, whence)?
        };
        Ok(Answer::Offset {
            offset: LseekOut { offset },
        })
    }

    pub(super) fn fallocate(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &FallocateIn,
    ) -> Outcome<'static> {
        if asked.length == 0 {
            return Err(Errno::EINVAL.into());
        }
        if reach(asked.offset)? < asked.length as usize {
            return Err(Errno::EFBIG.into());
        }
        let open = self.file(node, asked.fh)?;
        self.act_for_writer(context, node)?;
        open.file.allocate(asked.mode, asked.offset, asked.length)?;
        DONE
    }

    /// copy_file_range(2). Where the driver cannot, the kernel reads and writes (EOPNOTSUPP,
    /// `fuse_copy_file_range`).
    pub(super) fn copy_range(
        &self,
        context: &mut Context<'_>,
        node: Node,
        copy: &CopyFileRangeIn,
        wide: bool,
    ) -> Outcome<'static> {
        let from = self.file(node, copy.fh_in)?;
        let target = self.numbers.node(copy.nodeid_out);
        let to = self.file(target, copy.fh_out)?;
        self.act_for_writer(context, target)?;
        // The short answer counts in 32 bits.
        let most = if wide { usize::MAX } else { 1 << 30 };
        let most = most.min(reach(copy.off_in)?).min(reach(copy.off_out)?);
        let length = copy.len.min(most as u64);
        let bytes_copied = from
            .file
            .copy_range(copy.off_in, &*to.file, copy.off_out, length)?;
        Ok(match wide {
            true => Answer::Copied {
                copied: CopyFileRangeOut { bytes_copied },
            },
            false => Answer::Written {
                written: WriteOut {
                    size: bytes_copied as u32,
                    padding: 0,
                },
            },
        })
    }
}

/// Whether a READ is of a caller who waits for it himself, who may be interrupted: not a page's,
/// and not one of several at once (libaio, io_uring). Only read(2) past the page cache names its
/// owner (`fuse_direct_io`, fs/fuse/file.c); without `O_DIRECT` it waits for each.
const fn is_awaited(read: &ReadIn) -> bool {
    read.read_flags & ReadIn::LOCK_OWNER != 0 && !OpenFlags(read.flags).direct()
}

/// How many bytes there are from `offset` to the largest; `EINVAL` beyond.
fn reach(offset: u64) -> Result<usize> {
    let left = (i64::MAX as u64).checked_sub(offset).ok_or(Errno::EINVAL)?;
    Ok(usize::try_from(left).unwrap_or(usize::MAX))
}
