//! Open file descriptions of driven files and directories (DESIGN section 8).
//!
//! A description is *private* while only this process holds it: offset and status flags live here. It is *shared* once it was promoted: then its kernel
//! descriptor is an open file description on the node's shadow file, and the kernel keeps the offset and the flags. Where the driver's back end is
//! a file of the kernel's ([`File::descriptor`]), that takes the shadow's place: the description is then *direct*, and reads, writes and locks are
//! the kernel's own.

use crate::gone::{self, GoneFile};
use crate::process;
use crate::resolver::{Hold, MountId, References};
use crate::run::ShadowName;
use crate::watch::companions::Companions;
use alloc::{boxed::Box, sync::Arc};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert::{Attributes, Errno, File, FileKind, FileSystem, Node};
use culvert_sys::{nr, sync::Mutex, syscall};

/// O_DIRECT: means nothing to drivers, and the shadow has it not.
const O_DIRECT: u32 = 0o40000;
/// `O_APPEND`, `O_NONBLOCK`, `O_DIRECT`, `O_NOATIME`, `FASYNC`: what F_SETFL may change (`SETFL_MASK`, fs/fcntl.c).
const SETTABLE: u32 = 0o2000 | 0o4000 | 0o40000 | 0o1000000 | 0o20000;
/// O_PATH.
pub const O_PATH: u32 = 0o10000000;

/// Whether the access mode in `flags` lets one read (`OPEN_FMODE`, include/linux/fs.h: the fourth one, 3, lets one do neither).
pub fn may_read(flags: u32) -> bool {
    matches!(flags & 3, 0 | 2)
}

/// As [`may_read`], for writing.
pub fn may_write(flags: u32) -> bool {
    matches!(flags & 3, 1 | 2)
}

/// What a description serves.
pub enum Object {
    /// A driven regular file.
    File(Box<dyn File>),
    /// A directory.
    Directory,
    /// A description opened with O_PATH, of any kind of node.
    Path,
    /// Inherited, and its mount cannot be opened here: EIO, never the emptiness of its shadow.
    Broken,
}

/// An open file description.
pub struct Description {
    /// The mount.
    pub mount: MountId,
    /// The node.
    pub node: Node,
    /// Its type.
    pub kind: FileKind,
    /// What it serves.
    pub object: Object,
    /// Of a file with several names, the one that was opened: directory and name.
    pub opened_as: Option<(Node, Box<[u8]>)>,
    /// What keeps its nodes valid.
    pub references: References<'static>,
    /// A directory, or what is open with O_PATH, is held.
    _hold: Option<Hold>,
    /// A file that others may change, and that a shadow would stand for.
    pub changes: bool,
    /// Such a one that other processes find by its name only.
    may_go: bool,
    /// How many files of its group had become their shadows when it was certain that its own had not ([`gone::count`]).
    seen: AtomicU32,
    /// What its file is by now, if that has become its shadow ([`crate::gone`]).
    gone: AtomicPtr<GoneFile>,
    /// Access mode and status flags as F_GETFL reports them; the settable ones only while private.
    flags: AtomicU32,
    /// What [`crate::node_locks::Notes::flag_changes`] was when the kernel was last asked for the flags.
    flags_known: AtomicU32,
    /// Under which credentials of this process it was opened ([`OTHER_PROCESS`]: not by this one).
    opener: u32,
    offset: Offset,
    state: AtomicU8,
    /// Inode of its shadow, where that was looked at (descriptors/asked.rs); 0: not yet.
    pub shadow: AtomicU64,
    /// What tells those who watch it.
    pub companions: Companions,
}

/// In [`Description::opener`].
const OTHER_PROCESS: u32 = 0;
/// The number of this process's credentials: the kernel makes new ones for each process and each change (credentials(7)).
static CREDENTIALS: AtomicU32 = AtomicU32::new(1);

/// This is a new process, or its credentials may have changed.
pub fn other_credentials() {
    CREDENTIALS.fetch_add(1, Relaxed);
}

/// Who keeps a description ([`Description::state`]).
const PRIVATE_HERE: u8 = 0;
/// The kernel, on a shadow.
const ON_SHADOW: u8 = 1;
/// The kernel, on the driver's own file.
const DIRECT: u8 = 2;

/// The offset of a private description. While the process has one thread its lock costs nothing.
struct Offset {
    lock: Mutex<()>,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is touched under the lock, or while only one thread exists.
unsafe impl Sync for Offset {}

impl Offset {
    fn with<R>(&self, run: impl FnOnce(&mut u64) -> R) -> R {
        let _guard = culvert_intercept::multi_threaded().then(|| self.lock.lock());
        // SAFETY: exclusive: the lock is held, or no other thread exists, and a hook is never re-entered by the same thread
        // (signals are deferred to its end).
        run(unsafe { &mut *self.value.get() })
    }
}

/// How many private descriptions there are: promoting all is nothing to do when there are none.
static PRIVATE: AtomicUsize = AtomicUsize::new(0);

/// Whether any description is private.
#[inline]
pub fn any_private() -> bool {
    PRIVATE.load(Relaxed) != 0
}

impl Drop for Description {
    fn drop(&mut self) {
        self.tell_closed();
        if !self.is_shared() {
            PRIVATE.fetch_sub(1, Relaxed);
        }
        let gone = *self.gone.get_mut();
        if !gone.is_null() {
            // SAFETY: made by `Box::into_raw` in `gone`, and nobody else's any more.
            drop(unsafe { Box::from_raw(gone) });
        }
    }
}

impl Description {
    /// A private description at offset 0.
    pub fn new(mount: MountId, node: Node, kind: FileKind, object: Object, flags: u32) -> Self {
        PRIVATE.fetch_add(1, Relaxed);
        let (changes, may_go) = match &object {
            Object::File(file) if file.descriptor().is_none() => process::file_system(mount)
                .map_or((false, false), |file_system| {
                    let capabilities = file_system.capabilities();
                    let changes = !capabilities.immutable;
                    (changes, changes && capabilities.transient_nodes)
                }),
            _ => (false, false),
        };
        let name = ShadowName {
            mount: mount.0,
            node,
        };
        let hold = match &object {
            Object::Directory | Object::Path => Hold::of(mount, node),
            Object::File(_) | Object::Broken => None,
        };
        Self {
            changes,
            may_go,
            seen: AtomicU32::new(if may_go { gone::count(name) } else { 0 }),
            gone: AtomicPtr::new(core::ptr::null_mut()),
            _hold: hold,
            mount,
            node,
            kind,
            object,
            opened_as: None,
            references: References::default(),
            flags: AtomicU32::new(flags),
            offset: Offset {
                lock: Mutex::new(()),
                value: UnsafeCell::new(0),
            },
            flags_known: AtomicU32::new(NOT_KNOWN),
            opener: match process::vfork_child() {
                Some(_) => OTHER_PROCESS,
                None => CREDENTIALS.load(Relaxed),
            },
            state: AtomicU8::new(PRIVATE_HERE),
            shadow: AtomicU64::new(0),
            companions: Companions::default(),
        }
    }

    /// The same, of a descriptor that is a shadow already.
    pub fn shared(mount: MountId, node: Node, kind: FileKind, object: Object, flags: u32) -> Self {
        let mut description = Self::new(mount, node, kind, object, flags);
        description.opener = OTHER_PROCESS;
        description.tell_shared();
        description.set_shared();
        description
    }

    /// The same, of a descriptor on the driver's own file ([`FileSystem::adopt`]).
    pub fn direct(mount: MountId, node: Node, file: Box<dyn File>, flags: u32) -> Self {
        let mut description = Self::new(mount, node, FileKind::Regular, Object::File(file), flags);
        description.opener = OTHER_PROCESS;
        description.set_state(DIRECT);
        description
    }

    /// The name of its node's shadow.
    pub fn name(&self) -> ShadowName {
        ShadowName {
            mount: self.mount.0,
            node: self.node,
        }
    }

    /// Whether the kernel keeps offset and flags.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.state.load(Relaxed) != PRIVATE_HERE
    }

    /// Whether the kernel's descriptor is on the file itself, so that what concerns its bytes is the kernel's to do.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.state.load(Relaxed) == DIRECT
    }

    fn set_shared(&self) {
        self.set_state(ON_SHADOW);
    }

    fn set_state(&self, state: u8) {
        if self.state.swap(state, Relaxed) == PRIVATE_HERE {
            PRIVATE.fetch_sub(1, Relaxed);
        }
    }

    /// Whether `flags`, those of a descriptor, are of the access mode that it was opened with.
    pub fn is_opened_as(&self, flags: u32) -> bool {
        const HOW: u32 = 3 | O_PATH;
        self.flags.load(Relaxed) & HOW == flags & HOW
    }

    /// The access mode that it was opened with.
    pub fn access_mode(&self) -> u32 {
        self.flags.load(Relaxed) & 3
    }

    /// Whether it was opened by this very process, whose credentials have not changed since.
    pub fn is_of_same_credentials(&self) -> bool {
        process::vfork_child().is_none() && self.opener == CREDENTIALS.load(Relaxed)
    }

    /// The file system that serves it.
    pub fn file_system(&self) -> Result<&'static dyn FileSystem, Errno> {
        process::file_system(self.mount)
    }

    /// Whether its file, once it has no name, is found by no other process.
    pub fn may_go(&self) -> bool {
        self.may_go
    }

    /// How many files of its group had become their shadows when its own had not ([`gone::count`]).
    pub fn seen(&self) -> u32 {
        self.seen.load(Relaxed)
    }

    /// What its file has become: its shadow.
    #[inline]
    pub fn gone(&self) -> Option<&GoneFile> {
        match &self.object {
            Object::File(_) if self.may_go => self.look_gone().ok().flatten(),
            Object::File(file) => file.as_any()?.downcast_ref(),
            _ => None,
        }
    }

    #[inline]
    fn look_gone(&self) -> Result<Option<&GoneFile>, Errno> {
        let mut known = self.gone.load(Acquire);
        if known.is_null() {
            let count = gone::count(self.name());
            let seen = self.seen.load(Relaxed);
            if count == seen {
                return Ok(None);
            }
            let Some(found) = gone::find(self, seen)? else {
                self.seen.store(count, Relaxed);
                return Ok(None);
            };
            let found = Box::into_raw(found);
            let first = self
                .gone
                .compare_exchange(known, found, AcqRel, Acquire)
                .err();
            if first.is_some() {
                // SAFETY: made above and seen by nobody.
                drop(unsafe { Box::from_raw(found) });
            }
            known = first.unwrap_or(found);
        }
        // SAFETY: made by `Box::into_raw`, and freed with `self`.
        Ok(Some(unsafe { &*known }))
    }

    /// `file`, the description's own, or what it has become. EIO where it has become something that cannot be reached; who cannot even look has its own.
    #[inline]
    fn now<'a>(&'a self, file: &'a dyn File) -> Result<&'a dyn File, Errno> {
        match &self.object {
            Object::File(_) if self.may_go => match self.look_gone() {
                Ok(gone) => Ok(gone.map_or(file, |gone| gone)),
                Err(Errno::EAGAIN | Errno::EACCES) => Ok(file),
                Err(_) => Err(Errno::EIO),
            },
            _ => Ok(file),
        }
    }

    /// The driven file; EISDIR for a directory, EBADF for O_PATH (read(2), open(2)).
    #[inline]
    pub fn file(&self) -> Result<&dyn File, Errno> {
        match &self.object {
            Object::File(file) => self.now(&**file),
            Object::Directory => Err(Errno::EISDIR),
            Object::Path => Err(Errno::EBADF),
            Object::Broken => Err(Errno::EIO),
        }
    }

    /// The driven file, when it is open for reading: EBADF otherwise.
    #[inline]
    pub fn readable(&self) -> Result<&dyn File, Errno> {
        if !may_read(self.flags.load(Relaxed)) {
            Err(Errno::EBADF)
        } else {
            self.file()
        }
    }

    /// The driven file, when it is open for writing: EBADF otherwise.
    pub fn writable(&self) -> Result<&dyn File, Errno> {
        match &self.object {
            Object::File(file) if may_write(self.flags.load(Relaxed)) => self.now(&**file),
            Object::Broken if may_write(self.flags.load(Relaxed)) => Err(Errno::EIO),
            _ => Err(Errno::EBADF),
        }
    }

    /// fstat.
    pub fn attributes(&self) -> culvert::Result<Attributes> {
        match &self.object {
            Object::File(file) => self.now(&**file)?.attributes(),
            Object::Broken => Err(Errno::EIO.into()),
            _ => self.file_system()?.attributes(self.node),
        }
    }

    /// Access mode and status flags, as F_GETFL gives them.
    pub fn flags(&self, fd: i32) -> Result<u32, Errno> {
        let mine = self.flags.load(Relaxed);
        if !self.is_shared() || matches!(self.object, Object::Path) {
            return Ok(mine);
        }
        // What nobody has changed since need not be asked for again. The count is read first: a change after that counts.
        let changes = process::get()
            .node_locks
            .notes()
            .map_or(FLAGS_OF_STRANGERS, |notes| notes.flag_changes.load(Acquire));
        if changes & FLAGS_OF_STRANGERS == 0 && self.flags_known.load(Relaxed) == changes {
            return Ok(mine);
        }
        const F_GETFL: usize = 3;
        // SAFETY: F_GETFL only reads the flags of the descriptor.
        let kernel = unsafe { syscall::call(nr::FCNTL, [fd as usize, F_GETFL]) }? as u32;
        let kept_there = SETTABLE & !O_DIRECT;
        let flags = mine & !kept_there | kernel & kept_there;
        self.flags.store(flags, Relaxed);
        self.flags_known.store(changes, Release);
        Ok(flags)
    }

    /// F_SETFL.
    pub fn set_flags(&self, fd: i32, flags: u32) -> Result<(), Errno> {
        match self.object {
            Object::Path => return Err(Errno::EBADF),
            // `setfl`, fs/fcntl.c: only what has mappings of its own can be read past them.
            Object::Directory if flags & O_DIRECT != 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        if self.is_shared() {
            const F_SETFL: usize = 4;
            // SAFETY: changes status flags of a descriptor that is the program's own.
            unsafe {
                syscall::call(
                    nr::FCNTL,
                    [fd as usize, F_SETFL, (flags & !O_DIRECT) as usize],
                )
            }?;
            let old = self.flags.load(Relaxed);
            self.flags
                .store(old & !O_DIRECT | flags & O_DIRECT, Relaxed);
            flags_changed();
            return Ok(());
        }
        let old = self.flags.load(Relaxed);
        self.flags
            .store(old & !SETTABLE | flags & SETTABLE, Relaxed);
        Ok(())
    }

    /// Runs `io` at the description's offset, exclusively, and leaves the offset where it says; the result is passed on. `fd` is one of the
    /// description's descriptors.
    #[inline]
    pub fn at_offset<R>(&self, fd: i32, io: impl FnOnce(&mut u64) -> R) -> Result<R, Errno> {
        let io = match self.privately(io) {
            Ok(result) => return Ok(result),
            Err(_) if self.is_direct() => return Err(crate::calls::FORWARD),
            Err(io) => io,
        };
        let _lock = process::get().node_locks.lock(self.mount, self.node);
        let mut offset = kernel_seek(fd, 0, 1)?;
        let before = offset;
        let result = io(&mut offset);
        if offset != before {
            kernel_seek(fd, offset as i64, 0)?;
        }
        Ok(result)
    }

    /// The same for a change of the file: a private description's node is locked, too, where its file may have a shadow that follows.
    #[inline]
    pub fn at_offset_changing<R>(
        &self,
        fd: i32,
        io: impl FnOnce(&mut u64) -> R,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run = |offset: &mut u64| io.take().map(|io| io(offset)).ok_or(Errno::EIO);
        let privately = self.privately(|offset| {
            let _lock = crate::paging::follow::lock(self);
            run(offset)
        });
        // A shared one is locked by `at_offset`.
        match privately.ok() {
            Some(result) => result,
            None => self.at_offset(fd, run)?,
        }
    }

    /// Runs `io`, which changes the file, exclusively, and leaves the description's offset where it says, which need not be where it was: one system call
    /// less where the kernel keeps it. The node is locked as by [`Description::at_offset_changing`].
    pub fn to_offset<R>(
        &self,
        fd: i32,
        io: impl FnOnce() -> Result<(u64, R), Errno>,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run = || io.take().map_or(Err(Errno::EIO), |io| io());
        let privately = self.privately(|offset| {
            let _lock = crate::paging::follow::lock(self);
            let (to, result) = run()?;
            *offset = to;
            Ok(result)
        });
        match privately.ok() {
            Some(result) => return result,
            None if self.is_direct() => return Err(crate::calls::FORWARD),
            None => {}
        }
        let _lock = process::get().node_locks.lock(self.mount, self.node);
        let (to, result) = run()?;
        kernel_seek(fd, to as i64, 0)?;
        Ok(result)
    }

    /// Runs `io` at the offset of a private description; gives it back when it is shared, or was when the lock was had.
    #[inline]
    fn privately<R, F: FnOnce(&mut u64) -> R>(&self, io: F) -> Result<R, F> {
        if self.is_shared() {
            return Err(io);
        }
        self.offset.with(|offset| {
            if self.is_shared() {
                Err(io)
            } else {
                Ok(io(offset))
            }
        })
    }

    /// Tells the driver that its file is shared.
    fn tell_shared(&self) {
        if let Object::File(file) = &self.object {
            file.shared();
        }
    }

    /// Makes the kernel the keeper: `replace` is given the offset and makes the description's descriptors ones of a file, while no other thread
    /// reads or writes through them; it says whether that is the driver's own or a shadow. Nothing happens to one that is shared already.
    pub fn hand_over(&self, replace: impl FnOnce(u64) -> Result<Kept, Errno>) -> Result<(), Errno> {
        self.privately(|offset| {
            let kept = replace(*offset)?;
            self.tell_shared();
            self.flags_known.store(NOT_KNOWN, Relaxed);
            self.set_state(match kept {
                Kept::OnShadow => ON_SHADOW,
                Kept::Directly => DIRECT,
            });
            Ok(())
        })
        .unwrap_or(Ok(()))
    }
}

/// What the kernel keeps a shared description on.
pub enum Kept {
    /// The node's shadow.
    OnShadow,
    /// The driver's own file.
    Directly,
}

/// In [`Description::flags_known`]: never asked. No count of changes, those being even.
const NOT_KNOWN: u32 = u32::MAX;
/// In [`crate::node_locks::Notes::flag_changes`].
const FLAGS_OF_STRANGERS: u32 = 1;

/// The status flags of some shared description have changed.
fn flags_changed() {
    if let Some(notes) = process::get().node_locks.notes() {
        notes.flag_changes.fetch_add(2, AcqRel);
    }
}

/// Somebody who is not intercepted gets a shared description, and may change its status flags unseen from here on.
pub fn given_to_strangers() {
    if let Some(notes) = process::get().node_locks.notes() {
        notes.flag_changes.fetch_or(FLAGS_OF_STRANGERS, AcqRel);
    }
}

/// lseek of the kernel descriptor.
pub fn kernel_seek(fd: i32, offset: i64, whence: usize) -> Result<u64, Errno> {
    // SAFETY: moves the offset of a descriptor that stands for ours.
    unsafe { syscall::call(nr::LSEEK, [fd as usize, offset as usize, whence]) }.map(|at| at as u64)
}

/// A description in use by the running hook.
pub enum Held {
    /// No other thread can close it meanwhile.
    Alone(*const Description),
    /// Kept alive by its own reference.
    Counted(Arc<Description>),
}

impl core::ops::Deref for Held {
    type Target = Description;
    #[inline]
    fn deref(&self) -> &Description {
        match self {
            // SAFETY: made only in a process with one thread, from the table's own reference, which this hook does not drop while it
            // holds the value (close and dup2 take the table's reference out and keep it to their end).
            Self::Alone(description) => unsafe { &**description },
            Self::Counted(description) => description,
        }
    }
}
