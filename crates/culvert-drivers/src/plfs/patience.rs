//! Waiting for the other side of a socket: for a time, and again where signals interrupt it.

use crate::OwnedFd;
use culvert::Errno;
use culvert_sys::clock::Clock;
use culvert_sys::fd::BorrowedFd;
use culvert_sys::net;
use culvert_sys::raw::net::{MSG_NOSIGNAL, MSG_WAITALL};

/// For how long a call that signals interrupt is begun again, nanoseconds.
const LONGEST: u64 = 4_000_000_000;
/// In how many pieces a message goes or comes at most: each may take the socket's patience.
const MOST_PIECES: usize = 4;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;

/// What `socket` waits for, connect(2) among it, it waits for so many seconds.
pub fn be_patient(socket: &OwnedFd, seconds: i64) -> Result<(), Errno> {
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        net::set_socket_option(socket, option, &[seconds, 0])?;
    }
    Ok(())
}

/// Sends all of `bytes`.
pub fn send_all(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    in_pieces(bytes.len(), |done| {
        net::send(socket, &bytes[done..], MSG_NOSIGNAL)
    })
}

/// Receives until `into` is full.
pub fn receive_all(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<(), Errno> {
    in_pieces(into.len(), |done| {
        match net::receive(socket, &mut into[done..], MSG_WAITALL)? {
            0 => Err(Errno::ECONNRESET),
            count => Ok(count),
        }
    })
}

/// `call`, which is told how many bytes are done, until `length` are.
fn in_pieces(
    length: usize,
    mut call: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    for _ in 0..MOST_PIECES {
        if done < length {
            done += patiently(|| call(done))?;
        }
    }
    match done < length {
        true => Err(Errno::ETIMEDOUT),
        false => Ok(()),
    }
}

/// `call`, again where signals interrupt it, for a time.
pub fn patiently(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut began = None;
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
        let now = Clock::new().steady();
        if now.saturating_sub(*began.get_or_insert(now)) > LONGEST {
            return Err(Errno::EINTR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_sends_single_bytes_is_not_waited_for_without_end() {
        for (each, want) in [
            (1, Err(Errno::ETIMEDOUT)),
            (15, Err(Errno::ETIMEDOUT)),
            (16, Ok(())),
        ] {
            let mut calls = 0;
            let received = in_pieces(64, |done| {
                assert_eq!(done, calls * each);
                calls += 1;
                Ok(each)
            });
            assert_eq!((received, calls), (want, MOST_PIECES));
        }
    }

    #[test]
    fn a_message_is_received_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = BorrowedFd::number(ours.as_raw_fd());
        let mut bytes = [0; 9];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for byte in b"all of it" {
                    theirs.write_all(&[*byte]).unwrap();
                }
            });
            receive_all(socket, &mut bytes).unwrap();
        });
        assert_eq!(&bytes, b"all of it");
        assert_eq!(receive_all(socket, &mut bytes), Err(Errno::ECONNRESET));
    }
}
