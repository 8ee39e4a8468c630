//! Open file descriptions of driven files and directories (docs/design/descriptors.md).
//!
//! A description is *private* while only this process holds it: offset and status flags live here.
//! It is *shared* once it was promoted: then its kernel descriptor is an open file description on
//! the node's shadow file, and the kernel keeps the offset and the flags. Where the driver's back
//! end is a file of the kernel's ([`File::descriptor`]), that takes the shadow's place: the
//! description is then *direct*, and reads, writes and locks are the kernel's own.

mod cached;
mod companions;
pub mod epolls;
mod flags;
pub mod offset;
pub(crate) mod turns;
pub mod waits;

use alloc::{boxed::Box, sync::Arc};
use companions::Companions;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert::{Attributes, Capabilities, Directory, Errno, File, FileKind, FileSystem, Node};
use culvert_cache::orphan_file::{self, OrphanFile};
use culvert_mounts::{Hold, MountId, References};
use culvert_run::{ShadowName, task};
use culvert_sys::raw::general::O_PATH;
use culvert_sys::sync::{Mutex, OnceCell};
use flags::NOT_KNOWN;
pub use flags::{given_to_strangers, may_read, may_write};
use offset::Offset;
pub use offset::kernel_seek;
use waits::Waits;

/// What a description serves.
pub enum Object {
    /// A driven regular file.
    File(Box<dyn File>),
    /// A directory.
    Directory,
    /// A FIFO: one of the run's own stands for it, whose bytes are the kernel's.
    Fifo,
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
    /// What its driver keeps for this open of a directory.
    pub listing: Option<Box<dyn Directory>>,
    /// Of a file with several names, the one that was opened: directory and name.
    pub opened_as: Mutex<Option<(Node, Box<[u8]>)>>,
    /// The open has made the file (F_CREATED_QUERY).
    pub created: bool,
    /// What keeps its nodes valid.
    pub references: References<'static>,
    /// A directory, a FIFO, or what is open with O_PATH, is held.
    _hold: Option<Hold>,
    /// A file that others may change, and that a shadow would stand for.
    pub changes: bool,
    /// Such a one that several processes may write at once.
    parallel_writes: bool,
    /// Such a one that other processes find by its name only.
    may_go: bool,
    /// How many files of its group had become their shadows when it was certain that its own had
    /// not ([`orphan_file::count`]).
    seen: AtomicU32,
    /// What its file is by now, if that has become its shadow ([`culvert_cache::orphan_file`]).
    orphan: OnceCell<Box<OrphanFile>>,
    /// Access mode and status flags as F_GETFL reports them; the settable ones only while private.
    flags: AtomicU32,
    /// What [`culvert_run::node_locks::Notes::flag_changes`] was when the kernel was last asked for
    /// the flags.
    flags_known: AtomicU32,
    /// Under which credentials of this process it was opened ([`OTHER_PROCESS`]: not by this one).
    opener: u32,
    pub(crate) offset: Offset,
    state: AtomicU8,
    /// Its driver uses the program's own number ([`File::lend_descriptor`]), which no other process
    /// and no other descriptor shares yet.
    lent: AtomicBool,
    /// Inode of its shadow, where that was looked at (descriptors/kernel_queried.rs); 0: not yet.
    pub shadow: AtomicU64,
    /// What tells those who watch it.
    pub companions: Companions,
    waits: Waits,
}

/// In [`Description::opener`].
const OTHER_PROCESS: u32 = 0;
/// Who keeps a description ([`Description::state`]).
const PRIVATE_HERE: u8 = 0;

/// The kernel, on a shadow.
const ON_SHADOW: u8 = 1;

/// The kernel, on the driver's own file.
const DIRECT: u8 = 2;

/// How many private descriptions there are: promoting all is nothing to do when there are none.
static PRIVATE: AtomicUsize = AtomicUsize::new(0);

/// How many descriptions are backed by a number that is lent.
static LENT: AtomicUsize = AtomicUsize::new(0);

/// Whether any description is private, or lent.
#[inline]
pub fn any_private() -> bool {
    PRIVATE.load(Relaxed) != 0 || LENT.load(Relaxed) != 0
}

impl Drop for Description {
    fn drop(&mut self) {
        self.tell_closed();
        if !self.is_shared() {
            PRIVATE.fetch_sub(1, Relaxed);
        }
        self.set_lent(false);
        if self.waits.is_watched.load(Relaxed) {
            epolls::closed();
        }
    }
}

impl Description {
    /// A private description at offset 0.
    pub fn new(mount: MountId, node: Node, kind: FileKind, object: Object, flags: u32) -> Self {
        PRIVATE.fetch_add(1, Relaxed);
        let (changes, capabilities) = match &object {
            Object::File(file) if file.descriptor().is_none() => culvert_run::get()
                .mounts
                .file_system(mount)
                .map_or((false, Capabilities::default()), |file_system| {
                    let capabilities = file_system.capabilities();
                    (!capabilities.immutable, capabilities)
                }),
            _ => (false, Capabilities::default()),
        };
        let may_go = changes && capabilities.transient_nodes;
        let name = ShadowName { mount, node };
        let hold = match &object {
            Object::Directory | Object::Fifo | Object::Path => {
                Hold::of(&culvert_run::get().mounts, mount, node)
            }
            Object::File(_) | Object::Broken => None,
        };
        Self {
            changes,
            parallel_writes: changes && capabilities.parallel_writes,
            may_go,
            seen: AtomicU32::new(if may_go { orphan_file::count(name) } else { 0 }),
            orphan: OnceCell::new(),
            _hold: hold,
            mount,
            node,
            kind,
            object,
            opened_as: Mutex::new(None),
            created: false,
            listing: None,
            references: References::default(),
            flags: AtomicU32::new(flags),
            offset: Offset::default(),
            flags_known: AtomicU32::new(NOT_KNOWN),
            opener: match task::vfork_child() {
                Some(_) => OTHER_PROCESS,
                None => task::credentials::number(),
            },
            state: AtomicU8::new(PRIVATE_HERE),
            lent: AtomicBool::new(false),
            shadow: AtomicU64::new(0),
            companions: Companions::default(),
            waits: Waits::new(capabilities.polls),
        }
    }

    /// Whether what it names was gone before it could be held.
    pub fn is_gone(&self) -> bool {
        let held = matches!(self.object, Object::Directory | Object::Fifo | Object::Path);
        held && self._hold.is_none()
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

    /// The same, of a descriptor on the FIFO that stands for one of a mount; `opened`: by this
    /// process, just now.
    pub fn fifo(mount: MountId, node: Node, flags: u32, opened: bool) -> Self {
        let mut description = Self::new(mount, node, FileKind::Fifo, Object::Fifo, flags);
        if !opened {
            description.opener = OTHER_PROCESS;
        }
        description.set_state(DIRECT);
        description
    }

    /// The name of its node's shadow.
    pub fn name(&self) -> ShadowName {
        ShadowName {
            mount: self.mount,
            node: self.node,
        }
    }

    /// Whether the kernel keeps offset and flags.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.state.load(Relaxed) != PRIVATE_HERE
    }

    /// Whether the kernel's descriptor is on the file itself, so that what concerns its bytes is
    /// the kernel's to do.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.state.load(Relaxed) == DIRECT
    }

    /// Whether all that concerns its bytes is the kernel's to do, on the program's own descriptor,
    /// and the rest its driver's ([`File::is_backed`]).
    #[inline]
    pub fn is_backed(&self) -> bool {
        self.is_direct() && matches!(&self.object, Object::File(file) if file.is_backed())
    }

    /// Whether its driver uses the program's own number.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.lent.load(Relaxed)
    }

    /// The driver is to keep the descriptor of its file out of the program's way.
    pub fn keep_descriptor(&self) -> Result<(), Errno> {
        match &self.object {
            Object::File(file) => file.lend_descriptor(None).map_err(|error| error.errno()),
            _ => Ok(()),
        }
    }

    /// Its driver uses the program's own number from here on, which is on the file itself; or one
    /// of its own.
    pub(crate) fn set_lent(&self, lent: bool) {
        match (self.lent.swap(lent, Relaxed), lent) {
            (false, true) => {
                LENT.fetch_add(1, Relaxed);
                self.set_state(DIRECT);
            }
            (true, false) => {
                LENT.fetch_sub(1, Relaxed);
            }
            _ => {}
        }
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
        task::vfork_child().is_none() && self.opener == task::credentials::number()
    }

    /// The file system that serves it.
    pub fn file_system(&self) -> Result<&'static dyn FileSystem, Errno> {
        culvert_run::get().mounts.file_system(self.mount)
    }

    /// Whether its file, once it has no name, is found by no other process.
    pub fn may_go(&self) -> bool {
        self.may_go
    }

    /// How many files of its group had become their shadows when its own had not
    /// ([`orphan_file::count`]).
    pub fn seen(&self) -> u32 {
        self.seen.load(Relaxed)
    }

    /// What its file has become: its shadow.
    #[inline]
    pub fn orphan(&self) -> Option<&OrphanFile> {
        match &self.object {
            Object::File(_) if self.may_go => self.look_for_orphan().ok().flatten(),
            Object::File(file) => file.as_any()?.downcast_ref(),
            _ => None,
        }
    }

    #[inline]
    fn look_for_orphan(&self) -> Result<Option<&OrphanFile>, Errno> {
        if let Some(known) = self.orphan.get() {
            return Ok(Some(known));
        }
        let count = orphan_file::count(self.name());
        let seen = self.seen.load(Relaxed);
        if count == seen {
            return Ok(None);
        }
        match orphan_file::find(self.name(), seen)? {
            Some(found) => self
                .orphan
                .get_or_try_init(|| Ok(found))
                .map(|it| Some(&**it)),
            None => {
                self.seen.store(count, Relaxed);
                Ok(None)
            }
        }
    }

    /// `file`, the description's own, or what it has become. EIO where it has become something that
    /// cannot be reached; who cannot even look has its own.
    #[inline]
    fn now<'a>(&'a self, file: &'a dyn File) -> Result<&'a dyn File, Errno> {
        match &self.object {
            Object::File(_) if self.may_go => match self.look_for_orphan() {
                Ok(orphan) => Ok(orphan.map_or(file, |orphan| orphan)),
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
            Object::Fifo => Err(Errno::ESPIPE),
            Object::Path => Err(Errno::EBADF),
            Object::Broken => Err(Errno::EIO),
        }
    }

    /// The driven file, else `otherwise`; EIO where nobody knows any more what it was.
    pub fn file_or(&self, otherwise: Errno) -> Result<&dyn File, Errno> {
        self.file().map_err(|errno| match self.object {
            Object::Broken => errno,
            _ => otherwise,
        })
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
            Object::File(file) => self.now(&**file)?.attributes(&task::caller()),
            Object::Broken => Err(Errno::EIO.into()),
            _ => self.file_system()?.attributes(&task::caller(), self.node),
        }
    }

    /// Tells the driver that its file is shared.
    fn tell_shared(&self) {
        if let Object::File(file) = &self.object {
            file.shared();
        }
    }

    /// The kernel keeps it from here on, as it says.
    pub(crate) fn become_shared(&self, kept: &SharedOn) {
        self.tell_shared();
        self.flags_known.store(NOT_KNOWN, Relaxed);
        self.set_state(match kept {
            SharedOn::Shadow => ON_SHADOW,
            SharedOn::DriversFile => DIRECT,
        });
    }
}

/// What the kernel keeps a shared description on.
pub enum SharedOn {
    /// The node's shadow.
    Shadow,
    /// The driver's own file.
    DriversFile,
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
            // SAFETY: made only in a process with one thread, from the table's own reference, which
            // this hook does not drop while it holds the value (close and dup2 take the table's
            // reference out and keep it to their end).
            Self::Alone(description) => unsafe { &**description },
            Self::Counted(description) => description,
        }
    }
}

/// Logs a driver's error and gives its errno to the program; a wait that a signal ended is made
/// again where the program wants that (SA_RESTART).
pub fn report(description: &Description, what: &str, error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        culvert_sys::log!("{what} of {}: {cause}", description.name());
    }
    match error.errno() {
        Errno::EINTR if culvert_intercept::wait::pending() => crate::answer::RESTART,
        errno => errno,
    }
}

/// Attributes of a description, logged when they cannot be had.
pub fn described(held: &Held) -> Result<Attributes, Errno> {
    held.attributes()
        .map_err(|error| crate::description::report(held, "stat", &error))
}
