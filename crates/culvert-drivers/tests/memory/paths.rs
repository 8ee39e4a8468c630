//! Whole paths in one call: what a process remembers of them never outlives a change, whoever makes
//! it.

use crate::tools::Run;
use culvert::{
    Access, Caller, Errno, FileKind, FileSystem, Node, OpenFlags, RenameFlags, SetAttributes,
    testing::caller,
};

/// What `path` is from the root: its node, none when the last name is missing, or the errno.
fn reach(fs: &dyn FileSystem, caller: &Caller<'_>, path: &str) -> Result<Option<Node>, Errno> {
    let reached = fs
        .reach(caller, fs.root(), path.as_bytes())
        .expect("no link on the way");
    reached
        .map(|reached| reached.entry.map(|entry| entry.attributes.node))
        .map_err(|error| error.errno())
}

fn directory(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let made = fs.mkdir(&caller(), dir, name.as_bytes(), 0o755).unwrap();
    made.attributes.node
}

fn file(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let flags = OpenFlags::READ_WRITE;
    let made = fs.create(&caller(), dir, name.as_bytes(), flags, 0o644);
    made.unwrap().0.attributes.node
}

fn set_mode(fs: &dyn FileSystem, node: Node, mode: u32) {
    let changes = SetAttributes {
        permissions: Some(mode),
        ..SetAttributes::default()
    };
    fs.set_attributes(&caller(), node, &changes).unwrap();
}

/// Somebody without rights of his own.
fn stranger() -> Caller<'static> {
    Caller {
        uid: 4711,
        gid: 4711,
        groups: &[],
        ..caller()
    }
}

/// Two views of one file system: one remembers, the other changes.
#[test]
fn what_is_remembered_ends_with_what_it_means() {
    let run = Run::new();
    let (mount, one) = run.fresh(&[]);
    let other = run.open(&mount).unwrap();
    let (one, other) = (&*one, &*other);
    let (me, root) = (caller(), one.root());
    let a = directory(one, root, "a");
    let b = directory(one, a, "b");
    let wanted = file(one, b, "file");
    let path = "a/b/file";
    let known = || {
        for _ in 0..2 {
            assert_eq!(reach(one, &me, path), Ok(Some(wanted)));
        }
    };
    known();
    assert_eq!(reach(one, &me, "a/b/missing"), Ok(None));
    assert_eq!(reach(one, &me, "a/missing/file"), Err(Errno::ENOENT));
    assert_eq!(reach(one, &me, "a/b/file/file"), Err(Errno::ENOTDIR));

    // A directory on the way gets another name, and another takes its own.
    let move_to = |from: &[u8], to: &[u8], flags| {
        other
            .rename(&me, (root, from), (root, to), RenameFlags(flags))
            .expect("it can be renamed");
    };
    move_to(b"a", b"c", 0);
    assert_eq!(reach(one, &me, path), Err(Errno::ENOENT));
    assert_eq!(reach(one, &me, "c/b/file"), Ok(Some(wanted)));
    let second = directory(other, root, "a");
    assert_eq!(reach(one, &me, path), Err(Errno::ENOENT));
    assert_eq!(reach(one, &me, "a/file"), Ok(None));
    directory(other, second, "b");
    assert_eq!(reach(one, &me, path), Ok(None));
    move_to(b"a", b"c", RenameFlags::EXCHANGE);
    known();
    assert_eq!(reach(one, &me, "c/b/file"), Ok(None));

    // One is removed, and a link or a file takes its place.
    assert_eq!(reach(one, &me, "c/b/x"), Ok(None));
    other.rmdir(&me, second, b"b").unwrap();
    assert_eq!(reach(one, &me, "c/b/x"), Err(Errno::ENOENT));
    other.symlink(&me, second, b"b", b"../a/b").unwrap();
    assert!(one.reach(&me, root, b"c/b/x").is_none());
    let last = one.reach(&me, root, b"c/b").unwrap().unwrap().entry;
    assert_eq!(last.unwrap().attributes.kind, FileKind::Symlink);
    known();
}

#[test]
fn the_right_to_search_is_asked_for_everybody_anew() {
    let run = Run::new();
    let (mount, one) = run.fresh(&[]);
    let other = run.open(&mount).unwrap();
    let (one, other) = (&*one, &*other);
    let (me, nobody, root) = (caller(), stranger(), one.root());
    let a = directory(one, root, "a");
    let b = directory(one, a, "b");
    let wanted = Ok(Some(file(one, b, "file")));
    let path = "a/b/file";
    for closed in [a, b] {
        for mode in [0o755, 0o700, 0o711, 0o750, 0o755] {
            set_mode(other, closed, mode);
            for _ in 0..2 {
                assert_eq!(reach(one, &me, path), wanted);
                let expected = match mode & 1 {
                    1 => wanted,
                    _ => Err(Errno::EACCES),
                };
                assert_eq!(reach(one, &nobody, path), expected, "{mode:o}");
            }
        }
    }
    // The same by lookups, which do not judge: the front end asks.
    set_mode(other, a, 0o700);
    assert!(one.access(&nobody, a, Access::EXECUTE).is_err());
    let owner = SetAttributes {
        uid: Some(nobody.uid),
        ..SetAttributes::default()
    };
    other.set_attributes(&me, a, &owner).unwrap();
    assert_eq!(reach(one, &nobody, path), wanted);
}

/// Long paths, many of them, and inodes beyond the first part of the table.
#[test]
fn paths_of_all_lengths_are_told_apart() {
    let run = Run::new();
    let (_, fs) = run.fresh(&[]);
    let (fs, me) = (&*fs, caller());
    let mut made = Vec::new();
    for length in 1..=70 {
        for letter in ["x", "y"] {
            let name = letter.repeat(length);
            let outer = directory(fs, fs.root(), &name);
            let inner = directory(fs, outer, &name);
            made.push((format!("{name}/{name}/f"), file(fs, inner, "f")));
        }
    }
    for _ in 0..3 {
        for (path, node) in &made {
            assert_eq!(reach(fs, &me, path), Ok(Some(*node)), "{path}");
        }
    }
}
