//! Random operations on the driver and on the reference of the kit: same results, same state; and
//! the file system stays consistent.

use crate::tools::{Mapped, Run};
use culvert::{
    Attributes, Caller, Errno, File, FileKind, FileSystem, Node, OpenFlags, Opened, RenameFlags,
    Result, SetAttributes, Whence,
    mount::Mount,
    testing::{Memory, caller},
};

/// Numbers that look random (xorshift).
pub struct Random(pub u64);

impl Random {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// The same thing in both.
struct Pair<T>(T, T);

struct World<'a> {
    fs: Pair<&'a dyn FileSystem>,
    dirs: Vec<Pair<Node>>,
    files: Vec<Pair<Box<dyn File>>>,
}

fn summary(found: &Attributes) -> (FileKind, u32, u32, u32, u32, u64, u64) {
    let size = match found.kind {
        FileKind::Directory => 0,
        _ => found.size,
    };
    (
        found.kind,
        found.permissions,
        found.links,
        found.uid,
        found.gid,
        size,
        found.rdev,
    )
}

fn errno<T>(result: &Result<T>) -> Option<Errno> {
    result.as_ref().err().map(culvert::Error::errno)
}

fn name(random: &mut Random) -> Vec<u8> {
    let number = random.below(24);
    match number % 5 {
        0 => format!("{number:0>200}").into_bytes(),
        _ => format!("n{number}").into_bytes(),
    }
}

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("backed"),
    }
}

fn content(file: &dyn File) -> Vec<u8> {
    let size = file.attributes(&Caller::SYSTEM).unwrap().size as usize;
    let mut bytes = vec![1; size];
    let got = file.read_at(0, &mut bytes.as_mut_slice()).unwrap();
    assert_eq!(got, size);
    bytes
}

impl World<'_> {
    fn both<T>(
        &self,
        what: &str,
        run: impl Fn(&dyn FileSystem, bool) -> Result<T>,
    ) -> Option<Pair<T>> {
        let (mine, other) = (run(self.fs.0, false), run(self.fs.1, true));
        assert_eq!(errno(&mine), errno(&other), "{what}");
        Some(Pair(mine.ok()?, other.ok()?))
    }

    fn step(&mut self, random: &mut Random) {
        let pick =
            |random: &mut Random, world: &Self| random.below(world.dirs.len() as u64) as usize;
        let (at, to) = (pick(random, self), pick(random, self));
        let (old, new) = (name(random), name(random));
        let dir = |at: usize, other: bool| match other {
            false => self.dirs[at].0,
            true => self.dirs[at].1,
        };
        let me = caller();
        match random.below(22) {
            0..=3 => {
                let flags = OpenFlags(2 | [0, 0o1000, 0o200][random.below(3) as usize]);
                let what = format!("create {}", old.escape_ascii());
                let made = self.both(&what, |fs, other| {
                    fs.create(&me, dir(at, other), &old, flags, 0o640)
                });
                if let Some(Pair(mine, other)) = made {
                    assert_eq!(summary(&mine.0.attributes), summary(&other.0.attributes));
                    self.files.push(Pair(driven(mine.1), driven(other.1)));
                    if self.files.len() > 12 {
                        let gone = random.below(12) as usize;
                        self.files.swap_remove(gone);
                    }
                }
            }
            4 | 5 => {
                let made = self.both("mkdir", |fs, other| {
                    fs.mkdir(&me, dir(at, other), &old, 0o755)
                });
                if let Some(Pair(mine, other)) = made
                    && self.dirs.len() < 40
                {
                    self.dirs
                        .push(Pair(mine.attributes.node, other.attributes.node));
                }
            }
            6 | 7 => {
                self.both("unlink", |fs, other| fs.unlink(&me, dir(at, other), &old));
            }
            8 => {
                self.both("rmdir", |fs, other| fs.rmdir(&me, dir(at, other), &old));
            }
            9 | 10 => {
                let flags = RenameFlags([0, 0, 0, 1, 2][random.below(5) as usize]);
                let what = format!("rename {} {}", old.escape_ascii(), new.escape_ascii());
                self.both(&what, |fs, other| {
                    fs.rename(&me, (dir(at, other), &old), (dir(to, other), &new), flags)
                });
            }
            11 => {
                self.both("link", |fs, other| {
                    let node = fs.lookup(&me, dir(at, other), &old)?.attributes.node;
                    fs.link(&me, node, dir(to, other), &new)
                });
            }
            12 => {
                let target = vec![b'x'; 1 + random.below(4000) as usize];
                self.both("symlink", |fs, other| {
                    fs.symlink(&me, dir(at, other), &old, &target)
                });
            }
            13 => {
                let value = vec![7; random.below(9000) as usize];
                let key = format!("user.{}", random.below(4));
                let flags = random.below(3) as u32;
                let remove = random.below(3) == 0;
                self.both("xattr", |fs, other| {
                    let found = fs.lookup(&me, dir(at, other), &old)?.attributes;
                    let node = found.node;
                    // Of a link the kernel, and so the driver, says EPERM, which the reference does
                    // not.
                    match remove && found.kind != FileKind::Symlink {
                        true => fs.remove_xattr(&me, node, key.as_bytes()),
                        false => fs.set_xattr(&me, node, key.as_bytes(), &value, flags),
                    }
                });
            }
            14 => {
                let changes = SetAttributes {
                    permissions: (random.below(2) == 0).then(|| random.below(0o10000) as u32),
                    uid: (random.below(4) == 0).then(|| random.below(9) as u32),
                    ..SetAttributes::default()
                };
                self.both("chmod", |fs, other| {
                    let node = fs.lookup(&me, dir(at, other), &old)?.attributes.node;
                    fs.set_attributes(&me, node, &changes)
                });
            }
            _ if self.files.is_empty() => {}
            _ => {
                let file = random.below(self.files.len() as u64) as usize;
                io(&self.files[file], random);
            }
        }
    }

    /// The trees are the same.
    fn compare(&self, mine: Node, other: Node) {
        let listing = |fs: &dyn FileSystem, node| {
            let mut names = Vec::new();
            fs.read_directory(&Caller::SYSTEM, node, 0, &mut |entry| {
                names.push((entry.name.to_vec(), entry.kind as u32));
                true
            })
            .unwrap();
            names.sort();
            names
        };
        let names = listing(self.fs.0, mine);
        assert_eq!(names, listing(self.fs.1, other));
        for (name, _) in names {
            let mine = self.fs.0.lookup(&caller(), mine, &name).unwrap().attributes;
            let other = self
                .fs
                .1
                .lookup(&caller(), other, &name)
                .unwrap()
                .attributes;
            assert_eq!(summary(&mine), summary(&other), "{}", name.escape_ascii());
            let xattrs = |fs: &dyn FileSystem, node| {
                let names = fs.list_xattr(&Caller::SYSTEM, node).unwrap();
                let names = names
                    .split(|&byte| byte == 0)
                    .filter(|name| !name.is_empty());
                let mut all: Vec<_> = names
                    .map(|name| {
                        (
                            name.to_vec(),
                            fs.get_xattr(&Caller::SYSTEM, node, name).unwrap(),
                        )
                    })
                    .collect();
                all.sort();
                all
            };
            assert_eq!(xattrs(self.fs.0, mine.node), xattrs(self.fs.1, other.node));
            match mine.kind {
                FileKind::Directory => self.compare(mine.node, other.node),
                FileKind::Symlink => assert_eq!(
                    self.fs.0.readlink(&Caller::SYSTEM, mine.node).unwrap(),
                    self.fs.1.readlink(&Caller::SYSTEM, other.node).unwrap()
                ),
                FileKind::Regular => {
                    let read = |fs: &dyn FileSystem, node| {
                        content(&*driven(fs.open(&caller(), node, OpenFlags::READ).unwrap()))
                    };
                    assert!(read(self.fs.0, mine.node) == read(self.fs.1, other.node));
                }
                _ => {}
            }
        }
    }
}

fn io(Pair(mine, other): &Pair<Box<dyn File>>, random: &mut Random) {
    let near = |random: &mut Random| match random.below(4) {
        0 => random.below(100),
        1 => random.below(5000),
        2 => random.below(40) * 4096,
        _ => random.below(6_000_000),
    };
    let (offset, length) = (near(random), 1 + near(random) % 30_000);
    let both = |what: &str, run: &dyn Fn(&dyn File) -> Result<u64>| {
        let (a, b) = (run(&**mine), run(&**other));
        assert_eq!(errno(&a), errno(&b), "{what} {offset} {length}");
        assert_eq!(a.ok(), b.ok(), "{what} {offset} {length}");
    };
    match random.below(15) {
        12 => {
            // Half of them are looked at, half are stored to.
            let size = mine.attributes(&Caller::SYSTEM).unwrap().size as usize;
            let bytes = vec![5; (length as usize).min(size.saturating_sub(offset as usize))];
            let mapped = Mapped::new(&**mine, size.max(1), length % 2 == 0).unwrap();
            if length % 2 == 0 && !bytes.is_empty() {
                mapped.store(offset as usize, &bytes);
                other.write_at(offset, &mut &bytes[..]).unwrap();
            }
            assert!(mapped.bytes(0..size) == content(&**other));
        }
        0..=3 => {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + offset) as u8 | 1).collect();
            both("write", &|file| {
                file.write_at(offset, &mut &bytes[..])
                    .map(|count| count as u64)
            });
        }
        4 => {
            let bytes = vec![3; length as usize];
            both("append", &|file| {
                file.append(&mut &bytes[..]).map(|(at, _)| at)
            });
        }
        5 => both("truncate", &|file| {
            let size = Some(offset);
            let changes = SetAttributes {
                size,
                ..SetAttributes::default()
            };
            file.set_attributes(&Caller::SYSTEM, &changes)
                .map(|found| found.size)
        }),
        6 => both("punch", &|file| {
            file.allocate(3, offset, length).map(|()| 0)
        }),
        7 => both("fallocate", &|file| {
            file.allocate(0, offset, length).map(|()| 0)
        }),
        8 => both("fallocate, size kept", &|file| {
            file.allocate(1, offset, length).map(|()| 0)
        }),
        9 => {
            let of = |file: &dyn File| {
                let mut bytes = vec![0; length as usize];
                let got = file.read_at(offset, &mut bytes.as_mut_slice()).unwrap();
                bytes.truncate(got);
                bytes
            };
            assert!(of(&**mine) == of(&**other), "read {offset} {length}");
        }
        10 => {
            // What is called data may differ; what is called a hole is zeroes.
            if let Ok(hole) = mine.seek(offset, Whence::Hole) {
                let end = mine.seek(hole, Whence::Data).unwrap_or(hole);
                let all = content(&**other);
                let end = (end as usize).min(all.len());
                assert!(
                    all[(hole as usize).min(end)..end]
                        .iter()
                        .all(|&byte| byte == 0)
                );
            }
        }
        _ => {
            assert_eq!(
                summary(&mine.attributes(&Caller::SYSTEM).unwrap()),
                summary(&other.attributes(&Caller::SYSTEM).unwrap())
            );
            assert!(content(&**mine) == content(&**other));
        }
    }
}

#[test]
fn random_operations_do_as_the_reference_does() {
    as_the_reference(12, |run| run.fresh(&[]));
}

/// Random operations from as many seeds on what `made` gives.
pub fn as_the_reference(seeds: u64, made: impl Fn(&Run) -> (Mount, Box<dyn FileSystem>)) {
    for seed in 1..=seeds {
        let run = Run::new();
        let (mount, mine) = made(&run);
        let other = Memory::new();
        let mut world = World {
            fs: Pair(&*mine, &other),
            dirs: vec![Pair(mine.root(), other.root())],
            files: Vec::new(),
        };
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for round in 0..1500 {
            world.step(&mut random);
            if round % 500 == 499 {
                world.compare(mine.root(), other.root());
                run.assert_consistent(&mount);
            }
        }
        world.files.clear();
        run.assert_consistent(&mount);
    }
}
