//! The memory that kernel and program share for a ring (io_uring(7),
//! include/uapi/linux/io_uring.h), as the hook sees it.

use super::entry::{Entry, UNUSED};
use super::{SETUP_CQE32, SETUP_NO_SQARRAY, SETUP_SQE128};
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicU8, AtomicU32};
use culvert::Errno;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::{BorrowedFd, PAGE};

/// `IORING_OFF_SQES`: where the requests are mapped.
pub const REQUESTS: usize = 0x1000_0000;

/// `struct io_uring_params`.
#[derive(Clone, Copy, Default)]
pub struct Parameters(pub [u32; 30]);

impl Parameters {
    pub fn flags(&self) -> u32 {
        self.0[2]
    }

    pub fn features(&self) -> u32 {
        self.0[5]
    }
}

const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);

/// A ring's memory from `offset` on. It keeps the ring alive, as the program's own mappings do.
fn of_ring(fd: i32, length: usize, offset: u64) -> Result<Mapping, Errno> {
    let of = Of::Shared(BorrowedFd::number(fd), offset);
    // The kernel chooses where it is, or maps nothing (`io_uring_get_unmapped_area`,
    // io_uring/memmap.c).
    Mapping::near(0, of, length.next_multiple_of(PAGE), READ_WRITE)
}

/// The queue's words, which the program writes too, and the requests that the kernel reads, which
/// only the hook writes.
pub struct RingMemory {
    queue: Mapping,
    requests: Mapping,
    /// What the program has as the requests. It is mapped here too, for the program may unmap its
    /// own.
    originals: Mapping,
    head: usize,
    tail: usize,
    array: Option<usize>,
    /// A power of two.
    pub entries: u32,
    stride: usize,
}

impl RingMemory {
    /// Of mmap(2).
    pub fn map(fd: i32, parameters: &Parameters) -> Result<Self, Errno> {
        let [entries, completions, flags, ..] = parameters.0;
        // `struct io_sqring_offsets` begins at the tenth number: head, tail, mask, entries, flags,
        // dropped, array; `struct io_cqring_offsets` at the twentieth, its sixth is where
        // completions are.
        let at = |number: usize| parameters.0[number] as usize;
        let (head, tail, array, first) = (at(10), at(11), at(16), at(25));
        let stride = match flags & SETUP_SQE128 {
            0 => 64,
            _ => 128,
        };
        let completion = match flags & SETUP_CQE32 {
            0 => 16,
            _ => 32,
        };
        let has_array = flags & SETUP_NO_SQARRAY == 0;
        let end_of_array = if has_array {
            array + 4 * entries as usize
        } else {
            0
        };
        let completions = first + completion * completions as usize;
        let requests = (entries as usize * stride).next_multiple_of(PAGE);
        let memory = Self {
            queue: of_ring(fd, end_of_array.max(completions), 0)?,
            requests: of_ring(fd, requests, REQUESTS as u64)?,
            originals: Mapping::new(Of::SharedNothing, requests, READ_WRITE)?,
            head,
            tail,
            array: has_array.then_some(array),
            entries,
            stride,
        };
        for index in 0..entries {
            memory.operation(index).store(UNUSED, Relaxed);
        }
        Ok(memory)
    }

    /// The bytes of all requests.
    pub fn length(&self) -> usize {
        self.entries as usize * self.stride
    }

    /// Where the program's requests are, in shared memory.
    pub fn originals(&self) -> usize {
        self.originals.address()
    }

    fn offset(&self, index: u32) -> usize {
        (index % self.entries) as usize * self.stride
    }

    /// A copy of the program's request `index`, with its second half where it has one
    /// (`IORING_SETUP_SQE128`).
    pub fn original(&self, index: u32) -> (Entry, [u8; 64]) {
        let at = self.originals.address() + self.offset(index);
        // SAFETY: within the mapping; the program may be writing there, and any bytes are a
        // request.
        unsafe {
            let first = core::ptr::read_volatile(at as *const Entry);
            match self.stride {
                128 => (
                    first,
                    core::ptr::read_volatile((at + 64) as *const [u8; 64]),
                ),
                _ => (first, [0; 64]),
            }
        }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= self.queue.len());
        // SAFETY: within the mapping by the kernel's own offsets, and aligned; whoever else touches
        // it does so as an atomic, or is the program, which can only spoil its own numbers.
        unsafe { &*((self.queue.address() + offset) as *const AtomicU32) }
    }

    fn operation(&self, index: u32) -> &AtomicU8 {
        let at = self.requests.address() + self.offset(index);
        // SAFETY: within the mapping, which lives as long as this.
        unsafe { &*(at as *const AtomicU8) }
    }

    /// The positions that the kernel takes next, and how many there are.
    pub fn queued(&self) -> (u32, u32) {
        let head = self.word(self.head).load(Acquire);
        let count = self.word(self.tail).load(Acquire).wrapping_sub(head);
        (head, count.min(self.entries))
    }

    /// Which request stands at `position` in the queue. The kernel drops one that does not exist.
    pub fn index(&self, position: u32) -> u32 {
        let at = position & (self.entries - 1);
        match self.array {
            Some(array) => self.word(array + 4 * at as usize).load(Relaxed),
            None => at,
        }
    }

    /// Whether the kernel's request `index` says nothing.
    pub fn is_unused(&self, index: u32) -> bool {
        self.operation(index).load(Relaxed) == UNUSED
    }

    /// Lets the kernel's request `index` say this. `second`: the half that only the program writes,
    /// of `IORING_SETUP_SQE128`.
    pub fn fill(&self, index: u32, entry: &Entry, second: &[u8; 64]) {
        let at = self.requests.address() + self.offset(index);
        // SAFETY: within the mapping, which only the holder of the ring's lock writes; the kernel
        // reads it in calls that he makes.
        unsafe {
            core::ptr::write_volatile(at as *mut Entry, *entry);
            if self.stride == 128 {
                core::ptr::write_volatile((at + 64) as *mut [u8; 64], *second);
            }
        }
    }

    /// Takes back what the kernel's request `index` says.
    pub fn clear(&self, index: u32) {
        self.operation(index).store(UNUSED, Release);
    }
}
