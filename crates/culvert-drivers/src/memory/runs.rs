//! Runs: the groups of processes that a `culvert run` makes. A named file system may be used by
//! several at once.

use super::{
    core::{Core, Inode},
    host,
    layout::{self, header},
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use culvert::Result;
use culvert_sys::{fd, raw::general as linux};

/// Words of a run's name.
const WORDS: u64 = 4;

impl Core {
    /// Finds or takes the number of this process's run. A file system that has no place for another
    /// run treats its files as never shared.
    pub fn join_run(&self) -> Result<()> {
        let Some(name) = self.run.as_deref().and_then(last_name) else {
            return Ok(());
        };
        let mut change = self.change()?;
        let mut free = None;
        for run in 0..layout::MOST_RUNS {
            let known = self.run_name(run)?;
            if known == name {
                self.run_number.store(run as u32, Relaxed);
                return Ok(());
            }
            if free.is_none() && (known.is_empty() || !self.run_lives(&known)) {
                free = Some(run);
            }
        }
        let run = free.ok_or_else(|| {
            culvert::Error::because(
                culvert::Errno::ENFILE,
                "more than 64 runs use this memory file system",
            )
        })?;
        for word in 0..WORDS {
            let bytes = core::array::from_fn(|at| {
                let at = word as usize * 8 + at;
                name.get(at).copied().unwrap_or(0)
            });
            let value = u64::from_le_bytes(bytes);
            change.set_header(header::RUNS + run * WORDS + word, value)?;
        }
        self.run_number.store(run as u32, Relaxed);
        change.commit();
        Ok(())
    }

    fn run_name(&self, run: u64) -> Result<Vec<u8>> {
        let mut name = Vec::with_capacity(32);
        for word in 0..WORDS {
            let value = self.header(header::RUNS + run * WORDS + word)?;
            name.extend_from_slice(&value.to_le_bytes());
        }
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }

    /// Whether any process of another run lives: each holds its lock file.
    fn run_lives(&self, name: &[u8]) -> bool {
        let Some(run) = self.run.as_deref() else {
            return false;
        };
        let base = &run[..run.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
        if name.contains(&b'/') {
            return false;
        }
        match host::open(&[base, b"/", name, b"/lock"].concat()) {
            // Whoever lives holds it.
            Ok(lock) => fd::flock(&lock, linux::LOCK_EX | linux::LOCK_NB).is_err(),
            Err(_) => false,
        }
    }

    /// Whether run `run`, which has shared the file `of`, may still use it. With the lock held.
    pub fn run_uses(&self, run: u32, of: &Inode<'_>) -> Result<bool> {
        if run == self.run_number.load(Relaxed) {
            let read = |name: &[u8]| self.read_xattr(of, name);
            return Ok(self.in_use.is_none_or(|in_use| in_use(of.node(), &read)));
        }
        let name = self.run_name(run.into())?;
        Ok(!name.is_empty() && self.run_lives(&name))
    }
}

/// The last component of a path, if it is short enough to be kept.
fn last_name(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    (!name.is_empty() && name.len() < WORDS as usize * 8).then_some(name)
}
