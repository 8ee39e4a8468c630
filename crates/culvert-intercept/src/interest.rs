//! Which calls are offered: the embedder's wishes and the engine's own needs, as a byte per number
//! that stubs can look at.

use crate::Interest;
use culvert_sys::nr;
use culvert_sys::sync::AtomicRef;

/// Numbers from here on (and x32's, which have bit 30) are always executed at once.
pub(crate) const NUMBERS: usize = 512;

/// An [`Interest`] per number, the engine's own needs included. A constant of the embedder's, so
/// that nobody fills it at each start.
pub struct Interests {
    table: [Interest; NUMBERS],
    /// A bit per number that the embedder wishes to see.
    wished: Bits,
    fingerprint: u64,
}

/// A number for the engine and what it is asked for: other code has another store of images.
const fn fingerprint(table: &[Interest; NUMBERS]) -> u64 {
    let (engine, mut sum, mut i) = (env!("CULVERT_ENGINE").as_bytes(), 0xcbf2_9ce4_8422_2325, 0);
    while i < engine.len() + NUMBERS {
        let byte = match i < engine.len() {
            true => engine[i],
            false => table[i - engine.len()] as u8,
        };
        sum = (sum ^ byte as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    sum
}

/// A bit per number.
type Bits = [u64; NUMBERS / 64];

const fn has(bits: &Bits, number: usize) -> bool {
    number < NUMBERS && bits[number / 64] >> (number % 64) & 1 != 0
}

impl Interests {
    /// Every call.
    pub const ALL: Self = Self::new([Interest::Always; NUMBERS]);
    /// None but the engine's own.
    pub const NONE: Self = Self::new([Interest::Never; NUMBERS]);

    /// What an embedder wishes, and what the engine needs.
    pub const fn new(wished: [Interest; NUMBERS]) -> Self {
        let (mut table, mut bits) = (wished, [0; NUMBERS / 64]);
        let mut i = 0;
        while i < NUMBERS {
            if !matches!(wished[i], Interest::Never) {
                bits[i / 64] |= 1 << (i % 64);
            }
            i += 1;
        }
        i = 0;
        while i < OWN.len() {
            table[OWN[i]] = Interest::Always;
            i += 1;
        }
        // Only the bare frame that the kernel built may be under rsp when it runs.
        table[nr::RT_SIGRETURN] = Interest::Never;
        Self {
            fingerprint: fingerprint(&table),
            table,
            wished: bits,
        }
    }

    /// The name of the store of images for them, which other code of the engine does not share.
    pub fn store(&self) -> alloc::string::String {
        alloc::format!("{:016x}", self.fingerprint)
    }
}

impl core::fmt::Debug for Interests {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Interests")
    }
}

static CURRENT: AtomicRef<Interests> = AtomicRef::new();

/// Calls that the engine itself has to see: those that make threads and processes, change signals,
/// map code or move the GS base.
const OWN: [usize; 19] = [
    nr::CLONE,
    nr::CLONE3,
    nr::FORK,
    nr::VFORK,
    nr::EXIT,
    nr::RT_SIGACTION,
    nr::RT_SIGPROCMASK,
    nr::RT_SIGSUSPEND,
    nr::SIGALTSTACK,
    nr::PPOLL,
    nr::PSELECT6,
    nr::EPOLL_PWAIT,
    nr::EPOLL_PWAIT2,
    nr::MMAP,
    nr::MPROTECT,
    nr::PKEY_MPROTECT,
    nr::ARCH_PRCTL,
    nr::EXECVE,
    nr::EXECVEAT,
];

static OWN_BITS: Bits = {
    let mut bits = [0; NUMBERS / 64];
    let mut i = 0;
    while i < OWN.len() {
        bits[OWN[i] / 64] |= 1 << (OWN[i] % 64);
        i += 1;
    }
    bits
};

/// Whether the engine itself has something to do about it.
#[inline]
pub(crate) fn is_own(number: usize) -> bool {
    has(&OWN_BITS, number)
}

/// From here on these hold.
pub(crate) fn set(interests: &'static Interests) {
    CURRENT.set(Some(interests));
}

/// Where the table of those that hold begins: a byte per number.
pub(crate) fn table() -> *const Interest {
    current().table.as_ptr()
}

/// Whether the embedder wishes to see it.
#[inline]
pub(crate) fn is_wished(number: usize) -> bool {
    has(&current().wished, number)
}

/// Those that hold.
pub(crate) fn current() -> &'static Interests {
    CURRENT.get().unwrap_or(&Interests::NONE)
}

/// When calls of this number are offered.
#[inline]
pub(crate) fn of(number: usize) -> Interest {
    let interest = current().table.get(number);
    interest.copied().unwrap_or(Interest::Never)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_sees_what_it_needs_whatever_is_wished() {
        let [all, none] = [Interests::ALL.table, Interests::NONE.table];
        for number in 0..NUMBERS {
            let (own, is_return) = (OWN.contains(&number), number == nr::RT_SIGRETURN);
            let wanted = |wished| match () {
                () if is_return => Interest::Never,
                () if own => Interest::Always,
                () => wished,
            };
            assert_eq!(all[number], wanted(Interest::Always), "{number}");
            assert_eq!(none[number], wanted(Interest::Never), "{number}");
            assert_eq!(own, is_own(number), "{number}");
            assert!(has(&Interests::ALL.wished, number), "{number}");
            assert!(!has(&Interests::NONE.wished, number), "{number}");
        }
    }
}
