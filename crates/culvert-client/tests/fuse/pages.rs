//! Pages and listings that all processes cache, by the kernel's rules.

use crate::{
    hostile::server::{Server, replied},
    ours::Served,
};
use culvert::{
    Caller, File, FileSystem, Node, OpenFlags, Opened, SetAttributes,
    testing::{Memory, caller},
};
use culvert_client::FuseFs;
use culvert_wire::{
    MAJOR, NEWEST_MINOR, Operation, Plain,
    structures::{Attr, AttrOut, EntryOut, InitOut, NotifyInvalInodeOut, OpenOut},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

const WHO: Caller<'static> = caller();
const SIZE: u64 = 100_000;

/// A server of one file, which is full of the second in which it was modified, and of one directory.
struct One {
    server: Server,
    mtime: Arc<AtomicU64>,
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

/// Files and directories are opened with `how`.
fn one(how: u32) -> One {
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
            Operation::Readdir { .. } => {
                let mut entry = Vec::new();
                entry.extend_from_slice(&5_u64.to_ne_bytes());
                entry.extend_from_slice(&1_u64.to_ne_bytes());
                entry.extend_from_slice(&4_u32.to_ne_bytes());
                entry.extend_from_slice(&8_u32.to_ne_bytes());
                entry.extend_from_slice(b"name\0\0\0\0");
                return Some(replied(&entry));
            }
            operation if operation.is_answered() => &[],
            _ => return None,
        }))
    });
    One { server, mtime }
}

fn opened(client: &FuseFs, node: Node, flags: OpenFlags) -> Box<dyn File> {
    match client.open(&WHO, node, flags) {
        Ok(Opened::Driven(file)) => file,
        _ => panic!("it opens"),
    }
}

fn found(client: &FuseFs, name: &[u8]) -> Node {
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

fn reads(one: &One) -> u64 {
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
