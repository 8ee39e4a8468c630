//! The trait a driver implements, most of which is its contract: one trait, so one file.

use crate::{
    Access, Attributes, Backing, Caller, Capabilities, DirectoryEntry, DirectoryPlusSink,
    DirectorySink, Entry, Errno, Maps, Node, Observed, Observer, OpenFlags, Opened,
    OpenedDirectory, Reached, RenameFlags, Result, SetAttributes, StatFs, Timespec, Validity,
    Walked, derived,
};
use alloc::{sync::Arc, vec::Vec};

/// A file system.
///
/// # What the driver may assume
///
/// - **Names** are single components: 1 to 255 bytes, no slash, no NUL, never `.` or `..`;
///   otherwise any bytes, UTF-8 or not. The front end has resolved symbolic links, `..`, trailing
///   slashes and mount points.
/// - **Permissions** were checked by the front end against the attributes (`inode_permission` and
///   `may_delete`, fs/namei.c: search in every directory passed, write in a directory that changes,
///   the sticky bit, ownership for chmod), unless [`Capabilities::checks_permissions`]. `EACCES`
///   and `EPERM` for these reasons are therefore the front end's, and a driver returns them only
///   for reasons of its own.
/// - **Flags and modes** are valid as the manual page of the call says; `mode` has the umask
///   applied, unless [`Capabilities::checks_permissions`]: such a driver acts by the kernel's
///   calls, which apply it, or a default ACL in its place (acl(5)).
/// - **Read-only** drivers get no changes: the front end answers `EROFS`.
/// - **Callers.** Each call that shows or changes a file says on whose behalf, and answers may
///   differ by caller. A driver whose answers do says [`Validity::NONE`], since the kernel would
///   show what it keeps of one caller's to all. What the front end does for itself,
///   [`Caller::SYSTEM`], must get answers that do not change with who asked before.
///
/// # What the driver owes
///
/// - **Threads.** All calls may come from several threads at once; none may block another for long.
/// - **Atomicity.** Each operation happens at one moment: no other call sees it half done, and one
///   that fails has changed nothing.
/// - **Times.** The driver keeps them: a change of content sets `mtime` and `ctime`, a change of
///   attributes or links `ctime`, a new or lost name `mtime` and `ctime` of its directory
///   (inode(7)). The front end never does.
/// - **Files in use.** A node that is open stays fully usable when its last name is removed, until
///   the last description is closed.
/// - **New nodes** belong to the caller's uid, and to the caller's gid, or to the directory's gid
///   when the directory has set-group-ID; a new directory then has set-group-ID too, and another
///   new file loses it where its group may execute and the caller is not in that group
///   (`inode_init_owner`, `mode_strip_sgid`, fs/inode.c).
///
/// # Nodes
///
/// A [`Node`] names a file itself, not its path: it stays the same when the file is renamed, and
/// equal numbers mean the same file (hard links). Every [`Entry`] that a call returns gives the
/// front end one reference; [`FileSystem::forget`] takes references back. A node is valid while the
/// front end holds a reference or an open file on it, a directory also while a node below it is
/// valid, the root always. Drivers whose node numbers are the back end's own need not count: their
/// nodes are valid as long as the file is there or open. A number that is not, or no longer, valid
/// is answered with `ESTALE`, never with another file or a panic.
///
/// # Errors of every method
///
/// - `EIO`: the back end failed or its data are damaged; with a cause for the log.
/// - `ESTALE`: the node is not valid (any more).
/// - `ENOMEM`: no memory for the operation.
/// - `EINTR`: waited, was interrupted, and nothing was done (signal(7)).
/// - `EACCES`, `EPERM`: the back end refuses this caller; with a cause where it is not the file's
///   own mode.
/// - `ENOSYS`: the default of most changes: this driver never has the operation. `EROFS` in its
///   place on read-only drivers.
///
/// The lists below name what else a method returns, with the manual page or the kernel source that
/// gives the errno its meaning.
pub trait FileSystem: Send + Sync {
    // The mount.

    /// What this driver can do. Constant while the mount lives.
    fn capabilities(&self) -> Capabilities;

    /// The root directory. Constant while the mount lives; needs no reference.
    fn root(&self) -> Node;

    // Names and paths.

    /// Finds `name` in directory `dir`.
    ///
    /// - `ENOENT`: no such name (path_resolution(7)).
    /// - `ENOTDIR`: `dir` is no directory (path_resolution(7)).
    /// - `ENAMETOOLONG`: longer than the back end's names may be, below 255 bytes
    ///   (path_resolution(7)).
    /// - `EILSEQ`, `EINVAL`: bytes that a name of the back end can never hold (open(2)).
    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry>;

    /// Walks several components of `path` (relative, not empty, no empty components, no `.` or
    /// `..`) at once, as far as plain directories lead: stops at the last component, or at a
    /// symbolic link on the way. Overridden by drivers that can walk themselves.
    ///
    /// A driver that overrides it may stop early, at the end of any component. It checks the
    /// caller's right to search the directories passed itself, or stops at them. Gives one
    /// reference on the entry, and one on `parent` unless that is `from`.
    ///
    /// - `ENOENT`, `ENOTDIR`: a component is missing, or is no directory though not the last
    ///   (path_resolution(7)).
    /// - `EACCES`: a directory on the way may not be searched (path_resolution(7)).
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let lookup = |dir, name: &[u8]| self.lookup(caller, dir, name);
        let who = (caller, self.capabilities());
        derived::walk(who, lookup, |node| self.forget(node, 1), from, path)
    }

    // Paths at once, for drivers that would rather be asked so.

    /// [`FileSystem::walk`] to the last component of `path` or not at all, with the caller's right
    /// to search judged in `from` and in every directory passed, so that the front end need not
    /// look at them one by one. None: the default; also for paths with links on the way, and
    /// whenever the driver would rather be asked step by step. References as `walk` gives them.
    ///
    /// A driver may know what is reached by its name alone, until it is opened, held
    /// ([`FileSystem::hold`]) or looked in: it is `ESTALE` once that name is another's, and the
    /// front end looks again. What is done to it meanwhile is done to what has the name at that
    /// moment. So this is for the one call that the path is of. The same goes for what
    /// [`FileSystem::create`] gives with
    /// [`OpenFlags::LENDS`], when it is closed.
    ///
    /// - `ENOENT`: a component before the last is missing. A missing last one is no error, see
    ///   [`Reached::entry`].
    /// - `ENOTDIR`, `EACCES`: as [`FileSystem::walk`].
    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        let _ = (caller, from, path);
        None
    }

    /// The same for who is about to make a file by [`FileSystem::create`] with
    /// [`OpenFlags::EXCLUSIVE`], and nothing else: where the last component is the driver need not
    /// look for it, and may answer as if it were missing, since `create` says `EEXIST`.
    fn reach_new(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        self.reach(caller, from, path)
    }

    /// What stat(2) says of the regular file at `path` from the directory `from`, as
    /// [`FileSystem::reach`] would find it, and no more: no node is known by it, and no reference
    /// given. With `access` it also is whether the caller may do that. None: the default; the front
    /// end looks the path up. So it is for all that is no regular file, and wherever that is not
    /// easy to say.
    ///
    /// - `ENOENT`: the last component is missing.
    /// - `EACCES`: as [`FileSystem::access`].
    fn attributes_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        access: Option<Access>,
    ) -> Option<Result<Attributes>> {
        let _ = (caller, from, path, access);
        None
    }

    /// The same for a change: [`FileSystem::change_attributes`] of what is at `path`, which is no
    /// symbolic link. None: nothing was done, and the front end looks the path up.
    ///
    /// - `ENOENT`: the last component is missing.
    fn change_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        let _ = (caller, from, path, changes);
        None
    }

    /// The same for [`FileSystem::unlink`] of a regular file: its directory, and the file, without
    /// references.
    ///
    /// - `ENOENT`: the last component is missing.
    fn unlink_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        let _ = (caller, from, path);
        None
    }

    /// The same for [`FileSystem::rename`], without flags, of the regular file `old` to `new` in
    /// one directory.
    ///
    /// - `ENOENT`: the last component of `old` is missing.
    fn rename_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        old: &[u8],
        new: &[u8],
    ) -> Option<Result<(Node, Node)>> {
        let _ = (caller, from, old, new);
        None
    }

    // Where a node is, and what stat(2) says of it.

    /// The parent of directory `dir`; of the root the root. Gives no reference: the parent is valid
    /// while `dir` is.
    ///
    /// - `ENOTDIR`: `dir` is no directory.
    /// - `ENOENT`: `dir` was removed (`..` of a removed directory; `ESTALE` where the driver has
    ///   forgotten it).
    fn parent(&self, dir: Node) -> Result<Node>;

    /// A path of `node` below the root, without leading slash, empty for the root; for getcwd,
    /// `/proc/self/fd` and logs. Of several hard links any.
    ///
    /// - `ENOENT`: the node has no name any more (getcwd(2); proc(5) then shows "(deleted)"), or,
    ///   of a file with several, has lost the one that the back end knows it by, as natively.
    fn path_of(&self, node: Node) -> Result<Vec<u8>>;

    /// stat(2) of a node. Needs no permission on it.
    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes>;

    /// What is known of `node` without a question that would take time, by which the front end
    /// judges who may do what: its kind, mode, owner and, of a file, links are as
    /// [`FileSystem::attributes`] says them, its size and times may be older. None, the default:
    /// that is asked.
    fn known_rights(&self, _caller: &Caller<'_>, _node: Node) -> Option<Attributes> {
        None
    }

    /// When `node` was made, for who asks statx(2) for that, where [`FileSystem::attributes`] does
    /// not say it because it costs a question of its own; none: it is not known. Asked before the
    /// attributes.
    fn birth_time(&self, _caller: &Caller<'_>, _node: Node) -> Result<Option<Timespec>> {
        Ok(None)
    }

    /// Whether `caller` may do `access` to `node` (access(2), and every check that an operation
    /// needs when [`Capabilities::checks_permissions`]). The default judges by the mode bits,
    /// [`Caller::may`].
    ///
    /// - `EACCES`: denied (access(2)).
    /// - `EROFS`: writing to a file, directory or link of a read-only driver (access(2),
    ///   `sb_permission`, fs/namei.c).
    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        derived::access(
            caller,
            &self.attributes(caller, node)?,
            access,
            self.capabilities(),
        )
    }

    /// Target of a symbolic link, 1 to 4095 bytes; `EINVAL` when it is none.
    ///
    /// - `EINVAL`: not a symbolic link (readlink(2)).
    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>>;

    // Open files.

    /// Opens a regular file. `EISDIR` never comes here. `EROFS` when opened for writing on a
    /// read-only driver.
    ///
    /// `O_TRUNC` empties the file before this returns, with what a change of size owes; `O_CREAT`
    /// never comes here; `O_EXCL`, `O_NOFOLLOW`, `O_CLOEXEC`, `O_NONBLOCK` mean nothing here. Each
    /// open is a description of its own. Gives no reference.
    ///
    /// - `EROFS`: write access on a read-only driver (open(2)).
    /// - `EISDIR`: a directory (open(2)). The front end does not ask; a driver asked all the same
    ///   answers so.
    /// - `ELOOP`: a symbolic link, as with `O_NOFOLLOW` (open(2)); likewise never asked.
    /// - `ENXIO`: a device, socket or FIFO that the driver cannot open (open(2)). Front ends open
    ///   these themselves.
    /// - `ETXTBSY`: write access to a program that is being executed, where the back end knows
    ///   (open(2)).
    /// - `EFBIG`, `EOVERFLOW`: larger than offsets reach (open(2)).
    /// - `ENFILE`, `EMFILE`: the back end has no descriptor left (open(2)).
    /// - `EPERM`: `O_NOATIME` by another than the owner; not appending to an append-only file
    ///   (open(2)).
    /// - `EINVAL`: `O_DIRECT` where the back end cannot (open(2)).
    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened>;

    /// Whether some process has `node`, a regular file, open for writing, where only the driver
    /// knows: such a file is not executed (`ETXTBSY`, execve(2)). Not asked of files with a
    /// descriptor of the kernel's ([`File::descriptor`](crate::File::descriptor)). False by
    /// default.
    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        let _ = node;
        Ok(false)
    }

    /// Continues in another process an open file whose [`File::save`](crate::File::save) gave
    /// `state`: `open` without a new permission check and without truncation. After exec, when the
    /// next program first uses the descriptor. `state` is empty where nothing was saved: by a file
    /// that came by a socket, and in a server that takes over from one that has died. The default
    /// opens anew. Errors as [`FileSystem::open`].
    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let _ = state;
        self.open(caller, node, flags.without(OpenFlags::TRUNCATE))
    }

    // Listings.

    /// Opens a directory for listing. The default keeps nothing. A process that inherits the
    /// descriptor lists by [`FileSystem::read_directory`], where positions mean the same.
    ///
    /// - `ENOTDIR`: no directory (open(2) with `O_DIRECTORY`).
    /// - `ENFILE`, `EMFILE`: the back end has no descriptor left (open(2)).
    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let _ = (caller, dir, flags);
        Ok(OpenedDirectory::Stateless)
    }

    /// Lists `dir` from position `from` on: 0 for the start, else a `next` that it gave. `.` and
    /// `..` are added by the front end. A listing that runs while entries come and go must show
    /// every entry that stays exactly once.
    ///
    /// Returns when the sink refuses an entry (which then comes again first, from the `next` before
    /// it) or when there are no more. The sink copies to the program's memory and may look names
    /// up: it is called with no lock held that [`FileSystem::lookup`] needs. A position that was
    /// never given, or whose entry is gone, goes on somewhere sensible; it is no error.
    ///
    /// - `ENOTDIR`: no directory (getdents(2)).
    /// - `ENOENT`: the directory was removed (getdents(2)); an empty listing will do as well.
    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()>;

    /// As [`FileSystem::read_directory`], with what [`FileSystem::lookup`] would say of every name
    /// (FUSE's READDIRPLUS). Each entry taken is one reference. Overridden by drivers that have the
    /// attributes at hand; the default looks up each name.
    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        self.read_directory(caller, dir, from, &mut |entry: DirectoryEntry<'_>| {
            let found = self.lookup(caller, dir, entry.name).ok();
            derived::offer(entry, found, sink, |node| self.forget(node, 1))
        })
    }

    /// fsync(2) of a directory: its names are durable when this returns. The default is
    /// [`FileSystem::sync`].
    ///
    /// - `ENOTDIR`: no directory. `EIO`, `ENOSPC`, `EDQUOT` as [`File::sync`](crate::File::sync).
    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        let _ = (dir, data_only);
        self.sync()
    }

    // The whole.

    /// statfs(2) of the whole.
    fn statfs(&self) -> Result<StatFs>;

    /// statfs(2) of `node`, where what it names lies on a part of the file system; the default: of
    /// the whole.
    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        let _ = node;
        self.statfs()
    }

    // What a front end that caches may believe.

    /// How long a kernel that caches may believe this driver's answers after others than itself
    /// have changed something; what it changes itself it knows. Constant while the mount lives. The
    /// default: for ever when the tree is immutable, else for a second. The user may say otherwise,
    /// but for a driver that says [`Validity::NONE`]: its answers hold at their moment only.
    fn validity(&self) -> Validity {
        match self.capabilities().immutable {
            true => Validity::FOREVER,
            false => Validity::SECOND,
        }
    }

    /// Changes by others are to be told to `observer` from now on, by a driver that learns of them
    /// ([`Change`](crate::Change)). Called once, before requests come, by front ends that cache.
    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        let _ = observer;
        Observed::Never
    }

    /// The kernel mount has an extension of the driver's author (`extend=/PATH.o`, or the
    /// server's), whose maps these are, as long as the driver lives. Called once, at most, before
    /// requests come: what is put now is there when the kernel first asks. After an error, of any
    /// kind, the mount goes on without the extension, and says so. By default the extension does
    /// what it does without the driver.
    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        let _ = maps;
        Ok(())
    }

    /// The descriptor of [`Observed::Descriptor`] is readable: tell what it says. Called by a
    /// thread of the front end's.
    fn look(&self) {}

    /// Whether the driver would not learn of a change of `node`, though it tells of changes: what
    /// is answered for it is then believed for a second at most. Asked after each answer: with
    /// true, what changed since was told or will be.
    fn is_unobserved(&self, node: Node) -> bool {
        let _ = node;
        false
    }

    // Extended attributes.

    /// Extended attribute `name` of `node`, at most 64 KiB; the caller compares with the program's
    /// buffer (`ERANGE`). Names are 1 to 255 bytes without NUL, with their prefix (`user.`).
    ///
    /// - `ENODATA`: there is none of this name (getxattr(2)).
    /// - `EOPNOTSUPP`: the default: the driver has none at all, or not of this prefix
    ///   (getxattr(2)).
    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (caller, node, name);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Names of all extended attributes, each ended by NUL; at most 64 KiB. Empty by default.
    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let _ = (caller, node);
        Ok(Vec::new())
    }

    /// Sets an extended attribute; `flags` as in setxattr(2) (`XATTR_CREATE` 1, `XATTR_REPLACE` 2).
    ///
    /// - `EEXIST`: `XATTR_CREATE`, and it exists (setxattr(2)).
    /// - `ENODATA`: `XATTR_REPLACE`, and there is none (setxattr(2)).
    /// - `EOPNOTSUPP`: the default; as for [`FileSystem::get_xattr`].
    /// - `EPERM`: a `user.` attribute on anything but files and directories (xattr(7)).
    /// - `ENOSPC`, `EDQUOT`, `E2BIG`: no room (setxattr(2)).
    /// - `ERANGE`: the name is longer than the back end's may be (setxattr(2)).
    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let _ = (caller, node, name, value, flags);
        Err(derived::lacks(self.capabilities(), Errno::EOPNOTSUPP))
    }

    /// Removes an extended attribute.
    ///
    /// - `ENODATA`: there is none of this name (removexattr(2)).
    /// - `EOPNOTSUPP`: the default.
    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, node, name);
        Err(derived::lacks(self.capabilities(), Errno::EOPNOTSUPP))
    }

    // Changes.

    /// chmod, chown, truncate, utimensat by node; returns the attributes after the change. All of
    /// `changes` or none.
    ///
    /// A new size cuts off or adds zeroes, also under open files, and owes what a write owes. A
    /// change of owner or group of a regular file clears set-user-ID, set-group-ID where the group
    /// may execute, and `security.capability`, whoever asks (chown(2), `setattr_prepare`,
    /// fs/attr.c). chmod by a caller outside the file's group who is not the superuser loses
    /// set-group-ID (chmod(2)).
    ///
    /// - `EISDIR`: a size for a directory (truncate(2)).
    /// - `EINVAL`: a size for what is neither file nor directory (truncate(2)); an owner the back
    ///   end cannot store (chown(2)).
    /// - `EFBIG`: a size beyond the largest file of this driver (truncate(2)).
    /// - `ENOSPC`, `EDQUOT`: no room (truncate(2), chown(2)).
    /// - `EPERM`: immutable or append-only (chmod(2)); the back end keeps no owners (chown(2)).
    /// - `ETXTBSY`: a size for a program that is being executed (truncate(2)).
    /// - `EOPNOTSUPP`: permissions of a symbolic link (fchmodat(2)).
    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let _ = (caller, node, changes);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// The same for a front end that does not ask what they are afterwards: for drivers whose back
    /// end would have to be asked.
    fn change_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        self.set_attributes(caller, node, changes).map(drop)
    }

    /// Creates and opens a regular file atomically (open(2) with O_CREAT): `EEXIST` only with
    /// O_EXCL, else an existing one is opened.
    ///
    /// `mode` holds permission bits only. They do not bind this first open: a file created with
    /// mode 0 can be written through it (open(2)). An existing file is opened as
    /// [`FileSystem::open`] would (`O_TRUNC` included), its mode left alone; the driver checks the
    /// caller's permission on it with [`FileSystem::access`], for the front end could not know of
    /// it.
    ///
    /// - `EEXIST`: `O_EXCL`, and the name exists, as whatever (open(2)).
    /// - `EISDIR`: the name is a directory (open(2)).
    /// - `ELOOP`: the name is a symbolic link: the front end follows it (open(2)).
    /// - `ENXIO`: the name is a device, socket or FIFO.
    /// - `ENOTDIR`: `dir` is no directory.
    /// - `ENOENT`: `dir` was removed (open(2)).
    /// - `ENAMETOOLONG`, `EILSEQ`, `EINVAL`: as [`FileSystem::lookup`].
    /// - `ENOSPC`, `EDQUOT`: no room for the file or its name (open(2)).
    /// - `EACCES`, `ETXTBSY`, `ENFILE`, `EMFILE`: as [`FileSystem::open`].
    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let _ = (caller, dir, name, flags, mode);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// mkdir(2). `mode`: permission bits and sticky.
    ///
    /// - `EEXIST`: the name exists, as whatever (mkdir(2)).
    /// - `ENOTDIR`, `ENOENT`, `ENAMETOOLONG`, `EILSEQ`, `ENOSPC`, `EDQUOT`: as
    ///   [`FileSystem::create`] (mkdir(2)).
    /// - `EMLINK`: `dir` can hold no more directories (mkdir(2)).
    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let _ = (caller, dir, name, mode);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// mknod(2); the type is in `mode` (a regular file, device, FIFO or socket), `rdev` counts for
    /// devices only.
    ///
    /// - `EPERM`: the default: this driver has no such type (mknod(2)).
    /// - `EEXIST`, `ENOTDIR`, `ENOENT`, `ENAMETOOLONG`, `EILSEQ`, `ENOSPC`, `EDQUOT`: as
    ///   [`FileSystem::mkdir`].
    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let _ = (caller, dir, name, mode, rdev);
        Err(derived::lacks(self.capabilities(), Errno::EPERM))
    }

    /// symlink(2). `target` is 1 to 4095 bytes without NUL, stored and given back as it is.
    ///
    /// - `EPERM`: the default: this driver has no symbolic links (symlink(2)).
    /// - `ENAMETOOLONG`: the target is longer than the back end's may be (symlink(2)).
    /// - `EEXIST`, `ENOTDIR`, `ENOENT`, `EILSEQ`, `ENOSPC`, `EDQUOT`: as [`FileSystem::mkdir`].
    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let _ = (caller, dir, name, target);
        Err(derived::lacks(self.capabilities(), Errno::EPERM))
    }

    /// link(2): another name for `node`, which may be an unnamed file of [`FileSystem::tmpfile`]
    /// unless that was opened with `O_EXCL`.
    ///
    /// - `EPERM`: the default: this driver has no hard links; or `node` is a directory (link(2)).
    /// - `EMLINK`: too many links (link(2)).
    /// - `ENOENT`: `node` has lost its last name, or must never get one (link(2), `vfs_link` in
    ///   fs/namei.c).
    /// - `EEXIST`, `ENOTDIR`, `ENAMETOOLONG`, `EILSEQ`, `ENOSPC`, `EDQUOT`: as
    ///   [`FileSystem::mkdir`].
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let _ = (caller, node, dir, name);
        Err(derived::lacks(self.capabilities(), Errno::EPERM))
    }

    /// unlink(2). An open file stays usable until its last description is gone.
    ///
    /// - `ENOENT`: no such name (unlink(2)).
    /// - `EISDIR`: a directory (unlink(2)).
    /// - `ENOTDIR`: `dir` is no directory.
    /// - `EBUSY`: in use where the back end cannot keep open files without a name (unlink(2)).
    /// - `EPERM`: immutable or append-only (unlink(2)).
    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, dir, name);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// rmdir(2). A directory in use (open, or somebody's cwd) stays as an empty one that nothing
    /// can be created in (`ENOENT`).
    ///
    /// - `ENOENT`: no such name (rmdir(2)).
    /// - `ENOTDIR`: the name is no directory, or `dir` is none (rmdir(2)).
    /// - `ENOTEMPTY`: not empty (rmdir(2)).
    /// - `EBUSY`, `EPERM`: as [`FileSystem::unlink`].
    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, dir, name);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// renameat2(2): the node keeps its identity, and all below it theirs; what the new name meant
    /// is replaced, or exchanged with `RENAME_EXCHANGE`; at no moment does the new name mean
    /// nothing. A replaced file stays usable where it is open. Two names of one node: nothing
    /// happens. A directory that changes its parent changes the link counts of both.
    ///
    /// - `ENOENT`: no such name; with exchange, on either side; a directory was removed
    ///   (rename(2)).
    /// - `EEXIST`: `RENAME_NOREPLACE`, and the new name exists (rename(2)).
    /// - `EINVAL`: a directory into itself or below, with exchange in either direction; a flag that
    ///   the driver has not (rename(2)).
    /// - `EISDIR`: no directory onto a directory (rename(2)).
    /// - `ENOTDIR`: a directory onto what is none; `from.0` or `to.0` is none (rename(2)).
    /// - `ENOTEMPTY`: onto a directory with entries, or, whatever it is, onto one that it lies
    ///   below (rename(2), `do_renameat2` in fs/namei.c).
    /// - `EXDEV`: not between these directories of the back end (rename(2)): mv(1) then copies.
    /// - `EMLINK`, `EBUSY`, `ENAMETOOLONG`, `EILSEQ`, `ENOSPC`, `EDQUOT`, `EPERM`: as
    ///   [`FileSystem::mkdir`] and [`FileSystem::unlink`].
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (caller, from, to, flags);
        Err(derived::lacks(self.capabilities(), Errno::ENOSYS))
    }

    /// An unnamed file in `dir` (O_TMPFILE): 0 links; `O_EXCL` in `flags` means that it never gets
    /// one.
    ///
    /// - `EOPNOTSUPP`: the default: this driver has none (open(2)).
    /// - Others as [`FileSystem::create`].
    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let _ = (caller, dir, flags, mode);
        Err(derived::lacks(self.capabilities(), Errno::EOPNOTSUPP))
    }

    // How long a node is needed.

    /// The front end drops `count` of the references that lookup, create and the like gave it on
    /// `node`. Drivers whose node numbers are the back end's own need not count.
    ///
    /// Cannot fail; a count too large is all of them. Open files are counted apart: they keep the
    /// node alive without references. A front end that ends drops all of its references without a
    /// call.
    fn forget(&self, node: Node, count: u64) {
        let _ = (node, count);
    }

    /// Holds `node`: it is open as a directory, as a FIFO (whose bytes are the front end's) or with
    /// `O_PATH`, or a working directory, and stays what it is when its last name goes. Each hold
    /// ends with one [`FileSystem::release`], all of a process with the process. Files that are
    /// open are held by their [`File`](crate::File). Drivers whose references keep a node alive
    /// need not do anything: the default.
    ///
    /// - `ESTALE`: it is gone already.
    fn hold(&self, node: Node) -> Result<()> {
        let _ = node;
        Ok(())
    }

    /// The end of one [`FileSystem::hold`].
    fn release(&self, node: Node) {
        let _ = node;
    }

    // Durability.

    /// syncfs(2): everything written before is durable when this returns.
    ///
    /// - `EIO`, `ENOSPC`, `EDQUOT`: something could not be stored (syncfs(2)).
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    // Descriptors of the kernel's, behind the mount or handed to another process.

    /// The directory tree of the kernel that this mount *is*, when it is exactly one: same names,
    /// same inodes, same rights, nothing added. The front end may then do any operation by the
    /// kernel's own call relative to [`Backing::root`], keeping to the rules of paths (links that
    /// leave the mount, mounts inside it), without asking the driver. None by default; a layer has
    /// the lower driver's, where it touches nothing ([`crate::Touches`]). A read-only mount has
    /// none, unless the kernel's own is read-only too: who holds a descriptor of the tree can
    /// change modes.
    fn backing(&self) -> Option<Backing> {
        None
    }

    /// The kernel's own file or directory that `node` is, where the kernel sees whatever happens to
    /// the node: a descriptor opened with `O_PATH`, borrowed from the driver and valid while the
    /// node is. Watches are put on it (inotify(7)), so that changes by others than the driver are
    /// told, too. None by default: the front end tells what happens by its own calls then.
    fn kernel_node(&self, node: Node) -> Option<i32> {
        let _ = node;
        None
    }

    /// What another process finds `node` by with [`FileSystem::identify`], whatever became of its
    /// names: a descriptor opened with `O_PATH`, borrowed from the driver and valid while the node
    /// is. None by default: such a process finds it by its path, or not at all.
    fn handed_down(&self, node: Node) -> Option<i32> {
        let _ = node;
        None
    }

    /// What `fd` is, a descriptor on something in the driver's own back end: one that a backed open
    /// gave, that the front end opened below [`Backing::root`], or that this process inherited. One
    /// reference. `fd` stays the caller's.
    ///
    /// - `EXDEV`: nothing of this mount.
    /// - `ENOSYS`: the default: this driver gives no descriptors of its back end away.
    fn identify(&self, caller: &Caller<'_>, fd: i32) -> Result<Entry> {
        let _ = (caller, fd);
        Err(Errno::ENOSYS.into())
    }

    /// Continues a driven file from `fd`, a descriptor that
    /// [`File::descriptor`](crate::File::descriptor) or
    /// [`File::continued_by`](crate::File::continued_by) gave in this or another process and that
    /// was inherited: no permission check, no truncation, works for a file without a name. `fd`
    /// stays the caller's. One reference.
    ///
    /// - `EXDEV`, `ENOSYS`: as [`FileSystem::identify`].
    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        let _ = (caller, fd, flags);
        Err(Errno::ENOSYS.into())
    }

    // Lives of processes.

    /// Whether what the driver asks is gone for good (a server that has died), so that all calls
    /// fail, and a further mount at the same target may take its place. Asked for each path: a load
    /// at most.
    fn has_ended(&self) -> bool {
        false
    }

    /// This process is the child of a fork: what the driver keeps for its process alone (proofs of
    /// life, lists in shared memory, connections) is the parent's. Called in the child before the
    /// program goes on, with no other thread there, for every mount that the parent had opened.
    /// `shared_descriptors`: what the child does to its table of descriptors it does to the
    /// parent's (clone(2), CLONE_FILES).
    fn forked(&self, shared_descriptors: bool) {
        let _ = shared_descriptors;
    }

    /// The mount ends in this process: it exits or execs, or the server unmounts. What the driver
    /// delays for its process is due. An exec can fail, other threads may be inside, and open files
    /// may be dropped after: a driver goes on when it is called again. A killed process does not
    /// come here.
    fn finish(&self) {}
}
