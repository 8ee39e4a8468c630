//! Memory that other processes change while it is looked at.
//!
//! A Rust reference promises that nobody else writes (`&`), or touches at all (`&mut`), what it
//! points to. Of memory that is shared with other processes no lock of ours makes that true: they
//! may be damaged, be killed, or store through a mapping. So there is no reference: a stretch is an
//! address and a length, and bytes leave and enter it by instructions that the compiler knows
//! nothing of, or volatile. Words that several processes decide by are atomics, each of one size.

use alloc::{vec, vec::Vec};
use core::{arch::asm, marker::PhantomData};

/// A stretch of memory that is read while others may write it.
///
/// Of a mapped file that somebody cuts off, a touch is SIGBUS: such a stretch may only be given to
/// copies that catch faults.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    start: *const u8,
    length: usize,
    mapped: PhantomData<&'a ()>,
}

/// A stretch of memory that is read and written while others may do the same.
#[derive(Clone, Copy, Debug)]
pub struct SharedMut<'a> {
    bytes: Shared<'a>,
    is_for_another: bool,
}

impl<'a> Shared<'a> {
    /// The `length` bytes from `start` on.
    ///
    /// # Safety
    /// They are mapped, readable, for as long as `'a`, and no reference reaches them but to
    /// atomics.
    #[inline]
    pub const unsafe fn new(start: *const u8, length: usize) -> Self {
        Self {
            start,
            length,
            mapped: PhantomData,
        }
    }

    /// Its first byte, for copies that catch faults and for the kernel.
    #[inline]
    pub const fn start(self) -> *const u8 {
        self.start
    }

    /// How many bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The `length` bytes from `start` on, as far as they lie in it.
    #[inline]
    #[must_use]
    pub const fn part(self, start: usize, length: usize) -> Self {
        let start = if start < self.length {
            start
        } else {
            self.length
        };
        let rest = self.length - start;
        let length = if length < rest { length } else { rest };
        Self {
            start: self.start.wrapping_add(start),
            length,
            mapped: PhantomData,
        }
    }

    /// Copies as many bytes as both have; how many.
    #[inline]
    pub fn copy_to(self, into: &mut [u8]) -> usize {
        let count = self.length.min(into.len());
        // SAFETY: `count` bytes of both; `into` is the caller's alone.
        unsafe { copy(into.as_mut_ptr(), self.start, count) };
        count
    }

    /// All bytes, as they are now.
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Whether all bytes are zero.
    pub fn is_zero(self) -> bool {
        let (mut at, mut piece) = (0, [0; 128]);
        while at < self.length {
            let count = self.part(at, piece.len()).copy_to(&mut piece);
            if piece[..count].iter().any(|&byte| byte != 0) {
                return false;
            }
            at += count;
        }
        true
    }
}

impl<'a> SharedMut<'a> {
    /// The `length` bytes from `start` on.
    ///
    /// # Safety
    /// As [`Shared::new`], and they are writable.
    #[inline]
    pub const unsafe fn new(start: *mut u8, length: usize) -> Self {
        let bytes = Shared {
            start,
            length,
            mapped: PhantomData,
        };
        Self {
            bytes,
            is_for_another: false,
        }
    }

    /// What is written there another process reads next, perhaps on another processor: large copies
    /// go past the caches.
    #[inline]
    #[must_use]
    pub const fn for_another(self) -> Self {
        Self {
            is_for_another: true,
            ..self
        }
    }

    /// Whether [`SharedMut::for_another`] has said so.
    #[inline]
    pub const fn is_for_another(self) -> bool {
        self.is_for_another
    }

    /// The same for reading.
    #[inline]
    pub const fn shared(self) -> Shared<'a> {
        self.bytes
    }

    /// Its first byte, for copies that catch faults and for the kernel.
    #[inline]
    pub const fn start(self) -> *mut u8 {
        self.bytes.start.cast_mut()
    }

    /// How many bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.bytes.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The `length` bytes from `start` on, as far as they lie in it.
    #[inline]
    #[must_use]
    pub const fn part(self, start: usize, length: usize) -> Self {
        Self {
            bytes: self.bytes.part(start, length),
            ..self
        }
    }

    /// The bytes from `start` on, if there are any.
    #[inline]
    #[must_use]
    pub const fn tail(self, start: usize) -> Self {
        self.part(start, self.bytes.length)
    }

    /// Copies as many bytes as both have; how many.
    #[inline]
    pub fn copy_from(self, bytes: &[u8]) -> usize {
        let count = self.bytes.length.min(bytes.len());
        // SAFETY: `count` bytes of both; those of `bytes` stay as they are.
        unsafe { copy(self.start(), bytes.as_ptr(), count) };
        count
    }

    /// Makes all bytes zeroes.
    #[inline]
    pub fn clear(self) {
        // SAFETY: all of the stretch, which is writable; the direction flag is clear in Rust code.
        unsafe {
            asm!(
                "rep stosb",
                inout("rcx") self.bytes.length => _,
                inout("rdi") self.bytes.start => _,
                in("al") 0u8,
                options(nostack, preserves_flags),
            );
        }
    }
}

impl<'a> From<&'a [u8]> for Shared<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
            mapped: PhantomData,
        }
    }
}

impl<'a> From<&'a mut [u8]> for SharedMut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        // The caller's alone for as long, and the reference is given away.
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        let bytes = Shared {
            start,
            length,
            mapped: PhantomData,
        };
        Self {
            bytes,
            is_for_another: false,
        }
    }
}

/// Up to so many bytes words take less time than a string instruction needs to begin.
const SHORT: usize = 128;

/// Copies `count` bytes, forwards.
///
/// # Safety
/// They are readable from `from` on and writable from `to` on.
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: as the caller says. Words need not be aligned. The direction flag is clear in Rust
    // code.
    unsafe {
        if count <= SHORT {
            let words = count / 8 * 8;
            for at in (0..words).step_by(8) {
                asm!(
                    "mov {word}, [{from}]",
                    "mov [{to}], {word}",
                    word = out(reg) _,
                    from = in(reg) from.add(at),
                    to = in(reg) to.add(at),
                    options(nostack, preserves_flags),
                );
            }
            for at in words..count {
                to.add(at).write_volatile(from.add(at).read_volatile());
            }
            return;
        }
        asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn bytes_enter_and_leave_and_nothing_beyond_is_touched() {
        let mut memory = [b'.'; 300];
        let all = SharedMut::from(&mut memory[..]);
        assert_eq!(all.part(10, 5).copy_from(b"abcdefgh"), 5);
        assert_eq!(all.part(298, 9).copy_from(b"xyz"), 2);
        assert_eq!(all.part(300, 1).copy_from(b"x"), 0);
        assert_eq!(all.part(usize::MAX, usize::MAX).len(), 0);
        let mut bytes = [0; 300];
        assert_eq!(all.shared().copy_to(&mut bytes), 300);
        assert_eq!(bytes[9..16], *b".abcde.");
        assert_eq!(bytes[297..], *b".xy");
        assert_eq!(all.shared().part(10, 300).copy_to(&mut bytes[..2]), 2);
        assert_eq!(bytes[..3], *b"ab.");
        let numbers: [u8; 300] = core::array::from_fn(|at| at as u8);
        for count in 0..300 {
            all.clear();
            all.copy_from(&numbers[..count]);
            all.shared().copy_to(&mut bytes);
            assert_eq!(bytes[..count], numbers[..count]);
            assert!(bytes[count..].iter().all(|&byte| byte == 0), "{count}");
        }
    }

    #[test]
    fn what_was_cleared_is_zero() {
        let mut memory = [1; 300];
        let all = SharedMut::from(&mut memory[..]);
        assert!(!all.shared().is_zero());
        all.tail(20).clear();
        assert!(all.tail(20).shared().is_zero());
        assert!(!all.tail(19).shared().is_zero());
        all.part(0, 20).clear();
        all.part(299, 1).copy_from(b"x");
        assert!(!all.shared().is_zero() && all.part(0, 299).shared().is_zero());
        assert!(all.part(5, 0).shared().is_zero());
    }

    #[test]
    fn what_another_thread_changes_meanwhile_is_old_or_new() {
        use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
        // Bytes that threads change as other processes would.
        let memory: [AtomicU8; 8192] = [const { AtomicU8::new(b'a') }; 8192];
        // SAFETY: atomics, which live as long as this test.
        let stretch = || unsafe { SharedMut::new(memory.as_ptr().cast_mut().cast(), memory.len()) };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for piece in [[b'a'; 5000], [b'b'; 5000]] {
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        stretch().part(100, 5000).copy_from(&piece);
                    }
                });
            }
            let mut bytes = [0; 8192];
            for _ in 0..2000 {
                stretch().shared().copy_to(&mut bytes);
                assert!(bytes.iter().all(|byte| b"ab".contains(byte)));
                assert!(bytes[..100].iter().all(|&byte| byte == b'a'));
            }
            over.store(true, Relaxed);
        });
    }
}
