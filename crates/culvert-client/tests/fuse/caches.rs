//! What is believed without a question, and until when: the kernel's rules, for all processes.

use crate::{
    conformance::Scratch,
    hostile::server::{Server, replied},
    ours::Served,
};
use culvert::{
    Caller, Errno, File, FileSystem, OpenFlags, Opened, SetAttributes,
    testing::{Memory, caller},
};
use culvert_wire::{
    Operation, Plain,
    structures::{Attr, EntryOut},
};

const WHO: Caller<'static> = caller();

fn made(client: &dyn FileSystem, name: &[u8]) -> (culvert::Node, Box<dyn File>) {
    let root = client.root();
    let made = client.create(&WHO, root, name, OpenFlags::READ_WRITE, 0o644);
    let (entry, opened) = made.expect("it can be made");
    match opened {
        Opened::Driven(file) => (entry.attributes.node, file),
        Opened::Backed(_) => panic!("a driver of its own"),
    }
}

#[test]
fn what_the_server_lets_believe_costs_no_request() {
    let served = Served::new(Box::new(Memory::new()));
    let client = served.client();
    let root = client.root();
    let (node, _file) = made(&client, b"file");
    served.line.counted();
    for _ in 0..3 {
        assert_eq!(
            client
                .lookup(&WHO, root, b"file")
                .expect("is there")
                .attributes
                .node,
            node
        );
        client.attributes(&WHO, node).expect("it has some");
    }
    let counted = served.line.counted();
    assert!(counted.is_empty(), "{counted:?}");
}

#[test]
fn what_one_process_changes_another_sees_at_once() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let (node, file) = made(&one, b"file");
    let sizes = || {
        let seen = other.lookup(&WHO, root, b"file").expect("is there");
        other.forget(node, 1);
        (
            seen.attributes.size,
            other.attributes(&WHO, node).expect("known").size,
        )
    };
    other.lookup(&WHO, root, b"file").expect("is there");
    assert_eq!(sizes(), (0, 0));
    file.write_at(0, &mut &b"hello"[..]).expect("it is written");
    assert_eq!(sizes(), (5, 5));
    let cut = SetAttributes {
        size: Some(2),
        ..SetAttributes::default()
    };
    one.set_attributes(&WHO, node, &cut).expect("it is cut");
    assert_eq!(sizes(), (2, 2));
    one.rename(&WHO, (root, b"file"), (root, b"else"), Default::default())
        .expect("it is renamed");
    let gone = other.lookup(&WHO, root, b"file").map(|_| ());
    assert_eq!(gone.expect_err("moved").errno(), Errno::ENOENT);
    other.lookup(&WHO, root, b"else").expect("there it is");
    one.unlink(&WHO, root, b"else").expect("it is removed");
    let gone = other.lookup(&WHO, root, b"else").map(|_| ());
    assert_eq!(gone.expect_err("removed").errno(), Errno::ENOENT);
    assert_eq!(file.attributes(&WHO).expect("it is open").links, 0);
}

/// A server whose names and attributes are believed for so long.
fn believed(seconds: u64) -> Server {
    Server::new(move |_, operation| match operation {
        Operation::Lookup { name } => {
            let none = name.bytes() == b"none";
            let entry = EntryOut {
                nodeid: if none { 0 } else { 2 },
                entry_valid: seconds,
                attr_valid: seconds,
                attr: Attr {
                    mode: 0o100644,
                    nlink: 1,
                    ..Attr::default()
                },
                ..EntryOut::default()
            };
            Some(replied(entry.bytes()))
        }
        operation if operation.is_answered() => Some(replied(&[])),
        _ => None,
    })
}

#[test]
fn time_and_notices_end_belief() {
    for (seconds, notice, expected) in [(1000, false, 1), (0, false, 3), (1000, true, 3)] {
        let server = believed(seconds);
        let client = server.client();
        for _ in 0..3 {
            let found = client.lookup(&WHO, client.root(), b"name");
            found.expect("it is there");
            let none = client.lookup(&WHO, client.root(), b"none").map(|_| ());
            assert_eq!(none.expect_err("it is not").errno(), Errno::ENOENT);
            if notice {
                // FUSE_NOTIFY_INVAL_INODE, or any.
                let mut notice = [0; 40];
                (notice[0], notice[4]) = (40, 2);
                server.line.receive(&notice);
            }
        }
        assert_eq!(server.line.counted()["Lookup"], 2 * expected);
    }
}

#[test]
fn lookups_are_given_back_but_not_what_a_child_of_a_fork_may_have() {
    for forks in [false, true] {
        let server = believed(0);
        let client = server.client();
        for _ in 0..3 {
            let found = client.lookup(&WHO, client.root(), b"name");
            found.expect("it is there");
        }
        client.forget(culvert::Node(2), 3);
        if forks {
            // The parent, which only hears of it by the words.
            server.client().forked(false);
        }
        server.line.counted();
        client.finish();
        let forgets = server.line.counted().get("Forget").copied();
        assert_eq!(forgets, (!forks).then_some(1));
    }
}

#[test]
fn a_request_that_the_server_does_not_have_is_made_once() {
    let server = Server::new(|_, operation| match operation {
        Operation::Lookup { .. } => {
            let entry = EntryOut {
                nodeid: 2,
                attr: Attr {
                    mode: 0o100644,
                    ..Attr::default()
                },
                ..EntryOut::default()
            };
            Some(replied(entry.bytes()))
        }
        operation if operation.is_answered() => Some(Err(Errno::ENOSYS.raw())),
        _ => None,
    });
    let settings = culvert_client::Settings {
        default_permissions: false,
        ..crate::ours::settings()
    };
    // Whichever process has made it.
    for first in [true, false] {
        let client = server.client_with(settings);
        let found = client.lookup(&WHO, client.root(), b"name");
        let node = found.expect("it is there").attributes.node;
        let opened = client.open(&WHO, node, OpenFlags::READ);
        let Ok(Opened::Driven(file)) = opened else {
            panic!("it needs no OPEN")
        };
        file.flush().expect("nothing is delayed");
        file.sync(false).expect("nothing is delayed");
        client
            .access(&WHO, node, culvert::Access::READ)
            .expect("nobody judges");
        let xattr = client.get_xattr(&WHO, node, b"user.a");
        assert_eq!(xattr.expect_err("none").errno(), Errno::EOPNOTSUPP);
        let allocated = file.allocate(0, 0, 1);
        assert_eq!(allocated.expect_err("not").errno(), Errno::EOPNOTSUPP);
        drop(file);
        let counted = server.line.counted();
        for name in ["Open", "Flush", "Fsync", "Access", "Getxattr", "Fallocate"] {
            assert_eq!(counted.get(name).copied(), first.then_some(1), "{name}");
        }
        assert_eq!(counted.get("Release"), None);
    }
}

#[test]
fn a_listing_brings_what_lookups_would() {
    let scratch = Scratch::new();
    let served = Served::new(scratch.memory());
    let client = served.client();
    let root = client.root();
    for number in 0..50 {
        made(&client, format!("{number}").as_bytes());
    }
    let fresh = served.client();
    served.line.counted();
    let mut seen = 0;
    let mut sink = |entry: culvert::DirectoryEntry<'_>| {
        let found = fresh.lookup(&WHO, root, entry.name).expect("it is there");
        assert_eq!(found.attributes.inode, entry.inode);
        seen += 1;
        true
    };
    fresh
        .read_directory(&WHO, root, 0, &mut sink)
        .expect("a directory");
    assert_eq!(seen, 50);
    let counted = served.line.counted();
    assert_eq!(counted.get("Lookup"), None, "{counted:?}");
}

#[test]
fn small_reads_are_read_ahead_until_somebody_writes() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let (node, file) = made(&one, b"file");
    let bytes: Vec<u8> = (0..1 << 20).map(|byte: u32| (byte >> 7) as u8).collect();
    file.write_at(0, &mut &bytes[..]).expect("it is written");
    other
        .lookup(&WHO, other.root(), b"file")
        .expect("it is there");
    let Ok(Opened::Driven(again)) = other.open(&WHO, node, OpenFlags::READ) else {
        panic!("it opens")
    };
    served.line.counted();
    let mut piece = [0; 4096];
    for (at, expected) in bytes.chunks(4096).enumerate() {
        let count = again.read_at(at as u64 * 4096, &mut &mut piece[..]);
        assert_eq!(count.expect("it is read"), 4096);
        assert_eq!(piece, expected);
        if at == 2 {
            file.write_at(3 * 4096, &mut &[9; 4096][..])
                .expect("it is written");
            let count = again.read_at(3 * 4096, &mut &mut piece[..]);
            assert_eq!(count.expect("it is read"), 4096);
            assert_eq!(piece, [9; 4096]);
            file.write_at(3 * 4096, &mut &bytes[3 * 4096..4 * 4096])
                .expect("it is written");
        }
    }
    let reads = served.line.counted()["Read"];
    assert!(reads < 20, "{reads} for 256 reads");
}
