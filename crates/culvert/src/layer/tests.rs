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
    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
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
    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
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
            false => Ok(self.seen_entry(caller, self.inner().lookup(caller, dir, name)?)),
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
        Opened::Driven(file) => file.attributes(WHO).unwrap().permissions,
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
    assert_eq!(fs.attributes(WHO, seen.node).unwrap().permissions, 0o600);
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

/// Refuses one operation, wherever it is asked for, and does the others.
struct Refuses(Arc<Memory>, Operation);

struct RefusesFile(Box<dyn File>, Operation);

fn refused(operation: Operation, which: Operation) -> Result<()> {
    match operation == which {
        true => Err(Errno::EDOM.into()),
        false => Ok(()),
    }
}

/// Operations that are somebody's say whose.
#[track_caller]
fn knows(operation: Operation, caller: Option<&Caller<'_>>, is_somebodys: bool) {
    let who = caller.map(|caller| caller.uid);
    assert_eq!(who, is_somebodys.then_some(WHO.uid), "{operation:?}");
}

impl Layer for Refuses {
    type Inner = Memory;
    fn inner(&self) -> &Memory {
        &self.0
    }
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let nobodys = [Operation::Sync, Operation::Statfs, Operation::SyncDirectory];
        knows(
            call.operation,
            call.caller,
            !nobodys.contains(&call.operation),
        );
        refused(call.operation, self.1)?;
        work()
    }
    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(file) => {
                Opened::Driven(Box::new(LayeredFile(RefusesFile(file, self.1))))
            }
            backed => backed,
        }
    }
}

impl FileLayer for RefusesFile {
    type Inner = dyn File;
    fn inner(&self) -> &Self::Inner {
        &*self.0
    }
    fn around<T>(
        &self,
        operation: Operation,
        caller: Option<&Caller<'_>>,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let somebodys = [Operation::Attributes, Operation::SetAttributes];
        knows(operation, caller, somebodys.contains(&operation));
        refused(operation, self.1)?;
        work()
    }
}

/// Asks for every operation, and notes those that answer EDOM, which no file system does.
fn refusals(fs: &dyn FileSystem) -> Vec<&'static str> {
    let mut found = std::vec![];
    let mut note = |name, error: Option<crate::Error>| {
        if error.is_some_and(|error| error.errno() == Errno::EDOM) {
            found.push(name);
        }
    };
    let (root, changes) = (fs.root(), SetAttributes::default());
    let flags = OpenFlags(2);
    note("create", fs.create(WHO, root, b"new", flags, 0o600).err());
    note("lookup", fs.lookup(WHO, root, b"new").err());
    note("attributes", fs.attributes(WHO, root).err());
    note("access", fs.access(WHO, root, Access(4)).err());
    note("readlink", fs.readlink(WHO, root).err());
    note("open", fs.open(WHO, root, flags).err());
    note("restore", fs.restore(WHO, root, flags, b"").err());
    note(
        "open_directory",
        fs.open_directory(WHO, root, OpenFlags(0)).err(),
    );
    note(
        "read_directory",
        fs.read_directory(WHO, root, 0, &mut |_| true).err(),
    );
    note("sync_directory", fs.sync_directory(root, false).err());
    note("statfs", fs.statfs().err());
    note("statfs", fs.statfs_of(root).err());
    note("get_xattr", fs.get_xattr(WHO, root, b"user.x").err());
    note("list_xattr", fs.list_xattr(WHO, root).err());
    note(
        "set_xattr",
        fs.set_xattr(WHO, root, b"user.x", b"", 0).err(),
    );
    note("remove_xattr", fs.remove_xattr(WHO, root, b"user.x").err());
    note(
        "set_attributes",
        fs.set_attributes(WHO, root, &changes).err(),
    );
    note("mkdir", fs.mkdir(WHO, root, b"dir", 0o700).err());
    note("mknod", fs.mknod(WHO, root, b"fifo", 0o010600, 0).err());
    note("symlink", fs.symlink(WHO, root, b"link", b"new").err());
    note("link", fs.link(WHO, root, root, b"other").err());
    note("unlink", fs.unlink(WHO, root, b"link").err());
    note("rmdir", fs.rmdir(WHO, root, b"dir").err());
    let to = (root, &b"renamed"[..]);
    note(
        "rename",
        fs.rename(WHO, (root, b"fifo"), to, RenameFlags(0)).err(),
    );
    note("tmpfile", fs.tmpfile(WHO, root, flags, 0o600).err());
    note("sync", fs.sync().err());
    found
}

/// The same of an open file.
fn file_refusals(file: &dyn File) -> Vec<&'static str> {
    let mut found = std::vec![];
    let mut note = |name, error: Option<crate::Error>| {
        if error.is_some_and(|error| error.errno() == Errno::EDOM) {
            found.push(name);
        }
    };
    let (kind, owner) = (LockKind::Shared, LockOwner(1));
    let lock = Lock {
        kind,
        start: 0,
        end: 1,
        pid: 0,
    };
    note("read_at", file.read_at(0, &mut &mut [0; 4][..]).err());
    note("write_at", file.write_at(0, &mut &b"four"[..]).err());
    note("append", file.append(&mut &b"four"[..]).err());
    note("attributes", file.attributes(WHO).err());
    note(
        "set_attributes",
        file.set_attributes(WHO, &SetAttributes::default()).err(),
    );
    note("sync", file.sync(false).err());
    note("allocate", file.allocate(0, 0, 1).err());
    note("seek", file.seek(0, Whence::Data).err());
    note("copy_range", file.copy_range(0, file, 8, 1).err());
    note("flush", file.flush().err());
    note("ioctl", file.ioctl(0, &mut []).err());
    note("poll", file.poll(None).err());
    note("get_lock", file.get_lock(owner, &lock).err());
    note("set_lock", file.set_lock(owner, &lock, Wait::Never).err());
    note("flock", file.flock(owner, kind, Wait::Never).err());
    found
}

#[test]
fn around_stands_around_every_operation() {
    for &operation in Operation::ALL {
        let memory = Arc::new(Memory::new());
        let whole = Layered(Refuses(Arc::clone(&memory), operation));
        let mut found = refusals(&whole);
        let made = memory.create(WHO, memory.root(), b"file", OpenFlags(2), 0o600);
        let Opened::Driven(file) = made.unwrap().1 else {
            unreachable!("memory is driven")
        };
        found.extend(file_refusals(&LayeredFile(RefusesFile(file, operation))));
        found.dedup();
        let name = operation.name();
        assert!(found.contains(&name), "{name} is not refused: {found:?}");
        // An access that the driver leaves to the API asks for attributes.
        let others = found.iter().filter(|other| **other != name);
        let others: Vec<_> = others.filter(|other| **other != "access").collect();
        assert!(others.is_empty(), "{name} refuses {others:?}");
    }
}

/// Shows every file as the caller's own.
struct Owned(Memory);

struct OwnedFile(Box<dyn File>);

fn owned(caller: &Caller<'_>, attributes: Attributes) -> Attributes {
    Attributes {
        uid: caller.uid,
        ..attributes
    }
}

impl FileLayer for OwnedFile {
    type Inner = dyn File;
    fn inner(&self) -> &Self::Inner {
        &*self.0
    }
    fn seen(&self, caller: &Caller<'_>, attributes: Attributes) -> Attributes {
        owned(caller, attributes)
    }
}

impl Layer for Owned {
    type Inner = Memory;
    fn inner(&self) -> &Memory {
        &self.0
    }
    fn seen(&self, caller: &Caller<'_>, attributes: Attributes) -> Attributes {
        owned(caller, attributes)
    }
    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(file) => Opened::Driven(Box::new(LayeredFile(OwnedFile(file)))),
            backed => backed,
        }
    }
}

#[test]
fn each_caller_has_an_answer_of_its_own() {
    let memory = Memory::new();
    fill(&memory, &Tree::new().file("f", "")).unwrap();
    let fs = Layered(Owned(memory));
    let found = fs.lookup(WHO, fs.root(), b"f").unwrap().attributes;
    let Opened::Driven(file) = fs.open(WHO, found.node, OpenFlags::READ).unwrap() else {
        unreachable!("memory is driven")
    };
    for uid in [7, 8, 7] {
        let user = &Caller { uid, ..*WHO };
        let mut listed = std::vec![];
        fs.read_directory_plus(user, fs.root(), 0, &mut |_, entry| {
            listed.push(entry.unwrap().attributes.uid);
            true
        })
        .unwrap();
        let walked = fs.walk(user, fs.root(), b"f").unwrap().entry.unwrap();
        let nothing = SetAttributes::default();
        let seen = [
            walked.attributes.uid,
            fs.attributes(user, found.node).unwrap().uid,
            file.attributes(user).unwrap().uid,
            file.set_attributes(user, &nothing).unwrap().uid,
            listed[0],
        ];
        assert_eq!(seen, [uid; 5]);
    }
}

/// A layer that says what it is told to say.
struct Says(Memory, Touches, AtomicUsize);

impl Layer for Says {
    type Inner = Memory;
    fn inner(&self) -> &Memory {
        &self.0
    }
    fn touches(&self) -> Touches {
        self.1
    }
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        if call.operation == Operation::Lookup {
            self.2.fetch_add(1, Relaxed);
        }
        work()
    }
}

#[test]
fn paths_that_a_layer_leaves_alone_are_walked_below_it() {
    for (touches, lookups) in [
        (Touches::ALL, 2),
        (Touches::ATTRIBUTES, 2),
        (Touches::NO_DATA, 2),
        (Touches::NOTHING, 0),
        (
            Touches {
                data: true,
                ..Touches::NOTHING
            },
            0,
        ),
    ] {
        let memory = Memory::new();
        fill(&memory, &Tree::new().directory("d").file("d/y", "y")).unwrap();
        let fs = Layered(Says(memory, touches, AtomicUsize::new(0)));
        let walked = fs.walk(WHO, fs.root(), b"d/y").unwrap();
        assert!(walked.entry.is_some());
        assert_eq!(fs.0.2.load(Relaxed), lookups, "{touches:?}");
    }
}

/// Says nothing of bytes, or everything.
struct Bytes(Box<dyn File>, bool);

impl FileLayer for Bytes {
    type Inner = dyn File;
    fn inner(&self) -> &Self::Inner {
        &*self.0
    }
    fn touches_data(&self) -> bool {
        self.1
    }
}

/// A file that is one of the kernel's.
struct Kernels;

impl File for Kernels {
    fn read_at(&self, _: u64, _: &mut dyn Sink) -> Result<usize> {
        Ok(0)
    }
    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        Err(Errno::EIO.into())
    }
    fn descriptor(&self) -> Option<i32> {
        Some(7)
    }
    fn is_backed(&self) -> bool {
        true
    }
}

#[test]
fn a_file_stays_backed_under_layers_that_leave_its_bytes_alone() {
    let stack = |layers: &[bool]| {
        let lowest: Box<dyn File> = Box::new(Kernels);
        layers.iter().fold(lowest, |file, &touches| {
            Box::new(LayeredFile(Bytes(file, touches)))
        })
    };
    for (layers, backed) in [
        (&[][..], true),
        (&[false, false], true),
        (&[true], false),
        (&[true, false], false),
        (&[false, true], false),
    ] {
        let file = stack(layers);
        assert_eq!(file.is_backed(), backed, "{layers:?}");
        assert_eq!(file.descriptor().is_some(), backed, "{layers:?}");
    }
}
