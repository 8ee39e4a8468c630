//! What a client of a FUSE server needs of the way to it.

use crate::held::Held;
use alloc::boxed::Box;
use core::{marker::PhantomData, sync::atomic::AtomicU64};
use culvert_sys::{OwnedFd, errno::Errno};

/// For whom a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user. The server's side believes the owner of the area, not this.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its process.
    pub pid: u32,
    /// What the request says besides.
    pub extension: Extension,
}

/// What a request that makes a file says besides, where INIT has agreed on it
/// (`struct fuse_ext_header`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The directory's group, of which its maker is one though not first
    /// (`FUSE_CREATE_SUPP_GROUP`). The server's side believes it where the server is in that group.
    pub group: Option<u32>,
    /// A list of security labels follows (`FUSE_SECURITY_CTX`). It is empty, as the kernel's is
    /// where no security module has a label for the file.
    pub labels: bool,
}

/// The body of a message, in memory that other processes write to: each byte is read once, by a
/// copy, and checked in the copy.
pub struct Payload<'a> {
    start: *mut u8,
    length: usize,
    of: PhantomData<&'a ()>,
}

impl Payload<'_> {
    /// The `length` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// They are mapped for reading and writing while this lives, and no Rust reference to them
    /// exists.
    pub const unsafe fn new(start: *mut u8, length: usize) -> Self {
        Self {
            start,
            length,
            of: PhantomData,
        }
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its first byte, for copies to and from a program's memory, which may fault.
    #[must_use]
    pub const fn start(&self) -> *mut u8 {
        self.start
    }

    /// Copies the bytes from `offset` on into `into`; how many there were for it.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let count = into.len().min(self.length.saturating_sub(offset));
        if count > 0 {
            // SAFETY: the range lies within the payload (new).
            unsafe {
                self.start
                    .add(offset)
                    .copy_to_nonoverlapping(into.as_mut_ptr(), count)
            };
        }
        count
    }

    /// Copies `bytes` to `offset`; how many had room.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.length.saturating_sub(offset));
        if count > 0 {
            // SAFETY: the range lies within the payload (new).
            unsafe {
                self.start
                    .add(offset)
                    .copy_from_nonoverlapping(bytes.as_ptr(), count)
            };
        }
        count
    }
}

/// A file that is open at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its node.
    pub node: u64,
    /// Its handle.
    pub handle: u64,
    /// How open(2) was asked for it.
    pub flags: u32,
    /// It is a directory.
    pub is_directory: bool,
}

/// The handle that the body of RELEASE names.
pub(crate) fn handle_of(body: &Payload<'_>) -> u64 {
    let mut bytes = [0; 8];
    body.read(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// A request whose reply is wanted later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Where the channel has it.
    pub index: u32,
    /// Which of those that were there.
    pub word: u32,
    /// Who has begun it.
    pub own: u64,
}

/// Puts a request's body, or takes a reply's.
pub type Body<'a> = &'a mut dyn FnMut(&Payload<'_>) -> Result<(), Errno>;

/// The way to a FUSE server whose INIT has been answered.
pub trait Channel: Send + Sync {
    /// The most bytes that the body of a request or a reply may have.
    fn largest(&self) -> usize;

    /// Whether the server seems to run on another processor than the calling thread: what is large
    /// goes past the caches then ([`culvert_sys::SharedMut::for_another`]).
    fn is_apart(&self) -> bool {
        true
    }

    /// Sends request `opcode` on `node` with a body of `length` bytes, which `fill` puts, and waits
    /// for its reply, whose body `take` sees. The header (length, unique number) is made here.
    ///
    /// A signal that the program handles makes an INTERRUPT of the request, whose reply is waited
    /// for as before.
    ///
    /// # Errors
    ///
    /// The error that the server replied, or of `fill` and `take`; `EINTR` after a signal before
    /// the server took the request (a server's `EINTR` to RELEASE and RELEASEDIR is none: these are
    /// carried out after a signal too); `EAGAIN` after one before there was room for a RELEASE or
    /// RELEASEDIR; `E2BIG` for a body that is too large; `EIO` for a reply that is no reply;
    /// `ENOTCONN` if the server is gone (`ECONNABORTED` for a request that it had taken).
    fn call(
        &self,
        caller: Caller,
        opcode: u32,
        node: u64,
        length: usize,
        fill: Body<'_>,
        take: Body<'_>,
    ) -> Result<(), Errno>;

    /// Sends a request that has no reply (FORGET, BATCH_FORGET) or whose reply nobody waits for
    /// (RELEASE, RELEASEDIR), when there is room for it. It is carried out after all requests of
    /// this process that were answered before; a FORGET also after each RELEASE of its node,
    /// whichever process has sent that.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the server is gone, `EAGAIN` if there is no room now, or after a signal.
    fn send(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<(), Errno>;

    /// Sends a request whose reply [`Channel::end`] takes later, when there is room for it.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the server is gone, `EAGAIN` if there is no room now, `EOPNOTSUPP` where this
    /// cannot be (the default).
    fn begin(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<Begun, Errno> {
        let _ = (caller, opcode, node, body);
        Err(Errno::EOPNOTSUPP)
    }

    /// Waits for the reply to what was `begun`, whose body `take` sees. It may be taken again where
    /// this `keeps` it, and must be abandoned then at last.
    ///
    /// # Errors
    ///
    /// As of [`Channel::call`]; `ENOENT`: there is no reply any more, and no request.
    fn end(&self, begun: Begun, keeps: bool, take: Body<'_>) -> Result<(), Errno> {
        let _ = (begun, keeps, take);
        Err(Errno::ENOENT)
    }

    /// Nobody wants the reply to what was `begun`. Returns when the server does not have it in
    /// hand.
    fn abandon(&self, begun: Begun) {
        let _ = begun;
    }

    /// Returns when each RELEASE of a file of `node` that nobody waits for was answered, or after a
    /// signal. The default: there is none.
    fn await_closed(&self, node: u64) {
        let _ = node;
    }

    /// Whether the session is known to be over: no request is answered any more. By default it is
    /// not known.
    fn has_ended(&self) -> bool {
        false
    }

    /// What the server answered to INIT: `struct fuse_init_out`, with zeros where an old server's
    /// is shorter.
    fn init_reply(&self) -> [u8; 64];

    /// How many notifications the server has sent: what a client caches is stale when this grows.
    fn notifications(&self) -> u64;

    /// Words in memory that all clients of this server share, zero when the first of them comes:
    /// theirs to use, among others for telling each other what has changed. Without any (the
    /// default) a client caches nothing.
    fn words(&self) -> &[AtomicU64] {
        &[]
    }

    /// How many pages of memory there are besides for what clients cache; none by default.
    fn cache_pages(&self) -> usize {
        0
    }

    /// The words of `count` of these pages from page `first` on, zero when the first client comes;
    /// none where there is no memory for them.
    fn cached(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        let _ = (first, count);
        None
    }

    /// Tells this client from all others of the server, also from those that were before; 0, the
    /// default: nobody could say when it is gone, so that it shares no lookups with others.
    fn identity(&self) -> u64 {
        0
    }

    /// A descriptor on the backing file that the server has registered as number `id`
    /// (`FUSE_DEV_IOC_BACKING_OPEN`), perhaps by `O_PATH`, for passthrough. The client takes a
    /// description of its own from it.
    ///
    /// # Errors
    ///
    /// `ENOENT`: there is no such number; `EOPNOTSUPP`: the default: no descriptor can be handed
    /// over here.
    fn backing(&self, id: i32) -> Result<OwnedFd, Errno> {
        let _ = id;
        Err(Errno::EOPNOTSUPP)
    }

    /// A descriptor, held out of the way of this process's program, that becomes readable when the
    /// server notifies that the open file which POLL has called `number` may be ready
    /// (`FUSE_NOTIFY_POLL`): each time by a byte, which whoever reads it does not wait for. It is
    /// open for writing as well.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: the default: nobody could be told; those of making it.
    fn waiter(&self, number: u64) -> Result<Box<dyn Held>, Errno> {
        let _ = number;
        Err(Errno::EOPNOTSUPP)
    }

    /// A descriptor, held so too, that is readable from the server's end on, whoever else is gone
    /// then; none, the default: there is no such thing.
    fn end_of_server(&self) -> Option<Box<dyn Held>> {
        None
    }

    /// Holds `descriptor`, which the client has opened, out of the way of this process's program;
    /// the default: as it is.
    ///
    /// # Errors
    ///
    /// Those of holding it.
    fn keep(&self, descriptor: OwnedFd) -> Result<Box<dyn Held>, Errno> {
        Ok(Box::new(descriptor))
    }

    /// This process has `file` open at the server, until it sends RELEASE or RELEASEDIR for it: if
    /// it is killed before, somebody else does.
    fn opened(&self, file: &OpenFile) {
        let _ = file;
    }

    /// It is not for this process alone to release that.
    fn lent(&self, node: u64, handle: u64) {
        let _ = (node, handle);
    }

    /// This process is the child of a fork: what the channel keeps for its process alone is the
    /// parent's.
    fn forked(&self) {}
}
