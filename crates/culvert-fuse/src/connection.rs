//! What INIT negotiates.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_common.h.

use crate::{
    abi::Connection,
    arguments::Args,
    option_list::{Taken, Word, number, take},
    request::{locked, send},
    session::Session,
};
use culvert_wire::{
    Answer, InitFlags, MAJOR, Protocol,
    structures::{InitIn, InitOut},
};
use std::sync::atomic::Ordering::SeqCst;

/// The newest version whose requests the interface has functions for.
const MINOR: u32 = 38;
const PAGE: u32 = 4096;
/// The most pages of a request (`FUSE_MAX_MAX_PAGES`).
const MAX_PAGES: u32 = 256;

/// Bits of `capable` and `want`, and those of the protocol that have other places.
const MOVED: [(u32, InitFlags); 3] = [
    (1 << 19, InitFlags::POSIX_ACL),
    (1 << 20, InitFlags::HANDLE_KILLPRIV),
    (1 << 26, InitFlags::HAS_EXPIRE_ONLY),
];
/// Those that have the same place in both.
const SAME: u64 = 0x0387_fc6b;

const fn bits(flags: InitFlags) -> u32 {
    flags.0 as u32
}

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

/// What options ask of the connection (`struct fuse_conn_info_opts`).
#[derive(Clone, Debug)]
pub struct Wants {
    pub max_write: u32,
    max_readahead: Option<u32>,
    max_background: Option<u32>,
    congestion_threshold: Option<u32>,
    /// Bits that an option sets and clears.
    set: u32,
    clear: u32,
    sync_read: bool,
    version: i32,
}

/// Options that switch bits on, and off with `no_` in front.
const SWITCHES: [(&str, u32); 10] = [
    ("async_dio", bits(InitFlags::ASYNC_DIO)),
    ("atomic_o_trunc", bits(InitFlags::ATOMIC_O_TRUNC)),
    ("auto_inval_data", bits(InitFlags::AUTO_INVAL_DATA)),
    ("big_writes", bits(InitFlags::BIG_WRITES)),
    ("readdirplus=yes", bits(InitFlags::DO_READDIRPLUS)),
    ("readdirplus=auto", bits(InitFlags::READDIRPLUS_AUTO)),
    ("writeback_cache", bits(InitFlags::WRITEBACK_CACHE)),
    // There is no splice(2) here; they ask for nothing that would be missed.
    ("splice_write", 0),
    ("splice_move", 0),
    ("splice_read", 0),
];
const LOCKS: [(&str, u32); 3] = [
    (
        "no_remote_lock",
        bits(InitFlags::POSIX_LOCKS) | bits(InitFlags::FLOCK_LOCKS),
    ),
    ("no_remote_posix_lock", bits(InitFlags::POSIX_LOCKS)),
    ("no_remote_flock", bits(InitFlags::FLOCK_LOCKS)),
];

impl Wants {
    pub fn of(version: i32) -> Self {
        Self {
            max_write: match version < 30 {
                true => 32 * PAGE,
                false => MAX_PAGES * PAGE,
            },
            max_readahead: None,
            max_background: None,
            congestion_threshold: None,
            set: 0,
            clear: 0,
            sync_read: false,
            version,
        }
    }

    /// Option `word`, if it is one of these.
    pub fn take(&mut self, word: &str) -> Option<Result<(), ()>> {
        if let Some(size) = number::<u32>(word, "max_write") {
            return Some(size.map(|size| {
                self.max_write = size.clamp(PAGE, MAX_PAGES * PAGE);
            }));
        }
        for (name, place) in [
            ("max_readahead", &mut self.max_readahead),
            ("max_background", &mut self.max_background),
            ("congestion_threshold", &mut self.congestion_threshold),
        ] {
            if let Some(value) = number(word, name) {
                return Some(value.map(|value| *place = Some(value)));
            }
        }
        match word {
            "sync_read" => self.sync_read = true,
            "async_read" => self.sync_read = false,
            "readdirplus=no" => {
                self.clear |= bits(InitFlags::DO_READDIRPLUS) | bits(InitFlags::READDIRPLUS_AUTO);
            }
            word => {
                let of = |list: &[(&str, u32)], word| {
                    let found = list.iter().find(|(name, _)| *name == word);
                    found.map(|(_, bits)| *bits)
                };
                if let Some(bits) = of(&LOCKS, word) {
                    self.clear |= bits;
                } else if let Some(bits) = word
                    .strip_prefix("no_")
                    .and_then(|word| of(&SWITCHES, word))
                {
                    self.clear |= bits;
                } else {
                    self.set |= of(&SWITCHES, word)?;
                }
            }
        }
        Some(Ok(()))
    }

    fn apply(&self, connection: &mut Connection) {
        connection.want |= self.set & connection.capable;
        connection.want &= !self.clear;
        if self.sync_read {
            connection.want &= !bits(InitFlags::ASYNC_READ);
            connection.async_read = 0;
        }
        if let Some(bytes) = self.max_readahead {
            connection.max_readahead = connection.max_readahead.min(bytes);
        }
        if let Some(count) = self.max_background {
            connection.max_background = count;
        }
        if let Some(count) = self.congestion_threshold {
            connection.congestion_threshold = count;
        }
        if self.version >= 30 && self.max_write != connection.max_write {
            connection.max_write = self.max_write;
        }
    }
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
    default(is_3, InitFlags::PARALLEL_DIROPS);
    default(is_3, InitFlags::AUTO_INVAL_DATA);
    default(is_3, InitFlags::HANDLE_KILLPRIV);
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
        connection.want &= !bits(InitFlags::ASYNC_READ);
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

#[unsafe(export_name = "culvert_fuse_parse_conn_info_opts")]
unsafe extern "C" fn parse_conn_info_opts(args: *mut Args) -> *mut Wants {
    let mut wants = Box::new(Wants::of(30));
    let done = take(args, &mut |word| match word {
        Word::Option(word) => match wants.take(word) {
            Some(Ok(())) => Taken::Mine,
            Some(Err(())) => Taken::Wrong,
            None => Taken::Others,
        },
        Word::Other(_) => Taken::Others,
    });
    match done {
        true => Box::into_raw(wants),
        false => std::ptr::null_mut(),
    }
}

#[unsafe(export_name = "culvert_fuse_apply_conn_info_opts")]
unsafe extern "C" fn apply_conn_info_opts(wants: *mut Wants, connection: *mut Connection) {
    if let (Some(wants), Some(connection)) = (wants.as_ref(), connection.as_mut()) {
        wants.apply(connection);
    }
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
