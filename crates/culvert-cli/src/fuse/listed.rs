//! The mounts of this user that runs share, and what is counted of them, for `culvert list`.

use super::shared::{ENTRIES, NAME, USERS, is_guarded};
use crate::{
    base::{open_base, trusted},
    failure::{path, shown},
    identifier::is_identifier,
};
use culvert_client::Counts;
use culvert_slots::Area;
use culvert_sys::trust;
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

/// One of them.
pub struct Listed {
    driver: String,
    target: String,
    runs: u64,
    server: u64,
    requests: u64,
    open: u64,
    counts: Counts,
}

/// All of them.
pub fn listed() -> Vec<Listed> {
    let Ok((base, _)) = open_base() else {
        return Vec::new();
    };
    let entries = fs::read_dir(base.join(ENTRIES)).into_iter().flatten();
    let of_entry = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).ok()?;
        let (name, identity) = bytes.split_at_checked(NAME)?;
        let name = OsStr::from_bytes(name);
        let directory = is_identifier(name.as_bytes()).then(|| base.join(name))?;
        Listed::of(&directory, identity)
    };
    entries.flatten().filter_map(of_entry).collect()
}

impl Listed {
    /// The mount in `directory`, which `identity` tells from others.
    fn of(directory: &Path, identity: &[u8]) -> Option<Self> {
        let opened = trusted(directory, trust::user()).ok()?;
        let area = Area::open(&opened).ok().filter(|_| is_guarded(&opened))?;
        let (length, rest) = identity.split_first_chunk()?;
        let driver = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let target = fs::read_link(directory.join(culvert_preload::fuse_server::TARGET)).ok()?;
        let users = fs::read_dir(directory.join(USERS));
        let (requests, open) = area.counts();
        Some(Self {
            driver: shown(path(driver)),
            target: shown(&target),
            runs: users.into_iter().flatten().count() as u64,
            server: area.server().into(),
            requests,
            open,
            counts: Counts::of(area.words()),
        })
    }

    /// For people.
    pub fn lines(&self) -> String {
        let Self { counts, .. } = self;
        format!(
            "{} on {} in {} runs\n  server {}, {} requests, {} files open, {} processes with files \
             or names\n  {} times a process has found what another was told, {} names, attributes \
             and \
             links were asked for, {} are remembered\n  \
             {} pages were found in the cache, {} were asked for, {} are or were there\n",
            self.driver,
            self.target,
            self.runs,
            self.server,
            self.requests,
            self.open,
            counts.processes,
            counts.found,
            counts.asked,
            counts.remembered,
            counts.pages_found,
            counts.pages_asked,
            counts.pages,
        )
    }

    /// What it is and where.
    pub fn texts(&self) -> [(&'static str, &str); 2] {
        [("type", &self.driver), ("target", &self.target)]
    }

    /// How many requests there were.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// What else is counted.
    pub const fn numbers(&self) -> [(&'static str, u64); 12] {
        let Self { counts, .. } = self;
        [
            ("runs", self.runs),
            ("server", self.server),
            ("files", self.open),
            ("processes", counts.processes),
            ("found", counts.found),
            ("asked", counts.asked),
            ("remembered", counts.remembered),
            ("pages_found", counts.pages_found),
            ("pages_asked", counts.pages_asked),
            ("pages", counts.pages),
            ("evicted", counts.evicted),
            ("pages_evicted", counts.pages_evicted),
        ]
    }
}
