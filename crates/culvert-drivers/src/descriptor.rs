//! Descriptors that a driver holds in the process of a program.

use core::{
    mem::ManuallyDrop,
    sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed},
};
use culvert::Errno;
use culvert_slots::Held;
use culvert_sys::fd::{self, AsFd, BorrowedFd, Command};
use culvert_sys::sync::OnceCell;

pub use culvert_sys::OwnedFd;

/// Moves a descriptor that the driver will keep out of the program's way and returns where its
/// number is to be looked up each time: the embedder may move it again. The driver closes it, and
/// stores -1 there, when it is done; None: the driver keeps the number it has.
pub type Adopt = fn(i32) -> Option<&'static AtomicI32>;

/// Remembers which descriptors are which nodes, beyond the life of the process: a server that was
/// killed leaves its descriptors to the next one. What it says is right at every moment; that a
/// descriptor is closed is said before it is.
pub trait NodeBook: Sync {
    /// Descriptor `fd` is node `node`, on which the front end has `references`.
    fn note(&self, fd: i32, node: u64, references: u64);

    /// Descriptor `fd` is no node any more.
    fn erase(&self, fd: i32);

    /// All that was noted: descriptor, node, references.
    fn each(&self, visit: &mut dyn FnMut(i32, u64, u64));

    /// Node `node`, on which the front end has `references`, has no descriptor for the time being
    /// and is found again by `traces`; where that is written down. None: there is no room, and
    /// nobody but this process finds it.
    fn put_away(&self, node: u64, references: u64, traces: &Traces) -> Option<u32>;

    /// The front end has `references` on what was put away in `place`.
    fn count(&self, place: u32, references: u64);

    /// What was put away in `place` has a descriptor again, or nobody asks for it any more.
    fn take_back(&self, place: u32);

    /// All that was put away: where, node, references, traces.
    fn each_away(&self, visit: &mut dyn FnMut(u32, u64, u64, &Traces));
}

/// By what a driver finds again what has no descriptor; only the driver knows what it means.
pub type Traces = [u64; 7];

/// Which table of descriptors the calling thread has: 0 for the process's own, another number,
/// never used again, for that of a child of vfork(2), which runs in the memory of its parent but
/// has a copy of the table, and for that which a process shares with another.
pub type TableNumber = fn() -> usize;

/// The embedder's part in keeping descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keeper {
    /// How descriptors are moved out of the program's way, if they are.
    pub adopt: Option<Adopt>,
    /// Whose they are; none: there is only one table.
    pub table: Option<TableNumber>,
    /// Whether a descriptor that the driver is to continue from ([`culvert::FileSystem::adopt`])
    /// stays open as long as the file: then the driver uses it, since to keep and to close one of
    /// its own would keep locks too long, and drop others too early.
    pub lends: Option<fn(i32) -> bool>,
}

impl Keeper {
    /// The table of the calling thread.
    pub fn table(self) -> usize {
        self.table.map_or(0, |table| table())
    }

    /// Whether `fd`, a descriptor to continue from, is lent.
    pub fn lends(self, fd: i32) -> bool {
        self.lends.is_some_and(|lends| lends(fd))
    }

    /// `fd`, which stays the caller's: nobody closes it here.
    pub const fn borrow(self, fd: i32) -> KeptFd {
        KeptFd {
            number: Number::Own(fd),
            keeper: self,
            table: NOBODYS,
        }
    }

    /// Takes `descriptor` into keeping.
    pub fn keep(self, descriptor: OwnedFd) -> KeptFd {
        let number = descriptor.into_raw();
        KeptFd {
            number: match self.adopt.and_then(|adopt| adopt(number)) {
                Some(place) => Number::Kept(place),
                None => Number::Own(number),
            },
            keeper: self,
            table: self.table(),
        }
    }
}

/// No thread has this table.
const NOBODYS: usize = usize::MAX;

/// A descriptor that a driver keeps: its own, or one that the embedder moves about. Closed when
/// dropped, by whoever has the table that it is in; by others it is left alone.
#[derive(Debug)]
pub struct KeptFd {
    number: Number,
    keeper: Keeper,
    table: usize,
}

#[derive(Debug)]
enum Number {
    Own(i32),
    Kept(&'static AtomicI32),
}

impl Number {
    /// What is to be closed. Only for a value that is never looked at again.
    fn taken(&self) -> OwnedFd {
        let number = match self {
            Self::Own(number) => *number,
            Self::Kept(place) => place.swap(-1, Relaxed),
        };
        OwnedFd::from_raw(number)
    }
}

impl KeptFd {
    /// The number as it is now: not to be kept.
    #[inline]
    pub fn raw(&self) -> i32 {
        match self.number {
            Number::Own(number) => number,
            Number::Kept(place) => place.load(Relaxed),
        }
    }

    /// Gives it back, where it is now.
    #[must_use]
    pub fn release(self) -> OwnedFd {
        let this = ManuallyDrop::new(self);
        this.number.taken()
    }

    /// Whether its number is none that the program may want; always so where nobody moves any.
    pub const fn is_out_of_the_way(&self) -> bool {
        matches!(self.number, Number::Kept(_)) || self.keeper.adopt.is_none()
    }

    /// The table that it is in.
    pub const fn table(&self) -> usize {
        self.table
    }

    /// The descriptor as it is now, for a call.
    #[inline]
    pub fn fd(&self) -> BorrowedFd<'_> {
        BorrowedFd::number(self.raw())
    }
}

/// A descriptor that may become the program's own, and is kept for it where it does not
/// ([`culvert::File::lend_descriptor`]).
pub struct LentFd {
    keeper: Keeper,
    /// The number, until there is one of our own.
    number: AtomicI32,
    lent: AtomicBool,
    own: OnceCell<KeptFd>,
}

impl LentFd {
    /// `descriptor`, which nobody has yet.
    pub fn new(descriptor: OwnedFd, keeper: Keeper) -> Self {
        Self {
            keeper,
            number: AtomicI32::new(descriptor.into_raw()),
            lent: AtomicBool::new(false),
            own: OnceCell::new(),
        }
    }

    /// The number as it is now: not to be kept.
    #[inline]
    pub fn raw(&self) -> i32 {
        match self.own.get() {
            Some(own) => own.raw(),
            None => self.number.load(Relaxed),
        }
    }

    /// Whether the program has it, or had.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.lent.load(Relaxed)
    }

    /// The program has it now, by this number.
    pub fn lend(&self, number: i32) {
        self.number.store(number, Relaxed);
        self.lent.store(true, Relaxed);
    }

    /// One of our own is used from here on.
    pub fn keep(&self) -> Result<(), Errno> {
        self.own.get_or_try_init(|| {
            let number = self.number.load(Relaxed);
            let own = match self.lent.load(Relaxed) {
                true => duplicate(BorrowedFd::number(number))?,
                false => {
                    // It was to be the program's, and closed by execve(2) as that wished.
                    let _ = fd::fcntl(BorrowedFd::number(number), Command::SETFD, 1);
                    OwnedFd::from_raw(number)
                }
            };
            Ok::<_, Errno>(self.keeper.keep(own))
        })?;
        Ok(())
    }
}

/// Another descriptor on the description of `fd`, at a high number if possible: to move it there
/// later, by another dup and a close, would drop the record locks that the process may have on the
/// file (fcntl(2)).
pub fn duplicate(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    const HIGH: i32 = 256;
    fd::duplicate(&fd, HIGH).or_else(|_| fd::duplicate(&fd, 0))
}

impl Drop for LentFd {
    fn drop(&mut self) {
        if self.own.get().is_none() && !self.lent.load(Relaxed) {
            drop(OwnedFd::from_raw(self.number.load(Relaxed)));
        }
    }
}

impl Held for KeptFd {
    fn number(&self) -> i32 {
        self.raw()
    }
}

impl From<OwnedFd> for KeptFd {
    fn from(descriptor: OwnedFd) -> Self {
        Keeper::default().keep(descriptor)
    }
}

impl Drop for KeptFd {
    fn drop(&mut self) {
        if self.keeper.table() == self.table {
            drop(self.number.taken());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_sys::fd::pipe;

    /// Whether `fd` is open.
    fn is_open(fd: i32) -> bool {
        fd::duplicate(BorrowedFd::number(fd), 0).is_ok()
    }

    /// A descriptor with a number, from `lowest` on, that no other test has.
    fn numbered(lowest: i32) -> OwnedFd {
        let (end, _other) = pipe(0).unwrap();
        fd::duplicate(&end, lowest).unwrap()
    }

    #[test]
    fn what_is_lent_is_the_programs_to_close() {
        let end = numbered(600);
        let number = end.raw();
        let lent = LentFd::new(end, Keeper::default());
        lent.lend(number);
        drop(lent);
        assert!(is_open(number));
        drop(OwnedFd::from_raw(number));
    }

    #[test]
    fn what_is_kept_outlives_the_number_that_was_lent() {
        let end = numbered(700);
        let number = end.raw();
        let lent = LentFd::new(end, Keeper::default());
        lent.lend(number);
        lent.keep().unwrap();
        drop(OwnedFd::from_raw(number));
        assert!(lent.raw() != number && is_open(lent.raw()));
    }

    #[test]
    fn what_nobody_took_is_closed() {
        let end = numbered(800);
        let number = end.raw();
        drop(LentFd::new(end, Keeper::default()));
        assert!(!is_open(number));
    }
}
