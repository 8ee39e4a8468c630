//! Servers that are not to be trusted: whatever they answer is an error or something well-formed,
//! and what a kernel would not believe is not believed.

pub mod server;
mod trial;

use culvert::{Caller, Errno, FileSystem, Node, OpenFlags, Opened, testing::caller};
use culvert_wire::{
    Operation, Plain,
    structures::{Attr, AttrOut, EntryOut, OpenOut, WriteOut},
};
use server::{Server, replied};
use trial::numbers;

const SEEDS: u64 = 60;

#[test]
fn anything_may_be_answered() {
    for seed in 1..=SEEDS {
        trial::play(numbers(seed, 30_000));
    }
}

fn file(mode: u32, size: u64) -> Attr {
    Attr {
        ino: 7,
        mode,
        size,
        nlink: 1,
        ..Attr::default()
    }
}

fn entry(nodeid: u64, attr: Attr) -> EntryOut {
    EntryOut {
        nodeid,
        attr,
        entry_valid: 1000,
        attr_valid: 1000,
        ..EntryOut::default()
    }
}

const WHO: Caller<'static> = caller();

/// What a lookup gives where the server answers `bytes`.
fn looked_up(bytes: Vec<u8>) -> Result<culvert::Attributes, Errno> {
    let server = Server::new(move |_, _| Some(replied(&bytes)));
    let client = server.client();
    let found = client.lookup(&WHO, client.root(), b"name");
    found
        .map(|entry| entry.attributes)
        .map_err(|error| error.errno())
}

#[test]
fn an_entry_that_cannot_be_is_an_input_error() {
    let good = entry(2, file(0o100644, 5));
    assert_eq!(looked_up(good.bytes().to_vec()).map(|is| is.size), Ok(5));
    for bad in [
        entry(1, file(0o100644, 5)),
        entry(2, file(0o644, 5)),
        entry(2, file(0o150644, 5)),
        entry(2, file(0o100644, 1 << 63)),
    ] {
        assert_eq!(looked_up(bad.bytes().to_vec()), Err(Errno::EIO), "{bad:?}");
    }
    let none = entry(0, Attr::default());
    assert_eq!(looked_up(none.bytes().to_vec()), Err(Errno::ENOENT));
    let bytes = good.bytes();
    assert_eq!(looked_up(bytes[..127].to_vec()), Err(Errno::EIO));
    assert_eq!(looked_up([bytes, &[0]].concat()), Err(Errno::EIO));
    assert_eq!(looked_up(vec![7; 5000]), Err(Errno::EIO));
}

#[test]
fn a_node_that_becomes_another_kind_of_file_is_an_input_error() {
    let server = Server::new(|_, operation| {
        Some(Ok(match operation {
            Operation::Lookup { .. } => entry(2, file(0o100644, 5)).bytes().to_vec(),
            _ => AttrOut {
                attr: file(0o040755, 5),
                ..AttrOut::default()
            }
            .bytes()
            .to_vec(),
        }))
    });
    let client = server.client();
    let name = client.lookup(&WHO, client.root(), b"name");
    let node = name.expect("it is there").attributes.node;
    // What was said of it is not believed any more.
    server
        .line
        .receive(&[16, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let attributes = client.attributes(&WHO, node);
    assert_eq!(attributes.expect_err("a directory").errno(), Errno::EIO);
}

#[test]
fn more_than_was_asked_for_is_an_input_error() {
    let server = Server::new(|_, operation| {
        Some(Ok(match operation {
            Operation::Lookup { .. } => entry(2, file(0o100644, 5)).bytes().to_vec(),
            Operation::Open { .. } => OpenOut::default().bytes().to_vec(),
            Operation::Read { .. } => vec![1; 200_000],
            Operation::Write { .. } => WriteOut {
                size: 11,
                padding: 0,
            }
            .bytes()
            .to_vec(),
            _ => Vec::new(),
        }))
    });
    let client = server.client();
    let name = client.lookup(&WHO, client.root(), b"name");
    let node = name.expect("it is there").attributes.node;
    let opened = client.open(&WHO, node, OpenFlags::READ_WRITE);
    let Ok(Opened::Driven(file)) = opened else {
        panic!("it opens")
    };
    let mut into = [0; 10];
    let read = file.read_at(0, &mut &mut into[..]);
    assert_eq!(read.expect_err("too much").errno(), Errno::EIO);
    assert_eq!(into, [0; 10]);
    let written = file.write_at(0, &mut &into[..]);
    assert_eq!(written.expect_err("too much").errno(), Errno::EIO);
}

#[test]
fn a_node_that_was_never_given_is_stale() {
    let server = Server::new(|_, _| panic!("nothing is asked"));
    let client = server.client();
    for node in [0, 2, u64::MAX].map(Node) {
        let errno = |error: culvert::Error| error.errno();
        let attributes = client.attributes(&WHO, node).map_err(errno);
        assert_eq!(attributes, Err(Errno::ESTALE));
        let opened = client.open(&WHO, node, OpenFlags::READ);
        assert_eq!(opened.map(|_| ()).map_err(errno), Err(Errno::ESTALE));
        client.forget(node, u64::MAX);
        client.release(node);
    }
    client.forget(client.root(), u64::MAX);
    client.finish();
}

#[test]
fn another_users_requests_are_not_made() {
    let server = Server::new(|_, _| panic!("nothing is asked"));
    let client = server.client_with(culvert_client::Settings {
        owner: (1000, 1000),
        ..culvert_client::Settings::default()
    });
    let other = Caller {
        uid: 1001,
        pid: 5,
        ..WHO
    };
    for who in [&WHO, &other] {
        let found = client.lookup(who, client.root(), b"name");
        assert_eq!(found.expect_err("not his").errno(), Errno::EACCES);
    }
}
