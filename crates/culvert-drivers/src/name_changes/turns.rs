//! Turns of processes: a word of memory that they share says whose turn it is.
//!
//! The word holds the *slot* of the process, so that the turn of one that was killed ends. That a
//! slot's process lives is said by the kernel: it holds a lock on that byte of the file
//! ([`Proof`]), which ends with the process however it ends, and is seen from every PID namespace.
//! A process that can have no such proof, and a child of vfork, which has its parent's memory,
//! locks the byte by a record lock (fcntl(2)) for each turn.

use crate::{Keeper, OwnedFd, Proof, descriptor::KeptFd};
use alloc::ffi::CString;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use culvert::Errno;
use culvert::sync::Mutex;
use culvert_sys::fd::{self, AsFd, LockCommand};
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process, sync};

/// Somebody sleeps on the word.
const WAITERS: u32 = 1 << 31;
/// Somebody has slept on the word in vain: who comes fresh does not overtake.
const STARVING: u32 = 1 << 30;
/// Another one each time that a slot's next process takes what an earlier one has left: who has
/// found the earlier one dead finds another word.
const AGAIN: u32 = 1 << 29;
/// Whose turn it is: 0, or a slot.
const OWNER: u32 = AGAIN - 1;
/// Slots are 1 to this: as many as there can be processes (`PID_MAX_LIMIT`,
/// include/linux/threads.h).
const SLOTS: u32 = 1 << 22;
/// How many processes of a run have a seat at a time; their bytes are behind those of the slots.
const SEATS: u32 = 8;
/// How long a waiter sleeps before it asks whether the owner still lives, nanoseconds.
const PATIENCE: u32 = 20_000_000;

/// What gives a process its turns.
pub struct Turns {
    /// The file on whose bytes slots are locked, for questions and record locks.
    file: KeptFd,
    path: CString,
    keeper: Keeper,
    /// This process's slot; 0: none yet.
    slot: AtomicU32,
    proof: Mutex<Option<Proof>>,
    /// This process, which could have no slot, may hold a record lock. Changed as `proof` is held.
    by_record: AtomicBool,
}

/// A turn.
pub struct Turn {
    slot: u32,
    /// The slot is locked for this turn alone.
    by_record: bool,
    /// It was not free at once: others have had it meanwhile.
    pub waited: bool,
    /// Who had it before was killed in the middle of something.
    pub inherited: bool,
}

/// Opens the file `path`, which is made when it is missing.
pub fn open(path: &core::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fs::open(path, flags, 0o600)
}

impl Turns {
    /// By locks on the file `path`, open in `file`.
    pub fn new(path: CString, file: OwnedFd, keeper: Keeper) -> Self {
        Self {
            file: keeper.keep(file),
            path,
            keeper,
            slot: AtomicU32::new(0),
            proof: Mutex::new(None),
            by_record: AtomicBool::new(false),
        }
    }

    /// Waits for this process's turn at `word`. One thread of it at a time.
    ///
    /// Signals do not end this, as they end no wait for a regular file natively; SIGKILL does.
    pub fn take(&self, word: &AtomicU32) -> Result<Turn, Errno> {
        let (slot, by_record) = self.slot()?;
        let mut turn = Turn {
            slot,
            by_record,
            waited: false,
            inherited: false,
        };
        if word.compare_exchange(0, slot, Acquire, Relaxed).is_err() {
            self.wait(word, &mut turn);
        }
        Ok(turn)
    }

    /// Ends `turn` at `word`.
    pub fn give(&self, word: &AtomicU32, turn: &Turn) {
        if word.fetch_and(STARVING, Release) & WAITERS != 0 {
            sync::shared_wake_one(word);
        }
        if turn.by_record {
            let _ = record(
                self.file.fd(),
                LockCommand::SETLK,
                linux::F_UNLCK,
                turn.slot,
            );
        }
    }

    /// This is the child of a fork, which needs a slot of its own.
    pub fn forked(&self) {
        if let Some(proof) = self.proof.lock().take() {
            proof.is_the_parents();
        }
        self.slot.store(0, Release);
        self.by_record.store(false, Relaxed);
    }

    /// Who has slept once sets [`STARVING`], so that others cannot take the word again and again
    /// before it has run. The mark of one that was killed meanwhile is harmless: whoever sleeps out
    /// his patience may take a free word.
    #[cold]
    fn wait(&self, word: &AtomicU32, turn: &mut Turn) {
        let mut slept = false;
        loop {
            let now = word.load(Relaxed);
            let owner = now & OWNER;
            // One thread of a process waits at a time: a turn of its own slot is nobody's.
            let is_left = owner == turn.slot;
            if is_left || owner == 0 && (slept || now & STARVING == 0) {
                // Others may be asleep: only the first of them is woken, and each wakes the next.
                let again = if is_left { !now & AGAIN } else { 0 };
                let mine = turn.slot | WAITERS | again;
                if word.compare_exchange(now, mine, Acquire, Relaxed).is_ok() {
                    turn.waited = true;
                    turn.inherited = is_left;
                    return;
                }
                continue;
            }
            let marked = now | WAITERS | if slept { STARVING } else { 0 };
            let is_marked =
                marked == now || word.compare_exchange(now, marked, Relaxed, Relaxed).is_ok();
            if !is_marked {
                continue;
            }
            let woken = sync::shared_wait_outside(word, marked, PATIENCE);
            slept = true;
            if woken == Err(Errno::ETIMEDOUT) && owner != 0 && !self.lives(owner) {
                let mine = turn.slot | WAITERS;
                if word
                    .compare_exchange(marked, mine, Acquire, Relaxed)
                    .is_ok()
                {
                    turn.waited = true;
                    turn.inherited = true;
                    return;
                }
            }
        }
    }

    /// This process's slot, and whether it is locked for one turn alone.
    fn slot(&self) -> Result<(u32, bool), Errno> {
        if self.keeper.table() == 0 {
            match self.slot.load(Acquire) {
                0 => {}
                known => return Ok((known, false)),
            }
            if let Ok(slot) = self.choose() {
                return Ok((slot, false));
            }
        }
        Ok((free(self.file.fd(), LockCommand::SETLK)?, true))
    }

    /// Chooses a slot for as long as the process lives. What an earlier process of it held when it
    /// was killed looks alive to others from here on: this one takes a turn next, and finds it.
    #[cold]
    fn choose(&self) -> Result<u32, Errno> {
        let mut proof = self.proof.lock();
        self.by_record.store(true, Relaxed);
        let own = open(&self.path)?;
        let slot = free(&own, LockCommand::OFD_SETLK)?;
        *proof = Some(Proof::of(&own)?);
        self.slot.store(slot, Release);
        self.by_record.store(false, Relaxed);
        Ok(slot)
    }

    /// See [`super::NameChanges::seat`].
    pub fn seat(&self) -> Option<Proof> {
        // Any descriptor of the file that the process closes takes its record locks with it.
        let _proof = self.proof.lock();
        if self.by_record.load(Relaxed) {
            return None;
        }
        let own = open(&self.path).ok()?;
        let mut seats = SLOTS + 1..=SLOTS + SEATS;
        let take = |seat| record(&own, LockCommand::OFD_SETLK, linux::F_WRLCK, seat);
        seats.find(|&seat| take(seat).is_ok())?;
        Proof::of(&own).ok()
    }

    /// Whether the process with this slot is there.
    fn lives(&self, slot: u32) -> bool {
        let found = record(self.file.fd(), LockCommand::OFD_GETLK, linux::F_WRLCK, slot);
        found != Ok(linux::F_UNLCK)
    }
}

/// Locks the first free slot from the process's id on: that one, unless PID namespaces give a
/// number to several.
fn free(fd: impl AsFd, command: LockCommand) -> Result<u32, Errno> {
    let first = process::getpid() % SLOTS;
    for step in 0..SLOTS {
        let slot = (first + step) % SLOTS + 1;
        match record(&fd, command, linux::F_WRLCK, slot) {
            Ok(_) => return Ok(slot),
            Err(Errno::EAGAIN | Errno::EACCES) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EAGAIN)
}

/// fcntl(2) about the lock of a slot: the kind that it has afterwards.
fn record(fd: impl AsFd, command: LockCommand, kind: u32, slot: u32) -> Result<u32, Errno> {
    let mut lock = linux::flock {
        l_type: kind as i16,
        l_whence: 0,
        l_start: slot.into(),
        l_len: 1,
        l_pid: 0,
    };
    fd::lock(fd, command, &mut lock)?;
    Ok(lock.l_type as u32)
}
