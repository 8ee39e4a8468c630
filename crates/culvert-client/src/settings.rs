//! What the mount says: options that a server gives mount(2), and the place where the driver runs.

use culvert::{Caller, Node};

/// Whether any process of the run holds a description of a node that the kernel keeps for it.
pub type InUse = &'static (dyn Fn(Node) -> bool + Sync);

/// How a server's file system is mounted.
#[derive(Clone, Copy, Default)]
pub struct Settings {
    /// The user and group that it was mounted by (`user_id=`, `group_id=`), for whom also those
    /// requests are made that nobody has asked for.
    pub owner: (u32, u32),
    /// Others than the owner may use it (`allow_other`).
    pub allow_other: bool,
    /// Modes decide who may do what (`default_permissions`); else the server does.
    pub default_permissions: bool,
    /// Nothing may be changed (`ro`).
    pub read_only: bool,
    /// The most bytes of one READ (`max_read=`); 0: as many as fit.
    pub max_read: u32,
    /// On whose behalf the calling thread is in the driver, for operations on open files; none: who
    /// has opened the file.
    pub caller: Option<fn() -> Caller<'static>>,
    /// See [`InUse`]; none: nobody knows, and what was shared once is never given back.
    pub in_use: Option<InUse>,
    /// For whom `in_use` answers: the processes that share descriptions with each other, and no
    /// others that share the server ([`place`]).
    pub place: u64,
}

/// The number of the mount at `target` in the run with the directory `run`: its upper 32 bits are
/// the same for all mounts of the run.
#[must_use]
pub fn place(run: &[u8], target: &[u8]) -> u64 {
    let hash = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    hash(run) >> 32 << 32 | hash(target) >> 32
}
