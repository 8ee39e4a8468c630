//! The structures of the headers in `include/`.

use libc::{dev_t, flock, gid_t, iovec, mode_t, off_t, pid_t, stat, timespec, uid_t};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// `struct fuse_req`, which the file system has the address of alone.
#[repr(C)]
#[derive(Debug)]
pub struct Req([u8; 0]);

/// `struct fuse_file_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FileInfo {
    pub flags: c_int,
    pub write_page: c_int,
    pub bits: u32,
    pub poll_events: u32,
    pub fh_old: c_ulong,
    pub fh: u64,
    pub lock_owner: u64,
}

impl FileInfo {
    pub const DIRECT_IO: u32 = 1;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const FLUSH: u32 = 1 << 2;
    pub const NONSEEKABLE: u32 = 1 << 3;
    pub const FLOCK_RELEASE: u32 = 1 << 4;
    pub const CACHE_READDIR: u32 = 1 << 5;
    pub const NOFLUSH: u32 = 1 << 6;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 7;

    pub const fn of(fh: u64) -> Self {
        Self {
            flags: 0,
            write_page: 0,
            bits: 0,
            poll_events: 0,
            fh_old: fh,
            fh,
            lock_owner: 0,
        }
    }

    pub const fn has(&self, bit: u32) -> bool {
        self.bits & bit != 0
    }
}

/// `struct fuse_conn_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    pub major: c_uint,
    pub minor: c_uint,
    pub async_read: c_uint,
    pub max_write: c_uint,
    pub max_read: c_uint,
    pub max_readahead: c_uint,
    pub capable: c_uint,
    pub want: c_uint,
    pub max_background: c_uint,
    pub congestion_threshold: c_uint,
    pub time_gran: c_uint,
    pub reserved: [c_uint; 21],
}

/// `struct fuse_config`, and what version 2 takes by options alone.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub set_gid: c_int,
    pub gid: c_uint,
    pub set_uid: c_int,
    pub uid: c_uint,
    pub set_mode: c_int,
    pub umask: c_uint,
    pub entry_timeout: f64,
    pub negative_timeout: f64,
    pub attr_timeout: f64,
    pub intr: c_int,
    pub intr_signal: c_int,
    pub remember: c_int,
    pub hard_remove: c_int,
    pub use_ino: c_int,
    pub readdir_ino: c_int,
    pub direct_io: c_int,
    pub kernel_cache: c_int,
    pub auto_cache: c_int,
    pub no_rofd_flush: c_int,
    pub ac_attr_timeout_set: c_int,
    pub ac_attr_timeout: f64,
    pub nullpath_ok: c_int,
    pub parallel_direct_writes: c_int,
    pub show_help: c_int,
    pub modules: *mut c_char,
    pub debug: c_int,
}

/// `struct fuse_loop_config` of 3.2 to 3.11.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LoopConfig32 {
    pub clone_fd: c_int,
    pub max_idle_threads: c_uint,
}

/// `struct fuse_loop_config` of 3.12 and later, which sources do not look into. It begins as the
/// older one does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LoopConfig {
    pub clone_fd: c_int,
    pub max_idle_threads: c_uint,
    pub max_threads: c_uint,
}

/// `struct fuse_entry_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EntryParam {
    pub ino: u64,
    pub generation: u64,
    pub attr: stat,
    pub attr_timeout: f64,
    pub entry_timeout: f64,
}

/// `struct fuse_ctx`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Ctx {
    pub uid: uid_t,
    pub gid: gid_t,
    pub pid: pid_t,
    pub umask: mode_t,
}

/// `struct fuse_forget_data`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForgetData {
    pub ino: u64,
    pub count: u64,
}

/// `struct fuse_buf`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buf {
    pub size: usize,
    pub flags: c_int,
    pub mem: *mut c_void,
    pub fd: c_int,
    pub pos: off_t,
    pub mem_size: usize,
}

impl Buf {
    pub const IS_FD: c_int = 1 << 1;
    pub const FD_SEEK: c_int = 1 << 2;
    pub const FD_RETRY: c_int = 1 << 3;

    pub const fn memory(mem: *mut c_void, size: usize) -> Self {
        Self {
            size,
            flags: 0,
            mem,
            fd: -1,
            pos: 0,
            mem_size: 0,
        }
    }
}

/// `struct fuse_bufvec`; `count` buffers from `first` on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BufVec {
    pub count: usize,
    pub index: usize,
    pub offset: usize,
    pub first: Buf,
}

impl BufVec {
    pub const fn of(buffer: Buf) -> Self {
        Self {
            count: 1,
            index: 0,
            offset: 0,
            first: buffer,
        }
    }
}

/// `struct fuse_context`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub fuse: *mut c_void,
    pub uid: uid_t,
    pub gid: gid_t,
    pub pid: pid_t,
    pub private_data: *mut c_void,
    pub umask: mode_t,
}

/// A function's place in a table: null, or one of the header's type.
pub type Slot<F> = Option<F>;

/// Declares a table of functions.
macro_rules! table {
    ($(#[$meta:meta])* $table:ident { $($name:ident : ($($argument:ty),*) $(-> $result:ty)?,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $table {
            $(pub $name: Slot<unsafe extern "C" fn($($argument),*) $(-> $result)?>,)*
        }
        impl $table {
            /// No function.
            pub const NONE: Self = Self { $($name: None),* };

            /// The first `size` bytes of the table at `place`.
            ///
            /// # Safety
            /// So many bytes lie there, and are functions of the header's types, or null.
            pub unsafe fn read(place: *const c_void, size: usize) -> Self {
                let mut table = Self::NONE;
                let size = size.min(size_of::<Self>());
                // SAFETY: the caller's, and `table` is as long.
                unsafe {
                    std::ptr::from_mut(&mut table).cast::<u8>().copy_from_nonoverlapping(place.cast(), size);
                }
                table
            }
        }
    };
}

type R = *mut Req;
type F = *mut FileInfo;
type S = *const c_char;

table! {
    /// `struct fuse_lowlevel_ops`.
    LowLevel {
        init: (*mut c_void, *mut Connection),
        destroy: (*mut c_void),
        lookup: (R, u64, S),
        forget: (R, u64, u64),
        getattr: (R, u64, F),
        setattr: (R, u64, *mut stat, c_int, F),
        readlink: (R, u64),
        mknod: (R, u64, S, mode_t, dev_t),
        mkdir: (R, u64, S, mode_t),
        unlink: (R, u64, S),
        rmdir: (R, u64, S),
        symlink: (R, S, u64, S),
        rename: (R, u64, S, u64, S, c_uint),
        link: (R, u64, u64, S),
        open: (R, u64, F),
        read: (R, u64, usize, off_t, F),
        write: (R, u64, S, usize, off_t, F),
        flush: (R, u64, F),
        release: (R, u64, F),
        fsync: (R, u64, c_int, F),
        opendir: (R, u64, F),
        readdir: (R, u64, usize, off_t, F),
        releasedir: (R, u64, F),
        fsyncdir: (R, u64, c_int, F),
        statfs: (R, u64),
        setxattr: (R, u64, S, S, usize, c_int),
        getxattr: (R, u64, S, usize),
        listxattr: (R, u64, usize),
        removexattr: (R, u64, S),
        access: (R, u64, c_int),
        create: (R, u64, S, mode_t, F),
        getlk: (R, u64, F, *mut flock),
        setlk: (R, u64, F, *mut flock, c_int),
        bmap: (R, u64, usize, u64),
        ioctl: (R, u64, c_uint, *mut c_void, F, c_uint, *const c_void, usize, usize),
        poll: (R, u64, F, *mut c_void),
        write_buf: (R, u64, *mut BufVec, off_t, F),
        retrieve_reply: (R, *mut c_void, u64, off_t, *mut BufVec),
        forget_multi: (R, usize, *mut ForgetData),
        flock: (R, u64, F, c_int),
        fallocate: (R, u64, c_int, off_t, off_t, F),
        readdirplus: (R, u64, usize, off_t, F),
        copy_file_range: (R, u64, off_t, F, u64, off_t, F, usize, c_int),
        lseek: (R, u64, off_t, c_int, F),
    }
}

table! {
    /// `struct fuse_operations`, with the arguments of version 3: functions of version 2 leave the
    /// last one of some alone, as the calling convention lets them. `flags` is no function.
    Operations {
        getattr: (S, *mut stat, F) -> c_int,
        readlink: (S, *mut c_char, usize) -> c_int,
        getdir: (S, *mut c_void, unsafe extern "C" fn(*mut c_void, S, c_int, u64) -> c_int) -> c_int,
        mknod: (S, mode_t, dev_t) -> c_int,
        mkdir: (S, mode_t) -> c_int,
        unlink: (S) -> c_int,
        rmdir: (S) -> c_int,
        symlink: (S, S) -> c_int,
        rename: (S, S, c_uint) -> c_int,
        link: (S, S) -> c_int,
        chmod: (S, mode_t, F) -> c_int,
        chown: (S, uid_t, gid_t, F) -> c_int,
        truncate: (S, off_t, F) -> c_int,
        utime: (S, *mut [i64; 2]) -> c_int,
        open: (S, F) -> c_int,
        read: (S, *mut c_char, usize, off_t, F) -> c_int,
        write: (S, S, usize, off_t, F) -> c_int,
        statfs: (S, *mut c_void) -> c_int,
        flush: (S, F) -> c_int,
        release: (S, F) -> c_int,
        fsync: (S, c_int, F) -> c_int,
        setxattr: (S, S, S, usize, c_int) -> c_int,
        getxattr: (S, S, *mut c_char, usize) -> c_int,
        listxattr: (S, *mut c_char, usize) -> c_int,
        removexattr: (S, S) -> c_int,
        opendir: (S, F) -> c_int,
        readdir: (S, *mut c_void, Fill, off_t, F, c_int) -> c_int,
        releasedir: (S, F) -> c_int,
        fsyncdir: (S, c_int, F) -> c_int,
        init: (*mut Connection, *mut Config) -> *mut c_void,
        destroy: (*mut c_void),
        access: (S, c_int) -> c_int,
        create: (S, mode_t, F) -> c_int,
        ftruncate: (S, off_t, F) -> c_int,
        fgetattr: (S, *mut stat, F) -> c_int,
        lock: (S, F, c_int, *mut flock) -> c_int,
        utimens: (S, *const timespec, F) -> c_int,
        bmap: (S, usize, *mut u64) -> c_int,
        flags: (),
        ioctl: (S, c_uint, *mut c_void, F, c_uint, *mut c_void) -> c_int,
        poll: (S, F, *mut c_void, *mut c_uint) -> c_int,
        write_buf: (S, *mut BufVec, off_t, F) -> c_int,
        read_buf: (S, *mut *mut BufVec, usize, off_t, F) -> c_int,
        flock: (S, F, c_int) -> c_int,
        fallocate: (S, c_int, off_t, off_t, F) -> c_int,
        copy_file_range: (S, F, off_t, S, F, off_t, usize, c_int) -> isize,
        lseek: (S, off_t, c_int, F) -> off_t,
    }
}

/// `fuse_fill_dir_t`; version 2 gives no flags, so they are not to be looked at then.
pub type Fill = unsafe extern "C" fn(*mut c_void, S, *const stat, off_t, c_int) -> c_int;

/// Functions of a caller's own for a session's descriptor (`struct fuse_custom_io`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CustomIo {
    pub writev: Option<unsafe extern "C" fn(c_int, *mut iovec, c_int, *mut c_void) -> isize>,
    pub read: Option<unsafe extern "C" fn(c_int, *mut c_void, usize, *mut c_void) -> isize>,
    pub splice: [usize; 2],
}
