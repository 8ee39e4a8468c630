//! Bytes of a hostile peer: an error, never a crash. (Reading past the end would be a panic, for
//! everything goes through checked slices.)

use super::{Random, protocols};
use crate::{
    Answer, DirectoryEntries, DirectoryEntriesPlus, Expects, Extension, Notification, Operation,
    Protocol, Reply, Request, structures::InHeader,
};
use std::{vec, vec::Vec};

/// All that a request holds is looked at.
fn explore_request(bytes: &[u8], protocol: &Protocol) -> bool {
    let Ok(request) = Request::decode(bytes, protocol) else {
        return false;
    };
    for extension in request.extensions.iter() {
        match extension {
            Extension::Security(contexts) => assert!(contexts.iter().count() <= 31),
            Extension::Groups(groups) => assert!(groups.iter().count() * 4 <= bytes.len()),
            Extension::Other(_) => {}
        }
    }
    if let Operation::BatchForget { forgets, .. } = request.operation {
        assert_eq!(forgets.iter().count(), forgets.count());
    }
    // What was understood can be said again, and means the same.
    let message = request.encode(protocol).expect("was received");
    let mut again = vec![0; message.length()];
    message.copy_to(&mut again).expect("fits");
    let back = Request::decode(&again, protocol).expect("was encoded");
    // INIT comes before anything is negotiated: more of it is taken than an old version would send.
    if !matches!(back.operation, Operation::Init { .. }) {
        assert_eq!(back.operation, request.operation);
    }
    true
}

fn explore_reply(bytes: &[u8], expects: Expects, protocol: &Protocol) {
    if let Ok(Reply {
        answer: Answer::Data { data },
        ..
    }) = Reply::decode(bytes, expects, protocol)
    {
        assert!(DirectoryEntries(data.0).count() <= data.0.len());
        assert!(DirectoryEntriesPlus(data.0).count() <= data.0.len());
    }
    let _ = Notification::decode(bytes, protocol);
}

/// Changes some bytes, preferring the header and small numbers; or the length.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let end = match random.below(2) {
            0 => bytes.len().min(64),
            _ => bytes.len(),
        };
        let at = random.below(end.max(1));
        let value = [0, 1, 7, 8, 0x7f, 0x80, 0xff, b'/', random.next() as u8][random.below(9)];
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(random.bytes(8)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
        }
    }
    // Often the length is right, or nothing else is looked at.
    if random.below(4) != 0 && bytes.len() >= 4 {
        let length = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&length);
    }
}

#[test]
fn mutated_messages_are_errors_or_messages() {
    let mut random = Random::new(7);
    let mut understood = 0;
    for protocol in protocols() {
        let requests: Vec<Vec<u8>> = Operation::samples(&mut random, &protocol)
            .into_iter()
            .map(|operation| {
                let header = InHeader::default();
                let extensions = crate::Extensions::NONE;
                let request = Request {
                    header,
                    operation,
                    extensions,
                };
                let message = request.encode(&protocol).expect("can be sent");
                let mut bytes = vec![0; message.length()];
                message.copy_to(&mut bytes).expect("fits");
                bytes
            })
            .collect();
        let answers = Answer::samples(&mut random, &protocol);
        for _ in 0..40 {
            for request in &requests {
                let mut bytes = request.clone();
                mutate(&mut bytes, &mut random);
                understood += usize::from(explore_request(&bytes, &protocol));
            }
            for &(expects, answer) in &answers {
                let message = Reply { unique: 5, answer }
                    .encode(&protocol)
                    .expect("can be sent");
                let mut bytes = vec![0; message.length()];
                message.copy_to(&mut bytes).expect("fits");
                mutate(&mut bytes, &mut random);
                explore_reply(&bytes, expects, &protocol);
            }
        }
    }
    assert!(
        understood > 1000,
        "the mutations are too wild: {understood}"
    );
}

#[test]
fn noise_is_an_error_or_a_message() {
    let mut random = Random::new(8);
    for protocol in protocols() {
        for _ in 0..2000 {
            let length = random.below(300);
            let mut bytes = random.bytes(length).to_vec();
            if random.below(4) != 0 && bytes.len() >= 8 {
                let length = (bytes.len() as u32).to_ne_bytes();
                bytes[..4].copy_from_slice(&length);
                bytes[4..8].copy_from_slice(&(random.below(55) as u32).to_ne_bytes());
            }
            explore_request(&bytes, &protocol);
            explore_reply(&bytes, Expects::Data, &protocol);
            let _ = crate::Extensions::new(&bytes);
        }
    }
}
