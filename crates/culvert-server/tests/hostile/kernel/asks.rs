//! What the kernel asks: operations made of the next numbers of its row.

use super::State;
use culvert_wire::{
    Data, Forgets, Name, Operation, Text,
    structures::{
        AccessIn, BatchForgetIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FileLock, FlushIn,
        ForgetIn, FsyncIn, GetattrIn, GetxattrIn, InitIn, InterruptIn, IoctlIn, LinkIn, LkIn,
        LseekIn, MkdirIn, MknodIn, NotifyRetrieveIn, OpenIn, PollIn, ReadIn, ReleaseIn, Rename2In,
        RenameIn, SetattrIn, SetxattrIn, StatxIn, SyncfsIn, WriteIn,
    },
};

/// Names that it asks for: short ones that come again, those that no directory has, one that is too
/// long.
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

impl State {
    /// A number below `end`; none: there are no more.
    pub(super) fn below(&mut self, end: usize) -> Option<usize> {
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

    pub(super) fn node(&mut self) -> Option<u64> {
        self.one_of(|state| &state.nodes)
    }

    fn file(&mut self) -> Option<u64> {
        let file = self.one_of(|state| &state.files)?;
        self.chosen = self.open.get(&(file, true)).copied();
        Some(file)
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
    pub(super) fn operation(&mut self) -> Option<Operation<'static>> {
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
            let any = state.node()?;
            let fh_out = state.file()?;
            let nodeid_out = state.chosen.unwrap_or(any);
            Some(CopyFileRangeIn {
                fh_in: state.file()?,
                off_in: state.size()?,
                nodeid_out,
                fh_out,
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
}
