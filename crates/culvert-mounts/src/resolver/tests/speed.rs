//! What the resolver costs; run with `cargo test --release -p culvert-preload speed -- --ignored
//! --nocapture`.

use super::fake::{ROOT, Tree};
use super::text::table;
use crate::resolver::{LastStep, MountTable, Place, Resolved, Restrictions};
use alloc::boxed::Box;
use core::hint::black_box;
use culvert::{
    Attributes, Caller, Capabilities, DirectorySink, Entry, FileSystem, Node, OpenFlags, Opened,
    Result, StatFs, Walked,
};
use std::{println, time::Instant, vec::Vec};

/// Finds every path at once: what is left is the resolver's own time.
struct Instantly(Entry);

impl FileSystem for Instantly {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    fn root(&self) -> Node {
        Node(1)
    }
    fn lookup(&self, _: &Caller<'_>, _: Node, _: &[u8]) -> Result<Entry> {
        Ok(self.0)
    }
    fn walk(&self, _: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        Ok(Walked {
            entry: Some(self.0),
            parent: from,
            consumed: path.len(),
        })
    }
    fn parent(&self, dir: Node) -> Result<Node> {
        Ok(dir)
    }
    fn path_of(&self, _: Node) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn attributes(&self, _: &Caller<'_>, _: Node) -> Result<Attributes> {
        Ok(self.0.attributes)
    }
    fn readlink(&self, _: &Caller<'_>, _: Node) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn open(&self, _: &Caller<'_>, _: Node, _: OpenFlags) -> Result<Opened> {
        Err(culvert::Errno::ENOSYS.into())
    }
    fn read_directory(
        &self,
        _: &Caller<'_>,
        _: Node,
        _: u64,
        _: &mut DirectorySink<'_>,
    ) -> Result<()> {
        Ok(())
    }
    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs::default())
    }
}

fn time(what: &str, mut body: impl FnMut()) {
    const ROUNDS: u32 = 20_000;
    let mut best = f64::MAX;
    for _ in 0..100 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            body();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{best:7.1} ns  {what}");
}

#[test]
#[ignore = "measures, does not judge"]
fn speed() {
    let one = table(&["/mnt/archive"]);
    let three = table(&["/mnt/archive", "/data/set/one", "/data/set/two"]);
    let home = Place::Host(b"/home/user/project".to_vec());
    let above = Place::Host(b"/mnt".to_vec());
    for (table, mounts) in [(&one, "one mount"), (&three, "three mounts")] {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/usr/lib/python3/dist-packages/numpy/core/include/numpy/arrayobject.h",
            "/home/user/.cache/a",
            "/usr/lib/gcc/x86_64-linux-gnu/12/../../../x86_64-linux-gnu/crti.o",
            "src/main.rs",
        ] {
            for (base, from) in [
                (Some(&home), "known"),
                (Some(&above), "above"),
                (None, "unknown"),
            ] {
                if path.starts_with('/') && from != "known" {
                    continue;
                }
                time(&format_path(path, from, mounts), || {
                    black_box(table.quick(black_box(base), black_box(path.as_bytes())));
                });
            }
        }
    }
    let entry = Tree::new("f").attributes(&Caller::SYSTEM, Node(2)).unwrap();
    let entry = Entry { attributes: entry };
    let mut table = MountTable::new();
    let open = Box::new(move || Ok(Box::new(Instantly(entry)) as Box<_>));
    table.add(b"/mnt/archive".to_vec(), None, open).unwrap();
    let host = Tree::new("mnt/archive/");
    let root = table.place(b"/mnt/archive").unwrap();
    let user = Caller {
        uid: 1000,
        gid: 1000,
        ..ROOT
    };
    for (caller, who) in [(&ROOT, "superuser"), (&user, "user")] {
        for (base, path) in [
            (&home, "/mnt/archive/one"),
            (&home, "/mnt/archive/one/two/three/four/five"),
            (&root, "one"),
            (&root, "one/two/three"),
        ] {
            time(&format_path(path, "walk", who), || {
                let path = black_box(path.as_bytes());
                let plain = Restrictions(0);
                let found = table.walk(&host, caller, base, path, LastStep::Follow, plain);
                assert!(matches!(black_box(found), Ok(Resolved::Inside(_)) | Err(_)));
            });
        }
    }
}

fn format_path(path: &str, how: &str, with: &str) -> alloc::string::String {
    alloc::format!("{path} ({how}, {with})")
}
