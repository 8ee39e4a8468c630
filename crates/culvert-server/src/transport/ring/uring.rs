//! An io_uring with one command at a time, for one thread.

use io_uring::{
    IoUring,
    opcode::UringCmd80,
    squeue::Entry128,
    types::{Fd, SubmitArgs, Timespec},
};
use rustix::io::Errno;
use std::{
    fmt, io,
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd},
    time::{Duration, Instant},
};

/// The ring. The thread that made it is the one that uses it (`IORING_SETUP_SINGLE_ISSUER`).
pub struct Uring {
    ring: IoUring<Entry128>,
    of_thread: PhantomData<*const ()>,
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uring({})", self.ring.as_raw_fd())
    }
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
        let mut wanted = IoUring::builder();
        wanted
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_no_sqarray();
        Ok(Self {
            ring: wanted.build(1)?,
            of_thread: PhantomData,
        })
    }

    /// Queues a command to `device` about its queue `queue`, which goes to the kernel with the next
    /// wait. It answers the request `commit_id`, if it answers one. `buffers`, addresses and
    /// lengths, are its memory, where it is to know it.
    ///
    /// # Safety
    /// The earlier command has been completed. What `buffers` refer to lives until this one is;
    /// they themselves until it has gone to the kernel.
    pub unsafe fn command(
        &self,
        device: BorrowedFd<'_>,
        operation: u32,
        queue: u16,
        commit_id: u64,
        buffers: &[[usize; 2]],
    ) {
        // `struct fuse_uring_cmd_req` (include/uapi/linux/fuse.h): flags, request, queue.
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        command[16..18].copy_from_slice(&queue.to_ne_bytes());
        let command = UringCmd80::new(Fd(device.as_raw_fd()), operation).cmd(command);
        let memory = (!buffers.is_empty()).then_some(buffers.as_ptr() as u64);
        let mut entry = command.addr(memory).build();
        // SAFETY: an entry is the kernel's `struct io_uring_sqe`, which has `len`, that UringCmd80
        // leaves out, at this place. The queue has room, since the earlier command is completed,
        // and this thread alone uses it. Memory is the caller's promise.
        unsafe {
            const LENGTH: usize = 24;
            let length = (&raw mut entry).byte_add(LENGTH).cast::<u32>();
            length.write(buffers.len() as u32);
            let queued = self.ring.submission_shared().push(&entry);
            // An answer that went nowhere would leave its caller waiting for ever.
            assert!(queued.is_ok(), "the queue of io_uring is full");
        }
    }

    /// As [`Uring::wait`], but for at most about so long; none: it is not completed yet.
    ///
    /// # Errors
    /// Of io_uring_enter(2).
    pub fn wait_for(&mut self, longest: Duration) -> io::Result<Option<i32>> {
        let end = Instant::now() + longest;
        loop {
            if let Some(result) = self.completed() {
                return Ok(Some(result));
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(None);
            }
            let time = Timespec::from(rest);
            let limit = SubmitArgs::new().timespec(&time);
            entered(self.ring.submitter().submit_with_args(1, &limit))?;
        }
    }

    /// What the command in hand was completed with, when it is: 0, or a negated errno.
    ///
    /// # Errors
    /// Of io_uring_enter(2).
    pub fn wait(&mut self) -> io::Result<i32> {
        loop {
            if let Some(result) = self.completed() {
                return Ok(result);
            }
            entered(self.ring.submit_and_wait(1))?;
        }
    }

    /// Gives the kernel the one command that is queued, without waiting for what comes of it. The
    /// kernel has read the command's memory, or has not taken it.
    ///
    /// # Errors
    /// Of io_uring_enter(2); `EAGAIN`: the kernel has not taken it.
    pub fn submit(&self) -> io::Result<()> {
        match self.ring.submit()? {
            1 => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn completed(&mut self) -> Option<i32> {
        let completion = self.ring.completion().next();
        completion.map(|completion| completion.result())
    }
}

/// What io_uring_enter(2) has answered; to be interrupted, or not to wait any longer, is no error.
fn entered(answer: io::Result<usize>) -> io::Result<()> {
    match answer {
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INTR | Errno::AGAIN | Errno::TIME) => Ok(()),
            _ => Err(error),
        },
        Ok(_) => Ok(()),
    }
}
