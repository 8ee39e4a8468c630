//! Uses everything of a mount, whatever the archive and its index say. Also used by the fuzz
//! targets.

use culvert::mount::Mount;
use culvert::{Caller, FileKind, FileSystem, Node, OpenFlags, Opened, Sink, Whence};
use culvert_drivers::archive::build;
use culvert_drivers::archive::format::Identity;
use culvert_drivers::archive::index::{Image, Index};
use culvert_drivers::archive::{ArchiveFs, Bytes, Options};
use std::sync::Arc;

const CALLER: Caller<'static> = Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 1,
    umask: 0,
    rights: None,
};

/// Counts what it gets and throws it away.
struct Discard(usize);

impl Sink for Discard {
    fn remaining(&self) -> usize {
        self.0
    }
    fn put(&mut self, bytes: &[u8]) -> culvert::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }
    fn put_zeroes(&mut self, count: usize) -> culvert::Result<usize> {
        let count = count.min(self.0);
        self.0 -= count;
        Ok(count)
    }
}

/// The index of `archive`, if it has one.
pub fn index(archive: &Arc<dyn Bytes>, tolerant: bool) -> Option<Vec<u8>> {
    let identity = Identity {
        size: archive.len(),
        mtime: Default::default(),
        content: 0,
    };
    let parts = build::build_from(archive.clone(), identity, tolerant, &mut |_| {});
    parts.ok().map(|parts| parts.join())
}

/// Mounts `archive` with the index `image` and looks at all of it, within bounds. Returns how many
/// entries there were.
pub fn explore(archive: Arc<dyn Bytes>, image: Vec<u8>) -> Option<usize> {
    let mount = Mount {
        driver: "archive".into(),
        source: Vec::new(),
        target: Vec::new(),
        options: Vec::new(),
        branches: Vec::new(),
    };
    let options = Options::parse(&mount).unwrap();
    let index = Index::new(Image::Memory(image)).ok()?;
    let _ = (index.warnings(), index.verify());
    let fs = ArchiveFs::new(archive, index, &options).ok()?;
    let _ = fs.statfs();
    let mut left = 2000;
    directory(&fs, fs.root(), 0, &mut left);
    Some(2000 - left)
}

fn directory(fs: &ArchiveFs, node: Node, depth: u32, left: &mut usize) {
    let mut entries = Vec::new();
    let _ = fs.read_directory(&Caller::SYSTEM, node, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), Node(entry.inode)));
        entries.len() < *left
    });
    let _ = fs.parent(node);
    for (name, listed) in entries {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let _ = (fs.path_of(listed), fs.attributes(&Caller::SYSTEM, listed));
        let Ok(entry) = fs.lookup(&CALLER, node, &name) else {
            continue;
        };
        let node = entry.attributes.node;
        let _ = (
            fs.readlink(&Caller::SYSTEM, node),
            fs.list_xattr(&Caller::SYSTEM, node),
            fs.get_xattr(&Caller::SYSTEM, node, b"user.a"),
        );
        let _ = fs.walk(&CALLER, fs.root(), &[&name[..], b"/x/y"].concat());
        match entry.attributes.kind {
            FileKind::Directory if depth < 50 => directory(fs, node, depth + 1, left),
            FileKind::Regular => file(fs, node, entry.attributes.size),
            _ => {}
        }
    }
}

fn file(fs: &ArchiveFs, node: Node, size: u64) {
    let Ok(Opened::Driven(file)) = fs.open(&CALLER, node, OpenFlags(0)) else {
        return;
    };
    let _ = file.attributes(&Caller::SYSTEM);
    for offset in [0, 1, size / 2, size.saturating_sub(1), size, u64::MAX] {
        let mut sink = Discard(100_000);
        if let Ok(count) = file.read_at(offset, &mut sink) {
            assert_eq!(count, 100_000 - sink.0);
            assert!(count as u64 <= size.saturating_sub(offset));
        }
        let _ = (
            file.seek(offset, Whence::Data),
            file.seek(offset, Whence::Hole),
        );
    }
}
