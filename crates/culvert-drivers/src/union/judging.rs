//! Who may do what on a branch where neither its driver nor the kernel judges that: what shows
//! other owners and modes (bind), file systems in memory.
//!
//! The front end judges by what the union shows, which of a directory is one part. The others are
//! judged here, by what they show.

use super::options::Function;
use super::state::{Core, Parts};
use crate::archive::host::terminated;
use alloc::{format, vec::Vec};
use culvert::{Access, Caller, Errno, Node, OpenFlags, Result, Rights};
use culvert_sys::{flags::OFlags, fs};

/// What it takes to change names in a directory.
pub const CHANGE: Access = Access(Access::WRITE.0 | Access::EXECUTE.0);

const STICKY: u32 = 0o1000;

impl Core {
    /// Whether `caller` may do `access` to the directory `parts` on branch `index`, as far as
    /// nobody else judges that.
    pub fn judge(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        index: usize,
        access: Access,
    ) -> Result<()> {
        let first = parts.iter().position(Option::is_some);
        match (parts.get(index).copied().flatten(), first) {
            (Some(part), Some(first)) => self.judge_at(caller, first, (index, part), access),
            _ => Ok(()),
        }
    }

    /// The same of `part` on branch `index` of what branch `first` has, too.
    pub fn judge_at(
        &self,
        caller: &Caller<'_>,
        first: usize,
        (index, part): (usize, Node),
        access: Access,
    ) -> Result<()> {
        if self.is_judged(caller, first, index) {
            return Ok(());
        }
        let fs = &self.branches[index].fs;
        match fs.access(caller, part, access) {
            Err(error) if error.errno() == Errno::EACCES && caller.rights.is_none() => {
                let groups = groups_of(caller.pid);
                let groups = &groups[..];
                fs.access(&Caller { groups, ..*caller }, part, access)
            }
            judged => judged,
        }
    }

    /// The same of `node` of the union, a file that is opened with `flags` there.
    pub fn judge_open(
        &self,
        caller: &Caller<'_>,
        node: Node,
        at: (usize, Node),
        flags: OpenFlags,
    ) -> Result<()> {
        let first = self.first(node)?.0;
        let write = flags.write() || flags.truncate();
        let read = if flags.read() { Access::READ.0 } else { 0 };
        let write = if write { Access::WRITE.0 } else { 0 };
        self.judge_at(caller, first, at, Access(read | write))
    }

    /// Whether `caller` may list the directory `dir` on each branch, as far as nobody else judges
    /// that: what one has may hide what others show.
    pub fn judge_listing(&self, caller: &Caller<'_>, dir: Node) -> Result<()> {
        let parts = self.directory(caller, dir)?;
        let mut all = 0..parts.len();
        all.try_for_each(|index| self.judge(caller, &parts, index, Access::READ))
    }

    /// Whether `caller` may change names in the directory `parts` on the branches in `acting`, as
    /// far as nobody else judges that.
    pub fn judge_change(&self, caller: &Caller<'_>, parts: &Parts, acting: &[usize]) -> Result<()> {
        let mut acting = acting.iter();
        acting.try_for_each(|&index| self.judge(caller, parts, index, CHANGE))
    }

    /// The same for who takes `name` from it.
    pub fn judge_removal(
        &self,
        caller: &Caller<'_>,
        (parts, name): (&Parts, &[u8]),
        acting: &[usize],
    ) -> Result<()> {
        self.judge_change(caller, parts, acting)?;
        let Some(first) = parts.iter().position(Option::is_some) else {
            return Ok(());
        };
        for &index in acting {
            let Some(part) = parts[index].filter(|_| !self.is_judged(caller, first, index)) else {
                continue;
            };
            let over = self.branches[index].fs.attributes(caller, part)?;
            if over.permissions & STICKY == 0 || caller.is_owner(over.uid) {
                continue;
            }
            let found = self.find_exactly(&Caller::SYSTEM, index, part, name);
            if found.is_ok_and(|found| !caller.is_owner(found.entry.attributes.uid)) {
                return Err(Errno::EPERM.into());
            }
        }
        Ok(())
    }

    /// Whether `caller` may do to `part` on branch `index`, of what branch `first` has, too, what
    /// `function` does to attributes, as far as nobody else judges that: only its owner may, or who
    /// may write it.
    pub fn judge_attributes(
        &self,
        caller: &Caller<'_>,
        first: usize,
        (index, part): (usize, Node),
        function: Function,
    ) -> Result<()> {
        if self.is_judged(caller, first, index) {
            return Ok(());
        }
        if function == Function::Truncate {
            return self.judge_at(caller, first, (index, part), Access::WRITE);
        }
        let found = self.branches[index].fs.attributes(caller, part)?;
        match caller.is_owner(found.uid) {
            true => Ok(()),
            false => Err(Errno::EPERM.into()),
        }
    }

    /// Whether others judge what `caller` does on branch `index` to what branch `first` has, too:
    /// that branch, or the front end by what it is shown.
    fn is_judged(&self, caller: &Caller<'_>, first: usize, index: usize) -> bool {
        let is_shown = || {
            let shows = self.settings().policy(Function::Getattr);
            first == index && !self.capabilities.checks_permissions && shows.is_first()
        };
        self.branches[index].fs.capabilities().checks_permissions
            || caller.has(Rights::DAC_OVERRIDE)
            || is_shown()
    }
}

/// The supplementary groups of thread `pid` (proc(5)), of which FUSE does not tell: none where they
/// cannot be read.
fn groups_of(pid: u32) -> Vec<u32> {
    let status = status_of(pid).unwrap_or_default();
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"Groups:"));
    let line = core::str::from_utf8(line.unwrap_or_default()).unwrap_or_default();
    let words = line.split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

fn status_of(pid: u32) -> Result<Vec<u8>> {
    let path = terminated(format!("/proc/{pid}/status").as_bytes())?;
    let file = fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, 0)?;
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match fs::read(&file, &mut piece)? {
            0 => return Ok(all),
            count => all.extend_from_slice(&piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn groups_are_those_of_the_thread() {
        let mut groups = std::vec![0; 1 << 16];
        let count = culvert_sys::process::getgroups(&mut groups).unwrap();
        assert_eq!(super::groups_of(std::process::id()), groups[..count]);
        assert!(super::groups_of(u32::MAX).is_empty());
    }
}
