//! A kernel that is not to be trusted: it asks what no kernel asks, in any order, in well-formed and in mutated messages, and looks at every answer.
//!
//! What it asks is made of a row of numbers, so that a failure comes again, and a fuzzer can make the row (`fuzz/fuzz_targets/session.rs`).

use culvert_server::{Channel, Transport};
use culvert_wire::{
    Answer, Data, Expects, Extensions, Forgets, InitFlags, MAJOR, MINIMUM_BUFFER, Message,
    NEWEST_MINOR, Name, Notification, Operation, Protocol, Reply, Request, Text,
    structures::{
        AccessIn, BatchForgetIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FileLock, FlushIn,
        ForgetIn, FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn,
        LkIn, LseekIn, MkdirIn, MknodIn, NotifyRetrieveIn, OpenIn, PollIn, ReadIn, ReleaseIn,
        Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, SyncfsIn, WriteIn,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Names that it asks for: short ones that come again, those that no directory has, one that is too long.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"dir",
    b"other",
    b"\xff\xfe",
    &[b'n'; 255],
    &[b'n'; 256],
    &[b'n'; 1024],
];

/// Numbers that sizes and offsets are made of.
const SIZES: &[u64] = &[
    0,
    1,
    7,
    4095,
    4096,
    65536,
    1 << 20,
    (1 << 20) + 1,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    i64::MAX as u64 - 4096,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// What has been asked and learnt.
struct State {
    numbers: Box<dyn FnMut() -> Option<u64> + Send>,
    begun: bool,
    ended: bool,
    unique: u64,
    nodes: Vec<u64>,
    files: Vec<u64>,
    directories: Vec<u64>,
    /// What is given back at the end: nodes, and the handles that are open.
    looked_up: BTreeSet<u64>,
    open: BTreeSet<(u64, bool)>,
    /// Requests without an answer, with what an answer has to look like.
    waiting: BTreeMap<u64, Option<Expects>>,
    protocol: Protocol,
    answers: usize,
    errors: usize,
}

/// The kernel; clones are the same one.
#[derive(Clone)]
pub struct Kernel(Arc<Mutex<State>>);

/// What it has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Requests that were answered.
    pub answers: usize,
    /// With an errno.
    pub errors: usize,
}

impl Kernel {
    /// One that asks what `numbers` say, until there are no more.
    pub fn new(numbers: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(State {
            numbers: Box::new(numbers),
            begun: false,
            ended: false,
            unique: 0,
            nodes: vec![1],
            files: vec![],
            directories: vec![],
            looked_up: BTreeSet::new(),
            open: BTreeSet::new(),
            waiting: BTreeMap::new(),
            protocol: Protocol::UNNEGOTIATED,
            answers: 0,
            errors: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has seen, when the session has ended.
    ///
    /// # Panics
    /// Something was not answered.
    pub fn seen(&self) -> Seen {
        let state = self.state();
        assert!(state.waiting.is_empty(), "no answer: {:?}", state.waiting);
        Seen {
            answers: state.answers,
            errors: state.errors,
        }
    }
}

impl State {
    /// A number below `end`; none: there are no more.
    fn below(&mut self, end: usize) -> Option<usize> {
        Some(((self.numbers)()? % end.max(1) as u64) as usize)
    }

    fn size(&mut self) -> Option<u64> {
        let (at, more) = (self.below(SIZES.len())?, self.below(8)?);
        Some(match more {
            0 => SIZES[at].wrapping_add(self.below(9)? as u64),
            1..4 => SIZES[at],
            _ => self.below(9000)? as u64,
        })
    }

    /// One of `known`, or any.
    fn one_of(&mut self, known: fn(&Self) -> &Vec<u64>) -> Option<u64> {
        let count = known(self).len();
        Some(match (self.below(12)?, count) {
            (0, _) => self.size()?,
            (1, _) => self.below(20)? as u64,
            (_, 0) => 0,
            _ => {
                let at = self.below(count)?;
                known(self)[at]
            }
        })
    }

    fn node(&mut self) -> Option<u64> {
        self.one_of(|state| &state.nodes)
    }

    fn file(&mut self) -> Option<u64> {
        self.one_of(|state| &state.files)
    }

    fn directory(&mut self) -> Option<u64> {
        self.one_of(|state| &state.directories)
    }

    fn name(&mut self) -> Option<Name<'static>> {
        // Mostly the short ones.
        let end = if self.below(6)? == 0 { NAMES.len() } else { 5 };
        let at = self.below(end)?;
        Name::new(NAMES[at])
    }

    fn text(&mut self) -> Option<Text<'static>> {
        let all: [&[u8]; 6] = [
            b"user.a",
            b"user.b",
            b"target",
            b"",
            b"security.capability",
            &[b'x'; 4096],
        ];
        let at = self.below(all.len())?;
        Text::new(all[at])
    }

    fn data(&mut self) -> Option<Data<'static>> {
        const ALL: &[u8] = &[7; 70000];
        let lengths = [0, 1, 20, 5000, 65536, 70000];
        let at = self.below(lengths.len())?;
        Some(Data(&ALL[..lengths[at]]))
    }

    fn bits(&mut self) -> Option<u32> {
        Some((self.numbers)()? as u32)
    }

    /// Mostly a mode of some file, else anything.
    fn mode(&mut self) -> Option<u32> {
        Some(match self.below(8)? {
            0 => self.bits()?,
            1 => 0o010644,
            2 => 0o020644,
            _ => 0o100755,
        })
    }

    /// Mostly flags of open(2) that mean something.
    fn flags(&mut self) -> Option<u32> {
        let all = [0, 1, 2, 0o1002, 0o2001, 0o202, 3];
        let at = self.below(all.len() + 1)?;
        Some(match all.get(at) {
            Some(flags) => *flags,
            None => self.bits()?,
        })
    }

    #[allow(clippy::too_many_lines)]
    fn operation(&mut self) -> Option<Operation<'static>> {
        let lock = |state: &mut Self| {
            Some(LkIn {
                fh: state.file()?,
                owner: state.size()?,
                lk: FileLock {
                    start: state.size()?,
                    end: state.size()?,
                    r#type: state.below(4)? as u32,
                    pid: 1,
                },
                lk_flags: state.below(2)? as u32,
                padding: 0,
            })
        };
        let read = |state: &mut Self, fh| {
            Some(ReadIn {
                fh,
                offset: state.size()?,
                size: state.size()? as u32,
                ..ReadIn::default()
            })
        };
        let copy = |state: &mut Self| {
            Some(CopyFileRangeIn {
                fh_in: state.file()?,
                off_in: state.size()?,
                nodeid_out: state.node()?,
                fh_out: state.file()?,
                off_out: state.size()?,
                len: state.size()?,
                flags: 0,
            })
        };
        Some(match self.below(52)? {
            0 => Operation::Forget {
                forget: ForgetIn {
                    nlookup: self.size()?,
                },
            },
            1 => {
                let bytes: Vec<u8> = [self.node()?, self.size()?, self.node()?, 1]
                    .iter()
                    .flat_map(|number| number.to_ne_bytes())
                    .collect();
                // A message lives as long as what it borrows; so few are made that they may stay.
                let forgets = Forgets::new(Box::leak(bytes.into_boxed_slice()))?;
                Operation::BatchForget {
                    batch: BatchForgetIn::default(),
                    forgets,
                }
            }
            2..5 => Operation::Lookup { name: self.name()? },
            5 => Operation::Getattr {
                getattr: GetattrIn {
                    getattr_flags: self.below(2)? as u32,
                    fh: self.file()?,
                    ..GetattrIn::default()
                },
            },
            6 => Operation::Setattr {
                setattr: SetattrIn {
                    valid: self.bits()?,
                    fh: self.file()?,
                    size: self.size()?,
                    atime: self.size()?,
                    mtime: self.size()?,
                    atimensec: self.bits()?,
                    mtimensec: self.bits()?,
                    mode: self.mode()?,
                    uid: self.bits()?,
                    gid: self.bits()?,
                    ..SetattrIn::default()
                },
            },
            7 => Operation::Readlink {},
            8 => Operation::Symlink {
                name: self.name()?,
                target: self.text()?,
            },
            9 => Operation::Mknod {
                mknod: MknodIn {
                    mode: self.mode()?,
                    rdev: self.bits()?,
                    umask: self.bits()?,
                    padding: 0,
                },
                name: self.name()?,
            },
            10 | 11 => Operation::Mkdir {
                mkdir: MkdirIn {
                    mode: self.mode()?,
                    umask: 0o22,
                },
                name: self.name()?,
            },
            12 => Operation::Unlink { name: self.name()? },
            13 => Operation::Rmdir { name: self.name()? },
            14 => Operation::Rename {
                rename: RenameIn {
                    newdir: self.node()?,
                },
                name: self.name()?,
                new_name: self.name()?,
            },
            15 => Operation::Rename2 {
                rename: Rename2In {
                    newdir: self.node()?,
                    flags: self.below(9)? as u32,
                    padding: 0,
                },
                name: self.name()?,
                new_name: self.name()?,
            },
            16 => Operation::Link {
                link: LinkIn {
                    oldnodeid: self.node()?,
                },
                name: self.name()?,
            },
            17 | 18 => Operation::Open {
                open: OpenIn {
                    flags: self.flags()?,
                    open_flags: 0,
                },
            },
            19..21 => Operation::Read {
                read: {
                    let fh = self.file()?;
                    read(self, fh)?
                },
            },
            21..24 => Operation::Write {
                write: WriteIn {
                    fh: self.file()?,
                    offset: self.size()?,
                    write_flags: self.below(8)? as u32,
                    flags: self.flags()?,
                    ..WriteIn::default()
                },
                data: self.data()?,
            },
            24 => Operation::Statfs {},
            25 => Operation::Release {
                release: ReleaseIn {
                    fh: self.file()?,
                    release_flags: self.below(4)? as u32,
                    lock_owner: self.size()?,
                    ..ReleaseIn::default()
                },
            },
            26 => Operation::Fsync {
                fsync: FsyncIn {
                    fh: self.file()?,
                    fsync_flags: self.below(2)? as u32,
                    padding: 0,
                },
            },
            27 => Operation::Setxattr {
                setxattr: SetxattrIn {
                    flags: self.below(4)? as u32,
                    ..SetxattrIn::default()
                },
                name: self.text()?,
                value: self.data()?,
            },
            28 => Operation::Getxattr {
                getxattr: GetxattrIn {
                    size: self.size()? as u32,
                    padding: 0,
                },
                name: self.text()?,
            },
            29 => Operation::Listxattr {
                listxattr: GetxattrIn {
                    size: self.size()? as u32,
                    padding: 0,
                },
            },
            30 => Operation::Removexattr { name: self.text()? },
            31 => Operation::Flush {
                flush: FlushIn {
                    fh: self.file()?,
                    lock_owner: self.size()?,
                    ..FlushIn::default()
                },
            },
            32 => Operation::Init {
                init: InitIn {
                    major: self.below(9)? as u32,
                    minor: self.bits()?,
                    flags: self.bits()?,
                    ..InitIn::default()
                },
            },
            33 => Operation::Opendir {
                open: OpenIn {
                    flags: self.flags()?,
                    open_flags: 0,
                },
            },
            34 => Operation::Readdir {
                read: {
                    let fh = self.directory()?;
                    read(self, fh)?
                },
            },
            35 => Operation::Readdirplus {
                read: {
                    let fh = self.directory()?;
                    read(self, fh)?
                },
            },
            36 => Operation::Releasedir {
                release: ReleaseIn {
                    fh: self.directory()?,
                    ..ReleaseIn::default()
                },
            },
            37 => Operation::Fsyncdir {
                fsync: FsyncIn {
                    fh: self.directory()?,
                    ..FsyncIn::default()
                },
            },
            38 => Operation::Getlk { lock: lock(self)? },
            39 => Operation::Setlk { lock: lock(self)? },
            40 => Operation::Access {
                access: AccessIn {
                    mask: self.bits()?,
                    padding: 0,
                },
            },
            41 | 42 => Operation::Create {
                create: CreateIn {
                    flags: self.flags()?,
                    mode: self.mode()?,
                    ..CreateIn::default()
                },
                name: self.name()?,
            },
            43 => Operation::Interrupt {
                interrupt: InterruptIn {
                    unique: self.size()?,
                },
            },
            44 => Operation::Bmap {
                bmap: BmapIn {
                    block: self.size()?,
                    blocksize: self.bits()?,
                    padding: 0,
                },
            },
            45 => match self.below(8)? {
                0 => Operation::Destroy {},
                1 => Operation::NotifyReply {
                    retrieve: NotifyRetrieveIn::default(),
                    data: self.data()?,
                },
                _ => Operation::Syncfs {
                    syncfs: SyncfsIn::default(),
                },
            },
            46 => Operation::Ioctl {
                ioctl: IoctlIn {
                    fh: self.file()?,
                    flags: self.below(16)? as u32,
                    cmd: self.bits()?,
                    out_size: self.size()? as u32,
                    ..IoctlIn::default()
                },
                data: self.data()?,
            },
            47 => Operation::Poll {
                poll: PollIn {
                    fh: self.file()?,
                    kh: self.size()?,
                    flags: self.below(2)? as u32,
                    events: 1,
                },
            },
            48 => Operation::Fallocate {
                fallocate: FallocateIn {
                    fh: self.file()?,
                    offset: self.size()?,
                    length: self.size()?,
                    mode: self.below(128)? as u32,
                    padding: 0,
                },
            },
            49 => Operation::Lseek {
                lseek: LseekIn {
                    fh: self.file()?,
                    offset: self.size()?,
                    whence: self.below(6)? as u32,
                    padding: 0,
                },
            },
            50 => match self.below(2)? {
                0 => Operation::CopyFileRange { copy: copy(self)? },
                _ => Operation::CopyFileRange64 { copy: copy(self)? },
            },
            _ => match self.below(2)? {
                0 => Operation::Tmpfile {
                    create: CreateIn {
                        flags: self.flags()?,
                        mode: self.mode()?,
                        ..CreateIn::default()
                    },
                    name: Text::new(b"/")?,
                },
                _ => Operation::Statx {
                    statx: StatxIn {
                        getattr_flags: self.below(2)? as u32,
                        fh: self.file()?,
                        ..StatxIn::default()
                    },
                },
            },
        })
    }

    /// The bytes of `operation` on `nodeid`.
    fn message(&mut self, nodeid: u64, operation: Operation<'_>) -> Vec<u8> {
        self.unique += 2;
        let header = InHeader {
            unique: self.unique,
            nodeid,
            uid: 1000,
            gid: 1000,
            pid: 1,
            ..InHeader::default()
        };
        let extensions = Extensions::NONE;
        let request = Request {
            header,
            operation,
            extensions,
        };
        let message = request.encode(&self.protocol).expect("can be sent");
        flat(&message)
    }

    /// Changes some bytes behind the length, or the length; not the request's number, which the answer is known by.
    fn mutate(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        const HEADER: usize = size_of::<InHeader>();
        for _ in 0..=self.below(3)? {
            match self.below(8)? {
                0 => {
                    let end = HEADER + self.below(bytes.len() - HEADER + 1)?;
                    bytes.truncate(end);
                }
                1 => bytes.extend([0xff; 8]),
                2 => bytes[4] = self.below(60)? as u8,
                _ => {
                    let at = 16 + self.below((bytes.len() - 16).min(100))?;
                    bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)?];
                }
            }
        }
        if self.below(4)? != 0 {
            let length = (bytes.len() as u32).to_ne_bytes();
            bytes[..4].copy_from_slice(&length);
        }
        Some(())
    }

    /// The next request; none: the numbers have ended.
    fn next(&mut self) -> Option<Vec<u8>> {
        let node = self.node()?;
        let operation = self.operation()?;
        let mut bytes = self.message(node, operation);
        if self.below(5)? == 0 {
            self.mutate(&mut bytes)?;
        }
        Some(bytes)
    }

    /// What is asked at the end: all that is open is closed, all that was looked up is forgotten.
    fn last(&mut self) -> Option<Vec<u8>> {
        if let Some((fh, is_file)) = self.open.pop_first() {
            let release = ReleaseIn {
                fh,
                ..ReleaseIn::default()
            };
            let operation = match is_file {
                true => Operation::Release { release },
                false => Operation::Releasedir { release },
            };
            return Some(self.message(1, operation));
        }
        let node = self.looked_up.pop_first()?;
        let nlookup = u64::MAX;
        let forget = ForgetIn { nlookup };
        Some(self.message(node, Operation::Forget { forget }))
    }

    /// Notes what an answer to `bytes` has to be.
    fn expect(&mut self, bytes: &[u8]) {
        let header = Request::header(bytes).expect("mutations leave it whole");
        let expected = match Request::decode(bytes, &self.protocol) {
            Ok(request) => match request.operation.expects() {
                Some(expects) => Some(expects),
                None => return,
            },
            Err(_) => None,
        };
        self.waiting.insert(header.unique, expected);
    }

    fn answered(&mut self, answer: &Answer<'_>) {
        self.answers += 1;
        match answer {
            Answer::Error(errno) => {
                assert!((1..=4095).contains(errno));
                self.errors += 1;
            }
            Answer::Entry { entry } if entry.nodeid != 0 => {
                self.nodes.push(entry.nodeid);
                self.looked_up.insert(entry.nodeid);
            }
            Answer::Created { entry, open } => {
                self.nodes.push(entry.nodeid);
                self.looked_up.insert(entry.nodeid);
                self.files.push(open.fh);
                self.open.insert((open.fh, true));
            }
            _ => {}
        }
    }
}

fn flat(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.length()];
    message.copy_to(&mut bytes).expect("as long as it says");
    bytes
}

impl Channel for Kernel {
    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let bytes = flat(message);
        let mut state = self.state();
        let protocol = state.protocol;
        if Reply::is_notification(&bytes) {
            Notification::decode(&bytes, &protocol).expect("a well-formed notification");
            return Ok(());
        }
        let unique = Reply::unique_of(&bytes).expect("a header");
        let expected = state.waiting.remove(&unique);
        let expected = expected.expect("an answer to what was asked, once");
        // What cannot be understood is answered by an error alone.
        let reply = Reply::decode(&bytes, expected.unwrap_or(Expects::Done), &protocol);
        let reply = reply.expect("a well-formed answer");
        assert!(expected.is_some() || matches!(reply.answer, Answer::Error(_)));
        state.answered(&reply.answer);
        match (expected, &reply.answer) {
            (Some(Expects::Init), Answer::Init { init }) => {
                let flags = InitFlags::from_words(init.flags, init.flags2);
                let agreed = Protocol::negotiate(init.major, init.minor, flags);
                state.protocol = agreed.expect("a version that was offered");
            }
            // Which of both it was is known by the number alone: each is tried as both.
            (_, Answer::Opened { open }) => {
                state.files.push(open.fh);
                state.directories.push(open.fh);
                state.open.extend([(open.fh, true), (open.fh, false)]);
            }
            (_, Answer::Data { data }) => {
                // A listing with attributes gives a reference on each node in it.
                let entries = culvert_wire::DirectoryEntriesPlus(data.0);
                let found = entries.map_while(|entry| Some(entry.ok()?.0.nodeid));
                let found: Vec<_> = found.filter(|&node| node != 0).take(100).collect();
                state.looked_up.extend(found);
            }
            _ => {}
        }
        Ok(())
    }

    fn register_backing(&self, _: BorrowedFd<'_>) -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn release_backing(&self, _: i32) {}
}

impl Transport for Kernel {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        // One thread serves: it has answered before it asks for more.
        assert!(state.waiting.is_empty(), "no answer: {:?}", state.waiting);
        let bytes = if !state.begun {
            state.begun = true;
            assert!(buffer.len() >= MINIMUM_BUFFER);
            let init = InitIn {
                major: MAJOR,
                minor: NEWEST_MINOR,
                max_readahead: 1 << 17,
                flags: u32::MAX,
                flags2: u32::MAX,
                ..InitIn::default()
            };
            Some(state.message(0, Operation::Init { init }))
        } else {
            let next = match state.ended {
                true => None,
                false => state.next(),
            };
            state.ended |= next.is_none();
            next.or_else(|| state.last())
        };
        let Some(bytes) = bytes else {
            return Ok(0);
        };
        state.expect(&bytes);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn another(&self) -> io::Result<Box<dyn Transport>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
