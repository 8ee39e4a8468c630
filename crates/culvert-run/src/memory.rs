//! The program's memory as sinks and sources for drivers: every touch is a checked copy.

pub use crate::files::c_string;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Errno, Error, Result, Shared, SharedMut, Sink, Source};
use culvert_intercept::user;
use culvert_sys::PAGE;
use culvert_sys::plain::Plain;

/// One stretch of the program's memory, as in `struct iovec`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Span {
    /// Its address.
    pub base: usize,
    /// Its length in bytes.
    pub length: usize,
}

/// More vectors than this are refused with EINVAL (`UIO_MAXIOV`, readv(2)).
const UIO_MAXIOV: usize = 1024;
/// One read or write moves at most this many bytes (`MAX_RW_COUNT`, read(2)).
pub const MAX_RW_COUNT: usize = 0x7fff_f000;

/// `TASK_SIZE_MAX` of x86-64 with four-level page tables: what a program can address.
const TASK_SIZE: usize = (1 << 47) - 4096;

/// Whether a stretch of memory lies in the program's half of the address space, wherever it may be
/// mapped (`access_ok`).
pub fn accessible(base: usize, length: usize) -> bool {
    base.checked_add(length).is_some_and(|end| end <= TASK_SIZE)
}

/// The span of a read or write call: EFAULT when it cannot be the program's; at most `MAX_RW_COUNT`
/// bytes.
pub fn span(base: usize, length: usize) -> core::result::Result<Span, Errno> {
    if !accessible(base, length) {
        return Err(Errno::EFAULT);
    }
    Ok(Span {
        base,
        length: length.min(MAX_RW_COUNT),
    })
}

/// The vectors of readv and writev, read from the program: EINVAL for too many or a negative
/// length, EFAULT for bad memory; the total is cut to `MAX_RW_COUNT` as `import_iovec` does.
pub fn spans(address: usize, count: usize) -> core::result::Result<Vec<Span>, Errno> {
    if count > UIO_MAXIOV {
        return Err(Errno::EINVAL);
    }
    let mut spans = Vec::with_capacity(count);
    let mut room = MAX_RW_COUNT;
    for i in 0..count {
        let mut raw = [0u8; 16];
        user::copy_in(&mut raw, address + i * 16).map_err(|_| Errno::EFAULT)?;
        let word = |at: usize| usize::from_ne_bytes(core::array::from_fn(|k| raw[at + k]));
        let (base, length) = (word(0), word(8));
        if length as isize <= -1 {
            return Err(Errno::EINVAL);
        }
        if !accessible(base, length) {
            return Err(Errno::EFAULT);
        }
        let length = length.min(room);
        room -= length;
        spans.push(Span { base, length });
    }
    Ok(spans)
}

/// The part of `spans` that lies behind `skip` bytes, `length` bytes at most.
pub fn part(spans: &[Span], mut skip: usize, mut length: usize) -> Vec<Span> {
    let mut part = Vec::new();
    for span in spans {
        let past = skip.min(span.length);
        let count = length.min(span.length - past);
        if count != 0 {
            part.push(Span {
                base: span.base + past,
                length: count,
            });
        }
        (skip, length) = (skip - past, length - count);
    }
    part
}

/// A walk over spans, shared by both directions.
struct Cursor<'a> {
    spans: &'a [Span],
    done: usize,
}

impl Cursor<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        match self.spans {
            [one] => one.length - self.done,
            spans => spans.iter().map(|s| s.length).sum::<usize>() - self.done,
        }
    }

    /// The rest of the current span.
    #[inline]
    fn here(&mut self) -> Option<Span> {
        while let Some(first) = self.spans.first() {
            if self.done < first.length {
                return Some(Span {
                    base: first.base + self.done,
                    length: first.length - self.done,
                });
            }
            self.spans = &self.spans[1..];
            self.done = 0;
        }
        None
    }

    /// Moves up to `count` bytes on: `copy` copies from or to a stretch of the program's memory,
    /// and is told how many bytes lie before it. An error only when there is none before the fault.
    #[inline]
    fn each(
        &mut self,
        count: usize,
        mut copy: impl FnMut(Span, usize) -> core::result::Result<(), user::CopyError>,
    ) -> Result<usize> {
        let mut moved = 0;
        while moved < count {
            let Some(span) = self.here() else { break };
            let length = span.length.min(count - moved);
            if let Err(fault) = copy(Span { length, ..span }, moved) {
                return self.stopped(moved, fault);
            }
            moved += length;
            self.done += length;
        }
        Ok(moved)
    }

    /// What a fault after `moved` bytes makes of the copy.
    #[cold]
    fn stopped(&mut self, moved: usize, fault: user::CopyError) -> Result<usize> {
        self.done += fault.done;
        match (moved + fault.done, fault.side) {
            (0, user::Side::User) => Err(Errno::EFAULT.into()),
            (0, user::Side::Ours) => Err(Error::because(
                Errno::EIO,
                "the mapped source vanished while it was read (truncated?)",
            )),
            (moved, _) => Ok(moved),
        }
    }
}

/// Program memory that a read fills.
pub struct UserSink<'a>(Cursor<'a>);

impl<'a> UserSink<'a> {
    /// A sink over `spans`, filled in order.
    pub fn new(spans: &'a [Span]) -> Self {
        Self(Cursor { spans, done: 0 })
    }
}

impl Sink for UserSink<'_> {
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        self.put_shared(bytes.into())
    }

    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        self.0.each(bytes.len(), |to, at| {
            user::copy_out_shared(to.base, bytes.part(at, to.length))
        })
    }

    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        self.0
            .each(count, |to, _| user::zero_out(to.base, to.length))
    }

    fn read_from(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        if crate::task::is_confined() {
            return 0;
        }
        let Some(span) = self.0.here() else { return 0 };
        let count = span.length.min(count);
        let arguments = [fd as usize, span.base, count, offset as usize];
        // SAFETY: the program's own memory, which it gave for this read; the kernel checks it.
        let read = unsafe { culvert_sys::syscall::call(culvert_sys::nr::PREAD64, arguments) };
        let read = read.unwrap_or(0);
        self.0.done += read;
        read
    }

    fn interrupted(&self) -> bool {
        culvert_intercept::wait::pending()
    }
}

/// Program memory that a write empties.
pub struct UserSource<'a>(Cursor<'a>);

impl<'a> UserSource<'a> {
    /// A source over `spans`, read in order.
    pub fn new(spans: &'a [Span]) -> Self {
        Self(Cursor { spans, done: 0 })
    }
}

impl Source for UserSource<'_> {
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        self.take_shared(into.into())
    }

    fn take_shared(&mut self, into: SharedMut<'_>) -> Result<usize> {
        self.0.each(into.len(), |from, at| {
            user::copy_in_shared(into.part(at, from.length), from.base)
        })
    }

    fn write_to(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        if crate::task::is_confined() {
            return 0;
        }
        let Some(span) = self.0.here() else { return 0 };
        let count = span.length.min(count);
        let arguments = [fd as usize, span.base, count, offset as usize];
        // SAFETY: the kernel only reads the program's memory, on its own behalf.
        let written = unsafe { culvert_sys::syscall::call(culvert_sys::nr::PWRITE64, arguments) };
        let written = written.unwrap_or(0);
        self.0.done += written;
        written
    }

    fn interrupted(&self) -> bool {
        culvert_intercept::wait::pending()
    }
}

/// Room on the hook's stack for a path from the program. Never initialised as a whole: that would
/// cost more than most calls.
pub struct PathBuffer(core::mem::MaybeUninit<[u8; 4096]>);

impl PathBuffer {
    /// Empty room.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(core::mem::MaybeUninit::uninit())
    }

    /// Reads the string at `address`, without its NUL, which comes behind it in the buffer: EFAULT
    /// for bad memory, ENAMETOOLONG for 4096 bytes or more (`getname`).
    #[inline]
    pub fn read(&mut self, address: usize) -> core::result::Result<Path<'_>, Errno> {
        // SAFETY: `string_in` only writes here, and what it has not written is not looked at.
        let buffer = unsafe { &mut *self.0.as_mut_ptr() };
        let length = match user::string_in(address, buffer) {
            Ok(length) => length,
            Err(user::StringError::Fault) => return Err(Errno::EFAULT),
            Err(user::StringError::TooLong) => return Err(Errno::ENAMETOOLONG),
        };
        let string = buffer.get_mut(..=length).ok_or(Errno::ENAMETOOLONG)?;
        string[length] = 0;
        // SAFETY: it was read up to its first NUL, which stands behind it.
        Ok(Path(unsafe { CStr::from_bytes_with_nul_unchecked(string) }))
    }
}

/// A path of the program's, or of ours.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p>(&'p CStr);

impl<'p> Path<'p> {
    /// The path of a string of ours.
    pub const fn of(string: &'p CStr) -> Self {
        Self(string)
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> &'p [u8] {
        self.0.to_bytes()
    }

    /// It, for a system call.
    #[inline]
    pub const fn c_str(self) -> &'p CStr {
        self.0
    }

    /// Where it is, for a system call.
    pub fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The path without its first `count` bytes.
    pub fn skip(self, count: usize) -> Self {
        Self(&self.0[count.min(self.0.count_bytes())..])
    }
}

impl core::ops::Deref for Path<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.to_bytes()
    }
}

impl Default for PathBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// Plain numbers, which any bytes make.
pub trait Number: Plain {}
impl Number for u8 {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for i64 {}
impl Number for u64 {}
impl Number for usize {}

/// The number at `address` of the program's memory; EFAULT when it cannot be read.
#[inline]
pub fn get<T: Number>(address: usize) -> core::result::Result<T, Errno> {
    user::read(address).map_err(|_| Errno::EFAULT)
}

/// Stores a number at `address` of the program's memory; EFAULT when it cannot be written.
#[inline]
pub fn put<T: Number>(address: usize, value: T) -> core::result::Result<(), Errno> {
    user::write(address, &value).map_err(|_| Errno::EFAULT)
}

/// Whether a structure of `size` bytes at `address` says no more than its first `known` bytes do,
/// of which there must be `least`: what a program compiled for a later kernel knows beyond that has
/// to be zero (`copy_struct_from_user`, include/linux/uaccess.h). EINVAL for less, E2BIG for more.
pub fn says_no_more(
    address: usize,
    size: usize,
    least: usize,
    known: usize,
) -> core::result::Result<(), Errno> {
    if size < least {
        return Err(Errno::EINVAL);
    }
    if size > PAGE {
        return Err(Errno::E2BIG);
    }
    let mut bytes = [0u8; 64];
    let mut at = known;
    while at < size {
        let count = (size - at).min(bytes.len());
        user::copy_in(&mut bytes[..count], address.wrapping_add(at)).map_err(|_| Errno::EFAULT)?;
        if bytes[..count].iter().any(|&byte| byte != 0) {
            return Err(Errno::E2BIG);
        }
        at += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_later_kernels_may_have_zeroes_behind() {
        let mut bytes = [0u8; 5000];
        bytes[..24].fill(1);
        let says = |bytes: &[u8], size| says_no_more(bytes.as_ptr() as usize, size, 24, 24);
        assert_eq!(says(&bytes, 23), Err(Errno::EINVAL));
        for size in [24, 25, 88, 4096] {
            assert_eq!(says(&bytes, size), Ok(()), "{size}");
        }
        assert_eq!(says(&bytes, 4097), Err(Errno::E2BIG));
        bytes[200] = 1;
        assert_eq!(says(&bytes, 200), Ok(()));
        assert_eq!(says(&bytes, 201), Err(Errno::E2BIG));
        assert_eq!(says_no_more(bytes.as_ptr() as usize, 8, 8, 24), Ok(()));
    }

    #[test]
    fn parts_of_spans_are_where_their_bytes_are() {
        let span = |base, length| Span { base, length };
        let spans = [span(100, 10), span(200, 0), span(300, 5), span(400, 20)];
        let part = |skip, length| -> Vec<(usize, usize)> {
            let part = super::part(&spans, skip, length);
            part.iter().map(|span| (span.base, span.length)).collect()
        };
        assert_eq!(part(0, 35), [(100, 10), (300, 5), (400, 20)]);
        assert_eq!(part(0, 10), [(100, 10)]);
        assert_eq!(part(9, 3), [(109, 1), (300, 2)]);
        assert_eq!(part(10, 6), [(300, 5), (400, 1)]);
        assert_eq!(part(34, 100), [(419, 1)]);
        assert_eq!(part(35, 100), []);
        assert_eq!(part(3, 0), []);
    }
}
