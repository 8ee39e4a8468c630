//! What is encoded is decoded to the same, in every version and in both directions.

use super::{Random, protocols};
use crate::{
    Answer, DirectoryEntries, DirectoryEntriesPlus, DirectoryWriter, Extension, Extensions,
    Malformed, Message, Notification, Operation, Protocol, Reply, Request, SecurityContext,
    WireEntry,
    structures::{EntryOut, InHeader},
};
use std::{boxed::Box, vec, vec::Vec};

fn flat(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0xaa; message.length()];
    assert_eq!(message.copy_to(&mut bytes), Some(bytes.len()));
    assert_eq!(message.copy_to(&mut bytes[1..]), None);
    bytes
}

/// The message, put together and taken apart, is the one that it was; with the counts that encoding
/// sets.
fn request_survives(request: &Request<'_>, protocol: &Protocol) {
    let bytes = flat(&request.encode(protocol).expect("can be sent"));
    let back = Request::decode(&bytes, protocol).expect("what was encoded");
    assert_eq!(back.header.len as usize, bytes.len());
    assert_eq!(back.header.unique, request.header.unique);
    assert_eq!(back.extensions, request.extensions);
    let again = flat(&back.encode(protocol).expect("can be sent"));
    assert_eq!(again, bytes, "{request:?}");
    // Encoded again, all counts are right: then nothing may differ.
    assert_eq!(Request::decode(&again, protocol), Ok(back));
    let stripped = |operation: &Operation<'_>| std::format!("{operation:?}");
    match request.operation {
        // These carry counts that encoding sets.
        Operation::Write { data, .. } => {
            assert!(matches!(back.operation, Operation::Write { data: got, .. } if got == data))
        }
        Operation::Setxattr { value, name, .. } => {
            assert!(
                matches!(back.operation, Operation::Setxattr { value: v, name: n, .. } if v == value && n == name)
            );
        }
        Operation::Ioctl { data, .. } => {
            assert!(matches!(back.operation, Operation::Ioctl { data: got, .. } if got == data))
        }
        Operation::NotifyReply { data, .. } => {
            assert!(
                matches!(back.operation, Operation::NotifyReply { data: got, .. } if got == data)
            );
        }
        Operation::BatchForget { forgets, .. } => {
            assert!(
                matches!(back.operation, Operation::BatchForget { forgets: got, .. } if got == forgets)
            );
        }
        ref same => assert_eq!(stripped(same), stripped(&back.operation)),
    }
}

#[test]
fn requests_survive_in_every_version() {
    let mut random = Random::new(1);
    for protocol in protocols() {
        for _ in 0..8 {
            let samples = Operation::samples(&mut random, &protocol);
            for operation in samples {
                let header = InHeader {
                    total_extlen: 0,
                    ..<InHeader as super::Sample>::sample(&mut random, &protocol)
                };
                let request = Request {
                    header,
                    operation,
                    extensions: Extensions::NONE,
                };
                request_survives(&request, &protocol);
            }
        }
    }
}

/// Extensions as the kernel makes them.
fn extensions() -> Extensions<'static> {
    let mut bytes = vec![0; 200];
    let contexts = [
        SecurityContext {
            name: b"security.selinux",
            value: b"system_u:object_r:tmp_t:s0\0",
        },
        SecurityContext {
            name: b"security.SMACK64",
            value: b"",
        },
    ];
    let first = Extension::write_security(&contexts, &mut bytes).expect("fits");
    bytes.truncate(first);
    Extensions::new(Box::leak(bytes.into_boxed_slice())).expect("right")
}

#[test]
fn extensions_travel_behind_the_name() {
    let mut random = Random::new(2);
    for protocol in protocols() {
        for operation in Operation::samples(&mut random, &protocol) {
            let creates = matches!(
                operation,
                Operation::Mkdir { .. }
                    | Operation::Mknod { .. }
                    | Operation::Symlink { .. }
                    | Operation::Create { .. }
                    | Operation::Tmpfile { .. }
            );
            let request = Request {
                header: InHeader::default(),
                operation,
                extensions: extensions(),
            };
            if protocol.minor >= 38
                || creates && protocol.flags.contains(crate::InitFlags::SECURITY_CTX)
            {
                request_survives(&request, &protocol);
            } else {
                assert_eq!(request.encode(&protocol).unwrap_err(), Malformed::Extension);
            }
        }
    }
}

#[test]
fn extensions_are_read_as_written() {
    let mut bytes = [0; 64];
    let length = Extension::write_groups(&[7, 4_000_000_000], &mut bytes).expect("fits");
    assert_eq!(length, 24);
    let both = [extensions().bytes(), &bytes[..length]].concat();
    let all: Vec<Extension<'_>> = Extensions::new(&both).expect("right").iter().collect();
    let [Extension::Security(contexts), Extension::Groups(groups)] = all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(groups.iter().collect::<Vec<_>>(), [7, 4_000_000_000]);
    let names: Vec<_> = contexts
        .iter()
        .map(|context| (context.name, context.value.len()))
        .collect();
    assert_eq!(
        names,
        [
            (&b"security.selinux"[..], 27),
            (&b"security.SMACK64"[..], 0)
        ]
    );
    assert_eq!(
        Extensions::new(&both[..both.len() - 8]),
        Err(Malformed::Extension)
    );
}

#[test]
fn replies_survive_in_every_version() {
    let mut random = Random::new(3);
    for protocol in protocols() {
        for _ in 0..8 {
            for (expects, answer) in Answer::samples(&mut random, &protocol) {
                for answer in [answer, Answer::Error(1 + random.below(4095) as i32)] {
                    let reply = Reply {
                        unique: 1 | random.next(),
                        answer,
                    };
                    let bytes = flat(&reply.encode(&protocol).expect("can be sent"));
                    assert_eq!(Reply::unique_of(&bytes), Some(reply.unique));
                    assert!(!Reply::is_notification(&bytes));
                    assert_eq!(Reply::decode(&bytes, expects, &protocol), Ok(reply));
                }
            }
        }
    }
    let bad = Reply {
        unique: 1,
        answer: Answer::Error(0),
    };
    assert_eq!(
        bad.encode(&Protocol::UNNEGOTIATED).unwrap_err(),
        Malformed::Error
    );
}

#[test]
fn notifications_survive_in_every_version() {
    let mut random = Random::new(4);
    for protocol in protocols() {
        for _ in 0..8 {
            for notification in Notification::samples(&mut random, &protocol) {
                let bytes = flat(&notification.encode(&protocol).expect("can be sent"));
                assert!(Reply::is_notification(&bytes));
                let back = Notification::decode(&bytes, &protocol).expect("what was encoded");
                assert_eq!(flat(&back.encode(&protocol).expect("can be sent")), bytes);
                assert_eq!(
                    core::mem::discriminant(&back),
                    core::mem::discriminant(&notification)
                );
            }
        }
    }
}

#[test]
fn every_answered_operation_says_what_it_expects() {
    let mut random = Random::new(5);
    for operation in Operation::samples(&mut random, &Protocol::UNNEGOTIATED) {
        assert_eq!(
            operation.expects().is_some(),
            operation.is_answered(),
            "{operation:?}"
        );
    }
}

#[test]
fn listings_survive() {
    let mut random = Random::new(6);
    let names: Vec<&[u8]> = vec![b".", b"..", b"a", b"12345678", b"nine byte", &[b'x'; 255]];
    let entries: Vec<WireEntry<'_>> = names
        .iter()
        .map(|name| WireEntry {
            inode: random.next(),
            next: random.next(),
            kind: 4,
            name,
        })
        .collect();
    let found = EntryOut {
        nodeid: 9,
        ..EntryOut::default()
    };
    let mut buffer = [0xaa; 4096];
    let mut writer = DirectoryWriter::new(&mut buffer);
    assert!(entries.iter().all(|entry| writer.add(entry)));
    let length = writer.length();
    let back: Result<Vec<_>, _> = DirectoryEntries(&buffer[..length]).collect();
    assert_eq!(back.as_deref(), Ok(&entries[..]));
    let mut writer = DirectoryWriter::new(&mut buffer);
    assert!(entries.iter().all(|entry| writer.add_plus(&found, entry)));
    let length = writer.length();
    for (back, entry) in DirectoryEntriesPlus(&buffer[..length]).zip(&entries) {
        assert_eq!(back, Ok((found, *entry)));
    }
    // What does not fit is not begun.
    let mut small = [0xaa; 60];
    let mut writer = DirectoryWriter::new(&mut small);
    assert!(writer.add(&entries[0]));
    assert!(!writer.add(&entries[5]));
    assert_eq!(writer.length(), 32);
    assert!(small[32..].iter().all(|&byte| byte == 0xaa));
}

#[test]
fn names_that_cannot_be_are_refused() {
    for bad in [&b""[..], b".", b"..", b"a/b", b"/"] {
        let mut bytes = vec![0; 40];
        bytes[4] = 1;
        bytes.extend_from_slice(bad);
        bytes.push(0);
        bytes[0] = bytes.len() as u8;
        assert_eq!(
            Request::decode(&bytes, &Protocol::UNNEGOTIATED).unwrap_err(),
            Malformed::Name
        );
    }
}

#[test]
fn init_of_older_and_newer_kernels_is_understood() {
    for (length, known) in [(16, true), (64, true), (200, true), (12, false)] {
        let mut bytes = vec![0; 40 + length];
        bytes[0] = (40 + length) as u8;
        bytes[4] = 26;
        bytes[40] = 7;
        bytes[44] = 77;
        let got = Request::decode(&bytes, &Protocol::UNNEGOTIATED);
        assert_eq!(got.is_ok(), known, "{length}");
    }
}

/// The sizes of `FUSE_COMPAT_*`, include/uapi/linux/fuse.h, and of Linux 2.6.31 and before.
#[test]
fn old_servers_get_and_give_what_they_know() {
    use crate::{Expects, Name, structures::*};
    let with = |minor| Protocol::with_server(crate::MAJOR, minor, crate::InitFlags::NONE);
    assert_eq!(with(crate::OLDEST_SERVER_MINOR - 1), None);
    let name = Name::new(b"n").expect("a name");
    for (minor, entry, attributes, mknod, create, write) in [
        (8, 120, 96, 8, 8, 24),
        (9, 128, 104, 8, 8, 40),
        (11, 128, 104, 8, 8, 40),
        (12, 128, 104, 16, 16, 40),
        (45, 128, 104, 16, 16, 40),
    ] {
        let protocol = with(minor).expect("spoken");
        let length = |operation: Operation<'_>| {
            let (_, body) = operation.body(&protocol).expect("can be sent");
            body.length()
        };
        let (mknod_in, create_in) = (MknodIn::default(), CreateIn::default());
        let made = Operation::Mknod {
            mknod: mknod_in,
            name,
        };
        assert_eq!(length(made), mknod + 2);
        let made = Operation::Create {
            create: create_in,
            name,
        };
        assert_eq!(length(made), create + 2);
        let written = Operation::Write {
            write: WriteIn::default(),
            data: crate::Data(b"abc"),
        };
        assert_eq!(length(written), write + 3);
        let bytes = [7; 128];
        let fits = |size: usize, expects| {
            let exact = Answer::decode(&bytes[..size], expects, &protocol);
            assert!(exact.is_ok());
            let short = Answer::decode(&bytes[..size - 1], expects, &protocol);
            assert_eq!(short, Err(Malformed::TooShort));
            let long = Answer::decode(&bytes[..size + 1], expects, &protocol);
            assert_eq!(long, Err(Malformed::TooLong));
        };
        if entry < 128 {
            fits(entry, Expects::Entry);
        }
        fits(attributes, Expects::Attributes);
    }
}

#[test]
fn a_body_is_the_request_without_its_header() {
    let mut random = Random::new(7);
    for protocol in protocols() {
        for operation in Operation::samples(&mut random, &protocol) {
            let request = Request {
                header: InHeader::default(),
                operation,
                extensions: Extensions::NONE,
            };
            let whole = flat(&request.encode(&protocol).expect("can be sent"));
            let (opcode, body) = operation.body(&protocol).expect("can be sent");
            let mut bytes = vec![0; body.length()];
            body.copy_to(&mut bytes).expect("fits");
            assert_eq!(bytes, whole[size_of::<InHeader>()..]);
            assert_eq!(opcode.to_ne_bytes(), whole[4..8]);
        }
    }
}
