//! An open file of the kernel's as a driven file.

use super::attributes::{Target, attributes, change};
use super::kernel::{seek, status};
use crate::descriptor::{Keeper, KeptFd, LentFd, OwnedFd, duplicate};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::any::Any;
use culvert::sync::Mutex;
use culvert::{
    Attributes, Caller, Errno, File, Node, Result, SetAttributes, Sink, Source, Whence,
    read_through, write_through,
};
use culvert_sys::fd::{self, BorrowedFd, Command};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, ioctl};

/// A [`File`] over a kernel descriptor: reads and writes by pread(2) and pwrite(2) on it, all else
/// by the call of the same name.
///
/// What the kernel does at these calls is not done again: it clears set-user-ID, keeps times, and
/// ends writes at `RLIMIT_FSIZE`. Offset and status flags of the descriptor's description are
/// nobody else's.
pub struct DescriptorFile {
    held: Arc<Held>,
    node: Node,
    inode: u64,
    /// Held where the description's own offset counts.
    offset: Mutex<()>,
    /// Nobody is to get the descriptor itself.
    hidden: bool,
    /// [`File::is_backed`].
    backed: bool,
    /// Dropped with the file.
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

/// The descriptor of an open file.
pub(super) enum Held {
    /// The driver's own.
    Kept(KeptFd),
    /// Perhaps the program's.
    Lent(LentFd),
}

impl Held {
    #[inline]
    fn raw(&self) -> i32 {
        match self {
            Self::Kept(kept) => kept.raw(),
            Self::Lent(lent) => lent.raw(),
        }
    }

    /// The descriptor as it is now.
    pub fn fd(&self) -> BorrowedFd<'_> {
        BorrowedFd::number(self.raw())
    }
}

impl DescriptorFile {
    /// The file open in `descriptor`, which `keeper` is to keep: `node`, shown with the number
    /// `inode`. See [`unhindered`] for a description of one's own.
    pub fn new(descriptor: OwnedFd, keeper: Keeper, node: Node, inode: u64) -> Self {
        Self::on(keeper.keep(descriptor), node, inode)
    }

    /// The same of one that is kept, or borrowed, already.
    pub fn on(held: KeptFd, node: Node, inode: u64) -> Self {
        Self::holding(Held::Kept(held), node, inode)
    }

    /// The same of one that becomes the program's own, or is kept later ([`File::is_backed`]).
    pub fn lending(descriptor: OwnedFd, keeper: Keeper, node: Node, inode: u64) -> Self {
        let held = Held::Lent(LentFd::new(descriptor, keeper));
        Self::holding(held, node, inode).backed(true)
    }

    fn holding(held: Held, node: Node, inode: u64) -> Self {
        Self {
            held: Arc::new(held),
            node,
            inode,
            offset: Mutex::new(()),
            hidden: false,
            backed: false,
            _kept: None,
        }
    }

    /// The same, which the front end need not ask about its bytes ([`File::is_backed`]).
    #[must_use]
    pub fn backed(self, backed: bool) -> Self {
        Self { backed, ..self }
    }

    /// The same, offering neither its descriptor nor what lies behind it, as a driver that has
    /// none: every byte by a call.
    #[must_use]
    pub fn hidden(self, hidden: bool) -> Self {
        Self { hidden, ..self }
    }

    /// The same, keeping `value` as long as it lives.
    #[must_use]
    pub fn keeping(self, value: Box<dyn Any + Send + Sync>) -> Self {
        Self {
            _kept: Some(value),
            ..self
        }
    }

    /// What its descriptor is.
    pub(super) const fn held(&self) -> &Arc<Held> {
        &self.held
    }

    #[inline]
    fn raw(&self) -> i32 {
        self.held.raw()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        BorrowedFd::number(self.raw())
    }

    /// pread(2) into all of `buffer`, or up to the end.
    fn read(&self, buffer: &mut [u8], offset: u64, waiting: &dyn Fn() -> bool) -> Result<usize> {
        loop {
            match fs::waiting::pread(self.fd(), buffer, offset) {
                Err(Errno::EINTR) if !waiting() => {}
                answer => return Ok(answer?),
            }
        }
    }

    /// Where the writes of `from` end up when they are made at `offset`, or appended.
    fn write(&self, offset: Option<u64>, from: &mut dyn Source) -> Result<(u64, usize)> {
        let mut start = offset.unwrap_or(0);
        let mut buffer = Buffer::of(from.remaining())?;
        let written = write_through(from, &mut buffer.0, |from, done, bytes| match offset {
            Some(offset) => self.write_bytes(bytes, offset + done, from),
            None => {
                let (at, count) = self.append_bytes(bytes, from)?;
                if done == 0 {
                    start = at;
                }
                Ok(count)
            }
        })?;
        Ok((start, written))
    }

    fn write_bytes(&self, bytes: &[u8], offset: u64, from: &dyn Source) -> Result<usize> {
        loop {
            match fs::waiting::pwrite(self.fd(), bytes, offset) {
                Err(Errno::EINTR) if !from.interrupted() => {}
                answer => return Ok(answer?),
            }
        }
    }

    /// Where the bytes were appended, and how many.
    fn append_bytes(&self, bytes: &[u8], from: &dyn Source) -> Result<(u64, usize)> {
        let _guard = self.offset.lock();
        loop {
            // At the description's offset, which the kernel leaves at the end of what it wrote: so
            // it tells where that was.
            match fs::waiting::append(self.fd(), bytes) {
                Err(Errno::EINTR) if !from.interrupted() => {}
                // Before Linux 4.16.
                Err(Errno::ENOSYS | Errno::EOPNOTSUPP) => {
                    let end = status(self.fd(), None)?.stx_size;
                    return Ok((end, self.write_bytes(bytes, end, from)?));
                }
                answer => {
                    let count = answer?;
                    let end = seek(self.fd(), 0, linux::SEEK_CUR)?;
                    return Ok((end.saturating_sub(count as u64), count));
                }
            }
        }
    }
}

/// `descriptor` with `O_APPEND` and `O_DIRECT` taken off its description, which must be the
/// caller's alone: writes then go where they are told to, from memory that is not aligned.
#[must_use]
pub fn unhindered(descriptor: OwnedFd) -> OwnedFd {
    // Where the kernel refuses (a file that may only be appended to), they stay, and it does with
    // writes what it would for the program.
    let flags = fd::fcntl(&descriptor, Command::GETFL, 0).unwrap_or(0);
    let plain = flags & !((linux::O_APPEND | linux::O_DIRECT) as usize);
    if plain != flags {
        let _ = fd::fcntl(&descriptor, Command::SETFL, plain);
    }
    descriptor
}

impl File for DescriptorFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        if let Some(place) = out.place() {
            let read = self.read(place, offset, &|| false)?;
            out.filled(read);
            return Ok(read);
        }
        let mut buffer = Buffer::of(out.remaining().min(Buffer::USUAL))?;
        read_through(out, &mut buffer.0, |out, done, piece| {
            self.read(piece, offset + done, &|| out.interrupted())
        })
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        if let Some(bytes) = from.rest().filter(|bytes| !bytes.is_empty()) {
            let written = self.write_bytes(bytes, offset, from)?;
            from.used(written);
            return Ok(written);
        }
        Ok(self.write(Some(offset), from)?.1)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.write(None, from)
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        let attributes = attributes(self.node, &status(self.fd(), None)?)?;
        Ok(Attributes {
            inode: self.inode,
            ..attributes
        })
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        change(Target::File(self.fd()), changes)?;
        self.attributes(caller)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        Ok(match data_only {
            true => fs::waiting::fdatasync(self.fd()),
            false => fs::waiting::fsync(self.fd()),
        }?)
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        Ok(fs::waiting::fallocate(self.fd(), mode, offset, length)?)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let whence = match whence {
            Whence::Data => linux::SEEK_DATA,
            Whence::Hole => linux::SEEK_HOLE,
        };
        let _guard = self.offset.lock();
        seek(self.fd(), offset, whence)
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let other = to.as_any().and_then(|to| to.downcast_ref::<Self>());
        let other = other.ok_or(Errno::EXDEV)?;
        let mut done = 0;
        while done < length {
            let (mut source, mut target) = (offset + done, to_offset + done);
            let left = (length - done) as usize;
            let (from, to) = (self.fd(), other.fd());
            match fs::waiting::copy_file_range(from, &mut source, to, &mut target, left) {
                Ok(0) => break,
                Ok(count) => done += count as u64,
                Err(_) if done > 0 => break,
                // Before Linux 4.5, or under a filter that does not know it.
                Err(Errno::ENOSYS | Errno::EPERM) => return Err(Errno::EOPNOTSUPP.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn descriptor(&self) -> Option<i32> {
        (!self.hidden).then(|| self.raw())
    }

    fn is_backed(&self) -> bool {
        self.backed && !self.hidden
    }

    fn lend_descriptor(&self, number: Option<i32>) -> Result<()> {
        match (&*self.held, number) {
            (Held::Lent(lent), Some(number)) => lent.lend(number),
            (Held::Lent(lent), None) => lent.keep()?,
            (Held::Kept(_), _) => {}
        }
        Ok(())
    }

    fn continued_by(&self) -> Option<i32> {
        Some(self.raw())
    }

    /// Closing a descriptor is what makes a network file system tell of writes that failed late;
    /// this closes one. Where the program has the descriptor itself its close does.
    fn flush(&self) -> Result<()> {
        if matches!(&*self.held, Held::Lent(lent) if lent.is_lent()) {
            return Ok(());
        }
        let Ok(other) = duplicate(self.fd()) else {
            return Ok(());
        };
        // A child would have what is not closed yet: it is no call that others fork beside.
        Ok(other.close()?)
    }

    /// tmpfs, ext2 to ext4, XFS, Btrfs and bcachefs have nothing that close(2) calls; of others
    /// nothing is known.
    fn reports_at_close(&self) -> bool {
        const SILENT: [u64; 5] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0xca45_1a4e];
        !fs::fstatfs(self.fd()).is_ok_and(|found| SILENT.contains(&(found.f_type as u64)))
    }

    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        let request = ioctl::OwnSize::new(request).filter(|known| argument.len() >= known.size());
        let request = request.ok_or(Errno::ENOTTY)?;
        Ok(request.call(self.fd(), argument)?)
    }
}

/// Memory between the kernel's file and the program, initialised. Those of the usual size are kept
/// for the next call: fresh pages cost more than the copy.
struct Buffer(Box<[u8]>);

/// How many are kept.
const IDLE: usize = 4;
static BUFFERS: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

impl Buffer {
    /// Half of a usual second-level cache.
    const USUAL: usize = 256 << 10;

    /// For `size` bytes, all of them where there is so much memory.
    fn of(size: usize) -> Result<Self> {
        if size > Self::USUAL
            && let Some(large) = zeroed(size)
        {
            return Ok(Self(large));
        }
        let kept = BUFFERS.lock().pop();
        let usual = kept.or_else(|| zeroed(Self::USUAL));
        Ok(Self(usual.ok_or(Errno::ENOMEM)?))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let buffer = core::mem::take(&mut self.0);
        if buffer.len() != Self::USUAL {
            return;
        }
        let mut kept = BUFFERS.lock();
        if kept.len() < IDLE && kept.try_reserve(IDLE).is_ok() {
            kept.push(buffer);
        }
    }
}

/// `size` bytes, none when there is no memory for them.
fn zeroed(size: usize) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, 0);
    Some(bytes.into_boxed_slice())
}
