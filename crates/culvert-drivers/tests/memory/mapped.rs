//! Files that are mapped: what they cost, who keeps them, and what recovery finds.

use crate::tools::{Mapped, Run};
use culvert::{Caller, Errno, File, FileSystem, OpenFlags, Opened, SetAttributes, testing::caller};
use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("backed"),
    }
}

fn create(fs: &dyn FileSystem, name: &[u8], bytes: &[u8]) -> Box<dyn File> {
    let flags = OpenFlags::READ_WRITE;
    let (_, opened) = fs.create(&caller(), fs.root(), name, flags, 0o644).unwrap();
    let file = driven(opened);
    let mut left = bytes;
    while !left.is_empty() {
        let at = (bytes.len() - left.len()) as u64;
        file.write_at(at, &mut left).unwrap();
    }
    file
}

fn cut(file: &dyn File, size: u64) {
    let changes = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    file.set_attributes(&Caller::SYSTEM, &changes).unwrap();
}

fn free(fs: &dyn FileSystem) -> u64 {
    fs.statfs().unwrap().blocks_free
}

fn files_of(source: &[u8]) -> PathBuf {
    format!("{}.files", String::from_utf8_lossy(source)).into()
}

const MIB: usize = 1 << 20;

#[test]
fn it_costs_what_it_did_and_is_given_back_when_nobody_maps_it_any_more() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("size", "16m")]);
    let image = String::from_utf8(mount.source.clone()).unwrap();
    let pages = || std::fs::metadata(&image).unwrap().blocks() / 8;
    let empty = free(&*fs);
    let file = create(&*fs, b"file", &vec![7; 4 * MIB]);
    let (written, in_image) = (free(&*fs), pages());
    assert!(empty - written >= 1024);
    let mapped = Mapped::new(&*file, 4 * MIB, true).unwrap();
    // Blocks of pointers are not needed outside.
    assert!((written..written + 4).contains(&free(&*fs)));
    assert!(
        pages() + 1000 < in_image,
        "the image has given its pages back"
    );
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().blocks, 4 * 2048);
    run.assert_consistent(&mount);
    fs.unlink(&caller(), fs.root(), b"file").unwrap();
    drop(file);
    assert!(free(&*fs) < empty - 1000, "somebody has it mapped");
    assert_eq!(mapped.bytes(0..2), [7, 7]);
    drop(mapped);
    // A few blocks stay: of the directory, of lists.
    assert!(free(&*fs) + 8 >= empty);
    assert_eq!(
        std::fs::read_dir(files_of(&mount.source)).unwrap().count(),
        0
    );
    // What was given back is used again.
    let file = create(&*fs, b"file", &vec![8; 12 * MIB]);
    assert_eq!(
        file.attributes(&Caller::SYSTEM).unwrap().size as usize,
        12 * MIB
    );
    drop(file);
    run.assert_consistent(&mount);
}

#[test]
fn it_is_full_where_it_is_full() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("size", "8m")]);
    let file = create(&*fs, b"mapped", &vec![1; 2 * MIB]);
    drop(Mapped::new(&*file, 2 * MIB, true).unwrap());
    let errno = |error: culvert::Error| error.errno();
    // Writes end where the limit is, and so do those to other files.
    let bytes = vec![2; 8 * MIB];
    let written = file.write_at(2 * MIB as u64, &mut &bytes[..]).unwrap();
    assert!((5 * MIB..6 * MIB).contains(&written), "{written}");
    let at = (2 * MIB + written) as u64;
    assert_eq!(
        file.write_at(at, &mut &bytes[..]).map_err(errno),
        Err(Errno::ENOSPC)
    );
    assert_eq!(
        file.allocate(0, at, MIB as u64).map_err(errno),
        Err(Errno::ENOSPC)
    );
    assert_eq!(
        file.write_at(0, &mut &bytes[..9000]).map_err(errno),
        Ok(9000)
    );
    let other = create(&*fs, b"other", b"");
    assert_eq!(
        other.write_at(0, &mut &bytes[..]).map_err(errno),
        Err(Errno::ENOSPC)
    );
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().size, at);
    run.assert_consistent(&mount);
    // Holes that cannot be filled are not mapped for stores; those of a very large file are.
    cut(&*other, 4 * MIB as u64);
    let refused = Mapped::new(&*other, 4 * MIB, true).err().map(errno);
    assert_eq!(refused, Some(Errno::ENOMEM));
    drop(Mapped::new(&*other, 4 * MIB, false).unwrap());
    cut(&*other, 1 << 40);
    drop(Mapped::new(&*other, 1 << 40, true).unwrap());
    cut(&*file, 100);
    cut(&*other, 4 * MIB as u64);
    let mapped = Mapped::new(&*other, 4 * MIB, true).unwrap();
    mapped.store(4 * MIB - 1, b"x");
    assert_eq!(other.attributes(&Caller::SYSTEM).unwrap().blocks, 4 * 2048);
    drop((file, other, mapped));
    run.assert_consistent(&mount);
}

#[test]
fn what_nobody_maps_any_more_makes_room_for_names_and_who_is_late_gets_in() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("size", "8m")]);
    let me = caller();
    let file = create(&*fs, b"mapped", &vec![1; 4 * MIB]);
    let mapped = Mapped::new(&*file, 4 * MIB, true).unwrap();
    drop(file);
    fs.unlink(&me, fs.root(), b"mapped").unwrap();
    let other = create(&*fs, b"other", b"");
    while other.append(&mut &vec![2; MIB][..]).is_ok() {}
    let long = [b'x'; 4000];
    let link = |name: &str| fs.symlink(&me, fs.root(), name.as_bytes(), &long).map(drop);
    let mut number = 0;
    let refused = loop {
        number += 1;
        if let Err(error) = link(&format!("link {number}")) {
            break error.errno();
        }
        assert!(number < 3000, "never full");
    };
    assert_eq!(refused, Errno::ENOSPC);
    // Another process, when all is full: it can at least look and remove.
    let late = run.open(&mount).unwrap();
    let node = late
        .lookup(&me, late.root(), b"other")
        .unwrap()
        .attributes
        .node;
    drop(driven(late.open(&me, node, OpenFlags::READ_WRITE).unwrap()));
    drop(mapped);
    link("fits").unwrap();
    drop(other);
    run.assert_consistent(&mount);
}

#[test]
fn names_of_attributes_are_what_the_kernel_takes() {
    let run = Run::new();
    let (_, fs) = run.fresh(&[]);
    let set = |name: &[u8]| {
        let set = fs.set_xattr(&caller(), fs.root(), name, b"value", 0);
        set.map_err(|error| error.errno())
    };
    let name = |length: usize| [b"user.", &vec![b'x'; length - 5][..]].concat();
    assert_eq!(set(b"user."), Err(Errno::EINVAL));
    assert_eq!(set(b"other.name"), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&name(256)), Err(Errno::ERANGE));
    assert_eq!(set(&name(255)), Ok(()));
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, fs.root(), &name(255))
            .unwrap(),
        b"value"
    );
}

#[test]
fn who_had_it_open_before_sees_what_is_stored() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[]);
    let file = create(&*fs, b"file", &[b'a'; 10_000]);
    let other = run.open(&mount).unwrap();
    let node = other.lookup(&caller(), other.root(), b"file").unwrap();
    let flags = OpenFlags::READ_WRITE;
    let before = driven(other.open(&caller(), node.attributes.node, flags).unwrap());
    let mapped = Mapped::new(&*file, 10_000, true).unwrap();
    mapped.store(5000, b"stored");
    let mut bytes = [0; 8];
    before.read_at(4999, &mut &mut bytes[..]).unwrap();
    assert_eq!(&bytes, b"astoreda");
    before.write_at(9998, &mut &b"longer"[..]).unwrap();
    assert_eq!(mapped.bytes(9997..10_000), b"alo");
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().size, 10_004);
    assert_eq!(before.append(&mut &b"!"[..]).unwrap(), (10_004, 1));
    assert_eq!(file.seek(0, culvert::Whence::Hole).unwrap(), 10_005);
    let later = before.attributes(&Caller::SYSTEM).unwrap().mtime.seconds + 100;
    let changes = SetAttributes {
        mtime: Some(culvert::Timespec {
            seconds: later,
            nanoseconds: 5,
        }),
        ..SetAttributes::default()
    };
    before.set_attributes(&Caller::SYSTEM, &changes).unwrap();
    assert_eq!(
        file.attributes(&Caller::SYSTEM).unwrap().mtime.seconds,
        later
    );
}

#[test]
fn a_missing_file_is_an_error_and_one_too_many_is_removed() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[]);
    let file = create(&*fs, b"file", b"content");
    drop(Mapped::new(&*file, 7, false).unwrap());
    let node = file.attributes(&Caller::SYSTEM).unwrap().node;
    drop(file);
    let directory = files_of(&mount.source);
    let own = std::fs::read_dir(&directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    std::fs::write(directory.join("fffff.1"), "left behind").unwrap();
    std::fs::write(directory.join("1.1"), "the root has none").unwrap();
    run.assert_consistent(&mount);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    std::fs::remove_file(own.path()).unwrap();
    let file = driven(fs.open(&caller(), node, OpenFlags::READ).unwrap());
    let error = file.read_at(0, &mut &mut [0; 7][..]).unwrap_err();
    assert_eq!(error.errno(), Errno::EIO);
    assert!(error.cause().unwrap().to_string().contains("missing"));
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().size, 7);
    drop(file);
    assert!(
        !culvert_drivers::memory::testing::check(&mount.source)
            .unwrap()
            .is_empty()
    );
    // It can be removed all the same.
    fs.unlink(&caller(), fs.root(), b"file").unwrap();
    run.assert_consistent(&mount);
}

#[test]
fn those_of_a_named_one_stay_and_nobody_else_may_have_made_their_place() {
    let run = Run::new();
    let mount = run.prepare("memory:kept", &[]).unwrap();
    let fs = run.open(&mount).unwrap();
    let file = create(&*fs, b"file", &[5; 5000]);
    Mapped::new(&*file, 5000, true).unwrap().store(0, b"kept");
    drop((file, fs));
    let mount = run.prepare("memory:kept", &[]).unwrap();
    let fs = run.open(&mount).unwrap();
    let node = fs.lookup(&caller(), fs.root(), b"file").unwrap();
    let node = node.attributes.node;
    let file = driven(fs.open(&caller(), node, OpenFlags::READ).unwrap());
    let mut bytes = [0; 5];
    file.read_at(0, &mut &mut bytes[..]).unwrap();
    assert_eq!(&bytes, b"kept\x05");
    drop((file, fs));
    let directory = files_of(&mount.source);
    let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let error = run.prepare("memory:kept", &[]).unwrap_err();
    assert_eq!(error.errno(), Errno::EACCES);
    assert_eq!(run.open(&mount).err().unwrap().errno(), Errno::EACCES);
    std::fs::remove_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink("/tmp", &directory).unwrap();
    assert_eq!(run.open(&mount).err().unwrap().errno(), Errno::EACCES);
    let refused = run.prepare("memory:name.files", &[]).unwrap_err();
    assert_eq!(refused.errno(), Errno::EINVAL);
}
