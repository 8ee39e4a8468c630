//! Whose rights count.
//!
//! Each branch judges what is done on it: by the kernel, which knows the caller, or by its driver,
//! or it leaves that to the union ([`super::judging`]).
//! What a directory shows is its first part's; so who changes names in a directory needs the right
//! to do so there, too, wherever the name lies. A directory that is missing on a branch is made by
//! the mount, as it is elsewhere, in the name of whoever has that right.

use super::judging::CHANGE;
use super::state::{Core, Parts};
use crate::superuser;
use culvert::{Attributes, Caller, Errno, Error, Node, Result, Rights};

/// Runs `work` with the rights over files that the calling thread, a server's, has given up for the
/// one that it acts for; its user and group stay those.
pub fn as_superuser<T>(work: impl FnOnce() -> T) -> T {
    const NEEDED: Rights = Rights::CHOWN
        .with(Rights::DAC_OVERRIDE)
        .with(Rights::DAC_READ_SEARCH)
        .with(Rights::FOWNER);
    superuser::with(NEEDED, work)
}

impl Core {
    /// Whether `caller` may change names in the directory `parts` as it is shown. What is done on
    /// the branches in `acting` these judge.
    pub fn may_change(&self, caller: &Caller<'_>, parts: &Parts, acting: &[usize]) -> Result<()> {
        self.judge_change(caller, parts, acting)?;
        let Some((branch, part)) = self.shown_elsewhere(caller, parts, acting) else {
            return Ok(());
        };
        let fs = &self.branches[branch].fs;
        let by_mode = || caller.may(CHANGE, &fs.attributes(caller, part)?);
        let judged = match fs.capabilities().read_only {
            true => by_mode(),
            false => match fs.access(caller, part, CHANGE) {
                // That nothing is written there is no reason.
                Err(error) if error.errno() == Errno::EROFS => by_mode(),
                judged => judged,
            },
        };
        judged.map_err(|error| match error.errno() {
            Errno::EACCES => Error::because(
                Errno::EACCES,
                "the directory on the first branch that has it may not be written to",
            ),
            _ => error,
        })
    }

    /// The same for who takes a `name` from what belongs to user `owner` (`may_delete`,
    /// fs/namei.c).
    pub fn may_remove(
        &self,
        caller: &Caller<'_>,
        (parts, name): (&Parts, &[u8]),
        acting: &[usize],
        owner: u32,
    ) -> Result<()> {
        self.judge_removal(caller, (parts, name), acting)?;
        self.may_change(caller, parts, acting)?;
        let Some((branch, part)) = self.shown_elsewhere(caller, parts, acting) else {
            return Ok(());
        };
        let shown = self.branches[branch].fs.attributes(caller, part)?;
        may_take_from(caller, &shown, owner)
    }

    /// The same, where nothing comes of it since `name` is of the wrong kind, or not empty, so that
    /// no branch in `acting` is told to: who may not take it is told that first (`may_delete`,
    /// fs/namei.c).
    pub fn may_take(
        &self,
        caller: &Caller<'_>,
        (parts, name): (&Parts, &[u8]),
        acting: &[usize],
        owner: u32,
    ) -> Result<()> {
        self.may_remove(caller, (parts, name), acting, owner)?;
        for &index in acting {
            let Some(part) = parts[index] else { continue };
            let fs = &self.branches[index].fs;
            match fs.access(caller, part, CHANGE) {
                Err(error) if error.errno() == Errno::EACCES => return Err(error),
                _ => may_take_from(caller, &fs.attributes(caller, part)?, owner)?,
            }
        }
        Ok(())
    }

    /// The first part of the directory `parts`, where nothing is done on it for a caller whose
    /// rights matter.
    fn shown_elsewhere(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        acting: &[usize],
    ) -> Option<(usize, Node)> {
        let checks = self.capabilities.checks_permissions && !caller.has(Rights::DAC_OVERRIDE);
        let mut all = parts.iter().enumerate().filter(|_| checks);
        let (index, part) = all.find_map(|(index, part)| Some((index, (*part)?)))?;
        (!acting.contains(&index)).then_some((index, part))
    }
}

/// `EPERM` where the directory `over` is sticky and neither it nor what is in it, user `owner`'s,
/// is the caller's.
fn may_take_from(caller: &Caller<'_>, over: &Attributes, owner: u32) -> Result<()> {
    const STICKY: u32 = 0o1000;
    let is_kept = over.permissions & STICKY != 0 && !caller.is_owner(over.uid);
    match is_kept && !caller.is_owner(owner) {
        true => Err(Errno::EPERM.into()),
        false => Ok(()),
    }
}
