//! Bytes that a server puts into the pages of its clients by itself, and asks back from there.

use crate::channel::End;
use crate::pages::{SIZE, WHO, found, one, opened, reads};
use culvert::{Errno, File, FileSystem, OpenFlags};
use culvert_client::notices::{Heard, hear_all};
use culvert_wire::{
    Plain,
    structures::{NotifyRetrieveIn, NotifyRetrieveOut, NotifyStoreOut, OpenOut, OutHeader},
};

const NODE: u64 = 2;

fn store(offset: u64, bytes: &[u8]) -> Vec<u8> {
    let head = NotifyStoreOut {
        nodeid: NODE,
        offset,
        size: bytes.len() as u32,
        ..NotifyStoreOut::default()
    };
    [head.bytes(), bytes].concat()
}

fn retrieve(nodeid: u64, offset: u64, size: u32) -> Vec<u8> {
    let asked = NotifyRetrieveOut {
        notify_unique: 77,
        nodeid,
        offset,
        size,
        ..NotifyRetrieveOut::default()
    };
    asked.bytes().to_vec()
}

/// The first byte there.
fn byte(file: &dyn File, at: u64) -> u8 {
    let mut piece = [0; 1];
    let count = file.read_at(at, &mut &mut piece[..]);
    assert_eq!(count.expect("it is read"), 1);
    piece[0]
}

#[test]
fn what_a_server_stores_is_read_without_a_request_and_comes_back() {
    let one = one(OpenOut::KEEP_CACHE);
    let (line, client) = (End(one.server.line.clone()), one.server.client());
    let node = found(&client, b"name");
    let file = opened(&client, node, OpenFlags::READ);
    assert_eq!((byte(&*file, 0), byte(&*file, SIZE - 1)), (1, 1));
    // Since they were counted last.
    assert_eq!(reads(&one), 2);
    let tell = |code, body: &[u8]| hear_all(&line, code, body);
    assert_eq!(tell(4, &store(0, &[9; 8192])), Heard::Counted);
    assert_eq!((byte(&*file, 0), byte(&*file, 8191)), (9, 9));
    assert_eq!(reads(&one), 0);
    let comes = |offset, size: u32, count: usize| {
        let Heard::Retrieved(found) = tell(5, &retrieve(NODE, offset, size)) else {
            panic!("nothing comes");
        };
        assert_eq!((found.number, found.node), (77, NODE));
        let head = NotifyRetrieveIn::from_prefix(&found.body);
        assert_eq!((head.offset, head.size as usize), (offset, count));
        assert_eq!(found.body[size_of_val(&head)..], vec![9; count]);
    };
    comes(0, 8192, 8192);
    // As far as there are pages, from anywhere, and nothing behind them or behind the end.
    comes(100, 1 << 20, 8092);
    comes(8192, 4096, 0);
    comes(SIZE + 5, 4096, 0);
    // The last page is whole where the file ends with it, and the file may grow.
    assert_eq!(tell(4, &store(98_304, &[9; 5000])), Heard::Counted);
    let grown = client.attributes(&WHO, node).expect("it has some").size;
    assert_eq!((grown, reads(&one)), (103_304, 0));
    assert_eq!(byte(&*file, 103_303), 9);
    comes(98_304, 1 << 20, 5000);
    assert_eq!(reads(&one), 0);
    // What was cached besides may be old: it is asked for again, and so are pages that were stored
    // in part.
    assert_eq!(byte(&*file, 0), 1);
    assert_eq!(tell(4, &store(10, &[9; 100])), Heard::Counted);
    assert_eq!(byte(&*file, 10), 1);
    assert_eq!(reads(&one), 2);
    // Of what is remembered, and not believed any more, there is nothing.
    let all_is_stale = OutHeader {
        len: size_of::<OutHeader>() as u32,
        error: 8,
        unique: 0,
    };
    one.server.line.receive(all_is_stale.bytes());
    comes(0, 8192, 0);
}

#[test]
fn what_cannot_be_stored_or_is_not_known_is_an_error() {
    let one = one(OpenOut::KEEP_CACHE);
    let line = End(one.server.line.clone());
    let long = NotifyStoreOut {
        nodeid: NODE,
        size: 100,
        ..NotifyStoreOut::default()
    };
    let high = store(i64::MAX as u64, b"x");
    for (code, body, errno) in [
        (4, long.bytes(), Errno::EINVAL),
        (4, &high[..], Errno::EINVAL),
        (4, &[0; 8][..], Errno::EINVAL),
        (5, &[0; 8][..], Errno::EINVAL),
        (5, &retrieve(NODE, 0, 4096)[..], Errno::ENOENT),
    ] {
        assert_eq!(hear_all(&line, code, body), Heard::Refused(errno), "{code}");
    }
    // Nobody caches it: nothing is to be done.
    assert_eq!(hear_all(&line, 4, &store(0, &[9; 8192])), Heard::Counted);
}
