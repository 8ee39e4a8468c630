//! Sessions with a kernel that is not to be trusted: every request is answered, by an error or by
//! something well-formed, or the session ends with a reason. Nothing crashes, hangs, or is kept for
//! ever.

mod kernel;
mod trial;

use culvert::Errno;
use culvert_server::{Channel, Ended, RequestChannel, Session};
use culvert_wire::{
    Data, Message, Name, Operation, Protocol,
    structures::{CreateIn, FallocateIn, GetattrIn, InHeader, InitIn, ReadIn, ReleaseIn, WriteIn},
};
use std::{
    cell::RefCell,
    io,
    sync::{Arc, Mutex},
};
use trial::{Memory, answered, settings};

/// Sessions of random requests.
const SEEDS: u64 = 40;

/// Numbers that come again (xorshift64*).
fn numbers(seed: u64, mut count: usize) -> impl FnMut() -> Option<u64> + Send {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        count = count.checked_sub(1)?;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        Some(state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16)
    }
}

#[test]
fn anything_is_answered() {
    let (mut answers, mut errors) = (0, 0);
    for seed in 1..=SEEDS {
        let seen = answered(numbers(seed, 20_000));
        answers += seen.answers;
        errors += seen.errors;
    }
    // Neither is all refused, nor all allowed.
    let refused = errors as f64 / answers as f64;
    assert!(
        (0.1..0.9).contains(&refused),
        "{answers} answers, {errors} errors"
    );
}

/// The bytes behind the header of an answer, or the errno.
type Replied = Result<Vec<u8>, i32>;

/// A kernel that asks what is written down, and what it was answered: the bytes behind the header,
/// or the errno.
struct Script {
    requests: RefCell<Vec<Vec<u8>>>,
    answers: Arc<Mutex<Vec<Replied>>>,
}

impl Channel for Script {
    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let mut bytes = vec![0; message.length()];
        message.copy_to(&mut bytes).expect("as long as it says");
        let error = i32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
        let answer = match error {
            0 => Ok(bytes[16..].to_vec()),
            error => Err(-error),
        };
        self.answers.lock().expect("no panic").push(answer);
        Ok(())
    }
}

impl RequestChannel for Script {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(bytes) = self.requests.borrow_mut().pop() else {
            return Ok(0);
        };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
    fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn request(nodeid: u64, operation: Operation<'_>) -> Vec<u8> {
    let header = InHeader {
        unique: 2,
        nodeid,
        ..InHeader::default()
    };
    kernel::encoded(header, operation, &Protocol::UNNEGOTIATED)
}

fn init(major: u32, minor: u32) -> Vec<u8> {
    let init = InitIn {
        major,
        minor,
        ..InitIn::default()
    };
    request(0, Operation::Init { init })
}

/// The answers to `requests`, and how the session ended; none: it did not begin.
fn asked(mut requests: Vec<Vec<u8>>) -> (Vec<Replied>, Result<Ended, Errno>) {
    requests.reverse();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let script = Script {
        requests: RefCell::new(requests),
        answers: Arc::clone(&answers),
    };
    let (_memory, filesystem) = Memory::new();
    let session = Session::negotiate(filesystem, settings(), &script);
    let ended = session
        .map(|session| session.serve(Box::new(script)))
        .map_err(|error| error.errno());
    let answers = std::mem::take(&mut *answers.lock().expect("no panic"));
    (answers, ended)
}

#[test]
fn a_session_begins_with_init_alone() {
    let getattr = || {
        request(
            1,
            Operation::Getattr {
                getattr: GetattrIn::default(),
            },
        )
    };
    let refused = |first: Vec<u8>| {
        let (answers, ended) = asked(vec![first]);
        assert!(answers.is_empty());
        ended.map(|_| ()).expect_err("no session")
    };
    assert_eq!(refused(getattr()), Errno::EPROTO);
    assert_eq!(refused(init(7, 30)), Errno::EPROTO);
    assert_eq!(refused(init(6, 31)), Errno::EPROTO);
    assert_eq!(refused(vec![0; 10]), Errno::EPROTO);
    assert_eq!(
        asked(vec![]).1.map(|_| ()).expect_err("no session"),
        Errno::ENODEV
    );
    // A newer kernel is told what is spoken here, and asks again. A second INIT is no request.
    let (answers, ended) = asked(vec![init(8, 0), init(7, 31), init(7, 31), getattr()]);
    assert!(matches!(ended, Ok(Ended::Unmounted)));
    assert_eq!(answers.len(), 4);
    assert!(answers[1].is_ok() && answers[3].is_ok());
    assert_eq!(answers[2], Err(Errno::ENOSYS.raw()));
}

#[test]
fn what_cannot_be_is_an_error() {
    let create = |name: &'static [u8]| {
        request(
            1,
            Operation::Create {
                create: CreateIn {
                    flags: 2,
                    mode: 0o100644,
                    ..CreateIn::default()
                },
                name: Name::new(name).expect("a name"),
            },
        )
    };
    let answers = asked(vec![init(7, 45), create(b"file")]).0;
    let made = answers[1].as_ref().expect("it can be made");
    // `struct fuse_entry_out`.
    let node = u64::from_ne_bytes(*made.first_chunk().expect("an entry"));
    let release = || {
        let release = ReleaseIn {
            fh: 1,
            ..ReleaseIn::default()
        };
        request(node, Operation::Release { release })
    };
    let read = |fh, offset, size| {
        let read = ReadIn {
            fh,
            offset,
            size,
            ..ReadIn::default()
        };
        request(node, Operation::Read { read })
    };
    let write = |offset| {
        let write = WriteIn {
            fh: 1,
            offset,
            ..WriteIn::default()
        };
        let data = Data(b"some");
        request(node, Operation::Write { write, data })
    };
    let allocate = |offset, length| {
        let fallocate = FallocateIn {
            fh: 1,
            offset,
            length,
            ..FallocateIn::default()
        };
        request(node, Operation::Fallocate { fallocate })
    };
    // No name at all, in the sense of path_resolution(7).
    let mut unnamed = create(b"xy");
    let end = unnamed.len() - 1;
    unnamed[end - 2..end].copy_from_slice(b"..");
    let mut short = read(1, 0, 4);
    short.truncate(50);
    let of_another = {
        let read = ReadIn {
            fh: 1,
            size: 4,
            ..ReadIn::default()
        };
        request(node + 1, Operation::Read { read })
    };
    let mut long = read(1, 0, 4);
    long[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    let beyond = i64::MAX as u64 + 1;
    let table: Vec<(Vec<u8>, Result<usize, Errno>)> = vec![
        (init(7, 45), Ok(64)),
        (unnamed, Err(Errno::EIO)),
        (create(b"file"), Ok(144)),
        (write(0), Ok(8)),
        (read(1, 0, u32::MAX), Ok(4)),
        (of_another, Err(Errno::EBADF)),
        (read(1, beyond, 1), Err(Errno::EINVAL)),
        (write(beyond), Err(Errno::EINVAL)),
        (allocate(0, beyond), Err(Errno::EFBIG)),
        (allocate(u64::MAX, 2), Err(Errno::EINVAL)),
        (allocate(1, 0), Err(Errno::EINVAL)),
        (short, Err(Errno::EIO)),
        (long, Err(Errno::EIO)),
        (request(77, Operation::Readlink {}), Err(Errno::ESTALE)),
        (request(0, Operation::Readlink {}), Err(Errno::ESTALE)),
        (
            request(
                1,
                Operation::Unknown {
                    opcode: 77,
                    body: Data(b""),
                },
            ),
            Err(Errno::ENOSYS),
        ),
        (release(), Ok(0)),
        (release(), Ok(0)),
        (read(1, 0, 4), Err(Errno::EBADF)),
        (read(u64::MAX, 0, 4), Err(Errno::EBADF)),
    ];
    let (requests, expected): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    let (answers, ended) = asked(requests);
    assert!(matches!(ended, Ok(Ended::Unmounted)));
    let found: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|bytes| bytes.len()))
        .collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|answer| answer.map_err(Errno::raw))
        .collect();
    assert_eq!(found, expected);
    // What has not even a header is no request: the session ends, and says why.
    let (answers, ended) = asked(vec![init(7, 45), vec![0; 39]]);
    assert_eq!(answers.len(), 1);
    assert!(
        matches!(ended, Ok(Ended::Broken(error)) if error.kind() == io::ErrorKind::InvalidData)
    );
}
