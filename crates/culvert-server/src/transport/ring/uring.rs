//! An io_uring with one command at a time, for one thread.
//!
//! rustix has the system calls and structures. The rings' memory is handled here, which for one
//! command is little; the crate `io-uring` cannot build FUSE's commands (0.7.15: they need `len`,
//! which its `UringCmd80` does not set).

use rustix::{
    io::Errno,
    io_uring::{
        IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringFeatureFlags, IoringOp,
        IoringSetupFlags, Timespec, io_uring_cqe, io_uring_enter, io_uring_enter_arg,
        io_uring_getevents_arg, io_uring_params, io_uring_setup, io_uring_sqe, off_or_addr2_union,
    },
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    ffi::c_void,
    io::{self, IoSlice},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

/// `struct io_uring_sqe` with `IORING_SETUP_SQE128`: the command's own 80 bytes begin at the last
/// 16 of the first half.
#[repr(C)]
struct Entry {
    first: io_uring_sqe,
    second: [u64; 8],
}

/// `struct fuse_uring_cmd_req` (include/uapi/linux/fuse.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Command {
    pub flags: u64,
    /// The request that is answered.
    pub commit_id: u64,
    /// The queue's number.
    pub queue: u16,
    pub padding: [u8; 6],
}

/// A mapping of the ring's.
#[derive(Debug)]
struct Shared {
    place: *mut c_void,
    length: usize,
}

impl Shared {
    fn new(ring: &OwnedFd, length: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping.
        let place = unsafe { mmap(ptr::null_mut(), length, protection, flags, ring, offset)? };
        Ok(Self { place, length })
    }

    /// The word at `offset`, as the kernel has given it.
    const fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: io_uring_setup(2) tells where its words are; all access to them is atomic.
        unsafe { &*self.place.byte_add(offset as usize).cast() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.place, self.length) };
    }
}

/// The ring. The thread that made it is the one that uses it (`IORING_SETUP_SINGLE_ISSUER`): a
/// mapping's pointer keeps it from being sent.
#[derive(Debug)]
pub struct Uring {
    rings: Shared,
    entries: Shared,
    parameters: io_uring_params,
    ring: OwnedFd,
}

impl Uring {
    /// A ring of this thread's.
    ///
    /// What the kernel has to do for it (copy a request into its memory) is done while it waits,
    /// and only then (`IORING_SETUP_DEFER_TASKRUN`): system calls of a driver are not interrupted
    /// by it.
    ///
    /// # Errors
    /// `EPERM`: not allowed (`sysctl kernel.io_uring_disabled`, a seccomp filter); `ENOSYS`;
    /// `EINVAL`: older than Linux 6.6; no memory.
    pub fn new() -> io::Result<Self> {
        let mut parameters = io_uring_params::default();
        parameters.flags = IoringSetupFlags::SQE128
            | IoringSetupFlags::SINGLE_ISSUER
            | IoringSetupFlags::DEFER_TASKRUN
            | IoringSetupFlags::NO_SQARRAY;
        // SAFETY: no memory of ours is named.
        let ring = unsafe { io_uring_setup(1, &mut parameters)? };
        if !parameters
            .features
            .contains(IoringFeatureFlags::SINGLE_MMAP)
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let completions = parameters.cq_entries as usize * size_of::<io_uring_cqe>();
        let length = parameters.cq_off.cqes as usize + completions;
        let rings = Shared::new(&ring, length, IORING_OFF_SQ_RING)?;
        let length = parameters.sq_entries as usize * size_of::<Entry>();
        let entries = Shared::new(&ring, length, IORING_OFF_SQES)?;
        Ok(Self {
            rings,
            entries,
            parameters,
            ring,
        })
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// Of fcntl(2).
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.ring.try_clone()
    }

    /// Queues a command to `device`, which goes to the kernel with the next wait. `buffers` are its
    /// memory, where it is to know it.
    ///
    /// # Safety
    /// The earlier command has been completed. `buffers`, and what they refer to, live until this
    /// one is.
    pub unsafe fn command(
        &self,
        device: BorrowedFd<'_>,
        operation: u32,
        command: Command,
        buffers: &[IoSlice<'_>],
    ) {
        let offsets = &self.parameters.sq_off;
        let tail = self.rings.word(offsets.tail);
        let number = tail.load(Relaxed);
        let at = number & self.rings.word(offsets.ring_mask).load(Relaxed);
        let mut entry = Entry {
            first: io_uring_sqe::default(),
            second: [0; 8],
        };
        entry.first.opcode = IoringOp::UringCmd;
        entry.first.fd = device.as_raw_fd();
        // `cmd_op` are the first four of these bytes.
        let mut words = [0; 8];
        words[..4].copy_from_slice(&operation.to_ne_bytes());
        entry.first.off_or_addr2 = off_or_addr2_union {
            off: u64::from_ne_bytes(words),
        };
        if !buffers.is_empty() {
            let place = buffers.as_ptr().cast::<c_void>().cast_mut();
            entry.first.addr_or_splice_off_in.addr = place.into();
            entry.first.len.len = buffers.len() as u32;
        }
        // SAFETY: the place is one of the entries, and the kernel looks at it only when the tail
        // says so. A command lies at the end of the first half and goes on in the second.
        unsafe {
            let place = self.entries.place.cast::<Entry>().add(at as usize);
            place.write(entry);
            (&raw mut (*place).first.addr3_or_cmd)
                .cast::<Command>()
                .write(command);
        }
        tail.store(number.wrapping_add(1), Release);
    }

    /// As [`Uring::wait`], but for at most about so long; none: it is not completed yet.
    ///
    /// # Errors
    /// Of io_uring_enter(2).
    pub fn wait_for(&self, longest: Duration) -> io::Result<Option<i32>> {
        let end = Instant::now() + longest;
        loop {
            if let Some(result) = self.completed() {
                return Ok(Some(result));
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(None);
            }
            let rest = Timespec {
                tv_sec: rest.as_secs() as i64,
                tv_nsec: rest.subsec_nanos().into(),
            };
            let argument = io_uring_getevents_arg {
                ts: (&raw const rest).cast_mut().cast::<c_void>().into(),
                ..io_uring_getevents_arg::default()
            };
            self.enter_with(1, Some(&argument))?;
        }
    }

    /// What the command in hand was completed with, when it is: 0, or a negated errno.
    ///
    /// # Errors
    /// Of io_uring_enter(2).
    pub fn wait(&self) -> io::Result<i32> {
        loop {
            if let Some(result) = self.completed() {
                return Ok(result);
            }
            self.enter(1)?;
        }
    }

    /// Gives the kernel what is queued, without waiting for what comes of it.
    ///
    /// # Errors
    /// Of io_uring_enter(2).
    pub fn submit(&self) -> io::Result<()> {
        self.enter(0)
    }

    fn enter(&self, least: u32) -> io::Result<()> {
        self.enter_with(least, None)
    }

    fn enter_with(&self, least: u32, argument: Option<&io_uring_getevents_arg>) -> io::Result<()> {
        let offsets = &self.parameters.sq_off;
        let tail = self.rings.word(offsets.tail).load(Relaxed);
        let queued = tail.wrapping_sub(self.rings.word(offsets.head).load(Acquire));
        let flags = IoringEnterFlags::GETEVENTS;
        let limited = flags | IoringEnterFlags::EXT_ARG;
        // SAFETY: the commands' memory lives long enough, see `Uring::command`; the argument, and
        // the time that it refers to, outlive the call.
        let done = unsafe {
            match argument {
                None => io_uring_enter(&self.ring, queued, least, flags),
                Some(_) => io_uring_enter_arg(&self.ring, queued, least, limited, argument),
            }
        };
        match done {
            Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::TIME) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn completed(&self) -> Option<i32> {
        let offsets = &self.parameters.cq_off;
        let head = self.rings.word(offsets.head);
        let number = head.load(Relaxed);
        if number == self.rings.word(offsets.tail).load(Acquire) {
            return None;
        }
        let at = number & self.rings.word(offsets.ring_mask).load(Relaxed);
        // SAFETY: between head and tail there are completions; this one is the kernel's again when
        // the head has passed it.
        let result = unsafe {
            let first = self.rings.place.byte_add(offsets.cqes as usize);
            (*first.cast::<io_uring_cqe>().add(at as usize)).res
        };
        head.store(number.wrapping_add(1), Release);
        Some(result)
    }
}
