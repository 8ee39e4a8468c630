//! What options ask of the connection (`struct fuse_conn_info_opts`).
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_common.h.

use crate::{
    abi::Connection,
    arguments::Args,
    option_list::{Taken, Word, number, take},
};
use culvert_wire::InitFlags;

pub const PAGE: u32 = 4096;
/// The most pages of a request (`FUSE_MAX_MAX_PAGES`).
pub const MAX_PAGES: u32 = 256;

/// The bits of `want` that have the same place in the protocol.
const fn bits(flags: InitFlags) -> u32 {
    flags.0 as u32
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

    pub fn apply(&self, connection: &mut Connection) {
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
