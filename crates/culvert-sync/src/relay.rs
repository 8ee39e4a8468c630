//! TLS for the programs of a host, none of which has it: they connect to the relay's socket, say
//! which service they mean, and what they send then goes there under cover.
//!
//! ```text
//! writer                             relay                          service
//!   "CvR1 ADDRESS KEY\n" ----------->   connects; TLS, with that key ->
//!   <------- error number (32 bits), 0
//!   what it says, as if there were no relay: both still show that they know the secret
//! ```

use crate::socket::Listener;
use crate::tls::{read_plain, to_service};
use culvert_sync_wire::relay::{LONGEST_WISH, wish};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustls::{CertificateError, ClientConnection};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// For how long the service is waited for, and a writer who has connected.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the relay looks whether it is needed.
const ROUND: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};
/// Bytes of stack of a thread: it has a buffer of TLS's longest record.
const STACK: usize = 256 << 10;
const BUFFER: usize = 17 << 10;

/// Relays for this user's processes that connect to `listener`. Returns when it has had none for
/// `leave`. `is_needed`: whether somebody may come yet, who is not there now.
pub fn relay(
    listener: &Listener,
    most: usize,
    leave: Duration,
    is_needed: impl Fn() -> bool,
) -> io::Result<()> {
    let connected = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut last_had = Instant::now();
        let round = Timespec::try_from(leave).map_or(ROUND, |leave| leave.min(ROUND));
        loop {
            let mut wanted = [PollFd::new(&listener.socket, PollFlags::IN)];
            match poll(&mut wanted, Some(&round)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if connected.load(SeqCst) > 0 {
                last_had = Instant::now();
            }
            if last_had.elapsed() >= leave {
                if !listener.is_there() || !is_needed() {
                    return Ok(());
                }
                last_had = Instant::now();
            }
            let writer = match accept_with(&listener.socket, SocketFlags::CLOEXEC) {
                Ok(writer) => writer,
                Err(Errno::MFILE | Errno::NFILE) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(_) => continue,
            };
            let peer = rustix::net::sockopt::socket_peercred(&writer);
            let is_own = peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid());
            if !is_own || connected.load(SeqCst) >= most {
                continue;
            }
            connected.fetch_add(1, SeqCst);
            let connected = &connected;
            let one = move || {
                let _ = serve(writer);
                connected.fetch_sub(1, SeqCst);
            };
            let thread = std::thread::Builder::new().stack_size(STACK);
            if thread.spawn_scoped(scope, one).is_err() {
                connected.fetch_sub(1, SeqCst);
            }
        }
    })
}

fn serve(writer: OwnedFd) -> io::Result<()> {
    let mut writer = UnixStream::from(writer);
    writer.set_read_timeout(Some(PATIENCE))?;
    writer.set_write_timeout(Some(PATIENCE))?;
    let mut asked = Vec::new();
    while asked.last() != Some(&b'\n') {
        let mut more = [0; LONGEST_WISH];
        match writer.read(&mut more)? {
            0 => return Ok(()),
            count => asked.extend_from_slice(&more[..count]),
        }
        if asked.len() > LONGEST_WISH {
            return Ok(());
        }
    }
    let connected = match wish(&asked) {
        Some((address, key)) => connect(address, key),
        None => Err(io::ErrorKind::InvalidInput.into()),
    };
    let number = connected.as_ref().err().map_or(0, number);
    writer.write_all(&number.to_le_bytes())?;
    let (service, cover) = connected?;
    pass(writer, service, cover)
}

fn connect(address: SocketAddr, key: &str) -> io::Result<(TcpStream, ClientConnection)> {
    let mut cover = to_service(address.ip(), key)?;
    let mut service = TcpStream::connect_timeout(&address, PATIENCE)?;
    service.set_nodelay(true)?;
    service.set_read_timeout(Some(PATIENCE))?;
    service.set_write_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    while cover.is_handshaking() {
        if began.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        cover.complete_io(&mut service)?;
    }
    Ok((service, cover))
}

/// What a writer is told of `error`.
fn number(error: &io::Error) -> u32 {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let errno = match of_tls {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        )) => Errno::KEYREJECTED,
        Some(_) => Errno::PROTO,
        None => match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => Errno::TIMEDOUT,
            (_, Some(code)) => Errno::from_raw_os_error(code),
            (io::ErrorKind::InvalidInput, None) => Errno::INVAL,
            // It has closed the connection in the middle of the greeting: it knows no TLS.
            _ => Errno::PROTO,
        },
    };
    errno.raw_os_error() as u32
}

/// Passes on what both say, until one of them ends.
fn pass(
    mut writer: UnixStream,
    mut service: TcpStream,
    mut cover: ClientConnection,
) -> io::Result<()> {
    let (mut buffer, mut plain) = (vec![0; BUFFER], Vec::new());
    loop {
        let mut wanted = [
            PollFd::new(&writer, PollFlags::IN),
            PollFd::new(&service, PollFlags::IN),
        ];
        match poll(&mut wanted, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [of_writer, of_service] = wanted.map(|one| !one.revents().is_empty());
        if of_writer {
            match writer.read(&mut buffer)? {
                0 => return Ok(()),
                count => cover.writer().write_all(&buffer[..count])?,
            }
        }
        if of_service {
            if cover.read_tls(&mut service)? == 0 {
                return Ok(());
            }
            cover.process_new_packets().map_err(io::Error::other)?;
            plain.clear();
            read_plain(cover.reader(), &mut plain)?;
            writer.write_all(&plain)?;
        }
        while cover.wants_write() {
            cover.write_tls(&mut service)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn it_stays_while_somebody_may_come() {
        let place = std::env::temp_dir().join(format!("culvert-relay-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let listener = Listener::new(&place.join("socket")).unwrap();
        let asked = Cell::new(0);
        let is_needed = || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        relay(&listener, 1, Duration::from_millis(1), is_needed).unwrap();
        assert_eq!(asked.get(), 3);
        std::fs::remove_dir_all(&place).unwrap();
    }
}
