//! The caller's supplementary groups, found out only where they decide.
//!
//! FUSE sends a caller's user and group, not the other groups: those are in /proc, eleven calls and
//! 20 microseconds for each request. But they seldom matter. The kernel has checked the caller's
//! rights with all groups before it asked (`default_permissions`, ACLs included), and groups only
//! ever add to what a file system allows whose user and group are right. So an operation is tried
//! without them; when it is denied it has done nothing, and is done again with them. What groups
//! decide without a denial, whether set-group-ID stays, is done with them at once.
//!
//! The one thing that is lost: where others than this mount take a right from a *group* only (mode
//! 0604), its members keep the right of others as long as the kernel believes the mode from before.
//! Where the kernel does not check by ACLs, groups are therefore always found out.

use culvert::{
    Access, Attributes, Call, Caller, DirectoryPlusSink, Errno, FileSystem, Layer, Node, Operation,
    Result, SetAttributes, Walked,
};
use culvert_sys::process;
use std::{cell::RefCell, fs::File, io::Read};

/// The groups of the calling thread.
#[derive(Debug, Default)]
struct Groups {
    /// As the kernel has them now; none: not known yet.
    now: Option<Vec<u32>>,
    /// The thread on whose behalf the calling one acts, and its user, if its groups were left out.
    left_out: Option<(u32, u32)>,
    /// Users who have needed their groups: they are likely to again.
    needed: Vec<u32>,
}

/// How many users are remembered.
const REMEMBERED: usize = 64;

thread_local! {
    static GROUPS: RefCell<Groups> = RefCell::default();
}

impl Groups {
    fn set(&mut self, groups: Vec<u32>) -> Result<()> {
        if self.now.as_ref() != Some(&groups) {
            // For this thread alone: glibc's setgroups would tell all.
            process::setgroups(&groups)?;
            self.now = Some(groups);
        }
        Ok(())
    }
}

/// Gives the calling thread `groups`.
pub fn set(groups: &[u32]) -> Result<()> {
    GROUPS.with_borrow_mut(|own| {
        own.left_out = None;
        own.set(groups.to_vec())
    })
}

/// The calling thread acts for thread `pid` of user `uid`: with its groups if that user has needed
/// them before, else they are left out for now.
pub fn of_caller(uid: u32, pid: u32) -> Result<()> {
    GROUPS.with_borrow_mut(|own| {
        // Root may do everything, whatever groups it is in.
        if uid == 0 {
            own.left_out = None;
            return own.set(Vec::new());
        }
        if own.needed.contains(&uid) {
            own.left_out = None;
            return own.set(read(pid));
        }
        own.left_out = Some((pid, uid));
        own.set(Vec::new())
    })
}

/// Adds the groups that were left out; whether there are any.
pub fn complete() -> Result<bool> {
    GROUPS.with_borrow_mut(|own| {
        let Some((pid, uid)) = own.left_out.take() else {
            return Ok(false);
        };
        let groups = read(pid);
        if groups.is_empty() {
            return Ok(false);
        }
        if !own.needed.contains(&uid) {
            own.needed.truncate(REMEMBERED - 1);
            own.needed.insert(0, uid);
        }
        own.set(groups)?;
        Ok(true)
    })
}

/// What `call` answers, with all groups of the caller if it is denied without them.
fn permitted<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    match call() {
        Err(error) if matches!(error.errno(), Errno::EACCES | Errno::EPERM) && complete()? => {
            call()
        }
        answer => answer,
    }
}

/// The supplementary groups of thread `pid` (proc(5)); none when it is gone, or is in another pid
/// namespace.
pub fn read(pid: u32) -> Vec<u32> {
    let mut status = Vec::new();
    let Ok(mut file) = File::open(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    loop {
        // Enough for all of most: each read makes the kernel write the text anew.
        let length = status.len();
        status.resize(length + 4096, 0);
        let count = file.read(&mut status[length..]).unwrap_or(0);
        status.truncate(length + count);
        match parse(&status) {
            Some(groups) => return groups,
            None if count == 0 => return Vec::new(),
            None => {}
        }
    }
}

/// The groups in what there is of a status; none when their line is not there to its end.
fn parse(status: &[u8]) -> Option<Vec<u32>> {
    let name = b"\nGroups:";
    let start = status.windows(name.len()).position(|line| line == name)? + name.len();
    let length = status[start..].iter().position(|&byte| byte == b'\n')?;
    let line = str::from_utf8(&status[start..start + length]).ok()?;
    let words = line.split_ascii_whitespace();
    Some(words.filter_map(|word| word.parse().ok()).collect())
}

/// A driver that acts by the kernel's calls, as the calling thread.
pub struct Permitted(pub Box<dyn FileSystem>);

/// The bit that the kernel takes from a mode unless its group is among the caller's
/// (`mode_strip_sgid`, `setattr_prepare`, fs/).
const SET_GROUP_ID: u32 = 0o2000;

/// As [`permitted`], for a call that gives a file this `mode`: what becomes of set-group-ID is
/// decided without a denial.
pub fn with_mode<T>(mode: u32, call: impl FnMut() -> Result<T>) -> Result<T> {
    if mode & SET_GROUP_ID != 0 {
        complete()?;
    }
    permitted(call)
}

impl Layer for Permitted {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.0
    }

    fn around<T>(&self, call: Call<'_>, work: impl FnMut() -> Result<T>) -> Result<T> {
        let mode = match call.operation {
            // An ACL changes the mode.
            Operation::SetXattr | Operation::RemoveXattr => SET_GROUP_ID,
            _ => call.mode,
        };
        with_mode(mode, work)
    }
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        permitted(|| self.0.walk(caller, from, path))
    }
    fn parent(&self, dir: Node) -> Result<Node> {
        permitted(|| self.0.parent(dir))
    }
    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        permitted(|| self.0.access(caller, node, access))
    }
    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        permitted(|| self.0.read_directory_plus(caller, dir, from, sink))
    }
    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        // Who cuts a file keeps its set-group-ID where he is of its group
        // (setattr_should_drop_sgid, fs/attr.c).
        let cut = changes.size.map_or(0, |_| SET_GROUP_ID);
        with_mode(changes.permissions.unwrap_or(0) | cut, || {
            self.0.set_attributes(caller, node, changes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_status() {
        let status =
            b"Name:\tx\nGid:\t1\t1\t1\t1\nFDSize:\t64\nGroups:\t4 24 4294967294 \nNStgid:\t1\n";
        assert_eq!(parse(status), Some(vec![4, 24, 4_294_967_294]));
        assert_eq!(parse(b"Name:\tx\nGroups:\t \n"), Some(Vec::new()));
        assert_eq!(parse(b"Name:\tx\nGroups:\t4 2"), None);
        assert_eq!(parse(b""), None);
    }
}
