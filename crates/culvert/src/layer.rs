//! Drivers that wrap another driver.
//!
//! A layer implements [`Layer`], overriding only what it changes; everything else goes straight to
//! [`Layer::inner`]. Wrapped in [`Layered`] it is a [`FileSystem`] like any other, so layers stack.
//! Where `Inner` is a concrete type the forwarding calls are inlined away; where it is `dyn
//! FileSystem` each costs one indirect call. [`FileLayer`] does the same for open files, and
//! [`DataLayer`] for those whose bytes the layer changes.
//!
//! Three hooks save most overriding: [`Layer::seen`] changes the attributes in everything that
//! returns them, [`Layer::opened`] wraps every file that is opened, however it is, and
//! [`Layer::around`] stands around every operation that may fail. [`Layer::called`] hears of every
//! call.
//!
//! [`Layer::touches`] says what a layer leaves alone, which then costs nothing: without `data` a
//! file of the kernel's below stays one, whose reads, writes and mappings are native.
//!
//! What the driver API derives from other operations is derived for a layer too, from the layer's
//! own operations: `walk` and `read_directory_plus` look up, `access` judges the attributes. So a
//! name hidden in `lookup` stays hidden when several components are walked at once. A layer that
//! touches neither names nor attributes has the inner driver's own `walk`, `reach` and listing; one
//! that wants `walk` all the same forwards it in one line.
//!
//! ```
//! use culvert::{Caller, Entry, Errno, FileSystem, Layer, Layered, Node, Result};
//! use std::sync::Arc;
//!
//! /// Hides names that start with a dot from lookups.
//! struct NoDots(Arc<dyn FileSystem>);
//!
//! impl Layer for NoDots {
//!     type Inner = dyn FileSystem;
//!     fn inner(&self) -> &Self::Inner {
//!         &*self.0
//!     }
//!     fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
//!         if name.starts_with(b".") {
//!             return Err(Errno::ENOENT.into());
//!         }
//!         self.inner().lookup(caller, dir, name)
//!     }
//! }
//!
//! fn hide(inner: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
//!     Arc::new(Layered(NoDots(inner)))
//! }
//! ```

use crate::{
    Access, Attributes, Backing, Caching, Call, Caller, Capabilities, DirectoryPlusSink,
    DirectorySink, Entry, File, FileKind, FileSystem, Lock, LockKind, LockOwner, Maps, Node,
    Observed, Observer, OpenFlags, Opened, OpenedDirectory, Operation, OwnedFd, Reached, Readiness,
    RenameFlags, Result, SetAttributes, Sink, Source, StatFs, Timespec, Validity, Wait, Waiter,
    Walked, Whence, derived,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{any::Any, task::Waker};

/// A [`Layer`] as a [`FileSystem`].
pub struct Layered<L>(pub L);

/// A [`FileLayer`] as a [`File`].
pub struct LayeredFile<L>(pub L);

/// From one table: the layer trait with its defaults, and for the wrapper the trait that it is a
/// layer of.
macro_rules! layer_trait {
    (
        $(#[$doc:meta])*
        trait $layer:ident of $trait:ident as $wrapper:ident {
            $($own:item)*
        }
        $(fn $name:ident(&$self:ident $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)? $body:block)*
    ) => {
        $(#[$doc])*
        pub trait $layer: Send + Sync {
            /// What this layer wraps, `dyn` or concrete.
            type Inner: $trait + ?Sized;

            /// The one that everything not overridden goes to.
            fn inner(&self) -> &Self::Inner;

            /// The front end, or the layer above, calls `method`, which is carried out next.
            #[inline]
            fn called(&self, method: &'static str) {
                let _ = method;
            }

            $($own)*

            $(
                #[doc = concat!("As [`", stringify!($trait), "::", stringify!($name), "`].")]
                #[inline]
                fn $name(&$self $(, $arg: $type)*) $(-> $result)? $body
            )*
        }

        impl<L: $layer> $trait for $wrapper<L> {
            $(
                #[inline]
                fn $name(&$self $(, $arg: $type)*) $(-> $result)? {
                    $self.0.called(stringify!($name));
                    $self.0.$name($($arg),*)
                }
            )*
        }
    };
}

layer_trait! {
    /// A driver that wraps another and overrides only what it changes.
    trait Layer of FileSystem as Layered {
        /// What the layer touches. Constant while the mount lives. With everything, the default, a
        /// layer need not think of it.
        ///
        /// Without `data` the files that [`Layer::opened`] hands out must be those of the inner
        /// driver or of a [`FileLayer`] that says the same ([`FileLayer::touches_data`]). Without
        /// `names` and `attributes` `walk`, `reach`, `access` and `read_directory_plus` are the
        /// inner driver's own; without `names` alone the first two, where the layer leaves the
        /// right to search to that driver ([`Capabilities::checks_permissions`]). With nothing at
        /// all the mount may be done past both, by the kernel ([`FileSystem::backing`]).
        #[inline]
        fn touches(&self) -> Touches {
            Touches::ALL
        }

        /// What the layer makes of attributes that the inner driver reports, in every operation
        /// that returns them.
        #[inline]
        fn seen(&self, caller: &Caller<'_>, attributes: Attributes) -> Attributes {
            let _ = caller;
            attributes
        }

        /// What the layer makes of a file that the inner driver opened on `node`, in every
        /// operation that opens one.
        #[inline]
        fn opened(&self, node: Node, flags: OpenFlags, opened: Opened) -> Opened {
            let _ = (node, flags);
            opened
        }

        /// Carries out an operation on the inner driver by `work`: before it, after it, instead of
        /// it or again. Of the operations that this layer overrides only those come here that it
        /// brings here.
        #[inline]
        fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
            let _ = call;
            work()
        }

        /// Whether the inner driver's own walks are right: the layer leaves names alone, and the
        /// right to search is not judged by attributes that it changes.
        #[inline]
        fn finds_below(&self) -> bool {
            let touches = self.touches();
            touches.leaves_paths() || !touches.names && self.capabilities().checks_permissions
        }

        /// [`Layer::seen`] for an entry.
        #[inline]
        fn seen_entry(&self, caller: &Caller<'_>, entry: Entry) -> Entry {
            Entry { attributes: self.seen(caller, entry.attributes) }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }
    fn root(&self) -> Node {
        self.inner().root()
    }
    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let call = Call::at(Operation::Lookup, dir, name).by(caller);
        let found = self.around(call, || self.inner().lookup(caller, dir, name))?;
        Ok(self.seen_entry(caller, found))
    }
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        if self.finds_below() {
            let walked = self.inner().walk(caller, from, path)?;
            let entry = walked.entry.map(|entry| self.seen_entry(caller, entry));
            return Ok(Walked { entry, ..walked });
        }
        let lookup = |dir, name: &[u8]| self.lookup(caller, dir, name);
        let who = (caller, self.capabilities());
        derived::walk(who, lookup, |node| self.forget(node, 1), from, path)
    }
    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        if !self.finds_below() {
            return None;
        }
        let reached = self.inner().reach(caller, from, path)?;
        Some(reached.map(|reached| {
            let entry = reached.entry.map(|entry| self.seen_entry(caller, entry));
            Reached { entry, ..reached }
        }))
    }
    fn parent(&self, dir: Node) -> Result<Node> {
        self.inner().parent(dir)
    }
    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.inner().path_of(node)
    }
    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let call = Call::of(Operation::Attributes, node).by(caller);
        Ok(self.seen(caller, self.around(call, || self.inner().attributes(caller, node))?))
    }
    fn birth_time(&self, caller: &Caller<'_>, node: Node) -> Result<Option<Timespec>> {
        self.inner().birth_time(caller, node)
    }
    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.around(Call::of(Operation::Access, node).by(caller), || {
            if self.touches().leaves_paths() || self.inner().capabilities().checks_permissions {
                return self.inner().access(caller, node, access);
            }
            derived::access(caller, &self.attributes(caller, node)?, access, self.capabilities())
        })
    }
    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let call = Call::of(Operation::Readlink, node).by(caller);
        self.around(call, || self.inner().readlink(caller, node))
    }
    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let call = Call::of(Operation::Open, node).by(caller);
        let opened = self.around(call, || self.inner().open(caller, node, flags))?;
        Ok(self.opened(node, flags, opened))
    }
    fn hold(&self, node: Node) -> Result<()> {
        self.inner().hold(node)
    }
    fn release(&self, node: Node) {
        self.inner().release(node);
    }
    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        self.inner().is_open_for_writing(node)
    }
    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let call = Call::of(Operation::Restore, node).by(caller);
        let opened = self.around(call, || self.inner().restore(caller, node, flags, state))?;
        Ok(self.opened(node, flags, opened))
    }
    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        let call = Call::of(Operation::OpenDirectory, dir).by(caller);
        self.around(call, || self.inner().open_directory(caller, dir, flags))
    }
    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let call = Call::of(Operation::ReadDirectory, dir).by(caller);
        self.around(call, || self.inner().read_directory(caller, dir, from, sink))
    }
    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        if self.touches().leaves_paths() {
            return self.inner().read_directory_plus(caller, dir, from, sink);
        }
        self.read_directory(caller, dir, from, &mut |entry| {
            let found = self.lookup(caller, dir, entry.name).ok();
            derived::offer(entry, found, sink, |node| self.forget(node, 1))
        })
    }
    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        let call = Call::of(Operation::SyncDirectory, dir);
        self.around(call, || self.inner().sync_directory(dir, data_only))
    }
    fn statfs(&self) -> Result<StatFs> {
        self.around(Call::of(Operation::Statfs, self.root()), || self.inner().statfs())
    }
    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        self.around(Call::of(Operation::Statfs, node), || self.inner().statfs_of(node))
    }
    fn validity(&self) -> Validity {
        self.inner().validity()
    }
    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        self.inner().observe(observer)
    }
    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        self.inner().extended(maps)
    }
    fn look(&self) {
        self.inner().look()
    }
    fn has_ended(&self) -> bool {
        self.inner().has_ended()
    }
    fn is_unobserved(&self, node: Node) -> bool {
        self.inner().is_unobserved(node)
    }
    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let call = Call::of(Operation::GetXattr, node).by(caller);
        self.around(call, || self.inner().get_xattr(caller, node, name))
    }
    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let call = Call::of(Operation::ListXattr, node).by(caller);
        self.around(call, || self.inner().list_xattr(caller, node))
    }
    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let call = Call::of(Operation::SetXattr, node).by(caller);
        self.around(call, || self.inner().set_xattr(caller, node, name, value, flags))
    }
    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let call = Call::of(Operation::RemoveXattr, node).by(caller);
        self.around(call, || self.inner().remove_xattr(caller, node, name))
    }
    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let mode = changes.permissions.unwrap_or(0);
        let call = Call::of(Operation::SetAttributes, node).by(caller).giving(mode);
        let found = self.around(call, || self.inner().set_attributes(caller, node, changes))?;
        Ok(self.seen(caller, found))
    }
    fn change_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        self.set_attributes(caller, node, changes).map(drop)
    }
    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let call = Call::at(Operation::Create, dir, name).by(caller).giving(mode);
        let made = self.around(call, || self.inner().create(caller, dir, name, flags, mode));
        let (entry, opened) = made?;
        Ok((self.seen_entry(caller, entry), self.opened(entry.attributes.node, flags, opened)))
    }
    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let call = Call::at(Operation::Mkdir, dir, name).by(caller).giving(mode);
        let made = self.around(call, || self.inner().mkdir(caller, dir, name, mode))?;
        Ok(self.seen_entry(caller, made))
    }
    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let call = Call::at(Operation::Mknod, dir, name).by(caller).giving(mode);
        let made = self.around(call, || self.inner().mknod(caller, dir, name, mode, rdev))?;
        Ok(self.seen_entry(caller, made))
    }
    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let call = Call::at(Operation::Symlink, dir, name).by(caller);
        let made = self.around(call, || self.inner().symlink(caller, dir, name, target))?;
        Ok(self.seen_entry(caller, made))
    }
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let call = Call::at(Operation::Link, dir, name).by(caller);
        let made = self.around(call, || self.inner().link(caller, node, dir, name))?;
        Ok(self.seen_entry(caller, made))
    }
    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let call = Call::at(Operation::Unlink, dir, name).by(caller);
        self.around(call, || self.inner().unlink(caller, dir, name))
    }
    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let call = Call::at(Operation::Rmdir, dir, name).by(caller);
        self.around(call, || self.inner().rmdir(caller, dir, name))
    }
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let call = Call::at(Operation::Rename, from.0, from.1).by(caller);
        let call = Call { to: Some(to), ..call };
        self.around(call, || self.inner().rename(caller, from, to, flags))
    }
    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let call = Call::of(Operation::Tmpfile, dir).by(caller).giving(mode);
        let made = self.around(call, || self.inner().tmpfile(caller, dir, flags, mode));
        let (entry, opened) = made?;
        Ok((self.seen_entry(caller, entry), self.opened(entry.attributes.node, flags, opened)))
    }
    fn forget(&self, node: Node, count: u64) {
        self.inner().forget(node, count)
    }
    fn sync(&self) -> Result<()> {
        self.around(Call::of(Operation::Sync, self.root()), || self.inner().sync())
    }
    fn backing(&self) -> Option<Backing> {
        match self.touches().is_nothing() {
            true => self.inner().backing(),
            false => None,
        }
    }
    fn kernel_node(&self, node: Node) -> Option<i32> {
        let touches = self.touches();
        // A file has no names below it, and the kernel alone hears what becomes of its bytes.
        let is_file = || {
            let found = self.inner().attributes(&Caller::SYSTEM, node);
            found.is_ok_and(|attributes| attributes.kind == FileKind::Regular)
        };
        match !touches.data && (!touches.names || is_file()) {
            true => self.inner().kernel_node(node),
            false => None,
        }
    }
    fn handed_down(&self, node: Node) -> Option<i32> {
        self.inner().handed_down(node)
    }
    fn identify(&self, caller: &Caller<'_>, fd: i32) -> Result<Entry> {
        Ok(self.seen_entry(caller, self.inner().identify(caller, fd)?))
    }
    fn forked(&self, shared_descriptors: bool) {
        self.inner().forked(shared_descriptors)
    }
    fn adopt(&self, caller: &Caller<'_>, fd: i32, flags: OpenFlags) -> Result<(Entry, Opened)> {
        let (entry, opened) = self.inner().adopt(caller, fd, flags)?;
        Ok((self.seen_entry(caller, entry), self.opened(entry.attributes.node, flags, opened)))
    }
    fn finish(&self) {
        self.inner().finish()
    }
}

layer_trait! {
    /// An open file that wraps another and overrides only what it changes. Wrap `Box<dyn File>` of
    /// the inner driver, and answer `as_any` with the inner one's (the default), so that
    /// `copy_range` meets files it knows.
    trait FileLayer of File as LayeredFile {
        /// Whether the layer touches the bytes of the file ([`Touches::data`]), or must hear of
        /// what is done to them. The default, true, is right for every layer. With false the
        /// program may have the inner file's own descriptor ([`File::is_backed`]): `read_at`,
        /// `write_at`, `append`, `allocate`, `seek` and `copy_range` are then not called.
        #[inline]
        fn touches_data(&self) -> bool {
            true
        }

        /// What the layer makes of the attributes that the inner file reports; as [`Layer::seen`].
        #[inline]
        fn seen(&self, caller: &Caller<'_>, attributes: Attributes) -> Attributes {
            let _ = caller;
            attributes
        }

        /// As [`Layer::around`], for the operations on a file. Of those that are somebody's it
        /// knows the caller; what is done to bytes is done by whoever has the descriptor.
        #[inline]
        fn around<T>(
            &self,
            operation: Operation,
            caller: Option<&Caller<'_>>,
            mut work: impl FnMut() -> Result<T>,
        ) -> Result<T> {
            let _ = (operation, caller);
            work()
        }
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.around(Operation::ReadAt, None, || self.inner().read_at(offset, out))
    }
    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        self.around(Operation::WriteAt, None, || self.inner().write_at(offset, from))
    }
    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.around(Operation::Append, None, || self.inner().append(from))
    }
    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        let ask = || self.inner().attributes(caller);
        Ok(self.seen(caller, self.around(Operation::Attributes, Some(caller), ask)?))
    }
    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let operation = Operation::SetAttributes;
        let set = || self.inner().set_attributes(caller, changes);
        Ok(self.seen(caller, self.around(operation, Some(caller), set)?))
    }
    fn sync(&self, data_only: bool) -> Result<()> {
        self.around(Operation::Sync, None, || self.inner().sync(data_only))
    }
    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        self.around(Operation::Allocate, None, || self.inner().allocate(mode, offset, length))
    }
    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        self.around(Operation::Seek, None, || self.inner().seek(offset, whence))
    }
    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        self.around(Operation::CopyRange, None, || self.inner().copy_range(offset, to, to_offset, length))
    }
    fn as_any(&self) -> Option<&dyn Any> {
        self.inner().as_any()
    }
    fn descriptor(&self) -> Option<i32> {
        match self.touches_data() {
            true => None,
            false => self.inner().descriptor(),
        }
    }
    fn may_be_passed(&self) -> bool {
        self.inner().may_be_passed()
    }
    fn is_backed(&self) -> bool {
        !self.touches_data() && self.inner().is_backed()
    }
    fn lend_descriptor(&self, number: Option<i32>) -> Result<()> {
        self.inner().lend_descriptor(number)
    }
    fn with_kernel_file(
        &self,
        range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        match self.touches_data() {
            true => Ok(false),
            false => self.inner().with_kernel_file(range, stores, map),
        }
    }
    fn caching(&self) -> Caching {
        self.inner().caching()
    }
    fn shared(&self) {
        self.inner().shared()
    }

    fn confined(&self) {
        self.inner().confined()
    }
    fn flush(&self) -> Result<()> {
        self.around(Operation::Flush, None, || self.inner().flush())
    }
    fn reports_at_close(&self) -> bool {
        self.inner().reports_at_close()
    }
    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        self.around(Operation::Ioctl, None, || self.inner().ioctl(request, argument))
    }
    fn poll(&self, waker: Option<&Waker>) -> Result<Readiness> {
        self.around(Operation::Poll, None, || self.inner().poll(waker))
    }
    fn waiter(&self) -> Result<Option<Box<dyn Waiter>>> {
        self.inner().waiter()
    }
    fn get_lock(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.around(Operation::GetLock, None, || self.inner().get_lock(owner, lock))
    }
    fn set_lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        self.around(Operation::SetLock, None, || self.inner().set_lock(owner, lock, wait))
    }
    fn flock(&self, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        self.around(Operation::Flock, None, || self.inner().flock(owner, kind, wait))
    }
    fn lock_file(&self, make: bool) -> Result<Option<OwnedFd>> {
        self.inner().lock_file(make)
    }
    fn locked(&self) {
        self.inner().locked();
    }
    fn before_unlock(&self) -> Result<()> {
        self.inner().before_unlock()
    }
    fn save(&self) -> Result<Vec<u8>> {
        self.inner().save()
    }
    fn continued_by(&self) -> Option<i32> {
        self.inner().continued_by()
    }
}

mod data;
#[cfg(test)]
mod data_tests;
#[cfg(test)]
mod tests;
mod touches;

pub use data::{DataFile, DataLayer};
pub use touches::Touches;
