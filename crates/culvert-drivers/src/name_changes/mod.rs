//! One change of names at a time, for all processes of a run: that there is no such name is found,
//! and made use of, at one moment.
//!
//! What was found before the right was had is still so where no process has changed such a name
//! meanwhile, nor a directory ([`Stamp`]). Those who change names by other ways are not noticed.

mod turns;

use crate::{Keeper, Proof, archive::host::terminated};
use alloc::boxed::Box;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard};
use culvert_sys::PAGE;
use culvert_sys::flags::Protection;
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of, Shared};
use turns::{Turn, Turns};

/// The right to change names.
pub struct NameChanges {
    own: Mutex<()>,
    page: Place,
    /// None: there is no other process, or this one may not know of them.
    turns: Option<Turns>,
    /// Whether the page tells of all changes.
    knows_all: bool,
    /// A turn was had after one that was killed in it, and nobody has asked.
    killed: AtomicBool,
}

/// Words of one page of memory.
#[repr(C)]
struct Page {
    /// How many changes were noted.
    noted: AtomicU64,
    /// Whose turn it is.
    turn: AtomicU32,
    /// How often a directory was made, moved or removed.
    directories: AtomicU32,
    /// How often a name was made, moved or removed, of all names with one hash.
    names: [AtomicU32; NAMES],
}

const NAMES: usize = (PAGE - 16) / 4;

const _: () = assert!(size_of::<Page>() == PAGE);

// SAFETY: atomic words, without padding.
unsafe impl Shared for Page {}

impl Page {
    const fn new() -> Self {
        Self {
            noted: AtomicU64::new(0),
            turn: AtomicU32::new(0),
            directories: AtomicU32::new(0),
            names: [const { AtomicU32::new(0) }; NAMES],
        }
    }

    fn name(&self, name: &[u8]) -> &AtomicU32 {
        // FNV-1a (Fowler, Noll, Vo).
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        &self.names[(hash % NAMES as u64) as usize]
    }
}

/// Where the page is.
enum Place {
    Own(Box<Page>),
    /// In a file that each process of the run maps.
    Shared(&'static Page),
}

/// A moment of the changes of one name, and of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    directories: u32,
    name: u32,
}

/// The right, for as long as it is held.
pub struct Changing<'a> {
    names: &'a NameChanges,
    /// Those that are changed.
    changed: [Option<&'a AtomicU32>; 2],
    directories: Cell<bool>,
    turn: Option<Turn>,
    _own: MutexGuard<'a, ()>,
}

impl NameChanges {
    /// With the file `path` in the run directory, which is made here when it is missing; none: in a
    /// process alone there is nobody else. A process that may not have the file goes on without.
    pub fn new(path: Option<&[u8]>, keeper: Keeper) -> Self {
        // Now: a child of vfork, or a program under a filter, could not open it for this process.
        let shared = path.map(|path| shared(path, keeper));
        let knows_all = !matches!(shared, Some(Err(_)));
        let (page, turns) = match shared {
            Some(Ok((page, turns))) => (Place::Shared(page), Some(turns)),
            _ => (Place::Own(Box::new(Page::new())), None),
        };
        Self {
            own: Mutex::new(()),
            page,
            turns,
            knows_all,
            killed: AtomicBool::new(false),
        }
    }

    fn page(&self) -> &Page {
        match &self.page {
            Place::Own(page) => page,
            Place::Shared(page) => page,
        }
    }

    /// Waits until nobody else changes names.
    pub fn change(&self) -> Changing<'_> {
        self.take([None; 2], true)
    }

    /// The same; nothing but `names` is changed, and no directory unless that is
    /// [said](Changing::of_directories).
    pub fn change_of(&self, names: [Option<&[u8]>; 2]) -> Changing<'_> {
        let page = self.page();
        self.take(names.map(|name| Some(page.name(name?))), false)
    }

    fn take<'a>(&'a self, changed: [Option<&'a AtomicU32>; 2], directories: bool) -> Changing<'a> {
        let _own = self.own.lock();
        let page = self.page();
        let turn = self
            .turns
            .as_ref()
            .and_then(|turns| turns.take(&page.turn).ok());
        if turn.as_ref().is_some_and(|turn| turn.inherited) {
            // Whatever the one that was killed has changed.
            page.directories.fetch_add(1, AcqRel);
            page.noted.fetch_add(1, AcqRel);
            self.killed.store(true, Relaxed);
        }
        Changing {
            names: self,
            changed,
            directories: Cell::new(directories),
            turn,
            _own,
        }
    }

    /// Whether somebody was killed in the middle of a change since this was asked last.
    pub fn somebody_was_killed(&self) -> bool {
        self.killed.load(Relaxed) && self.killed.swap(false, Relaxed)
    }

    /// Now, for `name`; to be asked for before one looks.
    pub fn stamp(&self, name: &[u8]) -> Stamp {
        let page = self.page();
        Stamp {
            directories: page.directories.load(Acquire),
            name: page.name(name).load(Acquire),
        }
    }

    /// Whether what was found of `name` after `stamp` is so, as far as the processes of the run are
    /// concerned.
    pub fn is_now(&self, name: &[u8], stamp: Stamp) -> bool {
        self.knows_all && self.stamp(name) == stamp
    }

    /// A directory was made, moved or removed.
    pub fn directories_changed(&self) {
        self.page().directories.fetch_add(1, AcqRel);
    }

    /// Whether the changes of all processes are counted here.
    pub const fn knows_all(&self) -> bool {
        self.knows_all
    }

    /// Whether there is no other process.
    pub const fn is_alone(&self) -> bool {
        self.turns.is_none() && self.knows_all
    }

    /// How many changes were noted, by whichever process.
    pub fn count(&self) -> u64 {
        self.page().noted.load(Acquire)
    }

    /// One of the few seats of the run's processes, until it is dropped; none: all are taken, or
    /// there is no file to take one in.
    pub fn seat(&self) -> Option<Proof> {
        self.turns.as_ref()?.seat()
    }

    /// This is the child of a fork.
    pub fn forked(&self) {
        if let Some(turns) = &self.turns {
            turns.forked();
        }
    }
}

/// The page in the file `path`, and the turns of those that map it.
fn shared(path: &[u8], keeper: Keeper) -> Result<(&'static Page, Turns), Errno> {
    let path = terminated(path)?;
    let file = turns::open(&path)?;
    // The first one makes it as long; to others it is so already.
    fs::ftruncate(&file, size_of::<Page>() as u64)?;
    let both = Protection::READ | Protection::WRITE;
    // Never unmapped: mounts live as long as their process.
    let mapped = Mapping::near(0, Of::file(&file), size_of::<Page>(), both)?.leak();
    // SAFETY: it is that long and stays, at the start of a page; any bytes are words.
    let page = unsafe { &*mapped.cast::<Page>() };
    Ok((page, Turns::new(path, file, keeper)))
}

impl Changing<'_> {
    /// Notes a change: [`NameChanges::count`] is another from here on, and returned.
    pub fn note(&self) -> u64 {
        self.names.page().noted.fetch_add(1, AcqRel) + 1
    }

    /// What is changed are directories, too.
    pub fn of_directories(&self) {
        self.directories.set(true);
    }

    /// Whether what was found of `name` after `stamp` is so: nobody has changed it, and the right
    /// was had at once.
    pub fn is_now(&self, name: &[u8], stamp: Stamp) -> bool {
        let is_alone = self.names.turns.is_none();
        let at_once = self.turn.as_ref().map_or(is_alone, |turn| !turn.waited);
        at_once && self.names.is_now(name, stamp)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // Now that it is done: who has looked before has another stamp.
        if self.directories.get() {
            self.names.directories_changed();
        }
        for name in self.changed.iter().flatten() {
            name.fetch_add(1, AcqRel);
        }
        if let (Some(turns), Some(turn)) = (&self.names.turns, &self.turn) {
            turns.give(&self.names.page().turn, turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    struct File(PathBuf);

    impl File {
        fn new(called: &str) -> Self {
            let name = std::format!("culvert-{called}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn names(&self) -> NameChanges {
            NameChanges::new(Some(self.0.as_os_str().as_bytes()), Keeper::default())
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Two that have only the file in common, as two processes.
    #[test]
    fn one_at_a_time() {
        let file = File::new("turns");
        let both = [file.names(), file.names()];
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for names in &both {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            let _changing = names.change();
                            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                            inside.fetch_sub(1, SeqCst);
                        }
                    });
                }
            }
        });
        assert_eq!(most.load(SeqCst), 1);
        assert_eq!(both[0].page().turn.load(SeqCst) & 0xff_ffff, 0);
    }

    #[test]
    fn the_turn_of_a_dead_process_ends() {
        let file = File::new("dead");
        let names = file.names();
        // No living process has locked the last slot of all.
        names.page().turn.store(1 << 22, SeqCst);
        let before = names.stamp(b"any");
        let changing = names.change_of([Some(b"other"), None]);
        assert!(!changing.is_now(b"any", before));
        drop(changing);
        assert_eq!(names.page().turn.load(SeqCst) & 0xff_ffff, 0);
        // It may have changed anything.
        assert!(!names.is_now(b"any", before));
        let after = names.stamp(b"any");
        assert!(names.change().is_now(b"any", after));
    }

    /// Who has seen the dead one's turn, and is late, does not take it from its slot's next one.
    #[test]
    fn a_slot_that_is_used_again_is_another_turn() {
        let file = File::new("again");
        let names = file.names();
        let word = &names.page().turn;
        let changing = names.change();
        let slot = word.load(SeqCst) & 0xff_ffff;
        drop(changing);
        for again in [0, 1 << 29] {
            // Its process was killed, and somebody waits.
            let left = slot | (1 << 31) | again;
            word.store(left, SeqCst);
            let changing = names.change();
            assert_eq!(word.load(SeqCst), left ^ (1 << 29));
            drop(changing);
            assert_eq!(word.load(SeqCst), 0);
        }
    }

    #[test]
    fn a_change_of_the_name_or_of_a_directory_is_seen() {
        let file = File::new("stamps");
        let [here, there] = [file.names(), file.names()];
        let stamp = here.stamp(b"a");
        drop(there.change_of([Some(b"b"), None]));
        assert!(here.is_now(b"a", stamp));
        drop(there.change_of([Some(b"b"), Some(b"a")]));
        assert!(!here.is_now(b"a", stamp));
        let stamp = here.stamp(b"a");
        let changing = there.change_of([Some(b"b"), None]);
        changing.of_directories();
        drop(changing);
        assert!(!here.is_now(b"a", stamp));
    }

    /// As one that another user may not open.
    #[test]
    fn who_cannot_have_the_file_believes_nothing() {
        let path = std::env::temp_dir().join("culvert-none/there");
        let names = NameChanges::new(Some(path.as_os_str().as_bytes()), Keeper::default());
        let stamp = names.stamp(b"a");
        assert!(!names.change().is_now(b"a", stamp));
        let alone = NameChanges::new(None, Keeper::default());
        let stamp = alone.stamp(b"a");
        assert!(alone.change().is_now(b"a", stamp));
    }
}
