//! Workload `small_file`.

use crate::tools::{Scratch, create_file, open, open_file, open_for, read_all, truncate, write_at};
use culvert::testing::{Tree, caller, fill, reading, sharing, writing};
use culvert::{Errno, FileSystem, OpenFlags, RenameFlags, SetAttributes, Timespec};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

const SMALL: &[&str] = &["workload=small_file"];

/// What the format has no place for: modes and owners of single files, and nanoseconds (the kit
/// sets times with one).
const NOT_KEPT: &[(&str, &str)] = &[
    ("create", "new file:"),
    ("chmod", "chmod:"),
    ("times", "utimensat:"),
    ("times", "empty write: mtime moves"),
    ("times", "read: mtime moves"),
    ("times", "chmod:"),
    ("mknod", "mknod of Regular"),
];

#[test]
fn changes_keep_the_contract() {
    for backends in [1, 3] {
        let made = Mutex::new(Vec::new());
        let make = || {
            let scratch = Scratch::new(backends);
            let driver = scratch.open(SMALL);
            made.lock().unwrap().push(scratch);
            driver
        };
        let mut report = writing(&make);
        let kept = |rule: &str, what: &str| {
            let same = |one: &(&str, &str)| one.0 == rule && what.starts_with(one.1);
            !NOT_KEPT.iter().any(same)
        };
        report.failures.retain(|one| kept(one.rule, &one.what));
        report.assert_ok();
    }
}

#[test]
fn processes_see_each_others_changes() {
    let scratch = Scratch::new(2);
    let mount = scratch.prepared(SMALL);
    let pair = [0, 1].map(|_| open(&mount));
    sharing([&*pair[0], &*pair[1]]).assert_ok();
}

#[test]
fn a_tree_reads_as_it_is() {
    for count in [1, 3] {
        let scratch = Scratch::new(count);
        let mut tree = Tree::new()
            .directory("a")
            .directory("a/b")
            .file("empty", "");
        for number in 0..100 {
            tree = tree.file(format!("a/b/{number}"), "x".repeat(number * 50));
        }
        tree = tree.symlink("a/soft", "../empty").content_only();
        let driver = scratch.open(SMALL);
        fill(&*driver, &tree).unwrap();
        reading(&*driver, &tree).assert_ok();
        reading(&*scratch.open(&["workload=small_file", "ro"]), &tree).assert_ok();
    }
}

fn names(fs: &dyn FileSystem) -> Vec<String> {
    let mut names = Vec::new();
    let mut sink = |entry: culvert::DirectoryEntry<'_>| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        true
    };
    let directory = fs
        .open_directory(&caller(), fs.root(), OpenFlags::READ)
        .unwrap();
    let culvert::OpenedDirectory::Driven(directory) = directory else {
        panic!("a directory of the kernel's");
    };
    directory.read(0, &mut sink).unwrap();
    names.sort();
    names
}

fn rename(fs: &dyn FileSystem, from: &str, to: &str) {
    let (from, to) = ((fs.root(), from.as_bytes()), (fs.root(), to.as_bytes()));
    fs.rename(&caller(), from, to, RenameFlags(0)).unwrap();
}

/// Random changes by three processes, two of which are runs of their own: the same for each of them
/// and for one that reads all from the beginning.
#[test]
fn what_many_change_is_the_same_for_all() {
    let scratch = Scratch::new(2);
    let first = scratch.prepared(SMALL);
    let mounts = [first.clone(), first, scratch.prepared(SMALL)];
    let drivers = mounts.each_ref().map(open);
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut seed = 20_261_127_u64;
    let mut random = move |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for step in 0..600_u32 {
        let fs = &*drivers[random(3) as usize];
        let name = format!("f{}", random(6));
        let known = model.contains_key(&name);
        match random(7) {
            0 | 1 if !known => {
                create_file(fs, &name);
                model.insert(name, Vec::new());
            }
            2 | 3 if known => {
                let (at, count) = (random(200) as usize, 1 + random(100) as usize);
                let bytes = vec![step as u8 | 1; count];
                // As the open of a run of its own has it.
                let file = open_for(fs, &name, OpenFlags::WRITE).unwrap();
                write_at(&*file, at as u64, &bytes);
                let content = model.get_mut(&name).unwrap();
                content.resize(content.len().max(at + count), 0);
                content[at..at + count].copy_from_slice(&bytes);
            }
            4 if known => {
                let file = open_for(fs, &name, OpenFlags::READ_WRITE).unwrap();
                let size = random(250);
                truncate(&*file, size).unwrap();
                model.get_mut(&name).unwrap().resize(size as usize, 0);
            }
            5 if known => {
                let other = format!("f{}", random(6));
                rename(fs, &name, &other);
                let content = model.remove(&name).unwrap();
                model.insert(other, content);
            }
            6 if known => {
                fs.unlink(&caller(), fs.root(), name.as_bytes()).unwrap();
                model.remove(&name);
            }
            _ => {}
        }
        if step % 20 == 0 {
            // What another run did in the last tenth of a second is seen by open.
            let fresh = open(&mounts[0]);
            let want: Vec<_> = model.keys().cloned().collect();
            assert_eq!(names(&*fresh), want, "step {step}");
            for (name, content) in &model {
                let file = open_file(&*fresh, name).unwrap();
                assert_eq!(read_all(&*file).unwrap(), *content, "step {step}, {name}");
            }
        }
    }
}

#[test]
fn many_that_append_have_all_they_wrote() {
    let scratch = Scratch::new(2);
    let mount = scratch.prepared(SMALL);
    create_file(&*open(&mount), "log");
    std::thread::scope(|scope| {
        for own in 0..4_u8 {
            let mount = &mount;
            scope.spawn(move || {
                let fs = open(mount);
                let file = open_for(&*fs, "log", OpenFlags::WRITE).unwrap();
                for _ in 0..50 {
                    file.append(&mut &[own; 10][..]).unwrap();
                }
            });
        }
    });
    let all = read_all(&*open_file(&*open(&mount), "log").unwrap()).unwrap();
    let mut counts = [0; 4];
    for piece in all.chunks(10) {
        assert!(piece.iter().all(|byte| *byte == piece[0]));
        counts[piece[0] as usize] += 1;
    }
    assert_eq!(counts, [50; 4]);
}

/// PLFS merges by times: after a time that is yet to come, this process begins new droppings.
#[test]
fn a_time_to_come_does_not_delay_what_follows() {
    let scratch = Scratch::new(1);
    let mount = scratch.prepared(SMALL);
    let pair = [0, 1].map(|_| open(&mount));
    create_file(&*pair[0], "late");
    let node = pair[0]
        .lookup(&caller(), pair[0].root(), b"late")
        .unwrap()
        .attributes
        .node;
    let mtime = Timespec {
        seconds: 4_000_000_000,
        nanoseconds: 5000,
    };
    let changes = SetAttributes {
        mtime: Some(mtime),
        ..SetAttributes::default()
    };
    let is = pair[0].set_attributes(&caller(), node, &changes).unwrap();
    assert_eq!(is.mtime, mtime);
    create_file(&*pair[0], "other");
    pair[1].unlink(&caller(), pair[1].root(), b"other").unwrap();
    let fresh = open(&mount);
    assert_eq!(names(&*fresh), ["late"]);
    let found = fresh
        .lookup(&caller(), fresh.root(), b"late")
        .unwrap()
        .attributes;
    assert_eq!(found.mtime, mtime);
    // Writing is later, and is told to PLFS by a record about the name.
    write_at(
        &*open_for(&*fresh, "late", OpenFlags::WRITE).unwrap(),
        0,
        b"x",
    );
    let found = fresh
        .lookup(&caller(), fresh.root(), b"late")
        .unwrap()
        .attributes;
    assert_ne!(found.mtime, mtime);
}

/// What was not written whole is not there; what no writer leaves is EIO.
#[test]
fn torn_and_wrong_droppings() {
    let scratch = Scratch::new(1);
    let mount = scratch.prepared(SMALL);
    let fs = open(&mount);
    write_at(&*create_file(&*fs, "file"), 0, b"content");
    let dir = scratch.backends[0].join("SMALLFILECONTAINER");
    let of = |kind: &str| {
        let all = std::fs::read_dir(&dir).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
        all.map(name)
            .find(|path| path.to_str().unwrap().contains(kind))
            .unwrap()
    };
    for kind in ["dropping.name", "dropping.index"] {
        let whole = std::fs::read(of(kind)).unwrap();
        for more in [&[20, 0, 0, 0, 1][..], &[0; 3]] {
            std::fs::write(of(kind), [&whole, more].concat()).unwrap();
            let fresh = open(&mount);
            assert_eq!(
                read_all(&*open_file(&*fresh, "file").unwrap()).unwrap(),
                b"content"
            );
        }
        let wrong = [0xff; 40];
        std::fs::write(of(kind), [&whole, &wrong[..]].concat()).unwrap();
        let fresh = open(&mount);
        let error = fresh
            .lookup(&caller(), fresh.root(), b"file")
            .err()
            .unwrap();
        assert_eq!(error.errno(), Errno::EIO, "{kind}");
        assert!(error.to_string().contains(kind), "{error}");
        std::fs::write(of(kind), &whole).unwrap();
    }
    let data = std::fs::OpenOptions::new()
        .write(true)
        .open(of("dropping.data"))
        .unwrap();
    data.set_len(3).unwrap();
    data.write_all_at(b"C", 0).unwrap();
    let fresh = open(&mount);
    let error = read_all(&*open_file(&*fresh, "file").unwrap()).unwrap_err();
    assert_eq!(error.errno(), Errno::EIO);
}

/// Whatever stands in droppings, reading ends: with bytes, or with EIO; and so does what is done to
/// the files that are found.
#[test]
fn damaged_droppings_do_no_harm() {
    let scratch = Scratch::new(1);
    let mount = scratch.prepared(SMALL);
    let fs = open(&mount);
    for name in ["a", "b", "c"] {
        write_at(&*create_file(&*fs, name), 0, b"content");
        truncate(&*open_for(&*fs, name, OpenFlags::READ_WRITE).unwrap(), 90).unwrap();
    }
    rename(&*fs, "c", "d");
    let dir = scratch.backends[0].join("SMALLFILECONTAINER");
    let all = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let all: Vec<_> = all
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    let mut seed = 19_u64;
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..400 {
        for (bytes, path) in &all {
            let mut bytes = bytes.clone();
            for _ in 0..random(3) {
                let at = random(bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = if random(2) == 0 {
                        0xff
                    } else {
                        random(256) as u8
                    };
                }
            }
            std::fs::write(path, bytes).unwrap();
        }
        let fresh = open(&mount);
        for name in ["a", "b", "c", "d"] {
            let opened = open_for(&*fresh, name, OpenFlags::READ_WRITE);
            // Of one that has become huge the beginning is enough.
            let read = opened.and_then(|file| {
                file.read_at(0, &mut &mut [0; 500][..])?;
                file.write_at(3, &mut &b"xyz"[..])
            });
            match read {
                Ok(_) => right += 1,
                Err(error) => {
                    let known = [Errno::EIO, Errno::ENOENT, Errno::EFBIG, Errno::ENOMEM];
                    assert!(known.contains(&error.errno()), "{error}");
                    wrong += 1;
                }
            }
        }
        // What it has made.
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if all.iter().all(|(_, known)| *known != path) {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
    assert!(right > 300 && wrong > 300, "{right} {wrong}");
}
