//! Directories that are believed to be what they are known to be on every branch, as long as the
//! kernel says that nothing has happened above them.
//!
//! What a directory is, and where it is not, would else be asked of each branch by each call:
//! others may have made, moved or removed it since. inotify(7) tells of that on file systems of
//! this machine, before the call that did it returns; what is mounted over a directory changes
//! `/proc/self/mountinfo`, which can be polled. One list of both, which epoll_wait(2) finds empty
//! without a lock, costs as much as a system call that does nothing, whatever there is on the way.
//!
//! ```text
//! watched: each directory above, on each branch that has it: names made, moved and removed in it,
//!          its own attributes, by which it may be searched
//! looked:  that each name on the way leads to what is known, or to nothing
//! asked:   nothing has come since the watches were there
//! ```
//!
//! What has a name in the directory itself is not believed. Whether it may be searched is the
//! kernel's to say, when it is used. While somebody looks no lock is held: on a network's file
//! system that is mounted below a branch it may take for ever, and concerns nobody else.
//!
//! The mounts that are watched must be those that the branches see: a process that has left the
//! mount namespace in which it has opened them (unshare(2), setns(2)) hears of others.
//!
//! Only after many calls, which save more than the watches cost; not where that much happens above
//! that it does not; and in few processes of a run, since a user has 128 lists
//! (`max_user_instances`).

use super::absences::Absences;
use super::branch::{Branch, is_local};
use super::searcher::Who;
use crate::descriptor::OwnedFd;
use crate::name_changes::NameChanges;
use crate::passthrough::inotify;
use crate::{Keeper, KeptFd, Proof};
use alloc::{
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use culvert::{Errno, Node, Result, sync::Mutex};
use culvert_sys::fd::{self, BorrowedFd};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// How many directories are believed at a time.
pub const MOST: usize = 16;

/// How many calls must have asked for a directory: for the first one, and for each other.
const FIRST: u32 = 64;
const OTHERS: u32 = 8;

/// How many directories are watched; then all is begun anew.
const WATCHES: usize = 256;

/// What a disturbance takes of what calls have saved, in calls; where much more is lost than saved
/// nothing is believed for so many calls.
const DISTURBED: i32 = 16;
const REST: u32 = 4096;

/// What is told of a directory above.
const EVENTS: u32 =
    inotify::CREATE | inotify::DELETE | inotify::MOVED_FROM | inotify::MOVED_TO | inotify::ATTRIB;

/// All of a process.
pub struct Beliefs(pub Mutex<State>);

/// What is believed, and what is known of whether it pays.
#[derive(Default)]
pub struct State {
    /// What tells of changes; none yet.
    pub watching: Option<Arc<Watching>>,
    /// Somebody looks whether one more is to be believed.
    pub looking: bool,
    /// How often something has happened.
    pub happened: u64,
    /// The directories.
    pub all: Vec<Belief>,
    /// Names that most branches lack.
    pub absences: Vec<Absences>,
    /// Directories in which files were made, on which branch the last ones, and how many of them.
    pub made: Vec<(Node, usize, i32)>,
    /// Directories that were asked for, and how often.
    asked: Vec<(Node, u32)>,
    /// Calls that were saved, less what disturbances took.
    saved: i32,
    /// For how many calls nothing is believed.
    rest: u32,
}

/// One directory.
pub struct Belief {
    /// It.
    pub dir: Node,
    /// How one came there from the root.
    pub path: Vec<u8>,
    /// What it is on each branch.
    pub parts: Arc<Vec<Option<Node>>>,
    /// The branches that there were.
    pub branches: Weak<Vec<Branch>>,
    /// Whose right to search it was.
    pub who: Who,
}

/// What tells of changes.
pub struct Watching {
    list: KeptFd,
    mounts: KeptFd,
    /// Of the two those that have something to tell.
    ready: KeptFd,
    /// Directories by their branch and their node there.
    watched: Mutex<Vec<(usize, Node)>>,
    /// The branches whose mounts are among those that this hears of, as long as these are the same.
    heard: Mutex<Weak<Vec<Branch>>>,
    /// None: it was the parent's.
    seat: Mutex<Option<Proof>>,
}

/// What [`Watching::ready`] says where mounts have changed.
const MOUNTS: u64 = 1;

impl Watching {
    /// No directory yet; none: not in this process.
    pub fn new(names: &NameChanges, keeper: Keeper) -> Option<Self> {
        let seat = names.seat()?;
        let keep = |descriptor: OwnedFd| keeper.keep(descriptor);
        let list = keep(inotify::open().ok()?);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = keep(fs::open(c"/proc/self/mountinfo", flags, 0).ok()?);
        let ready = keep(fd::epoll_create().ok()?);
        for (of, events, data) in [
            (&list, linux::EPOLLIN, 0),
            (&mounts, linux::EPOLLPRI, MOUNTS),
        ] {
            let event = linux::epoll_event { events, data };
            fd::epoll_ctl(ready.fd(), linux::EPOLL_CTL_ADD, of.fd(), &event).ok()?;
        }
        Some(Self {
            list,
            mounts,
            ready,
            watched: Mutex::new(Vec::new()),
            heard: Mutex::new(Weak::new()),
            seat: Mutex::new(Some(seat)),
        })
    }

    /// Whether there are so many directories that all is begun anew.
    pub fn is_full(&self) -> bool {
        self.watched.lock().len() > WATCHES
    }

    /// Whether the mounts of which this hears are those that `branches` see.
    pub fn hears_of(&self, branches: &Arc<Vec<Branch>>) -> bool {
        // Before the table is read: a change that comes meanwhile is told later, and forgets it.
        let new = Arc::downgrade(branches);
        let before = core::mem::replace(&mut *self.heard.lock(), new.clone());
        let heard = before.ptr_eq(&new) || self.shows(branches);
        if !heard {
            *self.heard.lock() = Weak::new();
        }
        heard
    }

    /// Whether the table of mounts has those that `branches` see. It is long where there are many.
    fn shows(&self, branches: &[Branch]) -> bool {
        let Ok(text) = self.mountinfo() else {
            return false;
        };
        let sees = |branch: &Branch| {
            let root = branch.fs.kernel_node(branch.fs.root());
            let mount = branch.glance.zip(root);
            let mount = mount.and_then(|(glance, root)| glance.mount(root));
            let Some(mount) = mount else { return false };
            let number = format!("{mount} ");
            let mut lines = text.split(|&byte| byte == b'\n');
            lines.any(|line| line.starts_with(number.as_bytes()))
        };
        branches.iter().all(sees)
    }

    /// All mounts of the namespace that this hears of.
    fn mountinfo(&self) -> Result<Vec<u8>> {
        let (mut text, mut piece) = (Vec::new(), [0; 2048]);
        loop {
            let count = fs::pread(self.mounts.fd(), &mut piece, text.len() as u64)?;
            if count == 0 {
                return Ok(text);
            }
            text.extend_from_slice(&piece[..count]);
        }
    }

    /// Watches the directory `part` of `branch`.
    pub fn add(&self, branch: &Branch, part: Node) -> Result<()> {
        if self.watched.lock().contains(&(branch.id, part)) {
            return Ok(());
        }
        let directory = branch.fs.kernel_node(part).ok_or(Errno::ESTALE)?;
        let directory = BorrowedFd::number(directory);
        // Another file system may be mounted below a branch's root.
        if !is_local(directory) {
            return Err(Errno::EXDEV.into());
        }
        inotify::add(self.list.fd(), directory, EVENTS)?;
        self.watched.lock().push((branch.id, part));
        Ok(())
    }

    /// Whether nothing has happened since this was asked last.
    fn is_quiet(&self) -> bool {
        let mut one = [linux::epoll_event { events: 0, data: 0 }];
        let found = fd::epoll_wait(self.ready.fd(), &mut one, 0);
        self.note_mounts(&one);
        found == Ok(0)
    }

    /// Forgets what was read of mounts where `events` say that they have changed: it is said once.
    fn note_mounts(&self, events: &[linux::epoll_event]) {
        if events.iter().any(|event| event.data == MOUNTS) {
            *self.heard.lock() = Weak::new();
        }
    }

    /// Takes what has happened; an error: the watches are no good any more.
    fn take(&self) -> Result<()> {
        const LOST: u32 = inotify::UNMOUNT | inotify::OVERFLOW | inotify::IGNORED;
        let mut bytes = [0; 2048];
        loop {
            let count = inotify::read(self.list.raw(), &mut bytes)?;
            if count == 0 {
                break;
            }
            let mut all = inotify::events(&bytes[..count]);
            if all.any(|event| event.mask & LOST != 0) {
                return Err(Errno::ESTALE.into());
            }
        }
        // Which takes the news of mounts.
        let mut both = [linux::epoll_event { events: 0, data: 0 }; 2];
        fd::epoll_wait(self.ready.fd(), &mut both, 0)?;
        self.note_mounts(&both);
        Ok(())
    }
}

impl State {
    /// Whether what is believed still is so. Else nothing is from here on.
    pub fn is_quiet(&mut self) -> bool {
        let Some(watching) = &self.watching else {
            return false;
        };
        if watching.is_quiet() {
            return true;
        }
        let is_lost = watching.take().is_err();
        self.forget_all();
        self.happened += 1;
        self.disturbed();
        if is_lost {
            self.stop();
        }
        false
    }

    /// Nothing is believed any more.
    pub fn forget_all(&mut self) {
        self.all.clear();
        self.absences.clear();
    }

    /// Nothing is watched any more.
    pub fn stop(&mut self) {
        self.forget_all();
        self.watching = None;
    }

    /// How often something has happened until now.
    pub fn now(&mut self) -> u64 {
        self.is_quiet();
        self.happened
    }

    /// Whether nothing has happened since it had `happened` so often, of all that `watching` tells.
    pub fn is_still(&mut self, watching: &Arc<Watching>, happened: u64) -> bool {
        let is_it = |now: &Arc<Watching>| Arc::ptr_eq(now, watching);
        let is_watched = self.watching.as_ref().is_some_and(is_it);
        is_watched && self.is_quiet() && self.happened == happened
    }

    /// Whether nothing is to be believed for a while, which this call is part of.
    pub fn rests(&mut self) -> bool {
        let rests = self.rest > 0;
        self.rest = self.rest.saturating_sub(1);
        rests
    }

    /// A call was saved.
    pub fn saved(&mut self) {
        self.saved = (self.saved + 1).min(DISTURBED * DISTURBED);
    }

    /// Something was lost, and nothing saved.
    pub fn disturbed(&mut self) {
        self.saved -= DISTURBED;
        if self.saved <= -DISTURBED * DISTURBED {
            self.rest();
        }
    }

    /// Nothing is believed for a while.
    #[cold]
    pub fn rest(&mut self) {
        self.stop();
        self.asked.clear();
        (self.saved, self.rest) = (0, REST);
    }

    /// Whether the directory `dir` was asked for often enough.
    pub fn is_worth_it(&mut self, dir: Node) -> bool {
        if self.looking {
            return false;
        }
        if self.rests() {
            return false;
        }
        let Some(at) = self.asked.iter().position(|one| one.0 == dir) else {
            if self.asked.len() == MOST {
                self.asked.remove(0);
            }
            self.asked.push((dir, 1));
            return false;
        };
        let enough = match self.watching {
            Some(_) => OTHERS,
            None => FIRST,
        };
        self.asked[at].1 += 1;
        let is_enough = self.asked[at].1 >= enough;
        if is_enough {
            self.asked.swap_remove(at);
        }
        is_enough
    }
}

impl Beliefs {
    /// None yet.
    pub fn new() -> Self {
        Self(Mutex::new(State::default()))
    }

    /// This is the child of a fork, which has its parent's descriptors, and no watch of its own.
    pub fn forked(&self) {
        let mut state = self.0.lock();
        state.forget_all();
        // The thread that was looking is the parent's.
        state.looking = false;
        if let Some(watching) = state.watching.take()
            && let Some(seat) = watching.seat.lock().take()
        {
            seat.is_the_parents();
        }
    }
}
