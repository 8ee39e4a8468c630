//! The file system under the layer.

use super::file::FaultFile;
use super::operation::Operations;
use super::rules::{Rules, Selected};
use crate::{DescriptorFile, Keeper, unhindered};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Call, Caller, DirectoryPlusSink, Errno, FileKind, FileSystem, Layer, LayeredFile, Node,
    OpenFlags, Opened, Operation, Result, SetAttributes, Touches, Validity, Walked,
};

/// A file system under rules.
pub struct FaultFs {
    inner: Box<dyn FileSystem>,
    rules: Arc<Rules>,
    keeper: Keeper,
}

/// What a walk, or a listing with attributes, consists of.
const LOOKUP: Operations = Operations::of(&[Operation::Lookup]);
const LISTING: Operations = LOOKUP.with(Operations::of(&[Operation::ReadDirectory]));

impl FaultFs {
    /// `inner`, under `rules`; `keeper` keeps the descriptors of files that `inner` would have
    /// given away.
    pub fn new(inner: Box<dyn FileSystem>, rules: Rules, keeper: Keeper) -> Self {
        Self {
            inner,
            rules: Arc::new(rules),
            keeper,
        }
    }

    /// The path of `node` from the root of the mount, as rules see it.
    fn path_of(&self, node: Node) -> Option<Vec<u8>> {
        let below = self.inner.path_of(node).ok()?;
        Some([b"/", &below[..]].concat())
    }

    fn path_at(&self, dir: Node, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.path_of(dir)?;
        if path.len() > 1 {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path)
    }

    fn select(&self, operation: Operation, node: Node, name: Option<&[u8]>) -> Selected {
        let path = || match name {
            Some(name) => self.path_at(node, name),
            None => self.path_of(node),
        };
        self.rules.select(Operations::of(&[operation]), path)
    }
}

impl Layer for FaultFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    /// What some rule is about.
    fn touches(&self) -> Touches {
        Touches {
            names: self.rules.are_about(Operations::NAMES),
            attributes: self.rules.are_about(Operations::REST),
            data: self.rules.are_about(Operations::BYTES),
        }
    }

    /// Only files that a rule is about are watched; one that is a descriptor of the kernel's is
    /// driven then.
    fn opened(&self, node: Node, _flags: OpenFlags, opened: Opened) -> Opened {
        if !self.rules.are_about(Operations::FILE) {
            return opened;
        }
        let selected = self.rules.select(Operations::FILE, || self.path_of(node));
        if selected == Selected(0) {
            return opened;
        }
        let file = match opened {
            Opened::Driven(file) => file,
            Opened::Backed(fd) => {
                let inode = self
                    .inner
                    .attributes(&Caller::SYSTEM, node)
                    .map_or(node.0, |found| found.inode);
                let descriptor = unhindered(fd);
                Box::new(DescriptorFile::new(descriptor, self.keeper, node, inode))
            }
        };
        let rules = Arc::clone(&self.rules);
        Opened::Driven(Box::new(LayeredFile(FaultFile::new(file, rules, selected))))
    }

    /// Lets the operation meet the rules. One is about a rename when it is about either name.
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let operation = call.operation;
        if self.rules.are_about(Operations::of(&[operation])) {
            let mut selected = self.select(operation, call.node, call.name);
            if let Some((dir, name)) = call.to {
                selected.0 |= self.select(operation, dir, Some(name)).0;
            }
            self.rules.pass(operation, selected)?;
        }
        work()
    }

    fn change_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        let call = Call::of(Operation::SetAttributes, node).by(caller);
        self.around(call, || self.inner.change_attributes(caller, node, changes))
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        if !self.rules.are_about(LOOKUP) {
            return self.inner.walk(caller, from, path);
        }
        // One component: the front end goes on from there.
        let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
        let entry = self.lookup(caller, from, name)?;
        let leads_on = matches!(
            entry.attributes.kind,
            FileKind::Directory | FileKind::Symlink
        );
        if name.len() < path.len() && !leads_on {
            self.inner.forget(entry.attributes.node, 1);
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Walked {
            entry: Some(entry),
            parent: from,
            consumed: name.len(),
        })
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.around(Call::of(Operation::Access, node).by(caller), || {
            self.inner.access(caller, node, access)
        })
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        if !self.rules.are_about(LISTING) {
            return self.inner.read_directory_plus(caller, dir, from, sink);
        }
        self.read_directory(caller, dir, from, &mut |entry| {
            let found = self.lookup(caller, dir, entry.name).ok();
            let taken = sink(entry, found);
            if let (false, Some(found)) = (taken, found) {
                self.inner.forget(found.attributes.node, 1);
            }
            taken
        })
    }

    /// Not at all where a rule is about what would be believed.
    fn validity(&self) -> Validity {
        let believed = LOOKUP.with(Operations::of(&[
            Operation::Attributes,
            Operation::Readlink,
            Operation::Open,
            Operation::OpenDirectory,
            Operation::ReadDirectory,
        ]));
        match self.rules.are_about(believed) {
            true => Validity::NONE,
            false => self.inner.validity(),
        }
    }
}
