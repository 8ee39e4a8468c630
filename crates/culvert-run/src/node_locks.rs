//! Locks between the processes of a run, one word for a group of nodes, in a file of the run
//! directory that everybody maps.
//!
//! A word holds the *slot* of the process that has it, so that the lock of a process that was
//! killed can be taken over; robust futexes are not ours to use (one list a thread, and it is
//! glibc's). That a slot's process lives is said by the kernel: it holds a lock on that byte of the
//! file `owners` ([`Proof`]), which ends with the process however it ends, is inherited by nobody,
//! and is seen from every PID namespace, where a thread id would be another's. Threads need no slot
//! of their own: they die together. A child of vfork, which has its parent's memory, holds a record
//! lock (fcntl(2)), which ends with its table of descriptors.

use crate::ShadowName;
use crate::files;
use crate::node_shares::{Share, Shares, Together};
use crate::task;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use culvert::Errno;
use culvert_drivers::Proof;
use culvert_sys::fd::LockCommand;
use culvert_sys::memory::{Placed, Shared};
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::{F_UNLCK, F_WRLCK, O_CREAT, O_RDWR, flock};
use culvert_sys::sync::{self, AtomicRef, Mutex};
use culvert_sys::waits::Holding;
use culvert_sys::{BorrowedFd, PAGE, process};

const WORDS: usize = 1024;

/// Somebody sleeps on the word.
const WAITERS: u32 = 1 << 31;
/// Somebody has slept on the word in vain: who comes fresh does not overtake.
const STARVING: u32 = 1 << 30;
/// The owner has no slot: the other bits are its thread id.
const BY_THREAD: u32 = 1 << 22;
/// The owner: slot or thread id, and how it is named.
const OWNER: u32 = BY_THREAD << 1;
const OWNER_MASK: u32 = OWNER - 1;
/// Slots are 1 to this: as many as there can be processes (`PID_MAX_LIMIT`,
/// include/linux/threads.h).
const SLOTS: u32 = BY_THREAD - 1;
/// How long a waiter sleeps before it asks whether the owner still lives, nanoseconds.
const PATIENCE: u32 = 20_000_000;
/// Sleeps until a waiter that can do without the lock goes on.
const LONG: u32 = 50;

/// What else the processes of a run tell each other.
#[repr(C)]
pub struct Notes {
    /// Counts, by twos, the changes of status flags of shared descriptions (`F_SETFL`). Bit 0:
    /// programs that are not intercepted hold some too, so that the kernel must be asked each time.
    pub flag_changes: AtomicU32,
    /// Counts the times a shadow was given to a program that is not intercepted and may write to
    /// it.
    pub strangers: AtomicU32,
    /// About how many bytes lie in shadows (culvert-cache, room.rs).
    pub filled: AtomicU64,
    /// Not 0 once what is sent through a socket may come to somebody who reads it without us
    /// (strangers.rs).
    pub outside: AtomicU32,
    /// Not 0 once a socket has got a name in a mount.
    pub sockets: AtomicU32,
    /// Changes when a node gets a mirror (watch/mod.rs); 0: none ever had one.
    pub watches: AtomicU32,
    /// Not 0 once a shadow was made.
    pub shadows: AtomicU32,
    /// Not 0 once the kernel keeps an offset that leaves no room for the longest write.
    pub far_offsets: AtomicU32,
    /// Not 0 once writers went side by side.
    shares: AtomicU32,
}

/// What the processes of a run tell each other of a group of nodes, those with one lock word.
#[derive(Clone, Copy)]
pub struct Mapped {
    /// How many records of mappings that can be written its nodes have (records.rs), or had
    /// when somebody was killed: 0 says that there are none.
    pub records: &'static AtomicU32,
    /// Bit 0: some shadow of its nodes must be kept equal to its file. Above, how many are files
    /// themselves (culvert-cache, gone/).
    pub followed: &'static AtomicU32,
    /// Not 0 once the shadow of some of its nodes was executed.
    pub executed: &'static AtomicU32,
    /// Not 0 once some of its nodes had a mirror (watch/mod.rs).
    pub watched: &'static AtomicU32,
}

/// What lies in the file.
#[repr(C)]
struct Words {
    locks: [AtomicU32; WORDS],
    notes: Notes,
    rest: [AtomicU32; (PAGE - size_of::<Notes>()) / 4],
    // Of each group of nodes, as in `Mapped`.
    records: [AtomicU32; WORDS],
    followed: [AtomicU32; WORDS],
    executed: [AtomicU32; WORDS],
    watched: [AtomicU32; WORDS],
    shares: Shares<WORDS>,
}

// SAFETY: atomic words.
unsafe impl Shared for Words {}

/// The lock words, mapped on first use.
pub struct NodeLocks {
    words: Placed<Words>,
    /// This process's slot; 0: none yet.
    slot: AtomicU32,
    /// Where the number of the descriptor on `owners` stands.
    owners: AtomicRef<AtomicI32>,
    /// What holds the slot; locked while one is chosen.
    proof: Mutex<Option<Proof>>,
    /// Used when the shared file cannot be mapped: then only this process is kept apart.
    fallback: AtomicU32,
}

/// A held lock.
pub struct NodeLock<'a> {
    word: &'a AtomicU32,
    /// None: it may be held where others fork. To the child it is its parent's, which lives.
    _holding: Option<Holding>,
}

/// One that stands for the turns of threads at the offsets of descriptions that the kernel keeps
/// since.
pub type Lent = Arc<LentLock>;

/// As [`NodeLock`], but any thread may release it.
pub struct LentLock(&'static AtomicU32);

/// Those that are held, each with its group.
static LENT: Mutex<Vec<(usize, Weak<LentLock>)>> = Mutex::new(Vec::new());

impl NodeLocks {
    /// Not mapped yet.
    pub const fn new() -> Self {
        Self {
            words: Placed::new(),
            slot: AtomicU32::new(0),
            owners: AtomicRef::new(),
            proof: Mutex::new(None),
            fallback: AtomicU32::new(0),
        }
    }

    #[inline]
    fn words(&self) -> Option<&'static Words> {
        match self.words.get() {
            None => self.map(),
            known => known,
        }
    }

    #[cold]
    fn map(&self) -> Option<&'static Words> {
        let mapped = self.words.get_or_map(|| {
            let path = super::get().file("locks");
            let open = || files::open(&path, O_RDWR | O_CREAT, 0o600);
            let file = match open() {
                // Without the words the process would not see what others store and write.
                Err(Errno::EMFILE) => super::internal::with_more(open).ok_or(Errno::EMFILE)?,
                opened => opened,
            }?;
            crate::task::limits::make_room(file.raw(), size_of::<Words>() as u64)?;
            Ok(file)
        });
        let why = |error: &Errno| culvert_sys::log!("no locks between processes: {error}");
        mapped.inspect_err(why).ok()
    }

    /// What the processes of the run tell each other; none where their common file cannot be
    /// mapped.
    pub fn notes(&self) -> Option<&'static Notes> {
        self.words().map(|words| &words.notes)
    }

    /// So many bytes more lie in shadows, or less.
    pub fn filled(&self, more: u64, less: u64) {
        if let Some(notes) = self.notes() {
            let new = |known: u64| Some(known.saturating_add(more).saturating_sub(less));
            let _ = notes.filled.fetch_update(Relaxed, Relaxed, new);
        }
    }

    /// [`NodeLocks::notes`], unless nobody in this process has asked for a lock or for them yet.
    #[inline]
    pub fn notes_if_mapped(&self) -> Option<&'static Notes> {
        self.words.get().map(|words| &words.notes)
    }

    fn word(&self, name: ShadowName) -> &AtomicU32 {
        match self.words() {
            Some(words) => &words.locks[group(name)],
            None => &self.fallback,
        }
    }

    /// What is said of the group of `node`; none where the common file cannot be mapped.
    #[inline]
    pub fn mapped(&self, name: ShadowName) -> Option<Mapped> {
        let words = self.words()?;
        let place = group(name);
        Some(Mapped {
            records: &words.records[place],
            followed: &words.followed[place],
            executed: &words.executed[place],
            watched: &words.watched[place],
        })
    }

    /// Locks the word of `node`; waits for a living owner, takes over from a dead one.
    #[inline]
    pub fn lock(&self, name: ShadowName) -> NodeLock<'_> {
        let word = self.word(name);
        let me = self.owner();
        let _holding = Some(Holding::new());
        if word.compare_exchange(0, me, SeqCst, Relaxed).is_err() {
            self.wait(word, me, 0, &|| false);
        }
        self.is_alone(group(name), 0, LONG);
        NodeLock { word, _holding }
    }

    /// The same; other threads may fork while this one waits for it, and in calls of drivers that
    /// wait while it has it.
    #[inline]
    pub fn lock_beside_forks(&self, name: ShadowName) -> NodeLock<'_> {
        let Some(words) = self.words() else {
            return self.lock(name);
        };
        let (word, me) = (&words.locks[group(name)], self.owner());
        if word.compare_exchange(0, me, SeqCst, Relaxed).is_err() {
            self.wait(word, me, 0, &|| false);
        }
        self.is_alone(group(name), 0, LONG);
        NodeLock {
            word,
            _holding: None,
        }
    }

    /// Locks the word of `node` for other threads of this process, which may be several. None where
    /// it cannot be had soon.
    pub fn lend(&self, name: ShadowName) -> Option<Lent> {
        let (words, group) = (self.words()?, group(name));
        let mut lent = LENT.lock();
        lent.retain(|(_, lock)| lock.strong_count() != 0);
        let known = lent.iter().find(|(of, _)| *of == group);
        if let Some(known) = known.and_then(|(_, lock)| lock.upgrade()) {
            return Some(known);
        }
        let (word, me) = (&words.locks[group], self.owner());
        // Not for a thread of this process: it may wait for us.
        let taken = word.compare_exchange(0, me, SeqCst, Relaxed).is_ok();
        let lock =
            (taken || self.wait(word, me, me, &|| false)).then(|| Arc::new(LentLock(word)))?;
        if !self.is_alone(group, me, LONG) {
            return None;
        }
        lent.push((group, Arc::downgrade(&lock)));
        Some(lock)
    }

    /// In a forked child: they are the parent's.
    pub fn forget_lent() {
        LENT.lock().clear();
    }

    /// Locks the word of `node`, unless it `is_lent` to this thread.
    #[inline]
    pub fn lock_but(&self, name: ShadowName, is_lent: &dyn Fn() -> bool) -> Option<NodeLock<'_>> {
        let word = self.word(name);
        let me = self.owner();
        let _holding = Some(Holding::new());
        let taken = word.compare_exchange(0, me, SeqCst, Relaxed).is_ok();
        let lock = (taken || self.wait(word, me, 0, is_lent)).then(|| NodeLock { word, _holding });
        if lock.is_some() {
            self.is_alone(group(name), 0, LONG);
        }
        lock
    }

    /// Locks the word of `node`, unless `other` has it, or whoever has it keeps it for a second (it
    /// may wait for us): None then.
    pub fn lock_unless(&self, name: ShadowName, other: u32) -> Option<NodeLock<'_>> {
        let word = self.word(name);
        let me = self.owner();
        let taken = word.compare_exchange(0, me, SeqCst, Relaxed).is_ok();
        let _holding = Some(Holding::new());
        let lock = (taken || self.wait(word, me, other, &|| false))
            .then(|| NodeLock { word, _holding })?;
        self.is_alone(group(name), other, LONG).then_some(lock)
    }

    /// Locks the word of `node` unless it is held.
    pub fn try_lock(&self, name: ShadowName) -> Option<NodeLock<'_>> {
        let word = self.word(name);
        let taken = word.compare_exchange(0, self.owner(), SeqCst, Relaxed);
        let lock = taken.is_ok().then(|| NodeLock {
            word,
            _holding: Some(Holding::new()),
        })?;
        self.is_alone(group(name), u32::MAX, 0).then_some(lock)
    }

    /// Lets a write of the file of `node` go beside others that do the same, until that is dropped.
    /// None where the word of `node` is held, or waited for in vain, or others do something else.
    #[inline]
    pub fn share(&self, name: ShadowName, what: Together) -> Option<Share> {
        let (words, group) = (self.words()?, group(name));
        if words.notes.shares.load(Relaxed) == 0 {
            words.notes.shares.store(1, SeqCst);
        }
        let is_locked = || words.locks[group].load(SeqCst) & (OWNER_MASK | STARVING) != 0;
        words.shares.take(group, what, self.owner(), is_locked)
    }

    /// Waits until no writers of `group` go side by side any more; the caller has its word. False:
    /// `other`, not 0, is one of them, or is not to wait longer than `most` times [`PATIENCE`].
    #[inline]
    fn is_alone(&self, group: usize, other: u32, most: u32) -> bool {
        let Some(words) = self.words.get() else {
            return true;
        };
        let mut waits = 0;
        words.shares.are_none(group, |place, value, owner| {
            if other != 0 && (waits >= most || words.shares.has(group, other)) {
                return false;
            }
            if sync::shared_wait_outside(place, value, PATIENCE) == Err(Errno::ETIMEDOUT) {
                waits += 1;
                if !self.lives(owner) {
                    let _ = place.compare_exchange(value, 0, SeqCst, Relaxed);
                }
            }
            true
        })
    }

    /// Takes a word that is held, or that somebody waits for.
    ///
    /// Signals do not end this, as they end no wait for a regular file natively; SIGKILL does. Who
    /// has slept once sets [`STARVING`], so that the owner cannot take the word again and again
    /// before the sleeper has run. The mark of one that was killed meanwhile is harmless: whoever
    /// sleeps out his patience may take a free word.
    ///
    /// False: `other`, not 0, has it, or the wait has lasted [`LONG`] times [`PATIENCE`]; or it has
    /// `ended`.
    #[cold]
    fn wait(&self, word: &AtomicU32, me: u32, other: u32, ended: &dyn Fn() -> bool) -> bool {
        let mut slept = false;
        let mut waits = 0;
        loop {
            let now = word.load(Relaxed);
            let owner = now & OWNER_MASK;
            if other != 0 && (owner == other || waits > LONG) || ended() {
                return false;
            }
            if owner == 0 && (slept || now & STARVING == 0) {
                // Others may be asleep: only the first of them is woken, and each wakes the next.
                if word
                    .compare_exchange(now, me | WAITERS, SeqCst, Relaxed)
                    .is_ok()
                {
                    return true;
                }
                continue;
            }
            let marked = now | WAITERS | if slept { STARVING } else { 0 };
            if marked != now
                && word
                    .compare_exchange(now, marked, Relaxed, Relaxed)
                    .is_err()
            {
                continue;
            }
            let woken = sync::shared_wait_outside(word, marked, PATIENCE);
            slept = true;
            waits += u32::from(woken == Err(Errno::ETIMEDOUT));
            if woken == Err(Errno::ETIMEDOUT)
                && owner != 0
                && !self.lives(owner)
                && word
                    .compare_exchange(marked, me | WAITERS, SeqCst, Relaxed)
                    .is_ok()
            {
                return true;
            }
        }
    }

    /// How this process, or vfork child, is named in words and records.
    #[inline]
    pub fn owner(&self) -> u32 {
        let known = match task::vfork_child() {
            None => self.slot.load(Acquire),
            Some(child) => child.slot.load(Relaxed),
        };
        if known != 0 { known } else { self.choose() }
    }

    /// Chooses a slot: the process id where that is free, as it is unless PID namespaces give one
    /// number to several.
    #[cold]
    fn choose(&self) -> u32 {
        let place = match task::vfork_child() {
            None => &self.slot,
            Some(child) => &child.slot,
        };
        let mut proof = self.proof.lock();
        let known = place.load(Acquire);
        if known != 0 {
            return known;
        }
        let first = culvert_sys::process::getpid() % SLOTS;
        let slot = match self.take_slot(first, &mut proof) {
            Ok(slot) => slot,
            Err(Errno::EBADF) => return thread_id() | BY_THREAD,
            Err(error) => {
                culvert_sys::log!("no slot for locks between processes: {error}");
                return thread_id() | BY_THREAD;
            }
        };
        // What an earlier owner of the slot held, it held when it died.
        if let Some(words) = self.words() {
            for word in &words.locks {
                let now = word.load(Relaxed);
                if now & OWNER_MASK == slot
                    && word.compare_exchange(now, 0, AcqRel, Relaxed).is_ok()
                {
                    sync::shared_wake_one(word);
                }
            }
            if words.notes.shares.load(SeqCst) != 0 {
                words.shares.forget(slot);
            }
        }
        super::mappings::orphan(slot);
        place.store(slot, Release);
        slot
    }

    fn take_slot(&self, first: u32, proof: &mut Option<Proof>) -> Result<u32, Errno> {
        let path = super::get().file("owners");
        let place = match self.owners.get() {
            Some(place) => place,
            // It would be known in memory that the parent shares, but open in the child only.
            None if task::vfork_child().is_some() => return Err(Errno::EBADF),
            None => {
                let file = files::open(&path, O_RDWR | O_CREAT, 0o600)?;
                let adopted = super::get()
                    .adopt_internal(file.raw())
                    .ok_or(Errno::EMFILE)?;
                // It has become another number.
                let _ = file.into_raw();
                self.owners.set(Some(adopted));
                adopted
            }
        };
        let fd = place.load(Relaxed);
        if task::vfork_child().is_some() {
            return lock_free_slot(fd, LockCommand::SETLK, first);
        }
        let Ok(own) = files::open(&path, O_RDWR, 0) else {
            // A process that has given its rights up, or has no number left.
            return lock_free_slot(fd, LockCommand::SETLK, first);
        };
        let slot = lock_free_slot(own.raw(), LockCommand::OFD_SETLK, first)?;
        *proof = Some(Proof::of(&own)?);
        Ok(slot)
    }

    /// Whether [`NodeLocks::owner`] names a thread so, of a process without a slot.
    pub fn is_thread(owner: u32) -> bool {
        owner & BY_THREAD != 0
    }

    /// Whether [`NodeLocks::owner`] names a process with a slot so.
    pub fn is_slot(owner: u32) -> bool {
        (1..=SLOTS).contains(&owner)
    }

    /// The process id by which the slot `owner` was chosen: that of its process, unless another
    /// namespace's process had the number.
    pub fn chooser(owner: u32) -> u32 {
        owner.wrapping_sub(1)
    }

    /// Whether the process that [`NodeLocks::owner`] names so is there. This process must have a
    /// slot itself, else everybody lives.
    pub fn lives(&self, owner: u32) -> bool {
        if owner & BY_THREAD != 0 {
            // Signal 0 only asks whether the thread exists.
            return process::tkill(owner & !BY_THREAD, 0) != Err(Errno::ESRCH);
        }
        if owner == self.slot.load(Relaxed) {
            return true;
        }
        self.owners.get().is_none_or(|place| {
            record_lock(place.load(Relaxed), LockCommand::OFD_GETLK, owner).unwrap_or(true)
        })
    }

    /// This is a new process: it needs a slot of its own, as the proof is not inherited.
    pub fn forget_slot(&self) {
        // As a rule there is none: then nothing is written, and a child copies no page for it.
        if self.slot.load(Acquire) == 0 && !self.proof.is_locked() {
            return;
        }
        if let Some(proof) = self.proof.lock().take() {
            proof.is_the_parents();
        }
        self.slot.store(0, Release);
    }
}

impl Default for NodeLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NodeLock<'_> {
    #[inline]
    fn drop(&mut self) {
        release(self.word);
    }
}

impl Drop for LentLock {
    fn drop(&mut self) {
        release(self.0);
    }
}

#[inline]
fn release(word: &AtomicU32) {
    if word.fetch_and(STARVING, Release) & WAITERS != 0 {
        sync::shared_wake_one(word);
    }
}

/// The group of a node.
#[inline]
fn group(name: ShadowName) -> usize {
    let hash =
        (name.node.0 ^ (u64::from(name.mount.0) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    hash as usize
}

/// Takes the lock of the first free slot from `first` on.
fn lock_free_slot(fd: i32, command: LockCommand, first: u32) -> Result<u32, Errno> {
    for i in 0..SLOTS {
        let slot = (first + i) % SLOTS + 1;
        match record_lock(fd, command, slot) {
            Ok(_) => return Ok(slot),
            Err(Errno::EAGAIN | Errno::EACCES) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EAGAIN)
}

/// Takes the lock of a slot, or asks whether anybody has it.
fn record_lock(fd: i32, command: LockCommand, slot: u32) -> Result<bool, Errno> {
    let mut lock = flock {
        l_type: F_WRLCK as i16,
        l_start: slot.into(),
        l_len: 1,
        ..flock::zeroed()
    };
    culvert_sys::fd::lock(BorrowedFd::number(fd), command, &mut lock)?;
    Ok(lock.l_type as u32 != F_UNLCK)
}

fn thread_id() -> u32 {
    culvert_sys::process::gettid()
}
