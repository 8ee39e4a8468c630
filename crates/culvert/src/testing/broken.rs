//! The proof of the kit: a driver that breaks one rule, for every rule, and the kit must say which.

mod file;

use super::{Memory, RULES, Tree, fill, reading, sharing, tests::everything, user, writing};
use crate::{
    Attributes, Caller, Directory, DirectoryEntry, DirectoryPlusSink, DirectorySink, Entry, Errno,
    FileKind, FileSystem, Layer, Layered, LayeredFile, Node, OpenFlags, Opened, OpenedDirectory,
    RenameFlags, Result, SetAttributes, StatFs, Walked,
};
use file::BrokenFile;
use std::{
    boxed::Box,
    string::String,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    vec::Vec,
};

/// A file system in memory that breaks the rule named by `flaw`.
struct Broken {
    memory: Memory,
    flaw: &'static str,
    calls: AtomicUsize,
    renamed: Arc<AtomicBool>,
}

impl Broken {
    fn has(&self, flaw: &str) -> bool {
        self.flaw == flaw
    }

    /// `result`, with one errno in another's place, for flaws that confuse them.
    fn confused<T>(&self, flaw: &str, result: Result<T>, right: Errno, wrong: Errno) -> Result<T> {
        match result {
            Err(error) if self.has(flaw) && error.errno() == right => Err(wrong.into()),
            result => result,
        }
    }
}

struct NoEntries;

impl Directory for NoEntries {
    fn read(&self, _: u64, _: &mut DirectorySink<'_>) -> Result<()> {
        Ok(())
    }
}

impl Layer for Broken {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn seen(&self, _: &Caller<'_>, mut attributes: Attributes) -> Attributes {
        if self.has("attributes") && attributes.kind == FileKind::Regular {
            attributes.links += 7;
        }
        if self.has("mknod") {
            attributes.rdev = 0;
        }
        attributes
    }

    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        let Opened::Driven(inner) = opened else {
            return opened;
        };
        let end = inner
            .attributes(&Caller::SYSTEM)
            .map(|attributes| attributes.size)
            .unwrap_or(0);
        Opened::Driven(Box::new(LayeredFile(BrokenFile {
            inner,
            flaw: self.flaw,
            end: AtomicU64::new(end),
            buffered: Mutex::new(Vec::new()),
            opener: Mutex::new(None),
            renamed: self.renamed.clone(),
        })))
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let name = match (self.flaw, name) {
            ("lookup-finds", b"one") => return Err(Errno::ENOENT.into()),
            ("absent-names", [0xff, ..]) if name.len() == 255 => return Err(Errno::EILSEQ.into()),
            ("no-panic", b"*") => panic!("a pattern"),
            ("node-identity", b"empty") => &b"one"[..],
            ("node-stability", b"one") if self.calls.fetch_add(1, Relaxed) % 2 == 1 => {
                &b"empty"[..]
            }
            _ => name,
        };
        let found = self.memory.lookup(caller, dir, name);
        let found = self.confused("not-a-directory", found, Errno::ENOTDIR, Errno::ENOENT)?;
        Ok(self.seen_entry(caller, found))
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let mut walked = self.memory.walk(caller, from, path)?;
        if self.has("walk") {
            walked.parent = from;
        }
        Ok(walked)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let parent = self.memory.parent(dir)?;
        Ok(if self.has("parent") { dir } else { parent })
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let path = self.memory.path_of(node)?;
        Ok(if self.has("path-of") {
            b"one".to_vec()
        } else {
            path
        })
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let found = self.memory.attributes(caller, node);
        let found = self.confused("stale-nodes", found, Errno::ESTALE, Errno::ENOENT)?;
        let mut found = self.seen(caller, found);
        if self.has("attributes-agree") {
            found.ctime.seconds += 1;
        }
        if self.has("root") && node == self.memory.root() {
            found.kind = FileKind::Regular;
        }
        Ok(found)
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let mut target = self.memory.readlink(caller, node)?;
        if self.has("readlink") {
            target.push(0);
        }
        Ok(target)
    }

    fn open(&self, caller: &Caller<'_>, node: Node, mut flags: OpenFlags) -> Result<Opened> {
        match self.flaw {
            "open" => return Err(Errno::EIO.into()),
            "open-truncates" => flags = flags.without(OpenFlags::TRUNCATE),
            _ => {}
        }
        let opened = self.memory.open(caller, node, flags);
        let opened = self.confused("open-wrong-kind", opened, Errno::EISDIR, Errno::EINVAL)?;
        Ok(self.opened(node, flags, opened))
    }

    fn open_directory(&self, _: &Caller<'_>, _: Node, _: OpenFlags) -> Result<OpenedDirectory> {
        Ok(match self.has("open-directory") {
            true => OpenedDirectory::Driven(Box::new(NoEntries)),
            false => OpenedDirectory::Stateless,
        })
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let mut index = 0;
        let start = match self.flaw {
            "restart" if from != 0 => from + 1,
            "odd-positions" if from == 12345 => return Err(Errno::EINVAL.into()),
            "listing-meanwhile" => 0,
            _ => from,
        };
        if self.has("legal-names") && from == 0 {
            sink(DirectoryEntry {
                inode: 1,
                next: 1 << 40,
                kind: FileKind::Directory,
                name: b".",
            });
        }
        self.memory
            .read_directory(caller, dir, start, &mut |mut entry| {
                index += 1;
                match self.flaw {
                    "listing" if entry.name == b"one" => return true,
                    "positions" => entry.next |= 1 << 63,
                    "listing-agrees" => entry.inode += 1,
                    "every-entry-once" if entry.name == b"one" => drop(sink(entry)),
                    // An index into what is there now, as a driver without positions would have it.
                    "listing-meanwhile" if index <= from => return true,
                    "listing-meanwhile" => entry.next = index,
                    _ => {}
                }
                let taken = sink(entry);
                if !taken && self.has("refused-stops") {
                    sink(entry);
                }
                taken
            })
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        self.read_directory(caller, dir, from, &mut |entry| {
            let name = if self.has("listing-plus") {
                b"one"
            } else {
                entry.name
            };
            sink(entry, self.memory.lookup(caller, dir, name).ok())
        })
    }

    fn statfs(&self) -> Result<StatFs> {
        let mut statfs = self.memory.statfs()?;
        if self.has("statfs") {
            statfs.blocks_free = statfs.blocks + 1;
        }
        Ok(statfs)
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let value = self.memory.get_xattr(caller, node, name);
        self.confused("xattrs", value, Errno::ENODATA, Errno::ENOENT)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let mut changes = *changes;
        let before = self.memory.attributes(caller, node)?;
        match self.flaw {
            "times" => changes.mtime = None,
            "chmod" => changes.permissions = changes.permissions.map(|p| p & 0o777),
            "chown" => changes.gid = None,
            "privileges-dropped" if changes.uid.is_some() => {
                changes.permissions = Some(before.permissions);
            }
            "truncate" => changes.size = changes.size.map(|size| size.min(before.size)),
            _ => {}
        }
        Ok(self.seen(caller, self.memory.set_attributes(caller, node, &changes)?))
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mut flags: OpenFlags,
        mut mode: u32,
    ) -> Result<(Entry, Opened)> {
        let mut caller = *caller;
        match self.flaw {
            "create" => mode |= 0o111,
            "create-exclusive" => flags = flags.without(OpenFlags::EXCLUSIVE),
            "one-winner" if name.starts_with(b"same") => {
                flags = flags.without(OpenFlags::EXCLUSIVE)
            }
            "create-existing" => flags = flags.with(OpenFlags::EXCLUSIVE),
            "create-truncates" => flags = flags.without(OpenFlags::TRUNCATE),
            "ownership" => caller = user(0, 0),
            _ => {}
        }
        let made = self.memory.create(&caller, dir, name, flags, mode);
        let made = self.confused("removed-directory", made, Errno::ENOENT, Errno::ESTALE);
        let (entry, opened) = self.confused("not-a-directory", made, Errno::ENOTDIR, Errno::EIO)?;
        Ok((
            self.seen_entry(&caller, entry),
            self.opened(entry.attributes.node, flags, opened),
        ))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        if self.has("read-only") {
            return Err(Errno::EPERM.into());
        }
        let mode = if self.has("mkdir") { 0o755 } else { mode };
        self.memory.mkdir(caller, dir, name, mode)
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let lossy = String::from_utf8_lossy(target);
        let target = if self.has("symlinks") {
            lossy.as_bytes()
        } else {
            target
        };
        self.memory.symlink(caller, dir, name, target)
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let linked = self.memory.link(caller, node, dir, name);
        self.confused("links", linked, Errno::EPERM, Errno::EISDIR)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let gone = self.memory.unlink(caller, dir, name);
        self.confused("unlink", gone, Errno::EISDIR, Errno::EPERM)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let gone = self.memory.rmdir(caller, dir, name);
        self.confused("rmdir", gone, Errno::ENOTEMPTY, Errno::EEXIST)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let find = |(dir, name): (Node, &[u8])| {
            let found = self.memory.lookup(caller, dir, name).ok();
            found.map(|entry| entry.attributes.node)
        };
        let (old, new) = (find(from), find(to));
        match self.flaw {
            "rename-replaces" if new.is_some() => return Err(Errno::EEXIST.into()),
            "rename-one-file" if old == new && from != to => {
                return self.memory.unlink(caller, from.0, from.1);
            }
            "rename-flags" => return self.memory.rename(caller, from, to, RenameFlags(0)),
            _ => {}
        }
        let moved = self.memory.rename(caller, from, to, flags);
        self.confused("rename", moved, Errno::EINVAL, Errno::EBUSY)?;
        self.renamed.store(true, Relaxed);
        if self.has("rename-keeps-nodes") && self.memory.unlink(caller, to.0, to.1).is_ok() {
            // As a driver that copies would do it.
            drop(
                self.memory
                    .create(caller, to.0, to.1, OpenFlags::WRITE, 0o644)?,
            );
        }
        Ok(())
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let kept = if self.has("tmpfile") {
            flags.without(OpenFlags::EXCLUSIVE)
        } else {
            flags
        };
        self.memory.tmpfile(caller, dir, kept, mode)
    }
}

fn broken(memory: Memory, flaw: &'static str) -> Layered<Broken> {
    Layered(Broken {
        memory,
        flaw,
        calls: AtomicUsize::new(0),
        renamed: Arc::default(),
    })
}

/// The rules that the kit finds broken in a driver with `flaw`.
fn found(flaw: &'static str) -> Vec<&'static str> {
    let memory = Memory::new();
    let tree = everything();
    fill(&memory, &tree).unwrap();
    let shown = reading(&broken(memory.read_only(), flaw), &tree);
    let changed = writing(&|| Box::new(broken(Memory::new(), flaw)));
    let (one, two) = (Memory::new(), Memory::new());
    fill(&two, &Tree::new().file("shared", "")).unwrap();
    // One that the other one hears nothing of.
    let other = if flaw == "seen-in-time" { &two } else { &one };
    let shared = sharing([&one, other]);
    let failures = shown.failures.iter().chain(&changed.failures);
    let failures = failures.chain(&shared.failures);
    failures.map(|failure| failure.rule).collect()
}

#[test]
fn every_rule_that_is_broken_is_named() {
    let missed = |(rule, _): &&(&'static str, &str)| !found(rule).contains(rule);
    let missed: Vec<_> = RULES.iter().filter(missed).collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
fn a_layer_that_changes_nothing_breaks_nothing() {
    assert_eq!(found("none"), Vec::<&str>::new());
}
