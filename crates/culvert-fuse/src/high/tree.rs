//! The names that the kernel knows, and the paths that they make.
//!
//! While a function of the file system has a path in hand, nobody renames or removes a name on it:
//! who has a path has locked its nodes for reading, who renames or removes one has locked that one
//! for writing.

use crate::mutex::locked;
use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

pub const ROOT: u64 = 1;

/// What a node is known by.
#[derive(Debug, Default)]
pub struct Node {
    parent: u64,
    /// None when it has lost its name.
    name: Option<Box<[u8]>>,
    lookups: u64,
    children: usize,
    pub opens: usize,
    /// It was given a hidden name when its own was removed.
    pub hidden: bool,
    /// How many read, or -1: somebody writes.
    lock: i32,
    pub generation: u64,
    /// Size and time of change when it was opened last (`auto_cache`).
    pub seen: Option<(i64, i64, i64)>,
}

#[derive(Debug, Default)]
struct Names {
    nodes: HashMap<u64, Node>,
    children: HashMap<(u64, Box<[u8]>), u64>,
    last: u64,
    generation: u64,
    /// Nodes stay though nobody has looked them up any more.
    keeps: bool,
}

impl Names {
    /// Removes `node` if nobody needs it, and then what it kept.
    fn drop_unused(&mut self, mut node: u64) {
        while node != ROOT
            && let Some(found) = self.nodes.get(&node)
            && found.children == 0
            && found.opens == 0
            && found.lock == 0
            && found.lookups == 0
            && (!self.keeps || found.name.is_none())
        {
            let parent = found.parent;
            self.unname(node);
            self.nodes.remove(&node);
            node = parent;
        }
    }

    /// `node` has no name any more.
    fn unname(&mut self, node: u64) {
        let Some(found) = self.nodes.get_mut(&node) else {
            return;
        };
        let Some(name) = found.name.take() else {
            return;
        };
        let parent = found.parent;
        self.children.remove(&(parent, name));
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children -= 1;
        }
    }

    /// `node` is `name` in `parent` from here on.
    fn name(&mut self, node: u64, parent: u64, name: &[u8]) {
        if let Some(found) = self.nodes.get_mut(&node) {
            (found.parent, found.name) = (parent, Some(name.into()));
            self.children.insert((parent, name.into()), node);
            if let Some(parent) = self.nodes.get_mut(&parent) {
                parent.children += 1;
            }
        }
    }

    /// The nodes from `node` to the root, if all have names.
    fn above(&self, mut node: u64) -> Option<Vec<u64>> {
        let mut all = vec![node];
        while node != ROOT {
            let found = self.nodes.get(&node)?;
            found.name.as_ref()?;
            node = found.parent;
            all.push(node);
        }
        Some(all)
    }

    fn path(&self, above: &[u64], name: Option<&[u8]>) -> CString {
        let mut path = Vec::new();
        let names = above
            .iter()
            .rev()
            .filter_map(|node| self.nodes.get(node)?.name.as_deref());
        for name in names.chain(name) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        CString::new(path).unwrap_or_default()
    }
}

/// A path that stays what it is, until it is dropped.
pub struct Locked<'a> {
    tree: &'a Tree,
    pub path: CString,
    read: Vec<u64>,
    write: Option<u64>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let mut names = self.tree.names();
        for node in &self.read {
            if let Some(found) = names.nodes.get_mut(node) {
                found.lock -= 1;
            }
        }
        if let Some(found) = self.write.and_then(|node| names.nodes.get_mut(&node)) {
            found.lock = 0;
        }
        let (first, write) = (self.read.first().copied(), self.write);
        for node in first.into_iter().chain(write) {
            names.drop_unused(node);
        }
        drop(names);
        self.tree.changed.notify_all();
    }
}

/// What is asked for: a node, or a name in one, perhaps to be written.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub node: u64,
    pub name: Option<&'a CStr>,
    pub write: bool,
}

/// All names.
#[derive(Debug)]
pub struct Tree {
    names: Mutex<Names>,
    changed: Condvar,
}

impl Tree {
    pub fn new(keeps: bool) -> Self {
        let mut names = Names {
            last: ROOT,
            keeps,
            ..Names::default()
        };
        names.nodes.insert(
            ROOT,
            Node {
                lookups: 1,
                ..Node::default()
            },
        );
        Self {
            names: Mutex::new(names),
            changed: Condvar::new(),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        locked(&self.names)
    }

    pub fn keep(&self) {
        self.names().keeps = true;
    }

    /// What `wanted` are, locked at once; none: a node has no name any more.
    pub fn lock<const N: usize>(&self, wanted: [Wanted<'_>; N]) -> Option<[Locked<'_>; N]> {
        let mut names = self.names();
        loop {
            let mut reads = Vec::new();
            let mut writes = Vec::new();
            let mut ways = Vec::new();
            for one in wanted {
                let above = names.above(one.node)?;
                let child = one.name.filter(|_| one.write);
                let child = child.and_then(|name| {
                    names
                        .children
                        .get(&(one.node, name.to_bytes().into()))
                        .copied()
                });
                reads.extend_from_slice(&above);
                // A node whose lock two ask for to write is one.
                let child = child.filter(|child| !writes.contains(child));
                writes.extend(child);
                ways.push((above, child));
            }
            let lock = |node: &u64| names.nodes.get(node).map_or(0, |node| node.lock);
            let free = reads.iter().all(|node| lock(node) >= 0)
                && writes
                    .iter()
                    .all(|node| lock(node) == 0 && !reads.contains(node));
            // What is renamed into itself no file system has to be asked for, but the kernel has
            // not let it come so far either.
            let own = writes.iter().any(|node| reads.contains(node));
            if free || own {
                let mut made = ways.into_iter().zip(wanted).map(|((above, child), one)| {
                    let child = child.filter(|_| !own);
                    let name = one.name.map(CStr::to_bytes);
                    let path = names.path(&above, name);
                    for node in &above {
                        if let Some(found) = names.nodes.get_mut(node) {
                            found.lock += 1;
                        }
                    }
                    if let Some(found) = child.and_then(|child| names.nodes.get_mut(&child)) {
                        found.lock = -1;
                    }
                    Locked {
                        tree: self,
                        path,
                        read: above,
                        write: child,
                    }
                });
                let all: [Option<Locked<'_>>; N] = std::array::from_fn(|_| made.next());
                drop(made);
                drop(names);
                return Some(all.map(|one| one.expect("as many as were wanted")));
            }
            names = self
                .changed
                .wait(names)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The node that `name` in `parent` is, looked up once more: its number and generation.
    pub fn look_up(&self, parent: u64, name: &CStr) -> (u64, u64) {
        let mut names = self.names();
        let key = (parent, name.to_bytes().into());
        let found = names.children.get(&key).copied();
        let node = found.unwrap_or_else(|| {
            names.last += 1;
            let node = names.last;
            let generation = names.generation;
            names.nodes.insert(
                node,
                Node {
                    generation,
                    ..Node::default()
                },
            );
            names.name(node, parent, name.to_bytes());
            node
        });
        match names.nodes.get_mut(&node) {
            Some(found) => {
                found.lookups += 1;
                (node, found.generation)
            }
            None => (node, 0),
        }
    }

    /// The node of `name` in `parent`, if it is known.
    pub fn find(&self, parent: u64, name: &CStr) -> Option<u64> {
        self.names()
            .children
            .get(&(parent, name.to_bytes().into()))
            .copied()
    }

    pub fn forget(&self, node: u64, count: u64) {
        let mut names = self.names();
        if let Some(found) = names.nodes.get_mut(&node).filter(|_| node != ROOT) {
            found.lookups = found.lookups.saturating_sub(count);
            names.drop_unused(node);
        }
    }

    /// `name` in `parent` is gone.
    pub fn removed(&self, parent: u64, name: &CStr) {
        let mut names = self.names();
        let node = names
            .children
            .get(&(parent, name.to_bytes().into()))
            .copied();
        if let Some(node) = node {
            names.unname(node);
            names.drop_unused(node);
        }
    }

    /// `name` in `parent` is `new_name` in `new_parent` now; what was there is gone, or, with
    /// `exchange`, has taken its place.
    pub fn renamed(
        &self,
        (parent, name): (u64, &CStr),
        (new_parent, new_name): (u64, &CStr),
        exchange: bool,
    ) {
        let mut names = self.names();
        let of = |names: &Names, parent, name: &CStr| {
            names
                .children
                .get(&(parent, name.to_bytes().into()))
                .copied()
        };
        let node = of(&names, parent, name);
        let there = of(&names, new_parent, new_name);
        if node == there {
            return;
        }
        for node in node.into_iter().chain(there) {
            names.unname(node);
        }
        if let Some(node) = node {
            names.name(node, new_parent, new_name.to_bytes());
        }
        match there {
            Some(there) if exchange => names.name(there, parent, name.to_bytes()),
            Some(there) => names.drop_unused(there),
            None => {}
        }
    }

    /// Changes what is known of `node`, and drops it if nobody needs it any more.
    pub fn with<T>(&self, node: u64, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let mut names = self.names();
        let result = names.nodes.get_mut(&node).map(change);
        names.drop_unused(node);
        result
    }

    /// The nodes on `path`: the last one's parent and itself, as far as they are known.
    pub fn walk(&self, path: &CStr) -> Option<u64> {
        let names = self.names();
        let parts = path.to_bytes().split(|&byte| byte == b'/');
        let mut parts = parts.filter(|part| !part.is_empty());
        parts.try_fold(ROOT, |node, part| {
            names.children.get(&(node, part.into())).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(tree: &Tree, node: u64) -> Option<CString> {
        let wanted = Wanted {
            node,
            name: None,
            write: false,
        };
        tree.lock([wanted]).map(|[one]| one.path.clone())
    }

    #[test]
    fn paths_follow_renames_and_end_with_the_name() {
        let tree = Tree::new(false);
        let (a, _) = tree.look_up(ROOT, c"a");
        let (b, _) = tree.look_up(a, c"b");
        assert_eq!(path(&tree, b).as_deref(), Some(c"/a/b"));
        tree.renamed((ROOT, c"a"), (ROOT, c"c"), false);
        assert_eq!(path(&tree, b).as_deref(), Some(c"/c/b"));
        assert_eq!(tree.walk(c"/c/b"), Some(b));
        tree.removed(a, c"b");
        assert_eq!(path(&tree, b), None);
        assert_eq!(path(&tree, ROOT).as_deref(), Some(c"/"));
        let (again, _) = tree.look_up(a, c"b");
        assert_ne!(again, b, "another file");
    }

    #[test]
    fn exchanged_names_change_places() {
        let tree = Tree::new(false);
        let ((a, _), (b, _)) = (tree.look_up(ROOT, c"a"), tree.look_up(ROOT, c"b"));
        tree.renamed((ROOT, c"a"), (ROOT, c"b"), true);
        assert_eq!(path(&tree, a).as_deref(), Some(c"/b"));
        assert_eq!(path(&tree, b).as_deref(), Some(c"/a"));
    }

    #[test]
    fn nodes_go_with_their_last_lookup() {
        let tree = Tree::new(false);
        let (a, _) = tree.look_up(ROOT, c"a");
        let (b, _) = tree.look_up(a, c"b");
        tree.forget(a, 1);
        assert!(tree.find(ROOT, c"a").is_some(), "its child is known");
        tree.with(b, |node| node.opens += 1);
        tree.forget(b, 1);
        assert!(tree.find(a, c"b").is_some(), "it is open");
        tree.with(b, |node| node.opens -= 1);
        assert!(tree.find(ROOT, c"a").is_none());
    }

    #[test]
    fn who_renames_waits_for_who_has_the_path() {
        let tree = Tree::new(false);
        let (a, _) = tree.look_up(ROOT, c"a");
        let read = Wanted {
            node: a,
            name: None,
            write: false,
        };
        let write = Wanted {
            node: ROOT,
            name: Some(c"a"),
            write: true,
        };
        let reader = tree.lock([read]);
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _writer = tree.lock([write]);
                locked(&order).push("written");
            });
            locked(&order).push("read");
            drop(reader);
        });
        assert_eq!(*locked(&order), ["read", "written"]);
        assert_eq!(tree.names().nodes[&a].lock, 0);
    }
}
