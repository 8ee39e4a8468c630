//! The same operations on a driver, and what it shows.

use crate::steps::Step;
use culvert::{
    Caller, Entry, Errno, FileKind, FileSystem, Node, OpenFlags, Opened, RenameFlags,
    SetAttributes, testing::caller,
};
use std::{collections::BTreeMap, fmt::Write as _};

/// Ours, by paths.
pub struct Ours<'a>(pub &'a dyn FileSystem);

impl Ours<'_> {
    fn find(&self, path: &str) -> culvert::Result<Entry> {
        let mut here = self.0.root();
        let mut entry = None;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let found = self.0.lookup(&caller(), here, name.as_bytes());
            if here != self.0.root() {
                self.0.forget(here, 1);
            }
            // Nothing leads anywhere here: a link on the way is a name that is not there.
            if entry.is_some_and(|entry: Entry| entry.attributes.kind == FileKind::Symlink) {
                return Err(Errno::ENOENT.into());
            }
            let found = found?;
            here = found.attributes.node;
            entry = Some(found);
        }
        match entry {
            Some(entry) => Ok(entry),
            None => Ok(Entry {
                attributes: self.0.attributes(&caller(), here)?,
            }),
        }
    }

    fn place<'p>(&self, path: &'p str) -> culvert::Result<(Node, &'p [u8])> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let found = self.find(dir)?.attributes;
        match found.kind {
            FileKind::Directory => Ok((found.node, name.as_bytes())),
            FileKind::Symlink => Err(Errno::ENOENT.into()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    fn leave(&self, node: Node) {
        if node != self.0.root() {
            self.0.forget(node, 1);
        }
    }

    fn write(&self, node: Node, flags: OpenFlags, text: &str) -> culvert::Result<()> {
        let Opened::Driven(file) = self.0.open(&caller(), node, flags)? else {
            panic!("a backed file")
        };
        let mut bytes = text.as_bytes();
        match flags.append() {
            true => file.append(&mut bytes).map(drop),
            false => file.write_at(0, &mut bytes).map(drop),
        }
    }

    fn existing(&self, path: &str, flags: OpenFlags, text: &str) -> culvert::Result<()> {
        let found = self.find(path)?.attributes;
        let done = match found.kind {
            FileKind::Symlink => Err(Errno::ELOOP.into()),
            _ => self.write(found.node, flags, text),
        };
        self.leave(found.node);
        done
    }

    fn with(
        &self,
        path: &str,
        work: impl Fn(Node, FileKind) -> culvert::Result<()>,
    ) -> culvert::Result<()> {
        let found = self.find(path)?.attributes;
        let done = work(found.node, found.kind);
        self.leave(found.node);
        done
    }

    fn in_place(
        &self,
        path: &str,
        work: impl Fn(Node, &[u8]) -> culvert::Result<()>,
    ) -> culvert::Result<()> {
        let (dir, name) = self.place(path)?;
        let done = work(dir, name);
        self.leave(dir);
        done
    }

    fn rename(&self, from: &str, to: &str, flags: u32) -> culvert::Result<()> {
        self.in_place(from, |dir, name| {
            self.in_place(to, |to_dir, to_name| {
                let flags = RenameFlags(flags);
                self.0
                    .rename(&caller(), (dir, name), (to_dir, to_name), flags)
            })
        })
    }

    pub fn step(&self, step: &Step) -> culvert::Result<()> {
        let (fs, me) = (self.0, &caller());
        match step {
            Step::Write(path, text) => {
                let (dir, name) = self.place(path)?;
                let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
                let made = fs.create(me, dir, name, flags, 0o666);
                self.leave(dir);
                let (entry, opened) = made?;
                let Opened::Driven(file) = opened else {
                    panic!("a backed file")
                };
                let done = file.write_at(0, &mut text.as_bytes()).map(drop);
                drop(file);
                fs.forget(entry.attributes.node, 1);
                done
            }
            Step::Append(path, text) => {
                self.existing(path, OpenFlags::WRITE.with(OpenFlags::APPEND), text)
            }
            Step::Cut(path, size) => self.with(path, |node, kind| {
                if kind != FileKind::Regular {
                    return Err(match kind {
                        FileKind::Symlink => Errno::ELOOP,
                        _ => Errno::EISDIR,
                    }
                    .into());
                }
                let Opened::Driven(file) = fs.open(me, node, OpenFlags::WRITE)? else {
                    panic!("a backed file")
                };
                let size = SetAttributes {
                    size: Some(*size),
                    ..SetAttributes::default()
                };
                file.set_attributes(me, &size).map(drop)
            }),
            Step::Mode(path, mode) => self.with(path, |node, kind| match kind {
                FileKind::Symlink => Err(Errno::EOPNOTSUPP.into()),
                _ => {
                    let changes = SetAttributes {
                        permissions: Some(*mode),
                        ..SetAttributes::default()
                    };
                    fs.set_attributes(me, node, &changes).map(drop)
                }
            }),
            Step::Unlink(path) => self.in_place(path, |dir, name| fs.unlink(me, dir, name)),
            Step::Mkdir(path) => self.in_place(path, |dir, name| {
                let made = fs.mkdir(me, dir, name, 0o777)?;
                fs.forget(made.attributes.node, 1);
                Ok(())
            }),
            Step::Rmdir(path) => self.in_place(path, |dir, name| fs.rmdir(me, dir, name)),
            Step::Rename(from, to) => self.rename(from, to, 0),
            Step::Exchange(from, to) => self.rename(from, to, RenameFlags::EXCHANGE),
            Step::Symlink(target, path) => self.in_place(path, |dir, name| {
                let made = fs.symlink(me, dir, name, target.as_bytes())?;
                fs.forget(made.attributes.node, 1);
                Ok(())
            }),
            Step::Link(from, to) => self.with(from, |node, _| {
                self.in_place(to, |dir, name| {
                    if let Ok(there) = fs.lookup(me, dir, name) {
                        fs.forget(there.attributes.node, 1);
                        return Err(Errno::EEXIST.into());
                    }
                    let made = fs.link(me, node, dir, name)?;
                    fs.forget(made.attributes.node, 1);
                    Ok(())
                })
            }),
            Step::Attribute(path, value) => self.with(path, |node, _| {
                fs.set_xattr(me, node, b"user.test", value.as_bytes(), 0)
            }),
        }
    }

    /// What there is: path, and all that is told of it.
    pub fn tree(&self) -> BTreeMap<String, String> {
        let mut tree = BTreeMap::new();
        self.list(self.0.root(), "", &mut tree);
        tree
    }

    fn list(&self, dir: Node, path: &str, tree: &mut BTreeMap<String, String>) {
        let mut names = Vec::new();
        let system = &Caller::SYSTEM;
        let listed = self.0.read_directory(system, dir, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.inode));
            true
        });
        listed.unwrap();
        for (name, inode) in names {
            let found = self.0.lookup(system, dir, &name).unwrap().attributes;
            let path = format!("{path}/{}", String::from_utf8(name).unwrap());
            assert_eq!(inode, found.inode, "{path} is listed with another inode");
            let mut told = format!("{:o} ", found.mode());
            match found.kind {
                FileKind::Directory => self.list(found.node, &path, tree),
                FileKind::Symlink => {
                    let target = self.0.readlink(system, found.node).unwrap();
                    told += &String::from_utf8(target).unwrap();
                }
                FileKind::Regular => {
                    let opened = self.0.open(&caller(), found.node, OpenFlags::READ);
                    let Opened::Driven(file) = opened.unwrap() else {
                        panic!("a backed file")
                    };
                    let mut bytes = vec![0; found.size as usize + 1];
                    let count = file.read_at(0, &mut &mut bytes[..]).unwrap();
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    write!(told, "{} {} {text}", found.links, found.size).unwrap();
                }
                _ => {}
            }
            let value = self.0.get_xattr(system, found.node, b"user.test");
            told += &value.map_or(String::new(), |value| format!(" {value:?}"));
            write!(told, " inode {}", found.inode).unwrap();
            self.0.forget(found.node, 1);
            tree.insert(path, told);
        }
    }
}
