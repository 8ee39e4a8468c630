//! What INIT negotiates.

use crate::{
    abi::Connection,
    mutex::locked,
    request::send,
    session::Session,
    wants::{MAX_PAGES, PAGE},
};
use culvert_wire::{
    Answer, InitFlags, MAJOR, Protocol,
    structures::{InitIn, InitOut},
};
use std::sync::atomic::Ordering::SeqCst;

/// The newest version whose requests the interface has functions for.
const MINOR: u32 = 38;

/// Bits of `capable` and `want`, and those of the protocol that have other places.
const MOVED: [(u32, InitFlags); 3] = [
    (1 << 19, InitFlags::POSIX_ACL),
    (1 << 20, InitFlags::HANDLE_KILLPRIV),
    (1 << 26, InitFlags::HAS_EXPIRE_ONLY),
];
/// Those that have the same place in both.
const SAME: u64 = 0x0387_fc6b;

fn capable(offered: InitFlags) -> u32 {
    let same = (offered.0 & SAME) as u32;
    MOVED
        .iter()
        .filter(|(_, flag)| offered.contains(*flag))
        .fold(same, |all, (bit, _)| all | bit)
}

fn flags(want: u32) -> InitFlags {
    MOVED
        .iter()
        .filter(|(bit, _)| want & bit != 0)
        .fold(InitFlags(u64::from(want) & SAME), |all, (_, flag)| {
            all.with(*flag)
        })
}

/// Answers INIT.
pub fn begin(session: &Session, unique: u64, asked: &InitIn) {
    if asked.major > MAJOR {
        // It asks again, with a version that both know.
        let init = InitOut {
            major: MAJOR,
            minor: MINOR,
            ..InitOut::default()
        };
        send(session, unique, Answer::Init { init });
        return;
    }
    let minor = asked.minor.min(MINOR);
    let offered = InitFlags::from_words(asked.flags, asked.flags2);
    if Protocol::negotiate(asked.major, minor, offered).is_none() {
        send(session, unique, Answer::Error(libc::EPROTO));
        return;
    }
    let wants = locked(&session.wants).clone();
    let operations = &session.operations;
    let mut connection = Connection {
        major: asked.major,
        minor: asked.minor,
        async_read: 1,
        max_write: wants.max_write,
        max_readahead: asked.max_readahead,
        capable: capable(offered),
        time_gran: 1,
        ..Connection::default()
    };
    let mut default = |is_wanted: bool, flag: InitFlags| {
        if is_wanted {
            connection.want |= capable(flag) & connection.capable;
        }
    };
    let is_3 = session.version >= 30;
    default(true, InitFlags::ASYNC_READ);
    default(true, InitFlags::BIG_WRITES);
    default(is_3, InitFlags::AUTO_INVAL_DATA);
    default(is_3, InitFlags::ASYNC_DIO);
    default(is_3, InitFlags::HAS_IOCTL_DIR);
    default(is_3, InitFlags::ATOMIC_O_TRUNC);
    let locks = operations.getlk.is_some() && operations.setlk.is_some();
    default(locks, InitFlags::POSIX_LOCKS);
    default(operations.flock.is_some(), InitFlags::FLOCK_LOCKS);
    let plus = operations.readdirplus.is_some();
    default(plus, InitFlags::DO_READDIRPLUS);
    default(
        plus && operations.readdir.is_some(),
        InitFlags::READDIRPLUS_AUTO,
    );
    wants.apply(&mut connection);
    session.begun.store(true, SeqCst);
    if let Some(init) = operations.init {
        // SAFETY: the file system's own function, with its data.
        unsafe { init(session.data, &raw mut connection) };
    }
    if connection.async_read == 0 {
        connection.want &= !capable(InitFlags::ASYNC_READ);
    }
    let max_write = connection.max_write.clamp(PAGE, MAX_PAGES * PAGE);
    let max_write = max_write.min(wants.max_write);
    let wanted = flags(connection.want & connection.capable);
    let wanted = wanted.with(offered.common(InitFlags::MAX_PAGES));
    let wanted = match wanted.0 >> 32 {
        0 => wanted,
        _ => wanted.with(InitFlags::INIT_EXT),
    };
    let Some(protocol) = Protocol::negotiate(asked.major, minor, wanted) else {
        return;
    };
    *locked(&session.connection) = connection;
    let (low, high) = wanted.words();
    let few = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let init = InitOut {
        major: MAJOR,
        minor: MINOR,
        max_readahead: connection.max_readahead.min(asked.max_readahead),
        flags: low,
        flags2: high,
        max_background: few(connection.max_background),
        congestion_threshold: few(match connection.congestion_threshold {
            0 => connection.max_background / 4 * 3,
            count => count,
        }),
        max_write,
        time_gran: connection.time_gran.clamp(1, 1_000_000_000),
        max_pages: few(max_write.div_ceil(PAGE)),
        ..InitOut::default()
    };
    // Before the next request can come.
    let _ = session.protocol.set(protocol);
    send(session, unique, Answer::Init { init });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_the_interface_are_the_protocols() {
        let all = InitFlags(u64::MAX);
        // No splice, no SETXATTR_EXT, which the interface has no arguments for.
        assert_eq!(capable(all), 0x079f_fc6b);
        assert_eq!(capable(flags(capable(all))), capable(all));
        assert_eq!(flags(1 << 20), InitFlags::HANDLE_KILLPRIV);
        assert_eq!(capable(InitFlags::HANDLE_KILLPRIV), 1 << 20);
    }
}
