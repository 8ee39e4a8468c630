//! What this process knows: its run, its mounts, its descriptors, its working directory, on whose
//! behalf it acts.

use crate::description::Description;
use crate::descriptors::DescriptorTable;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert::Node;
use culvert_mounts::{Hold, MountId, MountTable, Place, References};
use culvert_run::{OUTSIDE, Run, SHARED_DIRECTORY, ShadowName, node_locks::NodeLocks, task};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::sync::{AtomicRef, Mutex};

/// A working directory.
#[derive(Clone, Debug)]
pub enum Here {
    /// A directory of the host, by its path, or one of a mount, by its node.
    Place(Place),
    /// A directory of a mount's backing tree: the kernel's own working directory is the real one,
    /// and says where that is now.
    Backed(MountId),
}

impl Here {
    /// Makes it one that another process finds by what the kernel says.
    fn tell_others(&self) {
        if let Self::Place(Place::Mount { mount, node }) = self {
            culvert_run::node_paths::note(ShadowName {
                mount: *mount,
                node: *node,
            });
        }
    }
}

/// What is known of the working directory.
enum KnownDirectory {
    /// Nothing: it was inherited.
    Nothing,
    /// The kernel took it from the program itself: it is outside all mounts. Its path is asked for
    /// when it matters.
    Outside,
    /// All.
    Here {
        /// Where.
        here: Here,
        /// What keeps its node valid.
        _keeper: Keeper,
    },
}

/// What keeps the node of a working directory valid.
pub enum Keeper {
    /// References of its own, and that it is held.
    Node(References<'static>, Option<Hold>),
    /// The open directory that it was taken from (fchdir).
    Description(Arc<Description>),
}

impl Keeper {
    /// For what has no node.
    pub fn nothing() -> Self {
        Self::Node(References::default(), None)
    }

    /// For a node with these references.
    pub fn node(mount: MountId, node: Node, references: References<'static>) -> Self {
        Self::Node(references, Hold::of(get().mounts, mount, node))
    }

    /// Whether the node was gone before it could be held.
    pub const fn is_gone(&self) -> bool {
        matches!(self, Self::Node(_, None))
    }
}

/// The state of an intercepted process.
pub struct Process {
    /// Its run.
    pub run: &'static Run,
    /// The mounts.
    pub mounts: &'static MountTable,
    /// The descriptors that are ours.
    pub table: &'static DescriptorTable,
    /// Locks shared by the processes of the run.
    pub node_locks: &'static NodeLocks,
    /// Path of libculvert.so, for programs that this one starts.
    pub library: Vec<u8>,
    /// That of the copy that this one was started with; empty: there is none.
    pub copy: Vec<u8>,
    /// The flags of `CULVERT_RUN`.
    pub flags: u8,
    /// Some mount's target is a real directory, so that links outside may lead the kernel into it.
    pub targets_exist: bool,
    /// Some such directory is not covered by a mount of the kernel's that refuses every change.
    pub targets_open: bool,
    /// Some mount's target is no directory of the kernel's, so that its parent's listing lacks it.
    pub targets_missing: bool,
    /// The kernel itself had every mount's tree at its target when the program began, and the
    /// program has changed no mounts since: the kernel finds all that links lead to.
    pub kernel_sees_all: AtomicBool,
    /// The mounts as the user asked for them, in the order of the table.
    pub specifications: &'static [culvert::mount::Mount],
    working_directory: Mutex<KnownDirectory>,
    /// Another process has the same one (`CLONE_FS` without `CLONE_VM`), so that only the kernel
    /// knows it.
    shared_working_directory: AtomicBool,
}

static PROCESS: AtomicRef<Process> = AtomicRef::new();

/// This is a new process.
pub fn forget_pid() {
    task::forget_pid();
    get().node_locks.forget_slot();
}

/// The state. Only hooks call this, and hooks exist only after [`set`].
#[inline]
pub fn get() -> &'static Process {
    PROCESS.get().expect("set before the engine is installed")
}

/// The state, if this process has joined a run.
pub fn joined() -> Option<&'static Process> {
    PROCESS.get()
}

/// Stores the state, once.
pub fn set(process: Process) {
    PROCESS.set(Some(Box::leak(Box::new(process))));
}

/// What is known of all targets together: fields of [`Process`].
#[derive(Clone, Copy, Default)]
pub struct Targets {
    /// [`Process::targets_exist`].
    pub exist: bool,
    /// [`Process::targets_open`].
    pub open: bool,
    /// [`Process::targets_missing`].
    pub missing: bool,
}

impl Process {
    /// The program changes what is mounted, or enters where it may: what the kernel finds at the
    /// targets is not known any more.
    pub fn forget_what_kernel_sees(&self) {
        self.kernel_sees_all.store(false, Relaxed);
    }

    /// The root of `mount` is the root directory from now on ([`MountTable::enter_root`]).
    ///
    /// [`MountTable::enter_root`]: culvert_mounts::MountTable::enter_root
    pub fn enter_root(&self, mount: MountId) -> Result<(), culvert::Errno> {
        // A directory that is passed through, as it is, to the path that it has.
        let is_kernels = |mount: MountId, target: &[u8]| {
            let asked = self.specifications.get(usize::from(mount.0));
            asked.is_some_and(|asked| asked.source == target && !asked.read_only())
                && crate::backing::of(mount).is_some()
        };
        self.mounts.enter_root(mount, is_kernels)?;
        self.forget_what_kernel_sees();
        Ok(())
    }

    /// The state of a fresh program; `library`: its path, and its copy's.
    pub fn new(run: &'static Run, library: [Vec<u8>; 2], flags: u8, targets: Targets) -> Self {
        let [library, copy] = library;
        Self {
            run,
            mounts: &run.mounts,
            table: crate::descriptors::table(),
            node_locks: &run.node_locks,
            library,
            copy,
            flags,
            targets_exist: targets.exist,
            targets_open: targets.open,
            targets_missing: targets.missing,
            // Of mounts that are bound nothing is said there.
            kernel_sees_all: AtomicBool::new(!targets.exist && !targets.missing),
            specifications: &run.specifications,
            working_directory: Mutex::new(KnownDirectory::Nothing),
            shared_working_directory: AtomicBool::new(flags & SHARED_DIRECTORY != 0),
        }
    }

    /// Runs `look` on the working directory. `None`: it cannot be named (removed, or outside this
    /// root).
    pub fn with_working_directory<R>(&self, look: impl FnOnce(Option<&Here>) -> R) -> R {
        if let Some(here) = task::vfork_child().and_then(directory_of) {
            return look(Some(here));
        }
        if self.shared_working_directory.load(Relaxed) {
            let here = self.find_working_directory(true);
            return look(here.as_ref());
        }
        let mut known = self.working_directory.lock();
        let found = match &*known {
            KnownDirectory::Here { here, .. } => return look(Some(here)),
            KnownDirectory::Outside => self.find_working_directory(false),
            KnownDirectory::Nothing => self.find_working_directory(self.flags & OUTSIDE == 0),
        };
        match found {
            Some(here) => {
                let _keeper = match &here {
                    Here::Place(Place::Mount { mount, node }) => {
                        Keeper::node(*mount, *node, References::default())
                    }
                    _ => Keeper::nothing(),
                };
                *known = KnownDirectory::Here { here, _keeper };
                match &*known {
                    KnownDirectory::Here { here, .. } => look(Some(here)),
                    _ => look(None),
                }
            }
            None => look(None),
        }
    }

    /// The working directory, where that is a node of a driver's.
    #[inline]
    pub fn working_node(&self) -> Option<(MountId, Node)> {
        self.with_working_directory(|here| match here {
            Some(Here::Place(Place::Mount { mount, node })) => Some((*mount, *node)),
            _ => None,
        })
    }

    /// Another process will have the same working directory, and may change it.
    pub fn share_working_directory(&self) {
        self.shared_working_directory.store(true, Relaxed);
        self.with_working_directory(|here| here.map(Here::tell_others));
    }

    /// Whether another process may change the working directory.
    pub fn shares_working_directory(&self) -> bool {
        self.shared_working_directory.load(Relaxed)
    }

    /// Whether the working directory is the one with which the program began, nobody has asked for
    /// it, and no driver is open: the next program finds there what this one would.
    pub fn has_inherited_directory(&self) -> bool {
        let own = task::vfork_child().and_then(directory_of);
        own.is_none()
            && !self.shared_working_directory.load(Relaxed)
            && matches!(*self.working_directory.lock(), KnownDirectory::Nothing)
            && !self.uses_drivers()
    }

    /// Whether any driver was opened: without one nothing is open.
    pub fn uses_drivers(&self) -> bool {
        let is_open = |mount| self.mounts.driver_if_open(mount).is_some();
        self.mounts.ids().any(is_open)
    }

    /// Whether the working directory is none of a mount, for the next program, which cannot tell by
    /// its path whether a tree of the kernel's was entered through the mount or through its source.
    pub fn is_outside(&self) -> bool {
        if self.has_inherited_directory() {
            return self.flags & OUTSIDE != 0;
        }
        let inside =
            |here: &Here| matches!(here, Here::Backed(_) | Here::Place(Place::Mount { .. }));
        !task::is_confined() && self.with_working_directory(|here| !here.is_some_and(inside))
    }

    /// The mount whose backing tree directory `fd` (or `AT_FDCWD`) is in.
    #[inline]
    pub fn backed_directory(&self, fd: i32) -> Option<MountId> {
        match fd {
            AT_FDCWD => self.with_working_directory(|here| match here {
                Some(Here::Backed(mount)) => Some(*mount),
                _ => None,
            }),
            _ => self.table.backed(fd),
        }
    }

    /// Asks the kernel; `inherited`: it may be one of a backing tree, or one that a program had
    /// which was not intercepted.
    fn find_working_directory(&self, inherited: bool) -> Option<Here> {
        let mut buffer = vec![0u8; 4096];
        let length = culvert_sys::fs::getcwd(&mut buffer);
        buffer.truncate(length.unwrap_or(0).saturating_sub(1));
        let mut tree = None;
        let name = match self.run.parse(&buffer) {
            None if inherited => {
                tree = crate::backing::inherited_working_directory(&buffer);
                // Nor does one stand for a node then.
                match tree.is_some() && self.has_only_trees() {
                    true => None,
                    false => self.run.shown_working_directory(),
                }
            }
            name => name,
        };
        if let Some(name) = name {
            if inherited {
                // Where it cannot be found any more, what is done there says so.
                let _ = culvert_run::node_paths::find(name);
            }
            return Some(Here::Place(Place::Mount {
                mount: name.mount,
                node: name.node,
            }));
        }
        if let Some(mount) = tree {
            return Some(Here::Backed(mount));
        }
        (buffer.first() == Some(&b'/')).then_some(Here::Place(Place::Host(buffer)))
    }

    /// Whether each mount is known to be a tree of the kernel's: then all descriptors are the
    /// kernel's, and so is each directory.
    fn has_only_trees(&self) -> bool {
        let is_tree = |mount| {
            let driver = self.mounts.driver_if_open(mount);
            driver.is_some_and(|driver| driver.backing().is_some())
        };
        self.mounts.ids().all(is_tree)
    }

    /// The working directory has changed to `here`; `None`: to one that the kernel took from the
    /// program itself.
    pub fn set_working_directory(&self, here: Option<(Here, Keeper)>) {
        if self.shared_working_directory.load(Relaxed)
            && let Some((here, _)) = &here
        {
            here.tell_others();
        }
        let Some(child) = task::vfork_child() else {
            let known = here.map_or(KnownDirectory::Outside, |(here, _keeper)| {
                KnownDirectory::Here { here, _keeper }
            });
            let old = core::mem::replace(&mut *self.working_directory.lock(), known);
            // Outside the lock: a driver may be called.
            drop(old);
            return;
        };
        let here = here.or_else(|| {
            let here = self.find_working_directory(false)?;
            Some((here, Keeper::nothing()))
        });
        // Leaked: a handful of bytes for each chdir of a vfork child, which programs do once.
        let leaked = here.map(|here| &Box::leak(Box::new(here)).0);
        child.set_directory(leaked.map(|here| here as _));
    }

    /// The program is about to install a seccomp filter, under which any call that it does not make
    /// itself may be fatal: whatever would need others later is done now.
    pub fn confine(&self) {
        self.run.prepare_internal();
        task::caller();
        task::limits::umask();
        task::limits::file_size();
        self.with_working_directory(|_| ());
        culvert_run::restarts::look();
        for mount in self.mounts.ids() {
            let _ = culvert_cache::file_system(mount);
        }
        /// Descriptors that were inherited are looked at when they are used first.
        const INHERITED: i32 = 256;
        for fd in 0..INHERITED {
            let _ = self.table.get(fd);
        }
        self.table.each(|_, description| {
            if let Ok(file) = description.file() {
                file.confined();
            }
        });
        task::confine();
    }

    /// A vfork child is about to be made: what it opened for all would be known in memory that it
    /// shares, but open only in its own table of descriptors.
    pub fn before_vfork(&self) {
        culvert_run::restarts::look();
        for mount in self.mounts.ids() {
            let _ = culvert_cache::file_system(mount);
        }
        if self.table.end() != 0 || !self.has_only_trees() {
            self.run.prepare_internal();
        }
        crate::descriptors::handed::before_vfork();
        // Nor does a child find out what became of a file.
        let mut may_be_gone = Vec::new();
        self.table.each(|_, description| {
            if description.may_go() {
                may_be_gone.push(description.clone());
            }
        });
        for description in may_be_gone {
            let _ = description.orphan();
        }
    }

    /// The descriptors that Culvert holds open itself.
    pub fn internal_descriptors(&self) -> Vec<u32> {
        self.run
            .internal()
            .into_iter()
            .map(|fd| fd as u32)
            .collect()
    }
}

/// The working directory that a child of vfork has chosen.
fn directory_of(child: &task::VforkChild) -> Option<&'static Here> {
    child.directory()?.downcast_ref()
}
