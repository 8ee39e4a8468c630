//! What the rules are tried on.

use super::fake::Tree;
use crate::resolver::{Inside, Last, LastStep, MountTable, Place, Resolved, Restrictions};
use alloc::{borrow::ToOwned, boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use culvert::{
    Attributes, Caller, Capabilities, DirectorySink, Entry, FileSystem, Node, OpenFlags, Opened,
    Reached, Result, StatFs, Walked,
};

/// A tree that the test keeps a hand on.
struct Shared(Arc<Tree>);

impl FileSystem for Shared {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn root(&self) -> Node {
        self.0.root()
    }
    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.0.lookup(caller, dir, name)
    }
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        self.0.walk(caller, from, path)
    }
    fn reach(&self, _: &Caller<'_>, _: Node, _: &[u8]) -> Option<Result<Reached>> {
        self.0.reaches.fetch_add(1, Relaxed);
        None
    }
    fn parent(&self, dir: Node) -> Result<Node> {
        self.0.parent(dir)
    }
    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.0.path_of(node)
    }
    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.0.attributes(caller, node)
    }
    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        FileSystem::readlink(&*self.0, caller, node)
    }
    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.0.open(caller, node, flags)
    }
    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        self.0.read_directory(caller, dir, from, sink)
    }
    fn statfs(&self) -> Result<StatFs> {
        self.0.statfs()
    }
    fn forget(&self, node: Node, count: u64) {
        self.0.forget(node, count);
    }
}

/// The real file system and mounts over it, all in memory.
pub struct World {
    pub host: Tree,
    pub table: MountTable,
    pub trees: Vec<Arc<Tree>>,
}

impl World {
    pub fn new(host: &str, mounts: &[(&str, &str)]) -> Self {
        Self::walking(host, mounts, 0)
    }

    pub fn walking(host: &str, mounts: &[(&str, &str)], walking: u8) -> Self {
        let mut world = Self {
            host: Tree::new(host),
            table: MountTable::new(),
            trees: Vec::new(),
        };
        for (target, words) in mounts {
            let tree = Tree {
                walking,
                ..Tree::new(words)
            };
            world.mount(target, tree, None);
        }
        world
    }

    pub fn mount(&mut self, target: &str, tree: Tree, identity: Option<(u64, u64)>) {
        let tree = Arc::new(tree);
        self.trees.push(tree.clone());
        let open = Box::new(move || Ok(Box::new(Shared(tree.clone())) as Box<_>));
        let target = target.as_bytes().to_vec();
        self.table.add(target, identity, open).unwrap();
    }

    /// A directory by its absolute path: in a mount if it begins with a target.
    pub fn place(&self, path: &str) -> Place {
        match self.table.deepest(path.as_bytes()) {
            Some((mount, rest)) => Place::Mount {
                mount,
                node: self.trees[mount.0 as usize].at(core::str::from_utf8(rest).unwrap()),
            },
            None => Place::Host(path.as_bytes().to_vec()),
        }
    }

    pub fn walk(
        &self,
        caller: &Caller<'_>,
        base: &str,
        path: &str,
        step: LastStep,
        bits: u64,
    ) -> String {
        let base = self.place(base);
        let path = path.as_bytes();
        self.show(
            self.table
                .walk(&self.host, caller, &base, path, step, Restrictions(bits)),
        )
    }

    /// `0:a/b` is a node of mount 0; `0:a+name` may be made there; a dot, `..`, `/`, `mount` or
    /// `magic` in brackets tells how the last component was written; `out:/x` is for the kernel.
    pub fn show(&self, answer: Result<Resolved<'_>>) -> String {
        match answer {
            Err(error) => error.errno().name().to_owned(),
            Ok(Resolved::Untouched) => "untouched".to_owned(),
            Ok(Resolved::Outside { path }) => format!("out:{}", String::from_utf8_lossy(&path)),
            Ok(Resolved::MagicLink(magic)) => format!("{magic:?}"),
            Ok(Resolved::Inside(inside)) => self.show_inside(&inside),
        }
    }

    fn show_inside(&self, inside: &Inside<'_>) -> String {
        let tree = &self.trees[inside.mount.0 as usize];
        let parent = tree.path(inside.parent);
        let node = inside.entry.map(|entry| entry.attributes.node);
        let path = node.map(|node| tree.path(node)).unwrap_or_default();
        let slash = if inside.trailing_slash { "/" } else { "" };
        let how = match &inside.last {
            Last::Name(name) => {
                let name = String::from_utf8_lossy(name);
                let Some(node) = node else {
                    return format!("{}:{parent}+{name}{slash}", inside.mount.0);
                };
                let file = tree.file(node.0);
                assert_eq!(file.parent, inside.parent.0, "the parent holds it");
                assert_eq!(file.name, name.as_bytes());
                return format!("{}:{path}{slash}", inside.mount.0);
            }
            Last::Dot => "[.]",
            Last::DotDot => "[..]",
            Last::Root => "[/]",
            Last::MountPoint => "[mount]",
            Last::Magic => "[magic]",
        };
        assert_eq!(node, Some(inside.parent), "without a name the thing itself");
        format!("{}:{path}{how}", inside.mount.0)
    }
}
