use super::*;
use crate::{
    Errno, FileKind,
    testing::{Memory, Tree, caller, fill},
};
use std::{
    boxed::Box,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

const WHO: &Caller<'static> = &caller();

/// Walks in one step, past any layer above.
struct Strides(Memory);

impl Layer for Strides {
    type Inner = Memory;
    fn inner(&self) -> &Memory {
        &self.0
    }
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        self.0.walk(caller, from, path)
    }
}

/// Hides names with a dot, closes everything to others, and counts the files it wraps.
struct Careful {
    inner: Box<dyn FileSystem>,
    wrapped: AtomicUsize,
}

struct Wrapped(Box<dyn File>);

impl FileLayer for Wrapped {
    type Inner = dyn File;
    fn inner(&self) -> &Self::Inner {
        &*self.0
    }
    fn seen(&self, attributes: Attributes) -> Attributes {
        closed(attributes)
    }
}

fn closed(attributes: Attributes) -> Attributes {
    Attributes {
        permissions: attributes.permissions & 0o700,
        ..attributes
    }
}

impl Layer for Careful {
    type Inner = dyn FileSystem;
    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }
    fn seen(&self, attributes: Attributes) -> Attributes {
        closed(attributes)
    }
    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        self.wrapped.fetch_add(1, Relaxed);
        match opened {
            Opened::Driven(file) => Opened::Driven(Box::new(LayeredFile(Wrapped(file)))),
            backed => backed,
        }
    }
    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        match name.starts_with(b".") {
            true => Err(Errno::ENOENT.into()),
            false => Ok(self.seen_entry(self.inner().lookup(caller, dir, name)?)),
        }
    }
}

fn careful() -> Layered<Careful> {
    let memory = Memory::new();
    let tree = Tree::new()
        .directory("d")
        .file("d/.x", "")
        .file("d/y", "y")
        .permissions(0o644);
    fill(&memory, &tree).unwrap();
    Layered(Careful {
        inner: Box::new(Layered(Strides(memory))),
        wrapped: AtomicUsize::new(0),
    })
}

fn permissions(opened: Opened) -> u32 {
    match opened {
        Opened::Driven(file) => file.attributes().unwrap().permissions,
        Opened::Backed(_) => unreachable!("memory is driven"),
    }
}

#[test]
fn what_lookup_hides_no_walk_finds() {
    let fs = careful();
    assert!(fs.0.inner.walk(WHO, fs.root(), b"d/.x").is_ok());
    let walked = fs.walk(WHO, fs.root(), b"d/.x");
    assert_eq!(walked.unwrap_err().errno(), Errno::ENOENT);
    let dir = fs.lookup(WHO, fs.root(), b"d").unwrap().attributes.node;
    let mut found = std::vec![];
    fs.read_directory_plus(WHO, dir, 0, &mut |entry, node| {
        found.push((entry.name.to_vec(), node.is_some()));
        true
    })
    .unwrap();
    assert_eq!(found, [(b".x".to_vec(), false), (b"y".to_vec(), true)]);
}

#[test]
fn attributes_are_changed_wherever_they_are_seen() {
    let fs = careful();
    let walked = fs.walk(WHO, fs.root(), b"d/y").unwrap();
    let seen = walked.entry.unwrap().attributes;
    assert_eq!(seen.permissions, 0o600);
    assert_eq!(fs.attributes(seen.node).unwrap().permissions, 0o600);
    let stranger = Caller {
        uid: 5,
        gid: 5,
        ..*WHO
    };
    let denied = fs.access(&stranger, seen.node, Access::READ);
    assert_eq!(denied.unwrap_err().errno(), Errno::EACCES);
    let chmod = SetAttributes {
        permissions: Some(0o666),
        ..SetAttributes::default()
    };
    assert_eq!(
        fs.set_attributes(WHO, seen.node, &chmod)
            .unwrap()
            .permissions,
        0o600
    );
    let dir = walked.parent;
    let mode = FileKind::Fifo as u32 | 0o666;
    let made = [
        fs.mkdir(WHO, dir, b"1", 0o777).unwrap(),
        fs.mknod(WHO, dir, b"2", mode, 0).unwrap(),
        fs.symlink(WHO, dir, b"3", b"x").unwrap(),
        fs.link(WHO, seen.node, dir, b"4").unwrap(),
        fs.tmpfile(WHO, dir, OpenFlags::WRITE, 0o666).unwrap().0,
        fs.create(WHO, dir, b"5", OpenFlags::WRITE, 0o666)
            .unwrap()
            .0,
    ];
    for entry in made {
        assert_eq!(entry.attributes.permissions & 0o077, 0);
    }
}

#[test]
fn files_are_wrapped_however_they_are_opened() {
    let fs = careful();
    let dir = fs.lookup(WHO, fs.root(), b"d").unwrap().attributes.node;
    let node = fs.lookup(WHO, dir, b"y").unwrap().attributes.node;
    let all = [
        fs.open(WHO, node, OpenFlags::READ).unwrap(),
        fs.restore(WHO, node, OpenFlags::READ, b"").unwrap(),
        fs.create(WHO, dir, b"z", OpenFlags::WRITE, 0o666)
            .unwrap()
            .1,
        fs.tmpfile(WHO, dir, OpenFlags::WRITE, 0o666).unwrap().1,
    ];
    assert_eq!(all.map(permissions), [0o600; 4]);
    assert_eq!(fs.0.wrapped.load(Relaxed), 4);
}
