//! The log: what the program tells of requests, from its ring to a file. A line for each is a JSON
//! object:
//!
//! | member | |
//! |---|---|
//! | `time` | when it came, seconds since 1970 |
//! | `op` | its name in FUSE |
//! | `node`, `name`, `to` | the node's number, and names in the request, of 127 bytes at most |
//! | `uid`, `gid`, `pid` | who asked |
//! | `by` | who answered: `kernel`, or `server`, which was asked |
//! | `error` | the errno that the kernel answered with |
//!
//! `{"dropped":N}` says that N records before it had no room in the ring, or in the file.

use culvert_sys::{
    BorrowedFd as Borrowed, PAGE,
    flags::Protection,
    memory::{Mapping, Of},
};
use culvert_wire::Operation;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    time::{ClockId, clock_gettime},
};
use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Release},
    },
};

/// `BPF_RINGBUF_BUSY_BIT`, `BPF_RINGBUF_DISCARD_BIT`, and the bytes before a record.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;
/// `struct ready_record`: up to the names, and each of these.
const FIXED: usize = 48;
const NAME: usize = 128;
const RECORD: usize = FIXED + 2 * NAME;
/// How long the next lines may wait; the ring has room for more than the kernel can ask meanwhile.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};
/// `CULVERT_UPCALL`.
const UPCALL: i32 = 0;

/// The ring and the file.
#[derive(Debug)]
pub struct Log {
    ring: OwnedFd,
    /// How far it is read: a word of ours.
    consumed: Mapping,
    /// How far it is written, a page; then the data, twice one after the other.
    produced: Mapping,
    size: usize,
    file: File,
    ended: OwnedFd,
}

impl Log {
    /// Of the map `ring`, of `size` bytes, to `file`, which is made where it is not there.
    pub fn new(ring: OwnedFd, size: usize, file: &Path) -> Result<Self, String> {
        let fd = Borrowed::number(ring.as_raw_fd());
        let both = Protection::READ | Protection::WRITE;
        let mapped = |offset: usize, length, protection| {
            Mapping::near(0, Of::Shared(fd, offset as u64), length, protection)
                .map_err(|error| format!("the log's ring: {}", error.text()))
        };
        let consumed = mapped(0, PAGE, both)?;
        let produced = mapped(PAGE, PAGE + 2 * size, Protection::READ)?;
        let mut options = File::options();
        let opened = options.append(true).create(true).mode(0o600).open(file);
        let file = opened.map_err(|error| format!("{}: {error}", file.display()))?;
        let ended = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| error.to_string())?;
        Ok(Self {
            ring,
            consumed,
            produced,
            size,
            file,
            ended,
        })
    }

    /// Until [`Log::end`]. `dropped`: how many records had no room so far.
    pub fn write(&self, dropped: impl Fn() -> u64) {
        let (mut said, mut lost) = (0, 0);
        loop {
            let ended = self.wait();
            let (mut text, mut lines) = (String::new(), 0);
            self.take(|record| {
                add(record, &mut text);
                lines += 1;
            });
            let missing = dropped() + lost;
            if missing > said {
                let _ = writeln!(text, "{{\"dropped\":{}}}", missing - said);
            }
            match (&self.file).write_all(text.as_bytes()) {
                Ok(()) => said = missing,
                Err(_) => lost += lines,
            }
            if ended {
                return;
            }
        }
    }

    /// Lets [`Log::write`] return, now or when it is called.
    pub fn end(&self) {
        let _ = rustix::io::write(&self.ended, &1_u64.to_ne_bytes());
    }

    /// Until there is something to read; whether it is to end.
    ///
    /// What comes meanwhile wakes nobody: who asks much would wait for a switch at each line.
    fn wait(&self) -> bool {
        let mut both = [&self.ring, &self.ended]
            .map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN));
        if poll(&mut both[1..], Some(&REST)).is_ok_and(|ready| ready > 0) {
            return true;
        }
        match poll(&mut both, None) {
            Ok(_) => both[1].revents().contains(PollFlags::IN),
            Err(error) => io::Error::from(error).kind() != io::ErrorKind::Interrupted,
        }
    }

    /// Calls `each` with the records that are there.
    fn take(&self, mut each: impl FnMut(&[u8; RECORD])) {
        let word = |mapping: &Mapping| mapping.address() as *const AtomicU64;
        // SAFETY: pages of the kernel's and ours that live as long as the mappings, and hold a
        // number each that is changed by atomic operations alone.
        let (consumed, produced) = unsafe { (&*word(&self.consumed), &*word(&self.produced)) };
        let data = self.produced.address() + PAGE;
        let mut at = consumed.load(Acquire);
        while at < produced.load(Acquire) {
            let place = data + (at as usize & (self.size - 1));
            // SAFETY: within the data, which is there twice, so that a record is in one piece; the
            // kernel writes the header's word once more, when the record is whole.
            let header = unsafe { &*(place as *const AtomicU32) }.load(Acquire);
            if header & BUSY != 0 {
                return;
            }
            let length = (header & !DISCARDED) as usize;
            if header & DISCARDED == 0 && length == RECORD {
                // SAFETY: as above; nobody changes a record until it is said to be read.
                each(unsafe { &*((place + HEADER) as *const [u8; RECORD]) });
            }
            at += (length + HEADER).next_multiple_of(8) as u64;
            consumed.store(at, Release);
        }
    }
}

/// The line of `record`.
fn add(record: &[u8; RECORD], text: &mut String) {
    let word = |at: usize| {
        let bytes = record[at..at + 8].try_into().unwrap_or_default();
        u64::from_ne_bytes(bytes)
    };
    let half = |at: usize| {
        let bytes = record[at..at + 4].try_into().unwrap_or_default();
        u32::from_ne_bytes(bytes)
    };
    let nanoseconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let ago = nanoseconds(ClockId::Monotonic).saturating_sub(word(0));
    let when = nanoseconds(ClockId::Realtime).saturating_sub(ago);
    let verdict = half(20).cast_signed();
    let by = if verdict == UPCALL {
        "server"
    } else {
        "kernel"
    };
    let _ = write!(
        text,
        "{{\"time\":{}.{:09},\"op\":\"{}\",\"node\":{}",
        when / 1_000_000_000,
        when % 1_000_000_000,
        Operation::name(half(16)),
        word(8),
    );
    for (member, length, at) in [("name", 36, FIXED), ("to", 40, FIXED + NAME)] {
        let length = (half(length) as usize).min(NAME - 1);
        if length > 0 {
            let _ = write!(text, ",\"{member}\":");
            string(&record[at..at + length], text);
        }
    }
    let (uid, gid, pid) = (half(24), half(28), half(32));
    let _ = write!(
        text,
        ",\"uid\":{uid},\"gid\":{gid},\"pid\":{pid},\"by\":\"{by}\""
    );
    if verdict < 0 {
        let _ = write!(text, ",\"error\":{}", -verdict);
    }
    text.push_str("}\n");
}

/// A JSON string; a byte that is no UTF-8 is U+DC00 plus the byte, as in culvert-log.
fn string(bytes: &[u8], text: &mut String) {
    text.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let _ = match letter {
                '"' | '\\' => write!(text, "\\{letter}"),
                letter if letter.is_ascii_control() => write!(text, "\\u{:04x}", letter as u32),
                letter => write!(text, "{letter}"),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\udc{byte:02x}");
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line() {
        let mut record = [0; RECORD];
        record[8] = 7;
        record[16] = 12;
        record[20..24].copy_from_slice(&(-2_i32).to_ne_bytes());
        for (at, number) in [(24, 1000_u32), (28, 100), (32, 42), (36, 3), (40, 300)] {
            record[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        record[FIXED..FIXED + 3].copy_from_slice(b"a\"\xff");
        record[FIXED + NAME..].fill(b'x');
        let mut text = String::new();
        add(&record, &mut text);
        let (_, rest) = text.split_once(",\"op\"").expect("the time is first");
        let long = "x".repeat(NAME - 1);
        let expected = format!(
            ":\"Rename\",\"node\":7,\"name\":\"a\\\"\\udcff\",\"to\":\"{long}\",\"uid\":1000,\
             \"gid\":100,\"pid\":42,\"by\":\"kernel\",\"error\":2}}\n"
        );
        assert_eq!(rest, expected);
    }
}
