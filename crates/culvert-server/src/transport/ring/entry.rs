//! A thread's entry of a queue: memory that the kernel puts a request into and takes its reply
//! from, and the command that goes with it.

use super::uring::Uring;
use crate::{
    buffer::zeroes,
    channel::{Channel, DeviceFuse},
};
use culvert_sys::{PAGE, memory::Mapping};
use culvert_wire::{
    Message, Notification, Plain, Protocol,
    structures::{InHeader, NotifyRetrieveOut, OutHeader},
};
use rustix::io::Errno;
use std::{
    cell::Cell,
    io, ptr, slice,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// `enum fuse_uring_cmd`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// `FUSE_READ`, `FUSE_READDIR`, `FUSE_READDIRPLUS`: their answers are nothing but data, and their
/// requests nothing but structures.
const READ: u32 = 15;
/// `FUSE_OPEN`: of regular files only.
const OPEN: u32 = 14;
const READDIR: u32 = 28;
const READDIRPLUS: u32 = 44;

/// `FUSE_URING_IN_OUT_HEADER_SZ`, `FUSE_URING_OP_IN_OUT_SZ`.
const PART: usize = 128;

/// Memory beyond so many bytes of a payload is given back after a pause.
const KEPT: usize = 16 * PAGE;
/// The pause: no request in so long.
const IDLE: Duration = Duration::from_secs(1);

/// `struct fuse_uring_req_header`.
#[repr(C)]
struct Headers {
    /// `fuse_in_header`, in the reply `fuse_out_header`.
    header: [u8; PART],
    /// The operation's first structure.
    operation: [u8; PART],
    flags: u64,
    /// What the reply has to name.
    commit_id: u64,
    /// Bytes in the payload.
    payload: u32,
    padding: u32,
    reserved: u64,
}

/// Memory of one request: [`Headers`] at the beginning of a page, whose end is kept for what lies
/// in front of the payload; the payload; as much again for answers that are made while the request
/// is still looked at. Pages are used when something is written there.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    /// Bytes of the payload.
    payload: usize,
}

impl Memory {
    fn new(payload: usize) -> io::Result<Self> {
        Ok(Self {
            mapping: zeroes(PAGE + 2 * payload)?,
            payload,
        })
    }

    const fn headers(&self) -> *mut Headers {
        self.mapping.start().cast()
    }

    const fn payload(&self) -> *mut u8 {
        self.mapping.start().wrapping_add(PAGE)
    }

    const fn spare(&self) -> *mut u8 {
        self.payload().wrapping_add(self.payload)
    }

    /// Gives back what large requests and answers have used. What was there is zero then.
    fn give_back(&mut self) {
        for start in [PAGE, PAGE + self.payload] {
            // A refusal leaves everything as it was.
            let _ = self.mapping.discard(start + KEPT..start + self.payload);
        }
    }
}

/// The entry. One for each thread: a request is given to an entry only while its thread waits for
/// one, never to a thread that is held up by another.
#[derive(Debug)]
pub struct Entry {
    /// Dropped before the memory: with it goes what the kernel knows of this.
    uring: Uring,
    memory: Memory,
    device: DeviceFuse,
    queue: u16,
    /// Whether the request in hand was answered.
    answered: Cell<bool>,
    /// Whether more than [`KEPT`] bytes of a payload were used.
    large: Cell<bool>,
    taken: u64,
}

/// A request that was taken.
pub struct Taken<'a> {
    /// Its bytes, as they would come by /dev/fuse.
    pub request: &'a [u8],
    /// Buffer for the data of the answer.
    pub out: &'a mut [u8],
    /// Where the answer goes.
    pub channel: Reply<'a>,
}

impl Taken<'_> {
    /// The regular file that the request opens.
    pub fn opened(&self) -> Option<u64> {
        let header = InHeader::from_prefix(self.request);
        (header.opcode == OPEN).then_some(header.nodeid)
    }
}

impl Entry {
    /// Registers an entry of `payload` bytes with queue `queue` of the connection that `device` is
    /// of. That it was refused shows at [`Entry::next`].
    ///
    /// # Errors
    /// Of io_uring_setup(2) and mmap(2).
    pub fn register(device: DeviceFuse, queue: u16, payload: usize) -> io::Result<Self> {
        let entry = Self {
            uring: Uring::new()?,
            memory: Memory::new(payload)?,
            device,
            queue,
            answered: Cell::new(true),
            large: Cell::new(false),
            taken: 0,
        };
        let buffers = [
            [entry.memory.headers() as usize, size_of::<Headers>()],
            [entry.memory.payload() as usize, payload],
        ];
        let device = entry.device.descriptor();
        // SAFETY: the first command. Both buffers lie in the mapping, and are looked at by the
        // kernel alone while a command is under way. It reads the two addresses at once
        // (`fuse_uring_register`), and that happens here.
        unsafe { entry.uring.command(device, REGISTER, queue, 0, &buffers) };
        // Completed already only if it was refused.
        entry.uring.submit()?;
        Ok(entry)
    }

    /// Has the requests come that have waited in the queue since before this entry was registered.
    ///
    /// An entry that is registered is given the next request that comes, not one that waits; but
    /// with the answer to it, it takes those that wait (`fuse_uring_do_register`,
    /// `fuse_uring_commit_fetch`, fs/fuse/dev_uring.c, Linux 6.18). So the kernel is asked for a
    /// request: nothing of what it has cached of `file`, a regular file. The request goes to the
    /// queue of the processor that this runs on. Where the kernel does not know the file any more,
    /// those that wait go on waiting until another request is answered.
    ///
    /// # Errors
    /// The kernel does not take the notification.
    pub fn call_those_that_wait(&self, file: u64, protocol: &Protocol) -> io::Result<()> {
        /// The number of such a request is the server's to choose. The kernel counts its own from
        /// 0.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 62);
        let retrieve = NotifyRetrieveOut {
            notify_unique: NEXT.fetch_add(2, Relaxed),
            nodeid: file,
            ..NotifyRetrieveOut::default()
        };
        let notification = Notification::Retrieve { retrieve }.encode(protocol);
        let notification = notification.map_err(|_| io::ErrorKind::InvalidData)?;
        self.device.notify(&notification).map(|_| ())
    }

    /// Waits for a request; none: the connection has ended.
    ///
    /// # Errors
    /// The kernel refuses the entry, or gives something that is no request.
    pub fn next(&mut self) -> io::Result<Option<Taken<'_>>> {
        if self.taken != 0 && !self.answered.get() {
            // One that wants no answer; its entry wants one.
            self.commit(&OutHeader::default(), 0);
        }
        if self.large.get() {
            if let Some(result) = self.uring.wait_for(IDLE)? {
                return self.take(result);
            }
            // The kernel reads and writes it only while this thread waits.
            self.memory.give_back();
            self.large.set(false);
        }
        let result = self.uring.wait()?;
        self.take(result)
    }

    fn take(&mut self, result: i32) -> io::Result<Option<Taken<'_>>> {
        if result < 0 {
            return match Errno::from_raw_os_error(-result) {
                Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED => Ok(None),
                error => Err(error.into()),
            };
        }
        // SAFETY: the command is completed: until the next one the memory is this thread's alone,
        // and all of it has been mapped.
        let headers = unsafe { &*self.memory.headers() };
        let header = InHeader::from_prefix(&headers.header);
        let payload = headers.payload as usize;
        let length = header.len as usize;
        let front = length.checked_sub(payload).filter(|front| {
            payload <= self.memory.payload && (size_of::<InHeader>()..=PAGE / 4).contains(front)
        });
        let operation = front.and_then(|front| {
            let structure = front - size_of::<InHeader>();
            headers.operation.get(..structure)
        });
        let (Some(front), Some(operation)) = (front, operation) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.taken = headers.commit_id;
        self.answered.set(false);
        self.use_bytes(payload);
        let only_data = matches!(header.opcode, READ | READDIR | READDIRPLUS) && payload == 0;
        let out = match only_data {
            true => self.memory.payload(),
            false => self.memory.spare(),
        };
        // SAFETY: header and structure are put together in front of the payload, behind `Headers`:
        // the whole request is then one piece of the mapping. `out` is another one: the spare half,
        // or the payload where the request has none.
        let (request, out) = unsafe {
            let start = self.memory.payload().sub(front);
            let header = headers.header.as_ptr();
            ptr::copy_nonoverlapping(header, start, size_of::<InHeader>());
            let structure = start.add(size_of::<InHeader>());
            ptr::copy_nonoverlapping(operation.as_ptr(), structure, operation.len());
            (
                slice::from_raw_parts(start, length),
                slice::from_raw_parts_mut(out, self.memory.payload),
            )
        };
        Ok(Some(Taken {
            request,
            out,
            channel: Reply(self),
        }))
    }

    /// Notes that a payload has, or had, so many bytes.
    fn use_bytes(&self, count: usize) {
        if count > KEPT {
            self.large.set(true);
        }
    }

    /// Gives the entry back, with a reply whose `length` bytes are in the payload.
    fn commit(&self, header: &OutHeader, length: usize) {
        let (headers, device) = (self.memory.headers(), self.device.descriptor());
        // SAFETY: the memory is this thread's until the command is under way; no reference to the
        // headers is kept. The request was taken, so the command before is completed; this one
        // names no memory.
        unsafe {
            let place = (&raw mut (*headers).header).cast::<OutHeader>();
            place.write_unaligned(*header);
            (*headers).payload = length as u32;
            let uring = &self.uring;
            uring.command(device, COMMIT_AND_FETCH, self.queue, self.taken, &[]);
        }
        self.answered.set(true);
    }
}

/// Where the answer to a request goes. It is given to the kernel when the thread asks for the next
/// request, in one system call.
#[derive(Debug)]
pub struct Reply<'a>(&'a Entry);

impl Channel for Reply<'_> {
    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let header = OutHeader::from_prefix(message.head());
        let Self(entry) = self;
        // Notifications have no way through the ring.
        if header.unique == 0 {
            return entry.device.send(message);
        }
        if entry.answered.get() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let body = message.head().get(size_of::<OutHeader>()..);
        let parts = std::iter::once(body.unwrap_or_default());
        let parts = parts.chain(message.pieces().iter().copied());
        let mut length = 0;
        for part in parts {
            if part.len() > entry.memory.payload - length {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // SAFETY: within the payload. A part that lies in it is the whole answer, and lies
            // where it has to (see `Entry::take`); the request has been read.
            unsafe {
                let place = entry.memory.payload().add(length);
                if !ptr::eq(place, part.as_ptr()) {
                    ptr::copy(part.as_ptr(), place, part.len());
                }
            }
            length += part.len();
        }
        entry.use_bytes(length);
        entry.commit(&header, length);
        Ok(())
    }

    fn register_backing(&self, file: culvert_sys::BorrowedFd<'_>) -> io::Result<i32> {
        self.0.device.register_backing(file)
    }

    fn release_backing(&self, number: i32) {
        self.0.device.release_backing(number);
    }
}
