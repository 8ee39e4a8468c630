//! Pages of a shadow go that programs may store into: what was stored in them is in the file first.
//!
//! Nothing keeps processes from storing, so a page may be stored into after the last look at it.
//! Therefore the pages go into a pipe before they are punched out of the shadow: splice(2) from a
//! file of a tmpfs passes the pages themselves (`shmem_file_splice_read`, mm/shmem.c), and a hole
//! is out of all page tables when fallocate(2) returns (`unmap_mapping_range`). What the pipe holds
//! then is the last that anybody has stored, and whoever stores now waits for the page to be
//! filled.

use super::bytes::{read_shadow, write_file};
use super::{State, fill, state};
use crate::shadow::{self, OwnedFd};
use alloc::{vec, vec::Vec};
use culvert::{Caller, Errno, File, Result};
use culvert_run::stat_descriptor;
use culvert_sys::PAGE64;
use culvert_sys::fd::{Command, fcntl, pipe};
use culvert_sys::raw::general::{O_CLOEXEC, O_NONBLOCK};
use culvert_sys::{BorrowedFd, fs};

/// Bytes at a time, where a pipe may hold so many: pipe(7), `/proc/sys/fs/pipe-max-size`.
const STEP: usize = 1 << 20;

/// A pipe for pages.
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// How many bytes in whole pages it holds.
    room: usize,
}

impl Pipe {
    fn new() -> core::result::Result<Self, Errno> {
        /// Of a pipe that nobody has made larger, pipe(7); of users with many of them, two.
        const USUAL: usize = 2 * PAGE64 as usize;
        let (out, into) = pipe(O_CLOEXEC | O_NONBLOCK)?;
        let grown = fcntl(&into, Command::SETPIPE_SZ, STEP);
        let room = grown.map_or(USUAL, |_| STEP);
        Ok(Self { out, into, room })
    }

    /// Takes pages of `file` from byte `at` on, `length` bytes at most; how many bytes.
    fn take(&self, file: i32, at: u64, length: usize) -> core::result::Result<usize, Errno> {
        let mut taken = 0;
        while taken < length {
            let (from, mut at) = (BorrowedFd::number(file), at + taken as u64);
            match fs::splice_from(from, &mut at, &self.into, length - taken, 0) {
                Ok(0) | Err(Errno::EAGAIN) => break,
                Ok(count) => taken += count,
                Err(Errno::EINTR) => {}
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    /// What it holds.
    fn read(&self, buffer: &mut [u8]) -> core::result::Result<(), Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match fs::read(&self.out, &mut buffer[done..]) {
                Ok(0) => return Err(Errno::EIO),
                Ok(count) => done += count,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What [`write_back_and_drop`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// So many bytes are free now.
    pub bytes: u64,
    /// None of the pages has stayed.
    pub all: bool,
}

/// Brings what was stored in the pages of `range` to `file`, and drops them. Under the node's lock.
///
/// The driver's error when it does not take the bytes: then the pages stay.
pub fn write_back_and_drop(file: &dyn File, shadow: i32, range: (u64, u64)) -> Result<Evicted> {
    let found = stat_descriptor(shadow)?;
    // The holes of one that is complete are zeroes.
    if !State::of(&found).is_partly() {
        return Ok(Evicted {
            bytes: 0,
            all: true,
        });
    }
    // What lies behind the end of the file is nobody's.
    let size = file
        .attributes(&Caller::SYSTEM)?
        .size
        .min(found.st_size as u64);
    let pipe = Pipe::new()?;
    let mut eviction = Eviction {
        file,
        shadow,
        pipe,
        before: Vec::new(),
        last: Vec::new(),
    };
    let mut result = Ok(());
    let mut all = true;
    for (start, end) in fill::present(shadow, range)? {
        let end = end.min(size);
        let mut at = start & !(PAGE64 - 1);
        while at < end && result.is_ok() {
            let length = (end - at).min(eviction.pipe.room as u64) as usize;
            match eviction.of(at, length) {
                Ok(0) => {
                    all = false;
                    break;
                }
                Ok(count) => at += count as u64,
                Err(error) => result = Err(error),
            }
        }
    }
    state::keep_times(shadow, &found);
    let left = stat_descriptor(shadow)?.st_blocks;
    let bytes = found.st_blocks.saturating_sub(left) as u64 * 512;
    result.map(|()| Evicted { bytes, all })
}

struct Eviction<'a> {
    file: &'a dyn File,
    shadow: i32,
    pipe: Pipe,
    /// The bytes as they were brought to the file.
    before: Vec<u8>,
    /// The bytes as the pages had them when they went.
    last: Vec<u8>,
}

impl Eviction<'_> {
    /// `length` bytes from `at`, the beginning of a page, on; how many are gone.
    fn of(&mut self, at: u64, length: usize) -> Result<usize> {
        grow(&mut self.before, length);
        grow(&mut self.last, length);
        let got = read_shadow(self.shadow, at, &mut self.before[..length])?;
        // Before they go: whoever dies between here and the end of this loses nothing but what is
        // stored meanwhile.
        let count = fill::read_all(self.file, at, &mut self.last[..got])?;
        write_differing(self.file, at, &self.last[..count], &self.before[..count])?;
        let taken = self.pipe.take(self.shadow, at, count)?;
        // A page that was passed in part stays, but for the last one of the file.
        let whole = match taken == count {
            true => taken,
            false => taken & !(PAGE64 as usize - 1),
        };
        let punched = match whole {
            0 => Err(Errno::EAGAIN),
            whole => fill::punch(self.shadow, at, whole as u64),
        };
        self.pipe.read(&mut self.last[..taken])?;
        if punched.is_err() {
            return Ok(0);
        }
        let (before, last) = (&self.before[..whole], &self.last[..whole]);
        match write_differing(self.file, at, before, last) {
            Ok(()) => Ok(whole),
            // Nobody has filled them again meanwhile, which needs the lock.
            Err(error) => match shadow::write_all(self.shadow, at, last) {
                Ok(()) => Err(error),
                Err(lost) => {
                    culvert_sys::log!(
                        "what was stored at byte {at} of a mapped file while it was written back \
                        is lost: {error}, and {lost}"
                    );
                    Err(error)
                }
            },
        }
    }
}

fn grow(buffer: &mut Vec<u8>, length: usize) {
    if buffer.len() < length {
        *buffer = vec![0; length];
    }
}

/// Writes the pages of `now`, from byte `at` of `file` on, that differ from `then`, which is as
/// long.
fn write_differing(file: &dyn File, at: u64, then: &[u8], now: &[u8]) -> Result<()> {
    let pages = then
        .chunks(PAGE64 as usize)
        .zip(now.chunks(PAGE64 as usize));
    for (index, (then, now)) in pages.enumerate() {
        if then != now {
            write_file(file, at + index as u64 * PAGE64, now)?;
        }
    }
    Ok(())
}
