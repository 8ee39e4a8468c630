//! The adapter, proved by the kit over a mirror of a directory, and by hand where the kit cannot
//! see.

mod callers;
mod mirror;
mod told;

use super::{
    PathAdapter,
    table::{PathTable, ROOT},
};
use crate::{
    Attributes, Caller, Errno, FileKind, FileSystem, Layer, Layered, Node, OpenFlags, Opened,
    RenameFlags,
    testing::{Tree, caller, fill, reading, writing},
};
use mirror::{Mirror, Scratch};
use std::{boxed::Box, format, sync::atomic::Ordering::Relaxed, vec::Vec};

const WHO: &Caller<'static> = &caller();

fn tree() -> Tree {
    let mut tree = Tree::new()
        .file("empty", "")
        .file("long", std::vec![b'l'; 300_000])
        .directory("d")
        .permissions(0o750)
        .file("d/f", "content")
        .hard_link("g", "d/f")
        .symlink("l", "d/f")
        .file(b"\xff\n", "odd")
        .directory("many");
    for i in 0..200 {
        tree = tree.file(format!("many/{i}"), "");
    }
    tree
}

#[test]
fn a_mirror_passes_the_reading_half() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    fill(&adapter, &tree()).unwrap();
    let mut seen_on_disk = Tree::of_directory(&scratch.0).unwrap();
    reading(&adapter, &seen_on_disk).assert_ok();
    reading(
        &PathAdapter::new(Mirror::new(&scratch).read_only()),
        &seen_on_disk,
    )
    .assert_ok();
    // Without inodes, two names of one file are two files.
    std::fs::remove_file(scratch.0.join("g")).unwrap();
    seen_on_disk = Tree::of_directory(&scratch.0).unwrap();
    reading(
        &PathAdapter::new(Mirror::new(&scratch).without_inodes()),
        &seen_on_disk,
    )
    .assert_ok();
}

#[test]
fn a_mirror_passes_the_writing_half() {
    type Variant = fn(&Scratch) -> Mirror;
    let variants: [Variant; 3] = [
        Mirror::new,
        |scratch| Mirror::new(scratch).with_paths_for_handles(),
        |scratch| {
            Mirror::new(scratch)
                .with_paths_for_handles()
                .without_inodes()
        },
    ];
    for variant in variants {
        let scratch = Scratch::new();
        let count = std::cell::Cell::new(0);
        writing(&|| {
            count.set(count.get() + 1);
            let dir = scratch.below(&format!("{}", count.get()));
            Box::new(PathAdapter::new(variant(&dir)))
        })
        .assert_ok();
    }
}

/// A driver whose open files are descriptors of the back end.
struct Descriptors(PathAdapter<Mirror>);

impl Layer for Descriptors {
    type Inner = PathAdapter<Mirror>;
    fn inner(&self) -> &Self::Inner {
        &self.0
    }
    fn opened(&self, node: Node, flags: OpenFlags, opened: Opened) -> Opened {
        let path = self.0.path_of(node).unwrap();
        match self.0.driver().descriptor(&path, flags) {
            Ok(file) => {
                let fd = std::os::fd::IntoRawFd::into_raw_fd(file);
                Opened::Backed(crate::OwnedFd::from_raw(fd))
            }
            // A new file of mode 0 can be opened a second time by the superuser only.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => opened,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn backed_files_pass_both_halves() {
    let scratch = Scratch::new();
    let count = std::cell::Cell::new(0);
    let fresh = || {
        count.set(count.get() + 1);
        let dir = scratch.below(&format!("{}", count.get()));
        Layered(Descriptors(PathAdapter::new(Mirror::new(&dir))))
    };
    writing(&|| Box::new(fresh())).assert_ok();
    let driver = fresh();
    fill(&driver, &tree()).unwrap();
    reading(&driver, &tree()).assert_ok();
    let other = tree().file("d/f", "cOntent").hard_link("g", "d/f");
    assert!(reading(&driver, &other).broke("content"));
}

#[test]
fn nothing_is_kept_that_was_forgotten() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    std::fs::create_dir_all(scratch.0.join("a/b/c")).unwrap();
    let known = || adapter.0.table.lock().len();
    let walked = adapter.walk(WHO, ROOT, b"a/b/c").unwrap();
    assert_eq!(known(), 4);
    adapter.forget(walked.parent, 1);
    assert_eq!(known(), 4, "directories above are kept for what is below");
    adapter.forget(walked.entry.unwrap().attributes.node, 1);
    assert_eq!(known(), 1);
    let mut names = 0;
    adapter
        .read_directory_plus(WHO, ROOT, 0, &mut |_, found| {
            names += usize::from(found.is_some());
            false
        })
        .unwrap();
    assert_eq!((names, known()), (1, 1), "an entry refused is no reference");
}

fn opened(adapter: &PathAdapter<Mirror>, dir: Node, name: &[u8]) -> (Node, Box<dyn crate::File>) {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    match adapter.create(WHO, dir, name, flags, 0o644).unwrap() {
        (entry, Opened::Driven(file)) => (entry.attributes.node, file),
        (_, Opened::Backed(_)) => unreachable!("the adapter drives"),
    }
}

#[test]
fn what_is_open_below_a_renamed_directory_follows() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch).with_paths_for_handles());
    let dir = adapter
        .mkdir(WHO, ROOT, b"d", 0o755)
        .unwrap()
        .attributes
        .node;
    let (node, file) = opened(&adapter, dir, b"f");
    adapter
        .rename(WHO, (ROOT, b"d"), (ROOT, b"e"), RenameFlags::default())
        .unwrap();
    // Another takes the old place: the open directory must not mean it.
    adapter.mkdir(WHO, ROOT, b"d", 0o755).unwrap();
    assert_eq!(adapter.path_of(node).unwrap(), b"e/f");
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().node, node);
    opened(&adapter, dir, b"beside");
    assert!(scratch.0.join("e/beside").exists());
}

#[test]
fn a_hidden_file_is_removed_at_the_last_close_and_seen_by_nobody() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch).with_paths_for_handles());
    let (node, file) = opened(&adapter, ROOT, b"f");
    file.write_at(0, &mut &b"kept"[..]).unwrap();
    adapter.unlink(WHO, ROOT, b"f").unwrap();
    let on_disk: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().collect();
    assert_eq!(on_disk.len(), 1);
    let hidden = on_disk[0].as_ref().unwrap().file_name();
    let found = adapter.lookup(WHO, ROOT, hidden.as_encoded_bytes());
    assert_eq!(found.unwrap_err().errno(), Errno::ENOENT);
    let mut listed = 0;
    adapter
        .read_directory(&Caller::SYSTEM, ROOT, 0, &mut |_| {
            listed += 1;
            true
        })
        .unwrap();
    assert_eq!(listed, 0);
    let mut bytes = [0; 4];
    assert_eq!(file.read_at(0, &mut &mut bytes[..]).unwrap(), 4);
    adapter.forget(node, 1);
    assert_eq!(
        (&bytes, file.attributes(&Caller::SYSTEM).unwrap().links),
        (b"kept", 0)
    );
    drop(file);
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    assert_eq!(adapter.0.table.lock().len(), 1);
}

/// As natively, where it is moved afterwards, too.
#[test]
fn a_removed_directory_leads_up_to_where_it_was() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    let make = |dir, name| {
        let made = adapter.mkdir(WHO, dir, name, 0o755).unwrap();
        made.attributes.node
    };
    let above = make(ROOT, b"d");
    let dir = make(above, b"e");
    adapter.rmdir(WHO, above, b"e").unwrap();
    adapter.forget(above, 1);
    adapter
        .rename(WHO, (ROOT, b"d"), (ROOT, b"x"), RenameFlags::default())
        .unwrap();
    assert_eq!(adapter.parent(dir).unwrap(), above);
    assert_eq!(adapter.path_of(above).unwrap(), b"x");
    adapter.forget(dir, 1);
    assert_eq!(adapter.0.table.lock().len(), 1);
}

#[test]
fn a_file_replaced_behind_our_back_is_another_node() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    let (node, file) = opened(&adapter, ROOT, b"f");
    std::fs::write(scratch.0.join("g"), "new").unwrap();
    std::fs::rename(scratch.0.join("g"), scratch.0.join("f")).unwrap();
    let found = adapter.lookup(WHO, ROOT, b"f").unwrap().attributes;
    assert_ne!(found.node, node);
    assert_eq!(found.size, 3);
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().links, 0);
}

#[test]
fn a_removed_file_is_as_it_was_written_last() {
    let scratch = Scratch::new();
    for _ in 0..100 {
        let adapter = PathAdapter::new(Mirror::new(&scratch));
        let (node, file) = opened(&adapter, ROOT, b"f");
        let file = &*file;
        std::thread::scope(|scope| {
            for end in [20, 30] {
                scope.spawn(move || {
                    for at in 0..end {
                        file.write_at(at, &mut &b"x"[..]).unwrap();
                    }
                });
            }
            std::thread::yield_now();
            adapter.unlink(WHO, ROOT, b"f").unwrap();
        });
        assert_eq!(adapter.attributes(WHO, node).unwrap().size, 30);
    }
}

/// The driver's open would follow the link, and wait for who writes to the FIFO.
#[test]
fn what_is_no_file_by_now_is_not_opened() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    let path = scratch.0.join("f");
    std::fs::write(scratch.0.join("elsewhere"), "").unwrap();
    for link in [false, true] {
        let (node, file) = opened(&adapter, ROOT, b"f");
        drop(file);
        std::fs::remove_file(&path).unwrap();
        match link {
            true => std::os::unix::fs::symlink("elsewhere", &path).unwrap(),
            false => {
                let mirror = adapter.driver();
                super::PathFileSystem::mknod(mirror, WHO, b"f", 0o010_644, 0).unwrap();
            }
        }
        let failed = adapter.open(WHO, node, OpenFlags::READ).map(drop);
        assert_eq!(failed.unwrap_err().errno(), Errno::ESTALE);
        adapter.forget(node, 1);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_with_a_removed_ones_inode_is_one_node_by_all_its_names() {
    let mut table = PathTable::new();
    let is = Attributes {
        inode: 7,
        links: 1,
        ..Attributes::new(FileKind::Regular, 0)
    };
    let removed = table.bind(ROOT, b"removed", &is).unwrap();
    table.reference(removed);
    table.unbind(ROOT, b"removed", Some(is));
    let new = table.bind(ROOT, b"new", &is).unwrap();
    table.reference(new);
    assert_ne!(new, removed);
    // A kernel forgets when it comes to it: the number is free before the file gets a second name.
    table.forget(removed, 1);
    assert_eq!(table.bind(ROOT, b"linked", &is).unwrap(), new);
    table.unbind(ROOT, b"new", Some(Attributes { links: 2, ..is }));
    assert_eq!(table.path(new).unwrap(), b"linked");
    table.unbind(ROOT, b"linked", Some(is));
    table.forget(new, 1);
    assert_eq!(table.len(), 1);
    assert_eq!(table.bind(ROOT, b"next", &is).unwrap(), removed);
}

#[test]
fn nodes_are_the_same_in_every_process() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.0.join("d")).unwrap();
    std::fs::write(scratch.0.join("d/f"), "").unwrap();
    for variant in [
        Mirror::new(&scratch),
        Mirror::new(&scratch).without_inodes(),
    ] {
        let (one, other) = (PathAdapter::new(variant.clone()), PathAdapter::new(variant));
        let node = |adapter: &PathAdapter<Mirror>| {
            adapter
                .walk(WHO, ROOT, b"d/f")
                .unwrap()
                .entry
                .unwrap()
                .attributes
                .node
        };
        other.lookup(WHO, ROOT, b"d").unwrap();
        assert_eq!(node(&one), node(&other));
    }
}

#[test]
fn renames_and_reads_by_path_do_not_meet() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    let dir = adapter
        .mkdir(WHO, ROOT, b"0", 0o755)
        .unwrap()
        .attributes
        .node;
    opened(&adapter, dir, b"f");
    let adapter = &adapter;
    adapter.driver().met.store(false, Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..200 {
                let names = (format!("{i}"), format!("{}", i + 1));
                let (from, to) = ((ROOT, names.0.as_bytes()), (ROOT, names.1.as_bytes()));
                adapter
                    .rename(WHO, from, to, RenameFlags::default())
                    .unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..500 {
                    let found = adapter.lookup(WHO, dir, b"f").unwrap();
                    adapter.forget(found.attributes.node, 1);
                    adapter.attributes(&Caller::SYSTEM, dir).unwrap();
                }
            });
        }
    });
    assert!(!adapter.driver().met.load(Relaxed));
}

#[test]
fn a_directory_moved_behind_our_back_is_found_and_forgotten() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    std::fs::create_dir_all(scratch.0.join("a/d")).unwrap();
    std::fs::create_dir(scratch.0.join("b")).unwrap();
    let walk = |path: &[u8]| {
        let walked = adapter.walk(WHO, ROOT, path).unwrap();
        adapter.forget(walked.parent, 1);
        walked.entry.unwrap().attributes.node
    };
    let node = walk(b"a/d");
    std::fs::rename(scratch.0.join("a/d"), scratch.0.join("b/e")).unwrap();
    assert_eq!(walk(b"b/e"), node);
    assert_eq!(adapter.path_of(node).unwrap(), b"b/e");
    adapter.forget(node, 2);
    assert_eq!(adapter.0.table.lock().len(), 1);
}

#[test]
fn what_another_process_moved_is_not_taken_for_what_it_put_there() {
    let scratch = Scratch::new();
    // Two processes, each with an adapter of its own.
    let one = PathAdapter::new(Mirror::new(&scratch));
    let other = PathAdapter::new(Mirror::new(&scratch));
    fill(
        &one,
        &Tree::new().directory("d").file("d/f", "old").file("e", ""),
    )
    .unwrap();
    let dir = one.lookup(WHO, ROOT, b"d").unwrap().attributes.node;
    let file = one.lookup(WHO, dir, b"f").unwrap().attributes.node;
    // Both know it by the same number.
    let seen = other.walk(WHO, ROOT, b"d/f").unwrap();
    assert_eq!(seen.entry.unwrap().attributes.node, file);

    let none = RenameFlags::default();
    other
        .rename(WHO, (ROOT, b"d"), (ROOT, b"moved"), none)
        .unwrap();
    fill(&other, &Tree::new().directory("d").file("d/f", "new")).unwrap();
    let stale = |error: crate::Error| assert_eq!(error.errno(), Errno::ESTALE);
    stale(one.attributes(&Caller::SYSTEM, dir).unwrap_err());
    stale(one.lookup(WHO, dir, b"f").unwrap_err());
    match one.create(WHO, dir, b"n", OpenFlags(2), 0o600) {
        Err(error) => stale(error),
        Ok(_) => panic!("a file was made elsewhere"),
    }
    stale(one.unlink(WHO, dir, b"f").unwrap_err());
    stale(one.attributes(&Caller::SYSTEM, file).unwrap_err());
    stale(
        one.read_directory(&Caller::SYSTEM, dir, 0, &mut |_| true)
            .unwrap_err(),
    );
    match one.open(WHO, file, OpenFlags::READ) {
        Err(error) => stale(error),
        Ok(_) => panic!("another file was opened"),
    }
    // Found again where it is now.
    let moved = one.walk(WHO, ROOT, b"moved/f").unwrap();
    assert_eq!(moved.entry.unwrap().attributes.node, file);
    assert!(
        one.attributes(&Caller::SYSTEM, dir).is_ok()
            && one.open(WHO, file, OpenFlags::READ).is_ok()
    );
}

#[test]
fn a_file_that_loses_one_of_its_names_has_the_others() {
    let scratch = Scratch::new();
    let adapter = PathAdapter::new(Mirror::new(&scratch));
    fill(&adapter, &Tree::new().file("a", "x")).unwrap();
    // A name that the adapter never saw.
    std::fs::hard_link(scratch.0.join("a"), scratch.0.join("b")).unwrap();
    let node = adapter.lookup(WHO, ROOT, b"a").unwrap().attributes.node;
    adapter.hold(node).unwrap();
    adapter.unlink(WHO, ROOT, b"a").unwrap();
    assert_eq!(adapter.attributes(&Caller::SYSTEM, node).unwrap().links, 1);
    adapter.release(node);
}

/// Says that it has read and written more than it was asked.
struct Boasting;

impl super::PathFileSystem for Boasting {
    type Handle = ();

    fn capabilities(&self) -> crate::Capabilities {
        crate::Capabilities::default()
    }

    fn attributes(&self, path: &[u8]) -> crate::Result<crate::Attributes> {
        let kind = match path {
            b"" => crate::FileKind::Directory,
            _ => crate::FileKind::Regular,
        };
        Ok(crate::Attributes::new(kind, 0o777))
    }

    fn list(&self, _: &[u8]) -> crate::Result<Vec<super::PathEntry>> {
        Ok(Vec::new())
    }

    fn open(&self, _: &Caller<'_>, _: &[u8], _: OpenFlags) -> crate::Result<()> {
        Ok(())
    }

    fn read(&self, _: &(), _: u64, out: &mut [u8]) -> crate::Result<usize> {
        Ok(out.len() + 1)
    }

    fn write(&self, _: &(), _: u64, bytes: &[u8]) -> crate::Result<usize> {
        Ok(bytes.len() + 1)
    }
}

#[test]
fn a_count_beyond_what_was_given_is_cut() {
    let fs = PathAdapter::new(Boasting);
    let node = fs.lookup(WHO, ROOT, b"f").unwrap().attributes.node;
    let Opened::Driven(file) = fs.open(WHO, node, OpenFlags(2)).unwrap() else {
        panic!("it is driven");
    };
    let mut bytes = [0; 5];
    assert_eq!(file.read_at(0, &mut &mut bytes[..]).unwrap(), 5);
    assert_eq!(file.write_at(0, &mut &b"abc"[..]).unwrap(), 3);
}
