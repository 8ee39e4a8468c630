//! `culvert/driver.h`, version 1, as Rust has it, for x86-64. What each thing means stands there.
#![allow(missing_docs)] // C's names, which the header explains

use core::ffi::{c_char, c_int, c_void};

/// `CULVERT_DRIVER_VERSION`.
pub const VERSION: u32 = 1;

/// `CULVERT_IMMUTABLE`.
pub const IMMUTABLE: u64 = 1;
/// `CULVERT_KEEPS_UNLINKED`.
pub const KEEPS_UNLINKED: u64 = 2;
/// `CULVERT_ONE_AT_A_TIME`.
pub const ONE_AT_A_TIME: u64 = 4;
/// `CULVERT_NO_CACHE`.
pub const NO_CACHE: u64 = 8;
/// `CULVERT_STATELESS`.
pub const STATELESS: u64 = 16;
/// `CULVERT_CALLERS`.
pub const CALLERS: u64 = 32;
/// `CULVERT_READ_ONLY`.
pub const READ_ONLY: u64 = 64;
/// `CULVERT_NO_XATTRS`.
pub const NO_XATTRS: u64 = 128;
/// `CULVERT_NO_LINKS`.
pub const NO_LINKS: u64 = 256;
/// `CULVERT_NO_ACCESS`.
pub const NO_ACCESS: u64 = 512;
/// `CULVERT_NO_POLL`.
pub const NO_POLL: u64 = 1024;
/// `CULVERT_OPENS_FILES`.
pub const OPENS_FILES: u64 = 2048;

/// `struct culvert_waker`.
#[repr(C)]
#[derive(Debug)]
pub struct Waker {
    pub wake: unsafe extern "C" fn(*mut Waker),
    pub drop: unsafe extern "C" fn(*mut Waker),
}

/// `struct culvert_wait`.
#[repr(C)]
#[derive(Debug)]
pub struct Wait {
    pub interrupted: unsafe extern "C" fn(*const Wait) -> c_int,
}

/// `struct culvert_observer`.
#[repr(C)]
#[derive(Debug)]
pub struct Observer {
    pub tell: unsafe extern "C" fn(*const Observer, c_int, *const c_char),
}

/// `struct culvert_maps`.
#[repr(C)]
#[derive(Debug)]
pub struct Maps {
    pub sizes: unsafe extern "C" fn(*const Maps, *const c_char, *mut usize, *mut usize) -> c_int,
    pub get:
        unsafe extern "C" fn(*const Maps, *const c_char, *const u8, usize, *mut u8, usize) -> c_int,
    pub put: unsafe extern "C" fn(
        *const Maps,
        *const c_char,
        *const u8,
        usize,
        *const u8,
        usize,
    ) -> c_int,
    pub remove: unsafe extern "C" fn(*const Maps, *const c_char, *const u8, usize) -> c_int,
    pub next: unsafe extern "C" fn(*const Maps, *const c_char, *const u8, *mut u8, usize) -> c_int,
}

/// `CULVERT_EVERYTHING`.
pub const EVERYTHING: c_int = 0;
/// `CULVERT_NAME`.
pub const NAME: c_int = 1;
/// `CULVERT_ATTRIBUTES`.
pub const ATTRIBUTES: c_int = 2;
/// `CULVERT_CONTENT`.
pub const CONTENT: c_int = 3;

/// `struct flock` of x86-64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flock {
    pub kind: i16,
    pub whence: i16,
    pub pad: i32,
    pub start: i64,
    pub len: i64,
    pub pid: i32,
    pub end: i32,
}

/// `struct culvert_caller`.
#[repr(C)]
#[derive(Debug)]
pub struct Caller {
    pub state: *mut c_void,
    pub uid: u32,
    pub gid: u32,
    pub groups: *const u32,
    pub group_count: usize,
    pub pid: u32,
    pub umask: u32,
}

/// `struct culvert_mount`.
#[repr(C)]
#[derive(Debug)]
pub struct Mounted {
    pub source: *const c_char,
    pub target: *const c_char,
    pub options: *const *const c_char,
    pub option_count: usize,
    pub read_only: c_int,
    pub reason: *mut c_char,
    pub reason_size: usize,
}

/// `struct culvert_dirent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dirent {
    pub inode: u64,
    pub kind: u32,
    pub name: [u8; 256],
}

/// `struct stat` of x86-64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub nlink: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub pad: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub atime: [i64; 2],
    pub mtime: [i64; 2],
    pub ctime: [i64; 2],
    pub unused: [i64; 3],
}

/// `struct statvfs` of x86-64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StatVfs {
    pub bsize: u64,
    pub frsize: u64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub favail: u64,
    pub fsid: u64,
    pub flag: u64,
    pub namemax: u64,
    pub spare: [i32; 6],
}

const _: () = assert!(size_of::<Stat>() == 144 && size_of::<StatVfs>() == 112);
const _: () = assert!(size_of::<Flock>() == 32);

type State = *mut c_void;
type File = *mut c_void;
type Path = *const c_char;

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// `struct culvert_driver`: functions, each of which may be missing.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct Driver {
            pub version: u32,
            pub size: u32,
            pub flags: u64,
            pub init: Option<unsafe extern "C" fn(*const Mounted, *mut State) -> c_int>,
            pub finalize: Option<unsafe extern "C" fn(State)>,
            $(pub $name: Option<unsafe extern "C" fn(State $(, $argument)*) -> c_int>,)*
        }

        impl Driver {
            /// One without functions.
            pub const NONE: Self = Self {
                version: VERSION,
                size: size_of::<Self>() as u32,
                flags: 0,
                init: None,
                finalize: None,
                $($name: None,)*
            };
        }
    };
}

functions! {
    open(Path, c_int, u32, *mut File);
    close(File);
    read(File, *mut u8, usize, i64, *mut usize);
    write(File, *const u8, usize, i64, *mut usize);
    fsync(File, c_int);
    ftruncate(File, i64);
    fgetattr(File, *mut Stat);
    save(File, *mut u8, *mut usize);
    restore(Path, c_int, *const u8, usize, *mut File);
    getattr(Path, *mut Stat);
    truncate(Path, i64);
    readlink(Path, *mut c_char, usize);
    unlink(Path);
    mkdir(Path, u32);
    rmdir(Path);
    getdirentcount(Path, *mut usize);
    getdirents(Path, *mut Dirent, usize, *mut usize);
    chown(Path, u32, u32);
    chmod(Path, u32);
    access(Path, c_int);
    rename(Path, Path, u32);
    utime(Path, *const [i64; 4]);
    symlink(Path, Path);
    link(Path, Path);
    mknod(Path, u32, u64);
    statfs(*mut StatVfs);
    flush(File);
    fallocate(File, c_int, i64, i64);
    lseek(File, i64, c_int, *mut i64);
    getxattr(Path, Path, *mut u8, *mut usize);
    setxattr(Path, Path, *const u8, usize, c_int);
    listxattr(Path, *mut u8, *mut usize);
    removexattr(Path, Path);
    capabilities(*mut u64);
    descriptor(File, *mut c_int);
    copy(File, i64, File, i64, usize, *mut usize);
    ioctl(File, u32, *mut c_void, usize, *mut c_int);
    fsyncdir(Path, c_int);
    syncfs();
    caching(File, *mut c_int);
    poll(File, *mut Waker, *mut u32);
    getlk(File, u64, *mut Flock);
    setlk(File, u64, *const Flock, *const Wait);
    flock(File, u64, c_int, *const Wait);
    opendir(Path, *mut File);
    listdir(File, *mut Dirent, usize, *mut usize);
    syncdir(File, c_int);
    closedir(File);
    observe(*const Observer);
    tree(*mut c_int);
    extended(*const Maps);
}
