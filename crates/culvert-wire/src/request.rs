//! Requests: the kernel (or who plays it) asks, a server answers.

use crate::{
    Data, Extensions, Forgets, Malformed, Message, Name, Plain, Protocol, Text,
    field::Field,
    input::Input,
    message_table::messages,
    structures::{
        AccessIn, BatchForgetIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn,
        FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn, LkIn,
        LseekIn, MkdirIn, MknodIn, NotifyRetrieveIn, OpenIn, PollIn, ReadIn, ReleaseIn, Rename2In,
        RenameIn, SetattrIn, SetxattrIn, StatxIn, SyncfsIn, WriteIn,
    },
};

messages! {
    /// What a request asks (`enum fuse_opcode`), with its parts in the order in which they are
    /// sent. Of `nodeid` in the header unless said otherwise.
    pub enum Operation<'a> {
        /// Finds a name in a directory. [`crate::Answer::Entry`].
        Lookup = 1 since 31 { name: Name<'a> }
        /// Gives lookups back. No answer.
        Forget = 2 since 31 { forget: ForgetIn }
        /// stat(2).
        Getattr = 3 since 31 { getattr: GetattrIn }
        /// chmod(2), chown(2), truncate(2), utimensat(2).
        Setattr = 4 since 31 { setattr: SetattrIn }
        /// The target of a link.
        Readlink = 5 since 31 {}
        /// Makes a symbolic link in a directory.
        Symlink = 6 since 31 { name: Name<'a>, target: Text<'a> }
        /// Makes a file that is no directory.
        Mknod = 8 since 31 { mknod: MknodIn, name: Name<'a> }
        /// Makes a directory.
        Mkdir = 9 since 31 { mkdir: MkdirIn, name: Name<'a> }
        /// Removes a name that is no directory's.
        Unlink = 10 since 31 { name: Name<'a> }
        /// Removes an empty directory.
        Rmdir = 11 since 31 { name: Name<'a> }
        /// rename(2).
        Rename = 12 since 31 { rename: RenameIn, name: Name<'a>, new_name: Name<'a> }
        /// Another name, in this directory, for a node.
        Link = 13 since 31 { link: LinkIn, name: Name<'a> }
        /// Opens a file.
        Open = 14 since 31 { open: OpenIn }
        /// Reads.
        Read = 15 since 31 { read: ReadIn }
        /// Writes.
        Write = 16 since 31 { write: WriteIn, data: Data<'a> }
        /// statfs(2).
        Statfs = 17 since 31 {}
        /// The last descriptor of an open file is closed.
        Release = 18 since 31 { release: ReleaseIn }
        /// fsync(2).
        Fsync = 20 since 31 { fsync: FsyncIn }
        /// Sets an extended attribute.
        Setxattr = 21 since 31 { setxattr: SetxattrIn, name: Text<'a>, value: Data<'a> }
        /// An extended attribute.
        Getxattr = 22 since 31 { getxattr: GetxattrIn, name: Text<'a> }
        /// Names of extended attributes.
        Listxattr = 23 since 31 { listxattr: GetxattrIn }
        /// Removes an extended attribute.
        Removexattr = 24 since 31 { name: Text<'a> }
        /// A descriptor is closed.
        Flush = 25 since 31 { flush: FlushIn }
        /// The first request of all.
        Init = 26 since 31 { init: InitIn }
        /// Opens a directory.
        Opendir = 27 since 31 { open: OpenIn }
        /// Lists names.
        Readdir = 28 since 31 { read: ReadIn }
        /// The last descriptor of an open directory is closed.
        Releasedir = 29 since 31 { release: ReleaseIn }
        /// fsync(2) of a directory.
        Fsyncdir = 30 since 31 { fsync: FsyncIn }
        /// `F_GETLK`.
        Getlk = 31 since 31 { lock: LkIn }
        /// `F_SETLK`, or flock(2) with `LOCK_NB`.
        Setlk = 32 since 31 { lock: LkIn }
        /// The same, waiting.
        Setlkw = 33 since 31 { lock: LkIn }
        /// access(2), without `default_permissions`.
        Access = 34 since 31 { access: AccessIn }
        /// Makes and opens a file.
        Create = 35 since 31 { create: CreateIn, name: Name<'a> }
        /// A caller has a signal. No answer of its own, except `EAGAIN`: send it again.
        Interrupt = 36 since 31 { interrupt: InterruptIn }
        /// Where a block lies on the device.
        Bmap = 37 since 31 { bmap: BmapIn }
        /// The last request of all.
        Destroy = 38 since 31 {}
        /// ioctl(2).
        Ioctl = 39 since 31 { ioctl: IoctlIn, data: Data<'a> }
        /// poll(2).
        Poll = 40 since 31 { poll: PollIn }
        /// What [`crate::Notification::Retrieve`] asked for; `unique` is its `notify_unique`. No
        /// answer.
        NotifyReply = 41 since 31 { retrieve: NotifyRetrieveIn, data: Data<'a> }
        /// Gives lookups of many nodes back. No answer.
        BatchForget = 42 since 31 { batch: BatchForgetIn, forgets: Forgets<'a> }
        /// fallocate(2).
        Fallocate = 43 since 31 { fallocate: FallocateIn }
        /// Lists names with what LOOKUP would say of each.
        Readdirplus = 44 since 31 { read: ReadIn }
        /// renameat2(2).
        Rename2 = 45 since 31 { rename: Rename2In, name: Name<'a>, new_name: Name<'a> }
        /// `SEEK_DATA` and `SEEK_HOLE`.
        Lseek = 46 since 31 { lseek: LseekIn }
        /// copy_file_range(2); the answer counts in 32 bits.
        CopyFileRange = 47 since 31 { copy: CopyFileRangeIn }
        /// syncfs(2).
        Syncfs = 50 since 34 { syncfs: SyncfsIn }
        /// An unnamed file (`O_TMPFILE`). The name means nothing; Linux sends "/" (`vfs_tmpfile`,
        /// fs/namei.c).
        Tmpfile = 51 since 37 { create: CreateIn, name: Text<'a> }
        /// statx(2).
        Statx = 52 since 39 { statx: StatxIn }
        /// copy_file_range(2); the answer counts in 64 bits.
        CopyFileRange64 = 53 since 45 { copy: CopyFileRangeIn }
    }
    otherwise Self::Unknown { .. } => {
        /// One that is not known here. The answer is `ENOSYS`, after which the kernel does not ask
        /// it again.
        Unknown {
            /// Its number.
            opcode: u32,
            /// All behind the header.
            body: Data<'a>,
        },
    }
}

impl Operation<'_> {
    /// Its name as the kernel has it, without `FUSE_`; "?" when it is not known.
    pub fn name(opcode: u32) -> &'static str {
        let found = Self::TABLE.iter().find(|(_, number, _)| *number == opcode);
        found.map_or("?", |(name, ..)| name)
    }

    /// Whether a server answers it.
    pub const fn is_answered(&self) -> bool {
        !matches!(
            self,
            Self::Forget { .. }
                | Self::BatchForget { .. }
                | Self::NotifyReply { .. }
                | Self::Interrupt { .. }
        )
    }

    /// Its number, and the request as it is sent behind the header. Counts in it are set to what is
    /// there; extensions are none.
    ///
    /// # Errors
    /// [`Malformed::TooLarge`]: more than 4 GiB of data.
    pub fn body(&self, protocol: &Protocol) -> Result<(u32, Message<'_>), Malformed> {
        let mut operation = *self;
        if let Some((said, found)) = operation.counted() {
            *said = u32::try_from(found).map_err(|_| Malformed::TooLarge)?;
        }
        let mut message = Message::new();
        let opcode = match operation.put(&mut message, protocol) {
            Some(opcode) => opcode,
            None => match operation {
                Operation::Unknown { opcode, body } => {
                    body.put(&mut message, protocol);
                    opcode
                }
                _ => return Err(Malformed::TooLarge),
            },
        };
        Ok((opcode, message.unheaded()?))
    }

    /// The number in a structure that says how much follows it, and how much does.
    fn counted(&mut self) -> Option<(&mut u32, usize)> {
        match self {
            Self::Write { write, data } => Some((&mut write.size, data.0.len())),
            Self::Setxattr {
                setxattr, value, ..
            } => Some((&mut setxattr.size, value.0.len())),
            Self::Ioctl { ioctl, data } => Some((&mut ioctl.in_size, data.0.len())),
            Self::NotifyReply { retrieve, data } => Some((&mut retrieve.size, data.0.len())),
            Self::BatchForget { batch, forgets } => Some((&mut batch.count, forgets.count())),
            _ => None,
        }
    }

    /// Whether it makes a file, and so may bring extensions.
    const fn creates(opcode: u32) -> bool {
        matches!(opcode, 6 | 8 | 9 | 35 | 51)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks, of which node. `len`, `opcode` and `total_extlen` are set when it is encoded.
    pub header: InHeader,
    /// What is asked.
    pub operation: Operation<'a>,
    /// What the kernel adds where files are made.
    pub extensions: Extensions<'a>,
}

impl<'a> Request<'a> {
    /// The header of the request in `bytes`, to answer what cannot be decoded.
    pub fn header(bytes: &[u8]) -> Option<InHeader> {
        (bytes.len() >= size_of::<InHeader>()).then(|| InHeader::from_prefix(bytes))
    }

    /// The request that `bytes` are, exactly. Operations that are newer than the negotiated version
    /// are decoded too: Linux sends some without regard to it, and expects `ENOSYS`.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes are none.
    pub fn decode(bytes: &'a [u8], protocol: &Protocol) -> Result<Self, Malformed> {
        let protocol = *protocol;
        let mut input = Input {
            rest: bytes,
            protocol,
        };
        let header: InHeader = input.plain()?;
        if header.len as usize != bytes.len() {
            return Err(Malformed::Length);
        }
        let mut extensions = Extensions::NONE;
        if protocol.tells_extensions() && header.total_extlen != 0 {
            let length = usize::from(header.total_extlen) * 8;
            let at = input.rest.len().checked_sub(length);
            let (body, extension) = input.rest.split_at(at.ok_or(Malformed::TooShort)?);
            input.rest = body;
            extensions = Extensions::new(extension)?;
        }
        let mut operation = match Operation::take(header.opcode, &mut input)? {
            Some(operation) => operation,
            None => Operation::Unknown {
                opcode: header.opcode,
                body: Data::take(&mut input)?,
            },
        };
        if protocol.bare_security_context() && Operation::creates(header.opcode) {
            extensions = Extensions::new(input.remainder())?;
        }
        input.finish()?;
        match operation.counted() {
            Some((&mut said, found)) if said as usize != found => Err(Malformed::Count),
            _ => Ok(Self {
                header,
                operation,
                extensions,
            }),
        }
    }

    /// The request as it is sent. Counts and lengths in it are set to what is there.
    ///
    /// # Errors
    /// [`Malformed::TooLarge`]: more than 4 GiB, or 512 KiB of extensions;
    /// [`Malformed::Extension`]: extensions that this version cannot send.
    pub fn encode(&self, protocol: &Protocol) -> Result<Message<'a>, Malformed> {
        let mut message = Message::new();
        let mut operation = self.operation;
        if let Some((said, found)) = operation.counted() {
            *said = u32::try_from(found).map_err(|_| Malformed::TooLarge)?;
        }
        let mut header = self.header;
        message.plain(&header, protocol);
        header.opcode = match operation.put(&mut message, protocol) {
            Some(opcode) => opcode,
            None => match operation {
                Operation::Unknown { opcode, body } => {
                    body.put(&mut message, protocol);
                    opcode
                }
                _ => return Err(Malformed::TooLarge),
            },
        };
        let extensions = self.extensions.bytes();
        if protocol.tells_extensions() {
            let units = u16::try_from(extensions.len() / 8).map_err(|_| Malformed::TooLarge)?;
            header.total_extlen = units;
        } else {
            let bare = protocol.bare_security_context() && Operation::creates(header.opcode);
            if !bare && !extensions.is_empty() {
                return Err(Malformed::Extension);
            }
        }
        message.piece(extensions);
        message.finish(&header)
    }
}
