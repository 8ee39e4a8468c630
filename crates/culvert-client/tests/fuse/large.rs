//! Large reads that follow each other: the next READ is sent before it is asked for.

use crate::{
    ours::Served,
    pages::{SIZE, WHO, found, one, one_but, opened, reads},
};
use culvert::{Errno, File, FileSystem, OpenFlags, Opened, SetAttributes, testing::Memory};
use culvert_client::notices;
use culvert_wire::{
    Operation, Plain,
    structures::{NotifyInvalInodeOut, OpenOut},
};
use std::sync::atomic::Ordering::SeqCst;

const LARGE: usize = 64 << 10;

fn read_at(file: &dyn File, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; LARGE];
    let count = file.read_at(at, &mut &mut bytes[..]).expect("it is read");
    bytes.truncate(count);
    bytes
}

#[test]
fn what_follows_is_asked_for_once_and_before_it_is_wanted() {
    let one = one(0);
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    assert_eq!(read_at(&*file, 0), [1; LARGE]);
    // The rest of the file is on its way.
    assert_eq!((reads(&one), one.server.line.begun()), (2, 1));
    assert_eq!(read_at(&*file, LARGE as u64).len(), SIZE as usize - LARGE);
    assert_eq!(read_at(&*file, SIZE), []);
    assert_eq!((reads(&one), one.server.line.begun()), (0, 0));
    // Reads that do not follow each other ask for what they want.
    for at in [4096, 0, 8192] {
        assert_eq!(read_at(&*file, at).len(), LARGE);
        assert_eq!(reads(&one), 1);
    }
}

#[test]
fn what_was_sent_for_is_given_back_before_the_file_is_closed() {
    let one = one_but(0, |_| None);
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    read_at(&*file, 0);
    assert_eq!(one.server.line.begun(), 1);
    drop(file);
    assert_eq!(one.server.line.begun(), 0);
}

#[test]
fn what_was_sent_for_is_given_back_before_the_next_program_has_the_file() {
    let one = one_but(0, |_| None);
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    read_at(&*file, 0);
    assert_eq!(one.server.line.begun(), 1);
    file.save().expect("it goes over");
    assert_eq!(one.server.line.begun(), 0);
}

#[test]
fn nothing_is_sent_ahead_where_nothing_may_be_cached() {
    let one = one(OpenOut::DIRECT_IO);
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    read_at(&*file, 0);
    assert_eq!((reads(&one), one.server.line.begun()), (1, 0));
}

#[test]
fn what_was_sent_ahead_is_stale_after_a_notification() {
    let one = one(0);
    let client = one.server.client();
    let node = found(&client, b"name");
    let file = opened(&client, node, OpenFlags::READ);
    assert_eq!(read_at(&*file, 0), [1; LARGE]);
    one.mtime.store(2, SeqCst);
    let all = NotifyInvalInodeOut {
        ino: node.0,
        off: 0,
        len: 0,
    };
    let heard = notices::hear(one.server.line.words(), 2, all.bytes());
    assert_eq!(heard, notices::Heard::Counted);
    let rest = read_at(&*file, LARGE as u64);
    assert_eq!(rest, vec![2; SIZE as usize - LARGE]);
}

#[test]
fn an_error_to_what_was_sent_ahead_is_asked_for_again() {
    use std::sync::atomic::AtomicU64;
    let count = AtomicU64::new(0);
    let one = one_but(0, move |operation| match operation {
        Operation::Read { .. } if count.fetch_add(1, SeqCst) == 1 => Some(Err(Errno::EIO.raw())),
        _ => None,
    });
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    read_at(&*file, 0);
    assert_eq!(read_at(&*file, LARGE as u64).len(), SIZE as usize - LARGE);
}

#[test]
fn a_short_reply_ends_a_read_and_not_the_file() {
    let one = one_but(0, |operation| match operation {
        Operation::Read { read } if read.offset == LARGE as u64 => Some(Ok(vec![9; 10])),
        _ => None,
    });
    let client = one.server.client();
    let file = opened(&client, found(&client, b"name"), OpenFlags::READ);
    read_at(&*file, 0);
    assert_eq!(read_at(&*file, LARGE as u64), [9; 10]);
    let next = read_at(&*file, LARGE as u64 + 10);
    assert_eq!(next.len(), SIZE as usize - LARGE - 10);
}

#[test]
fn what_others_write_and_cut_is_seen_beside_what_was_sent_ahead() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let made = one.create(&WHO, one.root(), b"file", OpenFlags::READ_WRITE, 0o644);
    let Ok((entry, Opened::Driven(file))) = made else {
        panic!("it is made")
    };
    let node = entry.attributes.node;
    let size = 5 * LARGE;
    file.write_at(0, &mut &vec![1; size][..]).expect("written");
    found(&other, b"file");
    let seen = opened(&other, node, OpenFlags::READ);
    assert_eq!(read_at(&*seen, 0), [1; LARGE]);
    file.write_at(LARGE as u64, &mut &[2; 10][..])
        .expect("written");
    let after = read_at(&*seen, LARGE as u64);
    assert_eq!((after[9], after[10], after.len()), (2, 1, LARGE));
    // The end moves to where it has been read, and away again.
    for (size, expected) in [(2 * LARGE + 5, 5), (4 * LARGE, LARGE)] {
        let cut = SetAttributes {
            size: Some(size as u64),
            ..SetAttributes::default()
        };
        one.set_attributes(&WHO, node, &cut).expect("it is cut");
        assert_eq!(read_at(&*seen, 2 * LARGE as u64).len(), expected);
    }
}
