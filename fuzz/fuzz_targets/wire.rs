//! Any bytes as a FUSE message, for both sides: an error, or a message that means the same when it
//! is sent again.
#![no_main]

use culvert_wire::{
    Answer, DirectoryEntries, DirectoryEntriesPlus, Expects, Extension, InitFlags, MAJOR,
    NEWEST_MINOR, Notification, OLDEST_MINOR, Operation, Protocol, Reply, Request,
};
use libfuzzer_sys::fuzz_target;

const SHAPES: [Expects; 17] = [
    Expects::Done,
    Expects::Entry,
    Expects::Attributes,
    Expects::Statx,
    Expects::Opened,
    Expects::Created,
    Expects::Data,
    Expects::Written,
    Expects::Copied,
    Expects::Statfs,
    Expects::XattrSize,
    Expects::Lock,
    Expects::Init,
    Expects::Block,
    Expects::Offset,
    Expects::Ioctl,
    Expects::Ready,
];

fuzz_target!(|data: &[u8]| {
    let &[minor, flags, shape, ref data @ ..] = data else {
        return;
    };
    let mut flags_wanted = InitFlags::NONE;
    for (bit, flag) in [(1, InitFlags::SETXATTR_EXT), (2, InitFlags::SECURITY_CTX)] {
        if flags & bit != 0 {
            flags_wanted = flags_wanted.with(flag);
        }
    }
    let minor = OLDEST_MINOR + u32::from(minor) % (NEWEST_MINOR - OLDEST_MINOR + 1);
    let protocol = Protocol::negotiate(MAJOR, minor, flags_wanted).expect("spoken");
    // The length is put right, else hardly any input gets further.
    let mut bytes = data.to_vec();
    if let Some(length) = bytes.first_chunk_mut::<4>() {
        *length = (data.len() as u32).to_ne_bytes();
    }
    if let Ok(request) = Request::decode(&bytes, &protocol) {
        for extension in request.extensions.iter() {
            match extension {
                Extension::Security(contexts) => contexts.iter().for_each(drop),
                Extension::Groups(groups) => groups.iter().for_each(drop),
                Extension::Other(_) => {}
            }
        }
        let message = request.encode(&protocol).expect("was received");
        let mut again = vec![0; message.length()];
        message.copy_to(&mut again).expect("fits");
        let back = Request::decode(&again, &protocol).expect("was encoded");
        if !matches!(request.operation, Operation::Init { .. }) {
            assert_eq!(back.operation, request.operation);
        }
    }
    let expects = SHAPES[usize::from(shape) % SHAPES.len()];
    if let Ok(Reply {
        answer: Answer::Data { data },
        ..
    }) = Reply::decode(&bytes, expects, &protocol)
    {
        DirectoryEntries(data.0).for_each(drop);
        DirectoryEntriesPlus(data.0).for_each(drop);
    }
    if let Ok(notification) = Notification::decode(&bytes, &protocol) {
        notification.encode(&protocol).expect("was received");
    }
});
