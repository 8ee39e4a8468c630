//! Whose rights count.
//!
//! Each branch judges what is done on it: by the kernel, which knows the caller, or by its driver.
//! What a directory shows is its first part's; so who changes names in a directory needs the right
//! to do so there, too, wherever the name lies. A directory that is missing on a branch is made by
//! the mount, as it is elsewhere, in the name of whoever has that right.

use super::state::{Core, Parts};
use culvert::{Access, Caller, Errno, Error, Node, Result, Rights};
use culvert_sys::process;

/// Runs `work` with the rights over files that the calling thread, a server's, has given up for the
/// one that it acts for; its user and group stay those.
pub fn as_superuser<T>(work: impl FnOnce() -> T) -> T {
    const NEEDED: Rights = Rights::CHOWN
        .with(Rights::DAC_OVERRIDE)
        .with(Rights::DAC_READ_SEARCH)
        .with(Rights::FOWNER);
    let Ok(before) = process::capget() else {
        return work();
    };
    let mut raised = before;
    let [effective, permitted, _] = &mut raised[0];
    *effective |= NEEDED.0 as u32 & *permitted;
    if raised == before || process::capset(&raised).is_err() {
        return work();
    }
    let done = work();
    // To give up rights is never refused.
    let _ = process::capset(&before);
    done
}

impl Core {
    /// Whether `caller` may change names in the directory `parts` as it is shown. What is done on the
    /// branches in `acting` these judge.
    pub fn may_change(&self, caller: &Caller<'_>, parts: &Parts, acting: &[usize]) -> Result<()> {
        let Some((branch, part)) = self.shown_elsewhere(caller, parts, acting) else {
            return Ok(());
        };
        let access = Access(Access::WRITE.0 | Access::EXECUTE.0);
        let fs = &self.branches[branch].fs;
        let by_mode = || caller.may(access, &fs.attributes(caller, part)?);
        let judged = match fs.capabilities().read_only {
            true => by_mode(),
            false => match fs.access(caller, part, access) {
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

    /// The same for who takes a name from what belongs to user `owner` (`may_delete`, fs/namei.c).
    pub fn may_remove(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        acting: &[usize],
        owner: u32,
    ) -> Result<()> {
        self.may_change(caller, parts, acting)?;
        let Some((branch, part)) = self.shown_elsewhere(caller, parts, acting) else {
            return Ok(());
        };
        let shown = self.branches[branch].fs.attributes(caller, part)?;
        const STICKY: u32 = 0o1000;
        let is_kept = shown.permissions & STICKY != 0 && !caller.is_owner(shown.uid);
        match is_kept && !caller.is_owner(owner) {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }

    /// The first part of the directory `parts`, where nothing is done on it for a caller whose rights
    /// matter.
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
