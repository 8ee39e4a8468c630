//! What files of the kernel can do, by driver calls.

use crate::tools::{Scratch, caller, find};
use culvert::{Caller, Errno, File, FileSystem, OpenFlags, Opened, SetAttributes, Whence};
use std::{
    fs,
    os::fd::AsRawFd,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("a descriptor where a driven file was wanted"),
    }
}

fn open(driver: &dyn FileSystem, path: &str, flags: OpenFlags) -> Box<dyn File> {
    let node = find(driver, path).node;
    driven(driver.open(&caller(), node, flags).unwrap())
}

fn read(file: &dyn File, offset: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let got = file.read_at(offset, &mut &mut bytes[..]).unwrap();
    bytes.truncate(got);
    bytes
}

#[test]
fn reads_and_writes_of_every_size_are_whole() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&["driven"]);
    let made = driver.create(&caller(), driver.root(), b"f", OpenFlags::READ_WRITE, 0o600);
    let file = driven(made.unwrap().1);
    // Around the size of the buffers between, and far above.
    for size in [1, 4095, 262_143, 262_144, 262_145, 3_000_001] {
        let content: Vec<u8> = (0..size).map(|at: u32| (at % 251) as u8).collect();
        assert_eq!(file.write_at(7, &mut &content[..]).unwrap(), content.len());
        assert!(
            read(&*file, 7, content.len() + 5).starts_with(&content),
            "{size}"
        );
        assert_eq!(
            fs::read(scratch.0.join("f")).unwrap()[7..][..content.len()],
            content
        );
    }
    assert_eq!(read(&*file, 1 << 40, 10), b"");
}

#[test]
fn appends_of_two_processes_go_behind_each_other() {
    let scratch = Scratch::tmpfs();
    fs::write(scratch.0.join("log"), b"").unwrap();
    // Two drivers are as two processes: they share nothing.
    let drivers = [scratch.open(&["driven"]), scratch.open(&["driven"])];
    let flags = OpenFlags::WRITE.with(OpenFlags::APPEND);
    let files = drivers
        .each_ref()
        .map(|driver| open(&**driver, "log", flags));
    let outside = fs::File::options().append(true).open(scratch.0.join("log"));
    let outside = outside.unwrap();
    for round in 0..50u64 {
        for (who, file) in (0..).zip(&files) {
            let (at, count) = file.append(&mut &b"0123456789"[..]).unwrap();
            assert_eq!((at, count), (round * 30 + who * 10, 10));
        }
        std::io::Write::write_all(&mut &outside, b"0123456789").unwrap();
    }
    // A write elsewhere stays where it was told to be, O_APPEND or not.
    files[0].write_at(3, &mut &b"x"[..]).unwrap();
    assert_eq!(fs::read(scratch.0.join("log")).unwrap().len(), 1500);
    assert_eq!(fs::read(scratch.0.join("log")).unwrap()[..5], *b"012x4");
}

#[test]
fn holes_are_found_made_and_kept() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&["driven"]);
    scratch.sh("truncate -s 4M f; printf x | dd of=f bs=1 seek=2097152 conv=notrunc 2>/dev/null");
    let file = open(&*driver, "f", OpenFlags::READ_WRITE);
    assert_eq!(file.seek(0, Whence::Data).unwrap(), 2 << 20);
    assert_eq!(file.seek(0, Whence::Hole).unwrap(), 0);
    let past = file.seek(4 << 20, Whence::Data).unwrap_err();
    assert_eq!(past.errno(), Errno::ENXIO);
    const PUNCH_KEEP: u32 = 3;
    file.allocate(PUNCH_KEEP, 2 << 20, 1 << 20).unwrap();
    assert_eq!(fs::metadata(scratch.0.join("f")).unwrap().blocks(), 0);
    file.allocate(0, 0, 8 << 20).unwrap();
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().size, 8 << 20);
}

#[test]
fn copies_stay_in_the_kernel() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&["driven"]);
    fs::write(scratch.0.join("a"), b"0123456789").unwrap();
    fs::write(scratch.0.join("b"), b"").unwrap();
    let (from, to) = (
        open(&*driver, "a", OpenFlags::READ),
        open(&*driver, "b", OpenFlags::WRITE),
    );
    assert_eq!(from.copy_range(2, &*to, 1, 100).unwrap(), 8);
    assert_eq!(fs::read(scratch.0.join("b")).unwrap(), b"\x0023456789");
}

#[test]
fn an_inherited_descriptor_goes_on_as_it_is() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&["driven"]);
    let path = scratch.0.join("f");
    fs::write(&path, b"abc").unwrap();
    let inherited = fs::File::options().append(true).read(true).open(&path);
    let inherited = inherited.unwrap();
    // Neither a name nor permission is needed any more.
    fs::remove_file(&path).unwrap();
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::APPEND);
    let adopted = driver.adopt(&caller(), inherited.as_raw_fd(), flags);
    let (entry, opened) = adopted.unwrap();
    let file = driven(opened);
    assert_eq!(file.attributes(&Caller::SYSTEM).unwrap().links, 0);
    assert_eq!(entry.attributes.size, 3);
    assert_eq!(read(&*file, 1, 10), b"bc");
    drop(file);
    std::io::Write::write_all(&mut &inherited, b"d").unwrap();
    assert_eq!(inherited.metadata().unwrap().len(), 4);
    let foreign = fs::File::open("/proc/self/exe").unwrap();
    let refused = driver.adopt(&caller(), foreign.as_raw_fd(), OpenFlags::READ);
    assert_eq!(refused.err().unwrap().errno(), Errno::EXDEV);
}

#[test]
fn unnamed_files_get_a_name_or_never() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    let (who, root) = (caller(), driver.root());
    let make = |flags| {
        driver
            .tmpfile(&who, root, flags, 0o640)
            .unwrap()
            .0
            .attributes
    };
    let made = make(OpenFlags::READ_WRITE);
    assert_eq!((made.links, made.permissions), (0, 0o640));
    driver.link(&who, made.node, root, b"named").unwrap();
    assert_eq!(find(&*driver, "named").node, made.node);
    let never = make(OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE));
    let refused = driver.link(&who, never.node, root, b"never").unwrap_err();
    assert_eq!(refused.errno(), Errno::ENOENT);
}

#[test]
fn special_files_are_made_and_not_opened() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    let (who, root) = (caller(), driver.root());
    for (name, mode) in [("fifo", 0o010644), ("socket", 0o140600)] {
        let made = driver.mknod(&who, root, name.as_bytes(), mode, 0).unwrap();
        assert_eq!(made.attributes.mode(), mode);
        // Opening a FIFO would wait for the other end.
        let opened = driver.open(&who, made.attributes.node, OpenFlags::READ);
        assert_eq!(opened.err().unwrap().errno(), Errno::ENXIO);
        let created = driver.create(&who, root, name.as_bytes(), OpenFlags::WRITE, 0o600);
        assert_eq!(created.err().unwrap().errno(), Errno::ENXIO);
    }
    let is = |name| {
        fs::symlink_metadata(scratch.0.join(name))
            .unwrap()
            .file_type()
    };
    assert!(is("fifo").is_fifo() && is("socket").is_socket());
}

#[test]
fn acls_are_the_kernels() {
    let scratch = Scratch::new("/var/tmp");
    let driver = scratch.open(&["driven"]);
    let (who, root) = (caller(), driver.root());
    scratch.sh("setfacl -d -m u:12:rwx,g::r-x,o::- .; : > native");
    driver
        .create(&who, root, b"ours", OpenFlags::WRITE, 0o666)
        .unwrap();
    let acl = |name| scratch.sh(&format!("getfacl -cn {name}"));
    assert_eq!(acl("ours"), acl("native"));
    let name = b"system.posix_acl_access";
    let (ours, native) = (find(&*driver, "ours").node, find(&*driver, "native").node);
    scratch.sh("setfacl -m u:34:r native");
    let value = driver.get_xattr(&Caller::SYSTEM, native, name).unwrap();
    driver.set_xattr(&who, ours, name, &value, 0).unwrap();
    assert!(acl("ours").contains("user:34:r"));
    driver.remove_xattr(&who, ours, name).unwrap();
    assert!(!acl("ours").contains("user:12"));
}

#[test]
fn times_and_modes_reach_what_was_opened_by_place() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    scratch.sh(": > f; ln -s nowhere l");
    let time = culvert::Timespec {
        seconds: 12,
        nanoseconds: 34,
    };
    let times = SetAttributes {
        mtime: Some(time),
        ..SetAttributes::default()
    };
    for name in ["f", "l"] {
        let before = find(&*driver, name);
        let after = driver
            .set_attributes(&caller(), before.node, &times)
            .unwrap();
        assert_eq!((after.mtime, after.atime), (time, before.atime), "{name}");
    }
    let mode = SetAttributes {
        permissions: Some(0o700),
        ..SetAttributes::default()
    };
    let link = find(&*driver, "l").node;
    let refused = driver.set_attributes(&caller(), link, &mode).unwrap_err();
    assert_eq!(refused.errno(), Errno::EOPNOTSUPP);
    driver
        .set_attributes(&caller(), find(&*driver, "f").node, &mode)
        .unwrap();
    assert_eq!(
        fs::metadata(scratch.0.join("f")).unwrap().mode() & 0o7777,
        0o700
    );
}
