//! Two processes on one stack: this program, and itself started again.

use crate::generate::{Place, Stack};
use culvert::testing::{Tree, caller, fill, reading};
use culvert::{Errno, File, FileSystem, Node, OpenFlags, Opened};
use culvert_drivers::{DescriptorFile, Keeper};
use std::process::{Command, Stdio};

const PLACE: &str = "CULVERT_TEST_STACK";

/// What this program makes, and what the other one does.
fn tree(who: &str) -> Tree {
    let mut tree = Tree::new()
        .directory(who)
        .directory(format!("{who}/deep"))
        .directory(format!("{who}/empty"))
        .file(format!("{who}/deep/large"), vec![who.as_bytes()[0]; 70_000])
        .file(format!("{who}/none"), "");
    for number in 0..20 {
        tree = tree.file(format!("{who}/file{number}"), format!("{who} {number}"));
    }
    tree
}

/// In the other process: does its part. False in this one.
pub fn worker() -> bool {
    let Some(base) = std::env::var_os(PLACE) else {
        return false;
    };
    let fs = Place::shared(base.into()).open();
    check_content(&*fs, "mine");
    fill(&*fs, &tree("yours")).unwrap();
    // What the other one has open goes on here.
    let log = open(
        &*fs,
        "mine/log",
        OpenFlags::READ_WRITE.with(OpenFlags::APPEND),
    );
    assert_eq!(all(&*log), b"first,");
    log.append(&mut &b"second,"[..]).unwrap();
    fs.finish();
    true
}

/// The node of `path`.
fn find(fs: &dyn FileSystem, path: &str) -> Node {
    let (mut at, mut rest) = (fs.root(), path.as_bytes());
    loop {
        let walked = fs.walk(&caller(), at, rest);
        let walked = walked.unwrap_or_else(|error| panic!("{path}: {error}"));
        at = walked.entry.unwrap().attributes.node;
        if walked.consumed == rest.len() {
            return at;
        }
        rest = &rest[walked.consumed + 1..];
    }
}

/// A file of the kernel's, too, where no layer makes it a driven one.
fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(fd) => {
            let fd = culvert_drivers::unhindered(fd);
            Box::new(DescriptorFile::new(fd, Keeper::default(), Node(1), 1))
        }
    }
}

fn open(fs: &dyn FileSystem, path: &str, flags: OpenFlags) -> Box<dyn File> {
    driven(fs.open(&caller(), find(fs, path), flags).unwrap())
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; 100_000];
    let count = file.read_at(0, &mut bytes.as_mut_slice()).unwrap();
    bytes.truncate(count);
    bytes
}

fn check_content(fs: &dyn FileSystem, who: &str) {
    let large = open(fs, &format!("{who}/deep/large"), OpenFlags::READ);
    assert_eq!(all(&*large), vec![who.as_bytes()[0]; 70_000]);
    for number in 0..20 {
        let file = open(fs, &format!("{who}/file{number}"), OpenFlags::READ);
        assert_eq!(all(&*file), format!("{who} {number}").into_bytes());
    }
}

/// What is archived below, where it may be read.
fn check_archived(fs: &dyn FileSystem, stack: &Stack) {
    let tree = Tree::new()
        .directory("archived")
        .file("archived/file", "archived");
    let report = reading(fs, &tree);
    let mut failures = report.failures.iter();
    let broken = failures.find(|one| !crate::may_break(stack, one.rule));
    assert!(broken.is_none(), "{stack}: {broken:#?}");
}

pub fn check(seed: u64, stack: &Stack) {
    println!("seed {seed}: {stack}");
    let place = stack.place();
    let fs = place.open();
    if !stack.is_writable() {
        check_archived(&*fs, stack);
        check_archived(&*place.open(), stack);
        return;
    }
    fill(&*fs, &tree("mine")).unwrap();
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let mine = find(&*fs, "mine");
    let (_, log) = fs.create(&caller(), mine, b"log", flags, 0o644).unwrap();
    let log = driven(log);
    log.append(&mut &b"first,"[..]).unwrap();
    log.flush().unwrap();
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_processes_see_one_file_system"])
        .env(PLACE, &place.base)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success(), "seed {seed}: {stack}: {said}");
    check_content(&*fs, "mine");
    check_content(&*fs, "yours");
    assert_eq!(all(&*log), b"first,second,", "seed {seed}: {stack}");
    let before = find(&*fs, "mine/log");
    assert_eq!(before, find(&*place.open(), "mine/log"), "{stack}");

    // As over an exec: the program that comes continues what this one has open.
    let large = open(&*fs, "mine/deep/large", OpenFlags::READ);
    let state = large.save().unwrap();
    let next = place.open();
    let node = find(&*next, "mine/deep/large");
    let restored = next.restore(&caller(), node, OpenFlags::READ, &state);
    let restored = driven(restored.unwrap());
    assert_eq!(all(&*restored), all(&*large), "seed {seed}: {stack}");

    // copy_file_range(2), or not at all; and the kernel's descriptor, which is mapped, is the file.
    let (_, copy) = fs.create(&caller(), mine, b"copy", flags, 0o644).unwrap();
    let copy = driven(copy);
    match large.copy_range(10, &*copy, 5, 60_000) {
        Ok(count) => {
            let mut want = vec![0; 5];
            want.extend(vec![b'm'; count as usize]);
            assert_eq!(all(&*copy), want, "seed {seed}: {stack}");
        }
        Err(error) => {
            let lacking = [
                Errno::EOPNOTSUPP,
                Errno::EXDEV,
                Errno::EINVAL,
                Errno::ENOSYS,
            ];
            let known = lacking.contains(&error.errno());
            assert!(known, "seed {seed}: {stack}: {error:?}");
        }
    }
    if let Some(fd) = large.descriptor() {
        let mut bytes = vec![0; 4096];
        let fd = culvert_sys::fd::BorrowedFd::number(fd);
        culvert_sys::fs::pread(fd, &mut bytes, 0).unwrap();
        assert_eq!(bytes, vec![b'm'; 4096], "seed {seed}: {stack}");
    }
}
