//! Where reads put their bytes and where writes find theirs.

use crate::{Result, Shared, SharedMut};
use culvert_sys::{BorrowedFd, fs};

/// Bytes that go through a buffer at once where a sink or source has no copy of its own for shared
/// memory.
const PIECE: usize = 4096;

/// Where a read puts its bytes: the program's memory (checked copy), a reply buffer, or a slice.
///
/// A driver that gets an error, or fewer bytes taken than it offered and than remained, stops: it
/// returns the bytes put so far as a short read, or the error when there are none.
pub trait Sink {
    /// How many bytes are still wanted.
    fn remaining(&self) -> usize;

    /// Takes up to `remaining` bytes of `bytes` and returns how many. `EFAULT` when the program's
    /// memory is bad and nothing was taken by this call.
    fn put(&mut self, bytes: &[u8]) -> Result<usize>;

    /// [`Sink::put`] of bytes that other processes may change meanwhile. A sink that catches faults
    /// copies them itself, and a fault while *reading* them (a mapping that was truncated) is
    /// `EIO`.
    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        let (mut done, mut piece) = (0, [0; PIECE]);
        while done < bytes.len() {
            let count = bytes.part(done, PIECE).copy_to(&mut piece);
            match self.put(&piece[..count]) {
                Ok(put) if put < count => return Ok(done + put),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(put) => done += put,
            }
        }
        Ok(done)
    }

    /// Takes up to `count` zero bytes (holes) and returns how many; errors as [`Sink::put`].
    fn put_zeroes(&mut self, count: usize) -> Result<usize>;

    /// Reads up to `count` bytes from `offset` of the kernel's descriptor `fd`, a regular file
    /// (pread(2)), without a copy in between; returns how many. 0 where this sink cannot, or the
    /// kernel would not: [`Sink::put`] tells why.
    fn read_from(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        let _ = (fd, offset, count);
        0
    }

    /// Where the next bytes go, if that is memory of this process's own, which no program can take
    /// away: a driver may have the kernel write to its beginning, and says how much by
    /// [`Sink::filled`]. None where it must be [`Sink::put`].
    fn place(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// The first `count` bytes of [`Sink::place`] are there.
    fn filled(&mut self, count: usize) {
        let _ = count;
    }

    /// Whether the one who waits for this read has been interrupted (a signal; FUSE's INTERRUPT). A
    /// driver about to wait long asks it, and again when a system call of its own ends with
    /// `EINTR`; when true and nothing was put it returns `EINTR` (signal(7)).
    fn interrupted(&self) -> bool {
        false
    }
}

/// Where a write finds its bytes.
pub trait Source {
    /// How many bytes are left.
    fn remaining(&self) -> usize;

    /// Copies the next bytes into `into` and returns how many, fewer only at the end. `EFAULT` when
    /// the program's memory is bad and nothing was copied by this call.
    fn take(&mut self, into: &mut [u8]) -> Result<usize>;

    /// [`Source::take`] into memory that other processes may look at and change meanwhile.
    fn take_shared(&mut self, into: SharedMut<'_>) -> Result<usize> {
        let (mut done, mut piece) = (0, [0; PIECE]);
        while done < into.len() {
            let wanted = PIECE.min(into.len() - done);
            match self.take(&mut piece[..wanted]) {
                Ok(taken) => {
                    done += into.tail(done).copy_from(&piece[..taken]);
                    if taken < wanted {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Writes up to `count` of the next bytes to `offset` of the kernel's descriptor `fd`, a
    /// regular file (pwrite(2)), without a copy in between; returns how many. 0 where this source
    /// cannot, or the kernel would not: [`Source::take`] tells why.
    fn write_to(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        let _ = (fd, offset, count);
        0
    }

    /// All bytes that are left, if they lie in memory of this process's own, which no program can
    /// change or take away; how many of them were used is told by [`Source::used`]. None where they
    /// must be taken by [`Source::take`].
    fn rest(&self) -> Option<&[u8]> {
        None
    }

    /// The first `count` bytes of [`Source::rest`] were taken.
    fn used(&mut self, count: usize) {
        let _ = count;
    }

    /// As [`Sink::interrupted`], when nothing was taken.
    fn interrupted(&self) -> bool {
        false
    }
}

/// Fills `out` through `piece`, as far as `read` has bytes: it is given how many there were so far,
/// and where to put more. An error counts only where there is nothing before it.
pub fn read_through(
    out: &mut dyn Sink,
    piece: &mut [u8],
    mut read: impl FnMut(&dyn Sink, u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut done = 0;
    loop {
        let wanted = out.remaining().min(piece.len());
        if wanted == 0 {
            return Ok(done);
        }
        let step = read(&*out, done as u64, &mut piece[..wanted]);
        // A driver's count is not taken for more than it was given: no panic in a program.
        let step = step.and_then(|count| out.put(&piece[..count.min(wanted)]));
        match step {
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
            Ok(put) => {
                done += put;
                if put < wanted {
                    return Ok(done);
                }
            }
        }
    }
}

/// Gives `write` what `from` has, a `piece` at a time, with how many bytes were written before,
/// until it takes less. An error counts only where there is nothing before it.
pub fn write_through(
    from: &mut dyn Source,
    piece: &mut [u8],
    mut write: impl FnMut(&dyn Source, u64, &[u8]) -> Result<usize>,
) -> Result<usize> {
    let mut done = 0;
    loop {
        let wanted = from.remaining().min(piece.len());
        let step = from
            .take(&mut piece[..wanted])
            .and_then(|taken| match taken {
                0 => Ok((0, 0)),
                taken => Ok((taken, write(&*from, done as u64, &piece[..taken])?)),
            });
        match step {
            Err(error) if done == 0 => return Err(error),
            Err(_) | Ok((0, _)) => return Ok(done),
            Ok((taken, written)) => {
                done += written.min(taken);
                if written < taken {
                    return Ok(done);
                }
            }
        }
    }
}

/// A sink over a slice.
impl Sink for &mut [u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len().min(self.len());
        let (head, tail) = core::mem::take(self).split_at_mut(count);
        head.copy_from_slice(&bytes[..count]);
        *self = tail;
        Ok(count)
    }
    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        let count = bytes.copy_to(self);
        Sink::filled(self, count);
        Ok(count)
    }
    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        let count = count.min(self.len());
        let (head, tail) = core::mem::take(self).split_at_mut(count);
        head.fill(0);
        *self = tail;
        Ok(count)
    }
    fn read_from(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        let count = count.min(self.len());
        let read = fs::pread(BorrowedFd::number(fd), &mut self[..count], offset).unwrap_or(0);
        Sink::filled(self, read);
        read
    }
    fn place(&mut self) -> Option<&mut [u8]> {
        Some(self)
    }
    fn filled(&mut self, count: usize) {
        let count = count.min(self.len());
        *self = &mut core::mem::take(self)[count..];
    }
}

/// A source over a slice.
impl Source for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        let count = into.len().min(self.len());
        let (head, tail) = self.split_at(count);
        into[..count].copy_from_slice(head);
        *self = tail;
        Ok(count)
    }
    fn take_shared(&mut self, into: SharedMut<'_>) -> Result<usize> {
        let count = into.copy_from(self);
        Source::used(self, count);
        Ok(count)
    }
    fn rest(&self) -> Option<&[u8]> {
        Some(self)
    }
    fn used(&mut self, count: usize) {
        *self = &self[count.min(self.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_filled_and_used_up_from_its_beginning() {
        let mut bytes = [0u8; 4];
        let mut sink = &mut bytes[..];
        let place = Sink::place(&mut sink).expect("a slice is our own memory");
        place[..3].copy_from_slice(b"abc");
        Sink::filled(&mut sink, 3);
        assert_eq!(Sink::remaining(&sink), 1);
        assert_eq!(Sink::put(&mut sink, b"de").expect("there is room"), 1);
        let mut source = &bytes[..];
        assert_eq!(Source::rest(&source), Some(&b"abcd"[..]));
        Source::used(&mut source, 3);
        assert_eq!(Source::rest(&source), Some(&b"d"[..]));
        Source::used(&mut source, 9);
        assert_eq!(Source::remaining(&source), 0);
    }
}
