//! What a program has forbidden its own ring (`IORING_REGISTER_RESTRICTIONS`,
//! io_uring_register(2)).
//!
//! The kernel judges what it gets, and for a request that was served it gets a NOP. So NOPs are
//! added to what it allows, and what it would have said of the request itself is judged here
//! (`io_check_restriction`, io_uring/io_uring.c).

use super::entry::Entry;

const REGISTER_OP: u16 = 0;
const SQE_OP: u16 = 1;
const SQE_FLAGS_ALLOWED: u16 = 2;
const SQE_FLAGS_REQUIRED: u16 = 3;
/// `struct io_uring_restriction`: a u16, a byte, and 13 that must be zero.
pub const SIZE: usize = 16;
/// One that allows NOPs.
pub const NOPS: [u8; SIZE] = [SQE_OP as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub struct Restrictions {
    operations: [u64; 4],
    allowed: u8,
    required: u8,
}

impl Restrictions {
    /// Of what the kernel has accepted.
    pub fn of(list: &[u8]) -> Self {
        let mut this = Self {
            operations: [0; 4],
            allowed: 0,
            required: 0,
        };
        for one in list.chunks_exact(SIZE) {
            let value = one[2];
            match u16::from_ne_bytes([one[0], one[1]]) {
                SQE_OP => this.operations[usize::from(value / 64)] |= 1 << (value % 64),
                SQE_FLAGS_ALLOWED => this.allowed = value,
                SQE_FLAGS_REQUIRED => this.required = value,
                REGISTER_OP.. => {}
            }
        }
        this
    }

    /// Whether the kernel would take this request.
    pub fn allow(&self, entry: &Entry) -> bool {
        let at = usize::from(entry.operation / 64);
        self.operations[at] & 1 << (entry.operation % 64) != 0
            && entry.flags & self.required == self.required
            && entry.flags & !(self.allowed | self.required) == 0
    }
}
