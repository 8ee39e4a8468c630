//! A file's way to another branch, or to an inode of its own: a copy that appears at one moment.

use super::branch::Tree;
use super::found::{Found, Lease};
use super::moves::Move;
use super::rights::as_superuser;
use super::state::Core;
use crate::{DescriptorFile, archive::host, unhindered};
use alloc::{boxed::Box, format, vec::Vec};
use culvert::{
    Attributes, Caller, Entry, Errno, Error, File, FileSystem, Node, OpenFlags, Opened,
    RenameFlags, Result, SetAttributes, Timespec,
};
use culvert_sys::fd::{self, BorrowedFd, Command};
use culvert_sys::process;
use culvert_sys::raw::general::{CLOCK_REALTIME_COARSE, F_UNLCK, F_WRLCK, SIGURG, timespec};

/// How many bytes are copied at a time.
const PIECE: usize = 256 << 10;

/// How many milliseconds at most are waited for a tick. A clock that was set back is not.
const MOST_TICKS: usize = 20;

/// A name that nobody has.
pub fn temporary() -> Vec<u8> {
    format!(".culvert-{:016x}", host::random()).into_bytes()
}

/// What becomes of a name that the target of a copy has already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum There {
    /// `EEXIST`.
    Stays,
    /// It is the copy's from then on.
    IsReplaced,
}

/// How far a copy is, which does not go on where it is told that something is wrong.
pub enum Step {
    /// It is this node, of who makes it, and empty.
    Made(Node),
    /// It is whole, and will be shown next. The file that is copied is not open.
    Whole,
}

impl Core {
    /// The file that `opened` on the branch `fs` is, where it is `part`.
    pub fn driven(
        &self,
        (fs, part): (&dyn FileSystem, Node),
        opened: Opened,
    ) -> Result<Box<dyn File>> {
        Ok(match opened {
            Opened::Driven(file) => file,
            Opened::Backed(fd) => {
                let found = fs.attributes(&Caller::SYSTEM, part)?;
                let descriptor = unhindered(fd);
                Box::new(DescriptorFile::new(
                    descriptor,
                    self.keeper,
                    part,
                    found.inode,
                ))
            }
        })
    }

    /// Opens what is node `to` of a branch, and was opened elsewhere by who may do so.
    pub fn open_again(&self, to: (usize, Node), flags: OpenFlags) -> Result<Box<dyn File>> {
        let open = || {
            let branch = &*self.branches[to.0].fs;
            let opened = branch.open(&Caller::SYSTEM, to.1, flags)?;
            self.driven((branch, to.1), opened)
        };
        match self.elevates {
            true => as_superuser(open),
            false => open(),
        }
    }

    /// A copy of a regular file, `from` a branch, as a name in a directory of the branch `to`:
    /// bytes, holes, extended attributes, owner, mode and times. Nobody sees it before it is whole;
    /// whoever is killed meanwhile leaves nothing, or, where the target has no files without names
    /// or the name is replaced, a temporary name (`.culvert-...`). One reference of the branch's.
    pub fn copy(
        &self,
        caller: &Caller<'_>,
        from: (usize, Node),
        (to, dir, name): (usize, Node, &[u8]),
        there: There,
        step: &mut dyn FnMut(Step) -> Result<()>,
    ) -> Result<Entry> {
        let (source, target) = (&*self.branches[from.0].fs, &*self.branches[to].fs);
        let wanted = source.attributes(caller, from.1)?;
        let opened = source.open(caller, from.1, OpenFlags::READ)?;
        let read = self.driven((source, from.1), opened)?;
        let (flags, mode) = (OpenFlags::READ_WRITE, 0o600);
        let mut temporary_name = None;
        let (entry, opened) = match target.tmpfile(caller, dir, flags, mode) {
            Err(error)
                if matches!(
                    error.errno(),
                    Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EISDIR | Errno::EINVAL
                ) =>
            {
                let flags = flags.with(OpenFlags::EXCLUSIVE);
                let name = temporary_name.insert(temporary());
                target.create(caller, dir, name, flags, mode)?
            }
            made => made?,
        };
        let made = entry.attributes.node;
        let work = || {
            let write = self.driven((target, made), opened)?;
            step(Step::Made(made))?;
            copy_bytes(&*read, &*write)?;
            drop(read);
            copy_metadata(caller, (source, from.1, &wanted), (target, made), true)?;
            write.sync(false)?;
            drop(write);
            step(Step::Whole)?;
            let temporary = match &temporary_name {
                Some(temporary) => temporary.clone(),
                None if there == There::Stays => return link(caller, target, made, dir, name),
                None => {
                    let temporary = temporary();
                    link(caller, target, made, dir, &temporary)?;
                    temporary
                }
            };
            let flags = match there {
                There::Stays => RenameFlags(RenameFlags::NO_REPLACE),
                There::IsReplaced => RenameFlags::default(),
            };
            let renamed = target.rename(caller, (dir, &temporary), (dir, name), flags);
            renamed.inspect_err(|_| {
                let _ = target.unlink(caller, dir, &temporary);
            })
        };
        let done = work().and_then(|()| target.attributes(caller, made));
        match done {
            Ok(attributes) => Ok(Entry { attributes }),
            Err(error) => {
                if let Some(temporary) = temporary_name {
                    let _ = target.unlink(caller, dir, &temporary);
                }
                target.forget(made, 1);
                Err(error)
            }
        }
    }

    /// Moves the file `node`, which is `part` on branch `index` and open as `file`, to a branch
    /// with room for `more` bytes (option `moveonenospc`): where it is now, and open there with
    /// `flags`. None: it stays, since there is no such branch, it has lost its name or has several,
    /// others have it open for writing, whose bytes would go into a file that nobody sees, or it
    /// was changed meanwhile.
    pub fn make_room(
        &self,
        node: Node,
        (index, part): (usize, Node),
        (file, flags): (&dyn File, OpenFlags),
        more: u64,
    ) -> Option<(usize, Node, Box<dyn File>)> {
        let policy = self.settings().moves?;
        let caller = Caller::SYSTEM;
        let _changing = self.names.change();
        let place = self.nodes.with(node, |known| known.place.clone()).ok()?;
        let (dir, name) = place?;
        let parts = self.directory(&caller, dir).ok()?;
        let found = self.find_exactly(&caller, index, parts[index]?, &name);
        let found = found.ok().filter(|found| found.node() == part)?;
        let times = &found.entry.attributes;
        be_later(times.mtime.max(times.ctime));
        let branch = &self.branches[index].fs;
        let shown = branch.attributes(&caller, part).ok()?;
        if shown.links != 1 || !is_the_only_writer(file) {
            return None;
        }
        let mut candidates = Vec::new();
        for (at, branch) in self.branches.iter().enumerate() {
            if at != index {
                let of = (at, branch);
                let candidate = self.may_hold(&caller, policy, of, parts[at]);
                let needed = shown.blocks.saturating_mul(512).saturating_add(more);
                candidates.extend(candidate.ok().filter(|one| one.space.available > needed));
            }
        }
        let to = *policy.choose(&candidates).first()?;
        let work = || {
            let target = self.ensure(&caller, dir, &parts, to)?;
            let to = (to, target, &name[..]);
            let mut opened = None;
            let mut step = |step| match step {
                // Its mode may keep it from being opened later.
                Step::Made(made) => {
                    let branch = &*self.branches[to.0].fs;
                    let file = branch.open(&caller, made, flags)?;
                    opened = Some(self.driven((branch, made), file)?);
                    Ok(())
                }
                Step::Whole => {
                    let now = branch.attributes(&caller, part)?;
                    let is_same = (now.size, now.mtime, now.ctime, now.links)
                        == (shown.size, shown.mtime, shown.ctime, shown.links);
                    match is_same && is_the_only_writer(file) {
                        true => Ok(()),
                        false => Err(Errno::EBUSY.into()),
                    }
                }
            };
            let from = (index, part);
            let entry = self.copy(&caller, from, to, There::IsReplaced, &mut step)?;
            // From here on there are two of the same bytes, one of which is shown.
            let there = Found::new(&self.branches[to.0], entry);
            let opened = opened.ok_or(Errno::ESTALE)?;
            let here = parts[index].ok_or(Errno::ESTALE)?;
            // Before the name is gone: it is asked for by those whose file has no name.
            self.moves.note(Move {
                from: self.branches[index].number(part),
                to: (self.branches[to.0].number(super::ROOT), there.node()),
            });
            branch.unlink(&caller, here, &name).inspect_err(|_| {
                let _ = self.branches[to.0].fs.unlink(&caller, to.1, to.2);
            })?;
            Ok::<_, Error>((to.0, there, opened))
        };
        let (to, there, opened) = match self.elevates {
            true => as_superuser(work),
            false => work(),
        }
        .ok()?;
        // It stays known for as long as it is open.
        let (entry, lease) = there.take();
        debug_assert!(matches!(lease, Lease::Reference));
        Some((to, entry.attributes.node, opened))
    }

    /// Where the file that was `part` of the branch `tree` is by now, should it have been moved.
    pub fn moved(&self, (tree, part): (&Tree, Node)) -> Option<(usize, Node)> {
        let (branch, node) = self.moves.find(tree.number(part))?;
        let all = self.branches.iter();
        let to = all
            .clone()
            .position(|one| one.number(super::ROOT) == branch)?;
        Some((to, node))
    }

    /// Gives the file `name` in the directory `dir`, which is `part` of branch `index` and has more
    /// names, an inode of its own (option `link-cow`).
    pub fn break_link(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        (index, part): (usize, Node),
    ) -> Result<()> {
        let _changing = self.names.change();
        let parts = self.directory(caller, dir)?;
        let over = parts[index].ok_or(Errno::ESTALE)?;
        let found = self.find_exactly(caller, index, over, name)?;
        if found.node() != part {
            return Err(Errno::ESTALE.into());
        }
        let to = (index, over, name);
        let from = (index, part);
        let made = self.copy(caller, from, to, There::IsReplaced, &mut |_| Ok(()))?;
        self.branches[index].fs.forget(made.attributes.node, 1);
        Ok(())
    }
}

/// Makes `name` in `dir` a name of `node`.
fn link(
    caller: &Caller<'_>,
    fs: &dyn FileSystem,
    node: Node,
    dir: Node,
    name: &[u8],
) -> Result<()> {
    let made = fs.link(caller, node, dir, name)?;
    fs.forget(made.attributes.node, 1);
    Ok(())
}

/// All bytes of `read` into `write`, which is empty; zeroes are left out.
fn copy_bytes(read: &dyn File, write: &dyn File) -> Result<()> {
    let mut buffer = alloc::vec![0; PIECE];
    let mut at = 0;
    loop {
        let count = read.read_at(at, &mut &mut buffer[..])?;
        if count == 0 {
            break;
        }
        let mut done = 0;
        let is_hole = buffer[..count].iter().all(|&byte| byte == 0);
        while done < count && !is_hole {
            let from = &mut &buffer[done..count];
            match write.write_at(at + done as u64, from)? {
                0 => return Err(Errno::EIO.into()),
                written => done += written,
            }
        }
        at += count as u64;
    }
    let size = SetAttributes {
        size: Some(at),
        ..SetAttributes::default()
    };
    write.set_attributes(&Caller::SYSTEM, &size)?;
    Ok(())
}

/// What `wanted` says of `model`, and its extended attributes, for `made`. Unless it is to be
/// `exact`, as far as the caller may: who may not give it away has it.
pub fn copy_metadata(
    caller: &Caller<'_>,
    (source, model, wanted): (&dyn FileSystem, Node, &Attributes),
    (target, made): (&dyn FileSystem, Node),
    exact: bool,
) -> Result<()> {
    let found = target.attributes(caller, made)?;
    if (found.uid, found.gid) != (wanted.uid, wanted.gid) {
        let owner = SetAttributes {
            uid: Some(wanted.uid),
            gid: Some(wanted.gid),
            ..SetAttributes::default()
        };
        match target.set_attributes(caller, made, &owner) {
            Err(error) if exact => return Err(error),
            _ => {}
        }
    }
    // A new owner takes the file's capabilities (`security.capability`).
    let names = source.list_xattr(caller, model).unwrap_or_default();
    for name in names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        if let Ok(value) = source.get_xattr(caller, model, name) {
            let _ = target.set_xattr(caller, made, name, &value, 0);
        }
    }
    let rest = SetAttributes {
        permissions: Some(wanted.permissions),
        atime: Some(wanted.atime),
        mtime: Some(wanted.mtime),
        ..SetAttributes::default()
    };
    match target.set_attributes(caller, made, &rest) {
        Err(error) if exact => Err(error),
        _ => Ok(()),
    }
}

/// Waits for the kernel's next tick where `time` was in this one: what changes from now on has a
/// later time.
pub fn be_later(time: Timespec) {
    for _ in 0..MOST_TICKS {
        let now = process::clock_gettime(CLOCK_REALTIME_COARSE);
        let later = |now: timespec| (now.tv_sec, now.tv_nsec as u32);
        if now.map_or(true, |now| later(now) > (time.seconds, time.nanoseconds)) {
            return;
        }
        let _ = process::nanosleep(1_000_000);
    }
}

/// Whether no other description has the file open for writing: the kernel grants a lease then
/// (fcntl(2), `F_SETLEASE`), which is given back at once. Whose break would be told by a signal
/// that is ignored.
fn is_the_only_writer(file: &dyn File) -> bool {
    let Some(descriptor) = file.descriptor().map(BorrowedFd::number) else {
        return false;
    };
    let ask = || {
        fd::fcntl(descriptor, Command::SETSIG, SIGURG as usize)?;
        fd::fcntl(descriptor, Command::SETLEASE, F_WRLCK as usize)?;
        fd::fcntl(descriptor, Command::SETLEASE, F_UNLCK as usize)
    };
    ask().is_ok()
}
