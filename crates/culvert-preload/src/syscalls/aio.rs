//! io_submit(2) on files that a driver serves.
//!
//! Only the kernel can put an event into a context's ring, so it gets something to do that ends as
//! the operation did: the operation is done first, by the driver, as pread(2) or its kin would do
//! it (as it is natively for a file in the page cache: before io_submit returns), and then the
//! program's own control block is submitted as a write of as many bytes to `/dev/null`, of which
//! only the count matters (`write_iter_null`, drivers/char/mem.c). Event, eventfd and order are the
//! kernel's.

use super::{file, io, unbuffered};
use crate::answer::{Answer, FORWARD, RESTART};
use crate::process::Process;
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_run::{files::dup_high, memory, stat_descriptor};
use culvert_sys::raw::general::{__NR_pread64, __NR_preadv2, __NR_pwrite64, __NR_pwritev2, O_RDWR};
use culvert_sys::{OwnedFd, nr, syscall};

const PREAD: u32 = 0;
const PWRITE: u32 = 1;
const FSYNC: u32 = 2;
const FDSYNC: u32 = 3;
const PREADV: u32 = 7;
const PWRITEV: u32 = 8;
/// The operation's bits beside the priority's.
const OPERATION: u32 = 0xffff;
const RESFD: u32 = 1;
/// Where no memory is, and none is looked for.
const NOWHERE: u64 = 4096;

/// `struct iocb` (linux/aio_abi.h), without `aio_key`, which is the kernel's.
#[derive(Clone, Copy)]
#[repr(C)]
struct Block {
    data: u64,
    key: u32,
    rw_flags: u32,
    operation: u32,
    fd: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

impl Block {
    fn read(at: usize) -> Result<Self, Errno> {
        Ok(Self {
            data: memory::get(at)?,
            key: 0,
            rw_flags: memory::get(at + 12)?,
            operation: memory::get(at + 16)?,
            fd: memory::get(at + 20)?,
            buffer: memory::get(at + 24)?,
            length: memory::get(at + 32)?,
            offset: memory::get(at + 40)?,
            reserved: memory::get(at + 48)?,
            flags: memory::get(at + 56)?,
            eventfd: memory::get(at + 60)?,
        })
    }

    /// What says what is to be done, into the program's block.
    fn write(&self, at: usize) -> Result<(), Errno> {
        memory::put(at + 12, self.rw_flags)?;
        memory::put(at + 16, self.operation)?;
        memory::put(at + 20, self.fd)?;
        memory::put(at + 24, self.buffer)?;
        memory::put(at + 32, self.length)?;
        memory::put(at + 40, self.offset)
    }

    /// Submits a copy that cannot succeed: its error is the first that the kernel finds.
    fn probe(self, context: usize) -> Errno {
        let pointer = &raw const self;
        let list = (&raw const pointer) as usize;
        // SAFETY: block and list outlive the call, and the kernel begins nothing.
        unsafe { syscall::call(nr::IO_SUBMIT, [context, 1, list]) }
            .err()
            .unwrap_or(Errno::EINVAL)
    }

    /// The errors that io_submit has before it begins anything (`io_submit_one`, `__io_submit_one`,
    /// fs/aio.c): a full context must be known before bytes are appended.
    fn check(&self, context: usize) -> Result<(), Errno> {
        let nobody = Self {
            fd: u32::MAX,
            ..*self
        };
        match nobody.probe(context) {
            Errno::EBADF => {}
            errno => return Err(errno),
        }
        if self.flags & RESFD != 0 {
            let null = device(c"/dev/null", 3)?;
            let nothing = Self {
                fd: null.raw() as u32,
                operation: self.operation | OPERATION,
                ..*self
            };
            match nothing.probe(context) {
                Errno::EINVAL => {}
                errno => return Err(errno),
            }
        }
        Ok(())
    }

    /// Does what the block asks for, as the ordinary call would.
    fn perform(&self, process: &Process) -> Answer {
        let (fd, buffer) = (self.fd as usize, self.buffer as usize);
        let (length, offset) = (self.length as usize, self.offset as usize);
        let operation = self.operation & OPERATION;
        let nothing_else = buffer == 0 && length == 0 && offset == 0 && self.rw_flags == 0;
        let flags = self.rw_flags as usize;
        let (number, handler): (_, fn(&Process, &mut Call) -> Answer) = match operation {
            // Only the vectored calls have flags.
            PREAD | PWRITE if flags != 0 => return Err(Errno::EOPNOTSUPP),
            // `aio_prep_rw`; preadv2 would take -1 for the description's own offset.
            PREADV | PWRITEV if self.offset < 0 => return Err(Errno::EINVAL),
            PREAD => (nr::PREAD64, io::read::<__NR_pread64>),
            PWRITE => (nr::PWRITE64, io::write::<__NR_pwrite64>),
            PREADV => (nr::PREADV2, io::read::<__NR_preadv2>),
            PWRITEV => (nr::PWRITEV2, io::write::<__NR_pwritev2>),
            FSYNC if nothing_else => (nr::FSYNC, file::sync),
            FDSYNC if nothing_else => (nr::FDATASYNC, file::sync),
            _ => return Err(Errno::EINVAL),
        };
        let mut call = Call {
            number,
            args: match operation {
                FSYNC | FDSYNC => [fd, 0, 0, 0, 0, 0],
                _ => [fd, buffer, length, offset, 0, flags],
            },
        };
        handler(process, &mut call)
    }

    /// Whether it reads round the page cache into a mapped file.
    fn reads_unbuffered(&self) -> bool {
        let number = match self.operation & OPERATION {
            PREAD => nr::PREAD64,
            PREADV => nr::PREADV2,
            _ => return false,
        };
        let (fd, buffer, length) = (self.fd as usize, self.buffer as usize, self.length as usize);
        unbuffered::concerns(&Call {
            number,
            args: [fd, buffer, length, 0, 0, 0],
        })
    }

    /// The block that ends as the operation did, and what it is done on: none for an error that
    /// nothing can be made to end with.
    fn ending(&self, result: Answer) -> Option<(Self, OwnedFd)> {
        let (path, minor) = match result {
            Ok(_) => (c"/dev/null", 3),
            Err(Errno::ENOSPC) => (c"/dev/full", 7),
            Err(Errno::EFAULT) => (c"/dev/zero", 5),
            Err(_) => return None,
        };
        let on = device(path, minor).ok()?;
        let priority = self.operation & !OPERATION;
        let mut block = Self {
            rw_flags: 0,
            operation: priority | PWRITE,
            fd: on.raw() as u32,
            buffer: NOWHERE,
            length: result.unwrap_or(1) as u64,
            offset: 0,
            ..*self
        };
        // Zeroes cannot be put where nothing could be put or taken.
        if result == Err(Errno::EFAULT) {
            block.operation = priority | PREAD;
            block.buffer = 0;
        }
        Some((block, on))
    }
}

/// A device of memory's (major number 1), at a number of our own.
fn device(path: &CStr, minor: u64) -> Result<OwnedFd, Errno> {
    let opened = culvert_run::files::open(path, O_RDWR, 0)?;
    let found = stat_descriptor(opened.raw())?;
    if found.st_mode & 0o170000 != 0o020000 || found.st_rdev != 0x100 | minor {
        return Err(Errno::EINVAL);
    }
    dup_high(opened.raw(), true).map(OwnedFd::from_raw)
}

/// One control block of ours, at `entry` of the program's list.
fn submit(process: &Process, call: &Call, entry: usize) -> Answer {
    let at = memory::get::<usize>(entry)?;
    let block = Block::read(at)?;
    block.check(call.args[0])?;
    // `aio_key`, which the kernel sets as well: a block that cannot be written is EFAULT.
    memory::put(at + 8, 0u32)?;
    // Without them nothing must have been done.
    drop(device(c"/dev/null", 3)?);
    let result = match block.perform(process) {
        Err(RESTART | FORWARD) => return Err(RESTART),
        result => result,
    };
    let Some((ending, _on)) = block.ending(result) else {
        return result;
    };
    // The block now writes nothing to nowhere.
    let answer = ending.write(at).and_then(|()| submit_one(call, entry));
    // Who has the event already may have made another request of the block.
    if memory::get(at + 20) == Ok(ending.fd) {
        let _ = block.write(at);
    }
    answer
}

/// The program's call, for one of its blocks.
fn submit_one(call: &Call, entry: usize) -> Answer {
    call.replacing().word(1, 1).word(2, entry).execute()
}

/// Whether the entry names a file that a driver serves, or asks for a read that is not left to the
/// kernel ([`unbuffered`]).
fn is_ours(process: &Process, entry: usize) -> bool {
    let Ok(at) = memory::get::<usize>(entry) else {
        return false;
    };
    let fd = memory::get::<u32>(at.wrapping_add(20));
    let driven =
        fd.is_ok_and(|fd| super::arguments::kernel_has_not(process, fd as usize).is_some());
    let may_be_mapped = culvert_cache::nodes::any();
    driven || may_be_mapped && Block::read(at).is_ok_and(|block| block.reads_unbuffered())
}

/// io_submit(2)
pub fn io_submit(process: &Process, call: &mut Call) -> Answer {
    /// A context holds no more.
    const MOST: usize = 1 << 16;
    let [_, count, list, ..] = call.args;
    let entry = |i: usize| list.wrapping_add(i * 8);
    if count as isize <= 0 || !(0..count.min(MOST)).any(|i| is_ours(process, entry(i))) {
        return Err(FORWARD);
    }
    if culvert_run::task::is_confined() {
        culvert_sys::log!("io_submit on a file on a mount is refused under a seccomp filter");
        return Err(Errno::EINVAL);
    }
    for i in 0..count.min(MOST) {
        let submitted = match is_ours(process, entry(i)) {
            true => submit(process, call, entry(i)),
            false => submit_one(call, entry(i)),
        };
        match submitted {
            Ok(1) => {}
            other if i == 0 => return other,
            _ => return Ok(i),
        }
    }
    Ok(count.min(MOST))
}
