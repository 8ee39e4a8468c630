//! Calls that are a request each: what the server is asked for, and what becomes of its answer.

use crate::hostile::server::{Replied, Server, replied};
use culvert::{
    Caller, Errno, File, FileSystem, Lock, LockKind, LockOwner, Node, OpenFlags, Opened, Readiness,
    Wait, Whence, testing::caller,
};
use culvert_slots::Extension;
use culvert_wire::{
    InitFlags, MAJOR, NEWEST_MINOR, Operation, Plain,
    structures::{
        Attr, AttrOut, EntryOut, FileLock, InitOut, IoctlOut, LkIn, LkOut, LseekOut, OpenOut,
        PollOut, WriteOut,
    },
};
use std::sync::{Arc, Mutex};

const WHO: Caller<'static> = caller();

fn entry(nodeid: u64) -> EntryOut {
    let attr = Attr {
        mode: 0o100644,
        size: 100,
        nlink: 1,
        ..Attr::default()
    };
    EntryOut {
        nodeid,
        attr,
        entry_valid: 1000,
        attr_valid: 1000,
        ..EntryOut::default()
    }
}

const HANDLE: u64 = 77;

fn good(operation: &Operation<'_>, asked: &Mutex<Vec<String>>) -> Option<Replied> {
    let open = OpenOut {
        fh: HANDLE,
        ..OpenOut::default()
    };
    let note = |text: String| asked.lock().expect("nobody panics").push(text);
    let lock_text = |lock: &LkIn| {
        let kind = if lock.lk_flags & LkIn::FLOCK != 0 {
            "flock"
        } else {
            "lock"
        };
        let FileLock {
            start, end, r#type, ..
        } = lock.lk;
        format!(
            "{kind} {type} {start} {end} owner {} of {}",
            lock.owner, lock.fh
        )
    };
    Some(match operation {
        Operation::Lookup { .. } => replied(entry(2).bytes()),
        Operation::Open { .. } => replied(open.bytes()),
        Operation::Tmpfile { create, .. } => {
            note(format!("tmpfile {:o}", create.mode));
            Ok([entry(3).bytes(), open.bytes()].concat())
        }
        Operation::Fallocate { fallocate } => {
            let (mode, offset, length) = (fallocate.mode, fallocate.offset, fallocate.length);
            note(format!(
                "fallocate {mode} {offset} {length} of {}",
                fallocate.fh
            ));
            replied(&[])
        }
        Operation::Lseek { lseek } => {
            note(format!(
                "lseek {} {} of {}",
                lseek.offset, lseek.whence, lseek.fh
            ));
            replied(LseekOut { offset: 40 }.bytes())
        }
        Operation::CopyFileRange64 { .. } => Err(38),
        Operation::CopyFileRange { copy } => {
            let (from, to, length) = (copy.off_in, copy.off_out, copy.len);
            note(format!("copy {from} {to} {length} to {}", copy.nodeid_out));
            let size = (length as u32).min(60);
            replied(WriteOut { size, padding: 0 }.bytes())
        }
        Operation::Ioctl { ioctl, data } => {
            note(format!(
                "ioctl {:x} {:?} {}",
                ioctl.cmd, data.0, ioctl.out_size
            ));
            let out = IoctlOut {
                result: 5,
                ..IoctlOut::default()
            };
            Ok([out.bytes(), &[9; 4]].concat())
        }
        Operation::Getlk { lock } => {
            note(format!("get {}", lock_text(lock)));
            let lk = FileLock {
                start: 3,
                end: 8,
                r#type: 1,
                pid: 123,
            };
            replied(LkOut { lk }.bytes())
        }
        Operation::Setlk { lock } => {
            note(lock_text(lock));
            replied(&[])
        }
        // As a server does whose wait an INTERRUPT has ended.
        Operation::Setlkw { lock } => {
            note(format!("wait {}", lock_text(lock)));
            Err(Errno::EINTR.raw())
        }
        Operation::Poll { poll } => {
            note(format!("poll of {} flags {}", poll.fh, poll.flags));
            let revents = 1;
            replied(
                PollOut {
                    revents,
                    padding: 0,
                }
                .bytes(),
            )
        }
        Operation::Release { .. } | Operation::Flush { .. } | Operation::Setattr { .. } => {
            replied(&[])
        }
        _ => return None,
    })
}

fn opened(client: &dyn FileSystem) -> (Node, Box<dyn File>) {
    let found = client.lookup(&WHO, client.root(), b"file");
    let node = found.expect("it is there").attributes.node;
    match client.open(&WHO, node, OpenFlags::READ_WRITE) {
        Ok(Opened::Driven(file)) => (node, file),
        _ => panic!("it opens"),
    }
}

#[test]
fn a_call_is_a_request_with_its_arguments() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let server = Server::new(move |_, operation| good(operation, &notes));
    let client = server.client();
    let ((_, file), (_, other)) = (opened(&client), opened(&client));
    let errno = |error: culvert::Error| error.errno();
    assert_eq!(file.allocate(3, 10, 20).map_err(errno), Ok(()));
    assert_eq!(file.seek(7, Whence::Data).map_err(errno), Ok(40));
    assert_eq!(file.seek(7, Whence::Hole).map_err(errno), Ok(40));
    let copied = file.copy_range(1, &*other, 2, 100);
    assert_eq!(copied.map_err(errno), Ok(100));
    let mut argument = [1, 2, 3, 4];
    // _IOWR of four bytes.
    let request = 3 << 30 | 4 << 16 | 0xe5 << 8 | 1;
    assert_eq!(file.ioctl(request, &mut argument).map_err(errno), Ok(5));
    assert_eq!(argument, [9; 4]);
    let (owner, lock) = (
        LockOwner(6),
        Lock {
            kind: LockKind::Exclusive,
            start: 1,
            end: 9,
            pid: 4,
        },
    );
    let held = file.get_lock(owner, &lock).map_err(errno);
    let held = held.expect("it answers").expect("there is one");
    assert_eq!((held.start, held.end, held.pid), (3, 8, 123));
    assert_eq!(held.kind, LockKind::Exclusive);
    assert_eq!(
        file.set_lock(owner, &lock, Wait::Never).map_err(errno),
        Ok(())
    );
    let waits = Wait::UntilInterrupted(&|| false);
    let waited = file.set_lock(owner, &lock, waits).map_err(errno);
    assert_eq!(waited, Err(Errno::EINTR));
    let locked = file.flock(owner, LockKind::Shared, Wait::Never);
    assert_eq!(locked.map_err(errno), Ok(()));
    assert_eq!(file.poll(None).map_err(errno), Ok(Readiness(1)));
    let made = client.tmpfile(&WHO, client.root(), OpenFlags::READ_WRITE, 0o640);
    assert!(made.is_ok());
    let end = i64::MAX;
    assert_eq!(
        *asked.lock().expect("nobody panics"),
        [
            "fallocate 3 10 20 of 77",
            "lseek 7 3 of 77",
            "lseek 7 4 of 77",
            "copy 1 2 100 to 2",
            "copy 61 62 40 to 2",
            "ioctl c004e501 [1, 2, 3, 4] 4",
            "get lock 1 1 9 owner 6 of 77",
            "lock 1 1 9 owner 6 of 77",
            "wait lock 1 1 9 owner 6 of 77",
            &format!("flock 0 0 {end} owner 6 of 77"),
            "poll of 77 flags 0",
            "tmpfile 100640",
        ]
    );
}

/// A server that makes whatever it is asked for, in a directory of group 7, and has agreed on
/// `flags`.
fn maker(flags: InitFlags) -> Server {
    let (flags, flags2) = flags.with(InitFlags::INIT_EXT).words();
    let init = InitOut {
        major: MAJOR,
        minor: NEWEST_MINOR,
        flags,
        flags2,
        max_write: 1 << 20,
        ..InitOut::default()
    };
    let made = |mode: u32| {
        let mut entry = entry(u64::from(mode >> 12) + 2);
        entry.attr.mode = mode;
        entry.bytes().to_vec()
    };
    let open = OpenOut::default();
    Server::with(init, move |_, operation| {
        Some(match operation {
            Operation::Getattr { .. } => {
                let attr = Attr {
                    mode: 0o042775,
                    gid: 7,
                    nlink: 2,
                    ..Attr::default()
                };
                replied(
                    AttrOut {
                        attr,
                        ..AttrOut::default()
                    }
                    .bytes(),
                )
            }
            Operation::Mkdir { .. } => Ok(made(0o040755)),
            Operation::Mknod { .. } => Ok(made(0o010644)),
            Operation::Symlink { .. } => Ok(made(0o120777)),
            Operation::Create { .. } | Operation::Tmpfile { .. } => {
                Ok([&made(0o100644)[..], open.bytes()].concat())
            }
            Operation::Lookup { .. } => Err(Errno::ENOENT.raw()),
            Operation::Read { .. } | Operation::Flush { .. } | Operation::Release { .. } => {
                replied(&[])
            }
            _ => return None,
        })
    })
}

/// What each request said besides that made something for `who`.
fn said(flags: InitFlags, who: &Caller<'_>) -> Vec<(&'static str, Extension)> {
    let (server, read_write) = (maker(flags), OpenFlags::READ_WRITE);
    let client = server.client();
    let root = client.root();
    client.mkdir(who, root, b"a", 0o755).expect("a directory");
    client.mknod(who, root, b"b", 0o010644, 0).expect("a FIFO");
    client.symlink(who, root, b"c", b"a").expect("a link");
    let (_, made) = client
        .create(who, root, b"d", read_write, 0o644)
        .expect("a file");
    let Opened::Driven(file) = made else {
        panic!("a driver's own")
    };
    file.read_at(0, &mut &mut [0; 10][..]).expect("it is read");
    file.flush().expect("it is flushed");
    client
        .tmpfile(who, root, read_write, 0o644)
        .expect("a file without a name");
    server.line.extensions()
}

#[test]
fn what_makes_a_file_says_the_directorys_group_and_that_there_are_no_labels() {
    let of = |gid, groups| Caller { gid, groups, ..WHO };
    let all = |extension| {
        ["Mkdir", "Mknod", "Symlink", "Create", "Tmpfile"].map(|name| (name, extension))
    };
    let [groups, labels] = [InitFlags::CREATE_SUPP_GROUP, InitFlags::SECURITY_CTX];
    let group = Extension {
        group: Some(7),
        labels: false,
    };
    assert_eq!(said(groups, &of(5, &[5, 7])), all(group));
    // Its first group, or none of its groups.
    for (gid, others) in [(7, &[5, 7][..]), (5, &[5, 8]), (5, &[])] {
        assert_eq!(said(groups, &of(gid, others)), []);
    }
    let both = Extension {
        labels: true,
        ..group
    };
    assert_eq!(said(groups.with(labels), &of(5, &[7])), all(both));
    let none = Extension {
        group: None,
        labels: true,
    };
    assert_eq!(said(labels, &of(5, &[7])), all(none));
    assert_eq!(said(InitFlags::NONE, &of(5, &[7])), []);
}
