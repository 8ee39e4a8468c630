//! A request: `struct io_uring_sqe` (include/uapi/linux/io_uring.h).

/// No operation's number: the kernel ends such a request with EINVAL.
pub const UNUSED: u8 = 255;
const NOP: u8 = 0;
/// `IORING_NOP_INJECT_RESULT`: a NOP that ends with what stands in `len` (Linux 6.10).
const INJECT_RESULT: u32 = 1;

pub const FIXED_FILE: u8 = 1 << 0;
pub const IO_DRAIN: u8 = 1 << 1;
const IO_LINK: u8 = 1 << 2;
pub const IO_HARDLINK: u8 = 1 << 3;
pub const ASYNC: u8 = 1 << 4;
pub const BUFFER_SELECT: u8 = 1 << 5;
/// The one that means nothing: the kernel takes no request with it.
pub const NO_FLAG: u8 = 1 << 7;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Entry {
    pub operation: u8,
    pub flags: u8,
    pub priority: u16,
    pub fd: i32,
    /// Also `addr2`.
    pub offset: u64,
    pub address: u64,
    pub length: u32,
    /// The operation's own flags.
    pub own_flags: u32,
    pub user_data: u64,
    /// Also `buf_group`.
    pub buffer: u16,
    pub personality: u16,
    /// Also `splice_fd_in`; the lower half also `addr_len`.
    pub file_index: u32,
    pub address3: u64,
    /// Which attributes a transfer has, that stand at `address3` (`attr_type_mask`, Linux 6.14).
    pub attributes: u64,
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// What follows waits for this one.
    pub fn is_linked(&self) -> bool {
        self.has(IO_LINK | IO_HARDLINK)
    }

    /// Makes it one that ends with `result`, at the same place in its chain.
    pub fn end_with(&mut self, result: i32) {
        *self = Self {
            operation: NOP,
            flags: self.flags & !(ASYNC | BUFFER_SELECT),
            fd: -1,
            length: result as u32,
            own_flags: INJECT_RESULT,
            user_data: self.user_data,
            personality: self.personality,
            ..Self::default()
        };
    }
}
