//! INIT by a socket: what cannot be offered to a server there, and what it cannot have.

use culvert_sys::PAGE;
use culvert_wire::InitFlags;

/// What needs the device itself: pipes that move pages into it, files that it is given, rings.
const OF_THE_DEVICE: InitFlags = InitFlags::NONE
    .with(InitFlags::SPLICE_WRITE)
    .with(InitFlags::SPLICE_MOVE)
    .with(InitFlags::SPLICE_READ)
    .with(InitFlags::PASSTHROUGH)
    .with(InitFlags::OVER_IO_URING);

/// Where `struct fuse_init_in` and `struct fuse_init_out` have what is changed.
const FLAGS: usize = 12;
const FLAGS2_IN: usize = 16;
const FLAGS2_OUT: usize = 32;
const MAX_WRITE: usize = 20;
const MAX_PAGES: usize = 28;

/// Takes out of the request, `struct fuse_init_in`, what a socket does not give.
pub fn offered(request: &mut [u8]) {
    clear(request, FLAGS2_IN);
}

/// Makes of the reply, `struct fuse_init_out`, one whose messages have `data` bytes at most.
pub fn agreed(reply: &mut [u8], data: usize) {
    clear(reply, FLAGS2_OUT);
    let data = data / PAGE * PAGE;
    if let Some(word) = word_at(reply, MAX_WRITE) {
        let largest = u32::from_ne_bytes(*word).min(data as u32);
        *word = largest.to_ne_bytes();
    }
    if let Some(pages) = reply
        .get_mut(MAX_PAGES..)
        .and_then(|rest| rest.first_chunk_mut())
    {
        let most = u16::from_ne_bytes(*pages).min((data / PAGE) as u16);
        *pages = most.to_ne_bytes();
    }
}

fn clear(message: &mut [u8], flags2: usize) {
    let (low, high) = OF_THE_DEVICE.words();
    for (at, flags) in [(FLAGS, low), (flags2, high)] {
        if let Some(word) = word_at(message, at) {
            *word = (u32::from_ne_bytes(*word) & !flags).to_ne_bytes();
        }
    }
}

fn word_at(message: &mut [u8], at: usize) -> Option<&mut [u8; 4]> {
    message.get_mut(at..)?.first_chunk_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::{
        Plain,
        structures::{InitIn, InitOut},
    };

    #[test]
    fn a_socket_offers_less_and_gives_less() {
        let (low, high) = OF_THE_DEVICE.with(InitFlags::MAX_PAGES).words();
        let (flags, flags2) = (low | 1, high);
        let mut request = InitIn {
            flags,
            flags2,
            ..InitIn::default()
        }
        .bytes()
        .to_vec();
        offered(&mut request);
        let request = InitIn::from_prefix(&request);
        let kept = InitFlags::MAX_PAGES.words().0 | 1;
        assert_eq!((request.flags, request.flags2), (kept, 0));
        let reply = InitOut {
            flags,
            flags2,
            max_write: 1 << 20,
            max_pages: 256,
            ..InitOut::default()
        };
        let mut reply = reply.bytes().to_vec();
        agreed(&mut reply, 63 * PAGE + 5);
        let reply = InitOut::from_prefix(&reply);
        assert_eq!((reply.max_write, reply.max_pages), (63 << 12, 63));
        assert_eq!((reply.flags, reply.flags2), (kept, 0));
        // A server before 7.23 says less.
        let mut short = vec![0xff; 24];
        agreed(&mut short, 8 * PAGE);
        assert_eq!(short[MAX_WRITE..], (8_u32 << 12).to_ne_bytes());
    }
}
