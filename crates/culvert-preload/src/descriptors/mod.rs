//! Which of the program's descriptors are ours.
//!
//! Every descriptor is a real one with the number the kernel chose. A private description's
//! descriptors are dups of one sealed, write-only memfd, so that an access that escapes
//! interception fails loudly; a shared one's are descriptors of the node's shadow file.

mod backed;
mod closing;
pub(crate) mod fifos;
pub mod fuse_devices;
pub mod handed;
mod kernel_queried;
pub mod mount_tables;
mod offset;
mod promotion;
mod recognise;
pub(crate) mod rings;
pub mod saved;
mod slot;
pub mod vfork;

use crate::description::{Description, Held, Object, epolls};
use alloc::{alloc::alloc_zeroed, sync::Arc, vec::Vec};
use core::alloc::Layout;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicI32};
use culvert::Errno;
use culvert_intercept::descriptors as classes;
use culvert_run::INTERNAL;
use culvert_run::files::{close_on_exec, dup_from};
use culvert_run::task::{self, VforkChild, tables};
use culvert_sys::OwnedFd;
use culvert_sys::sync::{AtomicRef, Mutex};
use slot::{Slot, counted};

/// The class of a descriptor with a description in our table.
pub const OURS: u8 = 2;
/// The class of a foreign descriptor whose reads go round the page cache (O_DIRECT): they are
/// looked at (`syscalls/unbuffered.rs`).
pub const UNBUFFERED: u8 = 5;
/// The class of a foreign descriptor that is a ring made here (`rings`).
pub const RING: u8 = 6;
/// The class of a foreign descriptor that is a table of mounts ([`mount_tables`]).
pub const MOUNTS: u8 = 7;
/// The class of a foreign descriptor that stands for /dev/fuse ([`fuse_devices`]).
pub const FUSE: u8 = 8;
/// The class of a foreign descriptor that is an epoll instance with files that may be unready
/// ([`crate::description::epolls`]).
pub const EPOLL: u8 = 9;
const CHUNK: usize = 1024;
/// More descriptors the kernel does not give either (`sysctl_nr_open`'s usual value).
const CHUNKS: usize = 1024;

pub use closing::companions_before_exec;
pub use kernel_queried::with_own_table;

static TABLE: DescriptorTable = DescriptorTable::new();

/// This process's table.
#[inline]
pub fn table() -> &'static DescriptorTable {
    &TABLE
}

/// Who knows what this thread's numbers stand for.
enum Knower {
    /// This memory: nobody else has the table.
    Memory,
    /// A child of vfork in its parent's memory, with a table of its own: what it has changed stands
    /// beside the parent's.
    Child(&'static VforkChild),
    /// The kernel, which is asked each time, because others change the table, or this thread has
    /// another one ([`kernel_queried`]).
    Kernel,
}

#[inline]
fn knower() -> Knower {
    if !task::tables_differ() {
        return Knower::Memory;
    }
    match task::vfork_child_with_table() {
        _ if tables::are_asked_for() => Knower::Kernel,
        Some(child) => Knower::Child(child),
        None => Knower::Memory,
    }
}

/// Whether the engine's table has a class for `fd` alone, of the one table that there is.
#[inline]
fn has_own_class(fd: i32) -> bool {
    (0..=0xffff).contains(&fd) && !task::tables_differ()
}

/// What the engine's table says of `fd`, where that can be believed.
#[inline]
pub fn class(fd: i32) -> u8 {
    match has_own_class(fd) {
        true => classes::get(fd),
        false => classes::UNKNOWN,
    }
}

/// The class of a descriptor of `description`. Reads that go round the page cache are looked at
/// (`syscalls/unbuffered.rs`).
fn class_of(description: &Description) -> u8 {
    match description.is_backed() && !description.is_unbuffered() {
        true => classes::BYTES,
        false => OURS,
    }
}

type Chunk = [Slot; CHUNK];

/// From descriptor to description. What is used often comes first, so that it lies in one page.
#[repr(C)]
pub struct DescriptorTable {
    lock: Mutex<()>,
    /// Held around changes that take more than one step.
    changes: Mutex<()>,
    /// One more than the highest descriptor that ever was ours.
    end: AtomicI32,
    /// A descriptor above 65535 is ours: the engine's filter table, indexed by the low 16 bits,
    /// must then never say "foreign".
    wide: AtomicBool,
    chunks: [AtomicRef<Chunk>; CHUNKS],
}

impl DescriptorTable {
    /// An empty table.
    const fn new() -> Self {
        Self {
            chunks: [const { AtomicRef::new() }; CHUNKS],
            lock: Mutex::new(()),
            changes: Mutex::new(()),
            end: AtomicI32::new(0),
            wide: AtomicBool::new(false),
        }
    }

    #[inline]
    fn slot(&self, fd: i32) -> Option<&'static Slot> {
        let fd = fd as usize;
        let chunk = self.chunks.get(fd / CHUNK)?.get()?;
        Some(&chunk[fd % CHUNK])
    }

    fn slot_made(&self, fd: i32) -> Option<&'static Slot> {
        let place = self.chunks.get(fd as usize / CHUNK)?;
        if !place.is_some() {
            // SAFETY: the layout has a size; zeroed memory is an array of empty slots, and null is
            // no memory.
            let fresh = unsafe {
                alloc_zeroed(Layout::new::<Chunk>())
                    .cast::<Chunk>()
                    .as_ref()
            };
            // One made in vain, by two threads at once, stays.
            let _ = place.set_first(fresh?);
        }
        self.slot(fd)
    }

    /// The description behind `fd`, if it is ours. One that was inherited is recognised here, once.
    #[inline]
    pub fn get(&self, fd: i32) -> Option<Held> {
        match knower() {
            Knower::Memory => self.find(fd),
            Knower::Child(child) => vfork::descriptor(child, fd, || self.of_parent(fd)),
            Knower::Kernel => self.kernel_queried(fd),
        }
    }

    /// What a vfork child has from its parent. Everything was shared when the child was made: what
    /// is private or lent was opened by another thread of the parent since, and is not in the
    /// child's table of descriptors.
    fn of_parent(&self, fd: i32) -> Option<Held> {
        match self.find(fd) {
            Some(found) if !was_shared(&found) => self.recognise(fd),
            found => found,
        }
    }

    fn find(&self, fd: i32) -> Option<Held> {
        self.known(fd).or_else(|| match classes::get(fd) {
            classes::FOREIGN | INTERNAL | UNBUFFERED | RING | MOUNTS | FUSE | EPOLL => None,
            backed::BACKED.. => None,
            _ if fd < 0 => None,
            _ => self.recognise(fd),
        })
    }

    /// What the table says of `fd`.
    #[inline]
    fn known(&self, fd: i32) -> Option<Held> {
        if let Some(slot) = self.slot(fd) {
            if !culvert_intercept::multi_threaded() {
                return slot.alone();
            } else if !slot.is_empty() {
                return slot.counted(&self.lock.lock()).map(Held::Counted);
            }
        }
        None
    }

    /// A reference to the description of `fd`, if that is known already. For looks at numbers that
    /// other threads may be opening and closing: what nobody has recognised yet is shared, so there
    /// is nothing to promote.
    fn known_reference(&self, fd: i32) -> Option<Arc<Description>> {
        match knower() {
            Knower::Memory => self.known(fd),
            Knower::Child(child) => {
                vfork::descriptor(child, fd, || self.known(fd).filter(|held| was_shared(held)))
            }
            Knower::Kernel => self.kernel_queried(fd),
        }
        .map(counted)
    }

    fn set_class(&self, fd: i32, class: u8) {
        if classes::get(fd) == RING {
            crate::descriptors::rings::forget(fd);
        }
        if classes::get(fd) == MOUNTS {
            crate::descriptors::mount_tables::forget(fd);
        }
        if classes::get(fd) == EPOLL && class != EPOLL {
            epolls::forget(fd);
        }
        // The engine's table has one class for all numbers with the same low 16 bits: a high one
        // that is foreign says nothing of a low one.
        if class == classes::FOREIGN && (self.wide.load(Relaxed) || !has_own_class(fd)) {
            return;
        }
        let is_wide = fd > 0xffff;
        if is_wide && matches!(class, OURS | classes::BYTES) {
            self.wide.store(true, Relaxed);
        }
        // Nor does it say of a high one that its bytes are the kernel's.
        let class = match class {
            classes::BYTES if is_wide || self.wide.load(Relaxed) => OURS,
            class => class,
        };
        classes::set(fd, class);
    }

    /// A new descriptor for a private description, the lowest number free from `from` on.
    pub fn add(
        &self,
        description: Description,
        from: i32,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        if let Knower::Kernel = knower() {
            description.keep_descriptor()?;
            return self.add_shared(Arc::new(description), from, close_on_exec);
        }
        let own = match from {
            0 if description.may_be_lent() => Some(self.lend(&description, close_on_exec)?),
            from => {
                description.keep_descriptor()?;
                (from == 0)
                    .then(|| self.stand_at_own(&description, close_on_exec))
                    .flatten()
            }
        };
        let description = Arc::new(description);
        match own {
            Some(fd) => {
                self.install(fd, description);
                Ok(fd)
            }
            None => self.add_reference(description, from, close_on_exec),
        }
    }

    /// The same, for another reference to an existing private description.
    fn add_reference(
        &self,
        description: Arc<Description>,
        from: i32,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let dup = || dup_from(self.placeholder_of(&description)?, from, close_on_exec);
        let fd = match dup() {
            Err(Errno::EMFILE) if culvert_run::get().make_room() => dup()?,
            other => other?,
        };
        let fd = not_awaited(fd)?;
        let fd = if from == 0 {
            culvert_run::get().settle(fd, close_on_exec)
        } else {
            fd
        };
        self.install(fd, description);
        Ok(fd)
    }

    /// What the descriptors of `description` are dups of while it is private: for O_PATH one that
    /// is so itself, of which poll, epoll and all else say EBADF.
    fn placeholder_of(&self, description: &Description) -> Result<i32, Errno> {
        match description.object {
            Object::Path => culvert_run::get().path_placeholder(),
            _ => culvert_run::get().placeholder(),
        }
    }

    /// Records that `fd` now is `description`.
    pub fn install(&self, fd: i32, description: Arc<Description>) {
        match knower() {
            Knower::Memory => {}
            Knower::Child(child) => {
                vfork::install(child, fd, Some(description));
                self.end.fetch_max(fd.saturating_add(1), Relaxed);
                return classes::set(fd, classes::UNKNOWN);
            }
            Knower::Kernel => {
                self.settled(fd);
                return self.remember(fd, &description, None);
            }
        }
        let Some(slot) = self.slot_made(fd) else {
            return;
        };
        self.end.fetch_max(fd + 1, Relaxed);
        let old = {
            let class = class_of(&description);
            let guard = self.lock.lock();
            self.set_class(fd, class);
            slot.swap(Some(description), &guard)
        };
        self.lose(old);
    }

    /// Records that `fd` is not ours any more (closed or replaced by a foreign one).
    pub fn remove(&self, fd: i32) {
        match knower() {
            Knower::Memory => {}
            Knower::Child(child) => return vfork::install(child, fd, None),
            Knower::Kernel => {
                if tables::is_process_s() {
                    self.drop_slot(fd);
                }
                return self.settled(fd);
            }
        }
        let slot = self.slot(fd);
        let old = slot.and_then(|slot| slot.swap(None, &self.lock.lock()));
        self.set_class(fd, classes::FOREIGN);
        self.lose(old);
    }

    /// Records that the kernel has just opened something foreign at `fd`; returns its number, which
    /// may have become a lower one.
    pub fn opened_by_kernel(&self, fd: i32, close_on_exec: bool) -> i32 {
        let knower = knower();
        if let Knower::Kernel = knower {
            self.settled(fd);
            return fd;
        }
        let fd = culvert_run::get().settle(fd, close_on_exec);
        if let Knower::Memory = knower {
            if classes::get(fd) != classes::FOREIGN {
                self.set_class(fd, classes::FOREIGN);
            }
            self.forget_origin(fd);
        }
        fd
    }

    /// Records that the kernel's own descriptor `fd`, which is known as foreign, is open with
    /// O_DIRECT.
    pub fn note_unbuffered(&self, fd: i32) {
        if classes::get(fd) == classes::FOREIGN && fd <= 0xffff {
            classes::set(fd, UNBUFFERED);
        }
    }

    /// Records that the kernel's own descriptor `fd` is a ring.
    pub fn note_ring(&self, fd: i32) {
        if has_own_class(fd) {
            self.end.fetch_max(fd + 1, Relaxed);
            classes::set(fd, RING);
        }
    }

    /// Records that the kernel's own descriptor `fd` is an epoll instance with files that may be
    /// unready. False: nobody would find that again.
    pub fn note_epoll(&self, fd: i32) -> bool {
        let notes = has_own_class(fd);
        if notes {
            self.end.fetch_max(fd + 1, Relaxed);
            classes::set(fd, EPOLL);
        }
        notes
    }

    /// Records that `fd` is a table of mounts.
    pub fn note_mounts(&self, fd: i32) {
        self.end.fetch_max(fd + 1, Relaxed);
        classes::set(fd, MOUNTS);
    }

    /// Whether it is known that `fd` is one of the kernel's own, open with O_DIRECT.
    pub fn is_unbuffered(&self, fd: i32) -> bool {
        (0..=0xffff).contains(&fd) && classes::get(fd) == UNBUFFERED
    }

    /// Whether `fd` is in the table, without a look at descriptors that nobody knows.
    pub fn get_known(&self, fd: i32) -> bool {
        let known = |slot: &Slot| !slot.is_empty();
        matches!(knower(), Knower::Child(_)) || self.slot(fd).is_some_and(known)
    }

    /// Records that nobody knows what `fd` is: it came from another process.
    pub fn forget(&self, fd: i32) {
        self.remove(fd);
        match knower() {
            Knower::Memory => classes::set(fd, classes::UNKNOWN),
            // The child's own table only says what is ours: it is looked at now.
            Knower::Child(_) => drop(self.recognise(fd)),
            Knower::Kernel => {}
        }
    }

    /// Another reference to the description of `fd`.
    pub fn reference(&self, fd: i32) -> Option<Arc<Description>> {
        self.get(fd).map(counted)
    }

    /// Calls `visit` with every descriptor that is ours, and its description.
    pub fn each(&self, mut visit: impl FnMut(i32, &Arc<Description>)) {
        if let Knower::Kernel = knower() {
            return self.each_asked(visit);
        }
        for fd in 0..self.end.load(Relaxed) {
            if let Some(description) = self.known_reference(fd) {
                visit(fd, &description);
            }
        }
    }

    /// Every descriptor that is ours and fits, with its description.
    pub fn all(&self, fits: impl Fn(i32, &Description) -> bool) -> Vec<(i32, Arc<Description>)> {
        let mut all = Vec::new();
        self.each(|fd, description| {
            if fits(fd, description) {
                all.push((fd, description.clone()));
            }
        });
        all
    }

    /// Those that survive exec.
    pub fn inherited(&self, fits: impl Fn(&Description) -> bool) -> Vec<(i32, Arc<Description>)> {
        self.all(|fd, description| fits(description) && !close_on_exec(fd).unwrap_or(true))
    }

    /// Whether this process alone has the table, and its memory says what is in it.
    pub fn is_own(&self) -> bool {
        matches!(knower(), Knower::Memory)
    }

    /// Whether others may change it.
    pub fn is_shared(&self) -> bool {
        matches!(knower(), Knower::Kernel)
    }

    /// Whether `fd` and `other` are descriptors of one description. None: only the kernel knows.
    pub fn are_same(&self, fd: i32, other: i32) -> Option<bool> {
        match knower() {
            Knower::Kernel => None,
            _ => Some(
                matches!((self.get(fd), self.get(other)), (Some(one), Some(other))
                if core::ptr::eq::<Description>(&*one, &*other)),
            ),
        }
    }

    /// One more than the highest descriptor that may be ours.
    pub fn end(&self) -> i32 {
        self.end.load(Relaxed)
    }
}

/// Whether a child of vfork may have `description`, too ([`DescriptorTable::of_parent`]).
fn was_shared(description: &Description) -> bool {
    description.is_shared() && !description.is_lent()
}

/// Sets the FD_CLOEXEC flag of `fd`, a descriptor that nobody else has yet.
fn set_close_on_exec(fd: i32, on: bool) -> Result<(), Errno> {
    culvert_sys::fd::fcntl(
        culvert_sys::BorrowedFd::number(fd),
        culvert_sys::fd::Command::SETFD,
        usize::from(on),
    )
    .map(|_| ())
}

/// The same descriptor at the next number that no request of a ring is about to look at.
pub fn not_awaited(fd: i32) -> Result<i32, Errno> {
    let mut fd = OwnedFd::from_raw(fd);
    while rings::is_awaited(fd.raw()) {
        let next = dup_from(
            fd.raw(),
            fd.raw().saturating_add(1),
            close_on_exec(fd.raw())?,
        )?;
        fd = OwnedFd::from_raw(next);
    }
    Ok(fd.into_raw())
}
