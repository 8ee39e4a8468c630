//! Pages and listings that all processes cache, by the kernel's rules.

use crate::{
    hostile::server::{Replied, Server, replied},
    ours::Served,
};
use culvert::{
    Caller, Errno, File, FileSystem, Node, OpenFlags, Opened, SetAttributes,
    testing::{Memory, caller},
};
use culvert_client::FuseFs;
use culvert_wire::{
    MAJOR, NEWEST_MINOR, Operation, Plain,
    structures::{Attr, AttrOut, EntryOut, InitOut, NotifyInvalInodeOut, OpenOut},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

pub const WHO: Caller<'static> = caller();
pub const SIZE: u64 = 100_000;

/// A server of one file, which is full of the second in which it was modified, and of one
/// directory.
pub struct One {
    pub server: Server,
    pub mtime: Arc<AtomicU64>,
}

fn attr(mode: u32, mtime: u64) -> Attr {
    Attr {
        mode,
        nlink: 1,
        size: SIZE,
        mtime,
        ..Attr::default()
    }
}

/// A name as READDIR says it.
fn listed(name: &[u8], next: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    entry.extend_from_slice(&5_u64.to_ne_bytes());
    entry.extend_from_slice(&next.to_ne_bytes());
    entry.extend_from_slice(&(name.len() as u32).to_ne_bytes());
    entry.extend_from_slice(&8_u32.to_ne_bytes());
    entry.extend_from_slice(name);
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

/// Files and directories are opened with `how`.
pub fn one(how: u32) -> One {
    one_but(how, |_| None)
}

/// The same, but for what `other` answers.
pub fn one_but(
    how: u32,
    other: impl Fn(&Operation<'_>) -> Option<Replied> + Send + Sync + 'static,
) -> One {
    let mtime = Arc::new(AtomicU64::new(1));
    let now = Arc::clone(&mtime);
    let init = InitOut {
        major: MAJOR,
        minor: NEWEST_MINOR,
        // All but READDIRPLUS.
        flags: !(1 << 13),
        flags2: u32::MAX,
        max_write: 1 << 20,
        max_pages: 256,
        max_readahead: 1 << 20,
        ..InitOut::default()
    };
    let server = Server::with(init, move |header, operation| {
        if let Some(reply) = other(operation) {
            return Some(reply);
        }
        let mtime = now.load(SeqCst);
        let mode = if header.nodeid == 1 {
            0o040755
        } else {
            0o100644
        };
        Some(replied(match operation {
            Operation::Lookup { .. } => {
                let entry = EntryOut {
                    nodeid: 2,
                    entry_valid: 1000,
                    attr_valid: 1000,
                    attr: attr(0o100644, mtime),
                    ..EntryOut::default()
                };
                return Some(replied(entry.bytes()));
            }
            Operation::Getattr { .. } => {
                let out = AttrOut {
                    attr_valid: 1000,
                    attr: attr(mode, mtime),
                    ..AttrOut::default()
                };
                return Some(replied(out.bytes()));
            }
            Operation::Open { .. } | Operation::Opendir { .. } => {
                let open = OpenOut {
                    fh: 7,
                    open_flags: how,
                    ..OpenOut::default()
                };
                return Some(replied(open.bytes()));
            }
            Operation::Read { read } => {
                let left = SIZE.saturating_sub(read.offset).min(u64::from(read.size));
                return Some(replied(&vec![mtime as u8; left as usize]));
            }
            Operation::Readdir { read } if read.offset > 0 => &[],
            Operation::Readdir { .. } => return Some(Ok(listed(b"name", 1))),
            operation if operation.is_answered() => &[],
            _ => return None,
        }))
    });
    One { server, mtime }
}

pub fn opened(client: &FuseFs, node: Node, flags: OpenFlags) -> Box<dyn File> {
    match client.open(&WHO, node, flags) {
        Ok(Opened::Driven(file)) => file,
        _ => panic!("it opens"),
    }
}

pub fn found(client: &FuseFs, name: &[u8]) -> Node {
    let found = client.lookup(&WHO, client.root(), name);
    found.expect("it is there").attributes.node
}

/// All of the file, in small reads; the byte that it is full of.
fn read(file: &dyn File) -> u8 {
    let (mut piece, mut at) = ([0; 4096], 0);
    let mut seen = None;
    loop {
        let count = file.read_at(at, &mut &mut piece[..]).expect("it is read");
        if count == 0 {
            assert_eq!(at, SIZE);
            return seen.expect("it has bytes");
        }
        let first = *seen.get_or_insert(piece[0]);
        assert!(piece[..count].iter().all(|byte| *byte == first));
        at += count as u64;
    }
}

pub fn reads(one: &One) -> u64 {
    one.server.line.counted().get("Read").copied().unwrap_or(0)
}

#[test]
fn pages_outlive_the_open_file_where_the_server_says_so() {
    for (how, again) in [(OpenOut::KEEP_CACHE, 0), (0, 4)] {
        let one = one(how);
        let (client, other) = (one.server.client(), one.server.client());
        let node = found(&client, b"name");
        let file = opened(&client, node, OpenFlags::READ);
        assert_eq!(read(&*file), 1);
        // 16, 32 and 64 KiB, as the kernel reads ahead; nothing behind the end.
        assert_eq!(reads(&one), 3);
        assert_eq!(read(&*file), 1);
        assert_eq!(reads(&one), 0);
        // Another process, later.
        drop(file);
        found(&other, b"name");
        let file = opened(&other, node, OpenFlags::READ);
        assert_eq!(read(&*file), 1);
        assert_eq!(reads(&one) > 0, again > 0);
    }
}

#[test]
fn pages_go_when_the_server_says_another_time_of_change() {
    let one = one(OpenOut::KEEP_CACHE);
    let (client, other) = (one.server.client(), one.server.client());
    let node = found(&client, b"name");
    let (file, seen) = (
        opened(&client, node, OpenFlags::READ),
        opened(&other, found(&other, b"name"), OpenFlags::READ),
    );
    assert_eq!((read(&*file), read(&*seen)), (1, 1));
    assert_eq!(reads(&one), 3);
    // Attributes alone are old: the bytes are what they were.
    let attributes_only = NotifyInvalInodeOut {
        ino: node.0,
        off: -1,
        len: 0,
    };
    let tell = || {
        let heard =
            culvert_client::notices::hear(one.server.line.words(), 2, attributes_only.bytes());
        assert_eq!(heard, culvert_client::notices::Heard::Counted);
    };
    tell();
    assert_eq!(read(&*file), 1);
    assert_eq!(reads(&one), 0);
    // The file is another now; who asks for its attributes makes all see it.
    one.mtime.store(2, SeqCst);
    assert_eq!(read(&*seen), 1);
    tell();
    client.attributes(&WHO, node).expect("it has some");
    assert_eq!((read(&*seen), read(&*file)), (2, 2));
    assert_eq!(reads(&one), 3);
}

#[test]
fn what_is_not_to_be_cached_is_asked_for_each_time() {
    const O_DIRECT: u32 = 0o40000;
    for (how, flags) in [
        (OpenOut::DIRECT_IO | OpenOut::KEEP_CACHE, OpenFlags::READ),
        (OpenOut::KEEP_CACHE, OpenFlags(O_DIRECT)),
    ] {
        let one = one(how);
        let client = one.server.client();
        let file = opened(&client, found(&client, b"name"), flags);
        let mut piece = [0; 4096];
        for _ in 0..3 {
            file.read_at(0, &mut &mut piece[..]).expect("it is read");
        }
        assert_eq!(reads(&one), 3);
    }
}

#[test]
fn what_one_process_writes_all_read_at_once() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let made = one.create(&WHO, root, b"file", OpenFlags::READ_WRITE, 0o644);
    let Ok((entry, Opened::Driven(file))) = made else {
        panic!("it is made")
    };
    let node = entry.attributes.node;
    file.write_at(0, &mut &[1; 8192][..])
        .expect("it is written");
    found(&other, b"file");
    let (seen, direct) = (
        opened(&other, node, OpenFlags::READ),
        opened(&other, node, OpenFlags(0o40000)),
    );
    let both = |at: u64| {
        [&seen, &direct].map(|file| {
            let mut bytes = [0; 4096];
            let count = file.read_at(at, &mut &mut bytes[..]).expect("it is read");
            bytes[..count].to_vec()
        })
    };
    assert_eq!(both(4096), [[1; 4096], [1; 4096]]);
    file.write_at(4096, &mut &[2; 4096][..])
        .expect("it is written");
    assert_eq!(both(4096), [[2; 4096], [2; 4096]]);
    // Cut, and longer again: what was there is gone.
    for size in [4100, 8192] {
        let cut = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        one.set_attributes(&WHO, node, &cut).expect("it is cut");
        let mut expected = vec![0; size as usize - 4096];
        expected[..4].fill(2);
        assert_eq!(both(4096), [expected.clone(), expected]);
    }
    // Nothing behind the end, and what comes there later.
    assert_eq!(both(8192), [vec![], vec![]]);
    file.write_at(8192, &mut &b"more"[..])
        .expect("it is written");
    assert_eq!(both(8192), [b"more", b"more"]);
}

#[test]
fn a_listing_is_cached_where_the_server_says_so_until_a_name_changes() {
    let list = |client: &FuseFs| {
        let mut names = Vec::new();
        let mut sink = |entry: culvert::DirectoryEntry<'_>| {
            names.push(entry.name.to_vec());
            true
        };
        let listed = client.read_directory(&WHO, client.root(), 0, &mut sink);
        listed.expect("a directory");
        names
    };
    for (how, expected) in [
        (OpenOut::CACHE_DIR | OpenOut::KEEP_CACHE, 0),
        (OpenOut::CACHE_DIR, 2),
        (0, 2),
    ] {
        let one = one(how);
        let (client, other) = (one.server.client(), one.server.client());
        let count = || {
            one.server
                .line
                .counted()
                .get("Readdir")
                .copied()
                .unwrap_or(0)
        };
        client.attributes(&WHO, client.root()).expect("it has some");
        assert_eq!(list(&client), [b"name"]);
        assert_eq!(count(), 2);
        other.attributes(&WHO, other.root()).expect("it has some");
        assert_eq!(list(&other), [b"name"]);
        assert_eq!(count(), expected);
        other.unlink(&WHO, other.root(), b"gone").expect("it goes");
        assert_eq!(list(&client), [b"name"]);
        assert_eq!(count(), 2);
    }
}

#[test]
fn nobody_believes_pages_while_a_process_without_a_place_changes_something() {
    let (asked, taken) = mpsc::channel();
    let (end, held) = mpsc::channel::<()>();
    let (asked, held) = (Mutex::new(asked), Mutex::new(held));
    let one = one_but(OpenOut::KEEP_CACHE, move |operation| {
        if matches!(operation, Operation::Write { .. }) {
            asked.lock().expect("no panic").send(()).expect("waits");
            let _ = held.lock().expect("no panic").recv();
        }
        None
    });
    let client = one.server.client();
    let node = found(&client, b"name");
    let file = opened(&client, node, OpenFlags::READ);
    let again = || {
        assert_eq!(read(&*file), 1);
        reads(&one)
    };
    assert_eq!([again(), again()], [3, 0]);
    // More than there are places.
    let others: Vec<FuseFs> = (0..64).map(|_| one.server.client()).collect();
    for other in &others {
        found(other, b"name");
    }
    let last = others.last().expect("there are some");
    let written = opened(last, node, OpenFlags::READ_WRITE);
    assert_eq!(again(), 0);
    let writer = thread::spawn(move || drop(written.write_at(0, &mut &[1; 8][..])));
    taken.recv().expect("it is asked");
    // As long as nobody knows what becomes of it: for ever, where the writer is killed.
    assert!([again(), again()].iter().all(|&reads| reads > 3));
    drop(end);
    writer.join().expect("it ends");
    assert_eq!([again(), again()], [3, 0]);
    culvert_client::disbelieve_pages(one.server.line.words());
    assert!([again(), again()].iter().all(|&reads| reads > 3));
}

#[test]
fn a_node_whose_close_is_not_sent_yet_is_not_forgotten() {
    for (errno, expected) in [(0, 1), (Errno::EAGAIN.raw(), 0)] {
        let one = one_but(OpenOut::KEEP_CACHE, move |operation| match operation {
            Operation::Release { .. } if errno != 0 => Some(Err(errno)),
            _ => None,
        });
        let client = one.server.client();
        let node = found(&client, b"name");
        drop(opened(&client, node, OpenFlags::READ));
        // One more lookup.
        found(&client, b"other");
        client.forget(node, 2);
        let root = client.root();
        client.unlink(&WHO, root, b"other").expect("it goes");
        let counted = one.server.line.counted();
        assert_eq!(counted.get("Forget").copied().unwrap_or(0), expected);
        assert_eq!(counted.get("Lookup"), Some(&2));
    }
}

#[test]
fn a_listing_that_goes_in_a_ring_ends() {
    let how = OpenOut::CACHE_DIR | OpenOut::KEEP_CACHE;
    let one = one_but(how, |operation| match operation {
        Operation::Readdir { read } if read.offset == 1 => Some(Ok(listed(b"..", 2))),
        Operation::Readdir { .. } => Some(Ok(listed(b".", 1))),
        _ => None,
    });
    let client = one.server.client();
    let mut sink = |_: culvert::DirectoryEntry<'_>| -> bool { panic!("there are no names") };
    let read = client.read_directory(&WHO, client.root(), 0, &mut sink);
    assert_eq!(read.map_err(|error| error.errno()), Err(Errno::EIO));
}
