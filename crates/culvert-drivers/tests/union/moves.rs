//! Files that are moved to where there is room.

use crate::tools::{Scratch, me, root};
use culvert::{Errno, File, FileSystem, OpenFlags, Opened, Result};
use culvert_sys::process;
use std::{os::unix::fs::FileExt, process::Command};

const NOBODY: u32 = 65_534;
const HALF: usize = 600_000;

/// Branch `a` with room for 1 MiB, and `b`, each with a directory `d`.
struct Small(Scratch);

impl Small {
    /// None where nothing may be mounted.
    fn new() -> Option<Self> {
        let scratch = Scratch::new();
        scratch.sh("mkdir -p -m 777 a/d b/d");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,mode=777", "none", "a"]);
        let made = mount.current_dir(&scratch.0).output();
        let is_made = root() && made.is_ok_and(|out| out.status.success());
        let small = is_made.then_some(Self(scratch))?;
        small.0.sh("mkdir -m 777 a/d");
        Some(small)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.0.sh("umount -l a");
    }
}

fn make(union: &dyn FileSystem, mode: u32) -> Result<Box<dyn File>> {
    let dir = union.lookup(&me(), union.root(), b"d")?.attributes.node;
    let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
    match union.create(&me(), dir, b"f", flags, mode)?.1 {
        Opened::Driven(file) => Ok(file),
        Opened::Backed(_) => panic!("backed"),
    }
}

fn write(file: &dyn File, at: usize) -> Result<usize> {
    let bytes = vec![b'x'; HALF];
    file.write_at(at as u64, &mut &bytes[..])
}

/// Nobody but the superuser opens a file of mode 0444 for writing once more.
#[test]
fn a_file_that_may_not_be_opened_again_is_moved_and_written() {
    let Some(Small(scratch)) = &Small::new() else {
        return;
    };
    let options = ["category.create=ff", "moveonenospc=ff"];
    let union = scratch.open(&["a", "b"], &options);
    // Of this thread alone.
    process::setfsuid(NOBODY);
    let file = make(&*union, 0o444).unwrap();
    let mut written = write(&*file, 0).unwrap();
    assert_eq!(scratch.on(&["a", "b"], "d/f"), [0]);
    while written < 4 * HALF {
        written += write(&*file, written).unwrap();
    }
    drop(file);
    process::setfsuid(0);
    assert_eq!(scratch.on(&["a", "b"], "d/f"), [1]);
    let said = scratch.sh("stat -c '%a %u' b/d/f; tr -d x < b/d/f | wc -c; ls -A a/d b/d");
    assert_eq!(said, "444 65534\n0\na/d:\n\nb/d:\nf\n");
    assert_eq!(
        std::fs::metadata(scratch.0.join("b/d/f")).unwrap().len(),
        written as u64
    );
}

#[test]
fn a_file_that_others_write_stays() {
    let Some(Small(scratch)) = &Small::new() else {
        return;
    };
    let options = ["category.create=ff", "moveonenospc=ff"];
    let union = scratch.open(&["a", "b"], &options);
    let file = make(&*union, 0o644).unwrap();
    write(&*file, 0).unwrap();
    let path = scratch.0.join("a/d/f");
    let other = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    write(&*file, HALF).unwrap();
    let refused = write(&*file, 2 * HALF).unwrap_err();
    assert_eq!(refused.errno(), Errno::ENOSPC);
    other.write_at(b"other", 0).unwrap();
    assert_eq!(scratch.on(&["a", "b"], "d/f"), [0]);
    drop(other);
    // Nor is there anything else by then.
    write(&*file, 2 * HALF).unwrap();
    assert_eq!(scratch.on(&["a", "b"], "d/f"), [1]);
    assert_eq!(scratch.sh("head -c 6 b/d/f; ls -A b/d"), "otherxf\n");
}
