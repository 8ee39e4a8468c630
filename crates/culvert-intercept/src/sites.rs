//! System-call sites of an object: where each is, and how it is rewritten.

/// Bytes of code that a site may change at most.
pub const REGION: usize = 20;
/// Instructions that may be moved into a stub at most.
pub const MOVED: usize = 8;
/// `jmp rel32`.
pub const JUMP: usize = 5;
/// `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// How a site is rewritten, in the order of preference.
///
/// The first two leave the system-call instruction where it is, and calls that nobody wants are
/// made there: glibc from 2.41 on acts on a cancellation only while the program counter lies in its
/// own range, and unwinders know the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `mov $number,%eax; syscall`: the five bytes of the mov become a jump.
    Mov = 1,
    /// The instructions before the system call, at least five bytes, are moved into the stub and
    /// become a jump.
    Before = 2,
    /// The system call and what follows are moved and become a jump.
    Next = 3,
    /// What is before, the system call and what follows.
    Around = 4,
    /// The system call becomes a two-byte jump to unused bytes nearby, which become the jump to the
    /// stub.
    Island = 5,
    /// The system call becomes `ud2`, which is as long, and the handler of SIGILL goes on in the
    /// stub.
    Trap = 6,
}

impl Kind {
    /// All kinds, in the order of preference.
    pub const ALL: [Self; 6] = [
        Self::Mov,
        Self::Before,
        Self::Next,
        Self::Around,
        Self::Island,
        Self::Trap,
    ];

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A system-call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The link-time address of its `syscall`.
    pub address: u64,
    /// The system-call number, where the instructions before fix it; else -1.
    pub number: i32,
    /// How it is rewritten.
    pub kind: Kind,
    /// The region that is rewritten starts this many bytes before the `syscall`.
    pub before: u8,
    /// The bytes in the region. For [`Kind::Mov`] and [`Kind::Before`] it ends where the `syscall`
    /// begins.
    pub length: u8,
    /// For [`Kind::Island`], how far from the `syscall` the island begins.
    pub island: i8,
    /// The region's bytes as they were found; of an island site followed by the [`JUMP`] bytes of
    /// the island. The rest is 0.
    pub bytes: [u8; REGION],
    /// The instructions in the region: the low four bits are the length, the high four the offset
    /// of a displacement that is relative to the end of the instruction, or 0. Jumps tell by their
    /// opcodes what they are. The list ends with a 0.
    pub pieces: [u8; MOVED],
}

impl Site {
    /// One without a region yet.
    pub(crate) fn new(address: u64, number: i32, kind: Kind) -> Self {
        Self {
            address,
            number,
            kind,
            before: 0,
            length: 0,
            island: 0,
            bytes: [0; REGION],
            pieces: [0; MOVED],
        }
    }

    /// The link-time address of the region.
    pub fn start(&self) -> u64 {
        self.address.wrapping_sub(self.before.into())
    }

    /// The region's bytes.
    pub fn region(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }

    /// Whether the `syscall` stays in its place.
    pub fn keeps_syscall(&self) -> bool {
        matches!(self.kind, Kind::Mov | Kind::Before)
    }
}
