//! Branches that come and go while the mount lives.

use crate::{
    links::walk,
    tools::{Scratch, me},
};
use culvert::{
    Access, Errno, FileSystem, Node, OpenFlags, Opened, Result, SetAttributes, mount::Mount,
};
use culvert_drivers::{Environment, NodeBook, Traces};
use std::{
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

fn control(union: &dyn FileSystem) -> Node {
    walk(union, ".mergerfs").unwrap().node
}

fn get(union: &dyn FileSystem, name: &str) -> String {
    let name = format!("user.mergerfs.{name}");
    let value = union.get_xattr(&me(), control(union), name.as_bytes());
    String::from_utf8(value.unwrap()).unwrap()
}

fn set(union: &dyn FileSystem, name: &str, value: &str) -> Result<()> {
    let name = format!("user.mergerfs.{name}");
    union.set_xattr(&me(), control(union), name.as_bytes(), value.as_bytes(), 0)
}

/// The branches, without the place where they lie.
fn branches(scratch: &Scratch, union: &dyn FileSystem) -> String {
    let place = format!("{}/", scratch.0.display());
    get(union, "branches").replace(&place, "")
}

fn listed(union: &dyn FileSystem, path: &str) -> Vec<String> {
    let dir = match path {
        "" => union.root(),
        path => walk(union, path).unwrap().node,
    };
    let mut names = Vec::new();
    union
        .read_directory(&me(), dir, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
    names.sort();
    names
}

fn text(opened: &Opened) -> String {
    let Opened::Driven(file) = opened else {
        panic!("files of a union are driven")
    };
    let mut bytes = [0; 16];
    let count = file.read_at(0, &mut &mut bytes[..]).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

/// Whether this process has a descriptor on or below the branch.
fn is_held(scratch: &Scratch, branch: &str) -> bool {
    let branch = scratch.0.join(branch);
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let mut all = all.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    all.any(|path| path.starts_with(&branch))
}

#[test]
fn branches_come_and_go_for_all_processes() {
    let scratch = Scratch::new();
    for (path, text) in [
        ("a/both", "a"),
        ("b/both", "b"),
        ("b/only", "of b"),
        ("b/d/f", "b"),
        ("a/d/g", "a"),
        ("c/both", "c"),
    ] {
        scratch.write(path, text);
    }
    let mount = scratch.prepare(&["a", "b=NC"], &["category.create=ff"]);
    let mount = mount.unwrap();
    let [one, other] = [(); 2].map(|()| scratch.open_again(&mount));
    let place = scratch.0.display();
    let shows = |name: &str| {
        let node = walk(&*other, name).unwrap().node;
        text(&other.open(&me(), node, OpenFlags::READ).unwrap())
    };
    let number = |name: &str| walk(&*other, name).unwrap().inode;
    assert_eq!(get(&*one, "srcmounts"), format!("{place}/a:{place}/b"));
    let numbers = ["both", "only", "d/g"].map(number);

    // One more in front, with a mode and a size.
    set(&*one, "branches", &format!("+<{place}/c=NC,1K")).unwrap();
    assert_eq!(branches(&scratch, &*other), "c=NC,1K:a=RW:b=NC");
    assert_eq!(shows("both"), "c");
    assert_eq!(["only", "d/g"].map(number), numbers[1..]);
    // Something new is made where the policy says by now.
    one.mkdir(&me(), one.root(), b"new", 0o755).unwrap();
    assert_eq!(scratch.on(&["a", "b", "c"], "new"), [0]);

    // Without it: what is open stays open, and is no more to be found.
    let node = walk(&*other, "both").unwrap().node;
    let opened = other.open(&me(), node, OpenFlags::READ).unwrap();
    set(&*one, "branches", "-<").unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW:b=NC");
    assert_eq!(text(&opened), "c");
    assert_eq!(other.attributes(&me(), node).unwrap().size, 1);
    let permissions = SetAttributes {
        permissions: Some(0o604),
        ..SetAttributes::default()
    };
    other.set_attributes(&me(), node, &permissions).unwrap();
    let changed = fs::metadata(scratch.0.join("c/both")).unwrap();
    assert_eq!(changed.permissions().mode() & 0o7777, 0o604);
    other.list_xattr(&me(), node).unwrap();
    other.access(&me(), node, Access::READ).unwrap();
    other.hold(node).unwrap();
    other.release(node);
    let again = other.open(&me(), node, OpenFlags::READ).unwrap();
    assert_eq!(text(&again), "c");
    drop(again);
    assert_eq!(shows("both"), "a");
    assert_eq!(["both", "only", "d/g"].map(number), numbers);
    assert!(is_held(&scratch, "c"));
    // Who comes back is the same.
    set(&*one, "branches", &format!("+{place}/c")).unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW:b=NC:c=RW");
    set(&*one, "branches", "->").unwrap();
    assert_eq!(shows("both"), "a");
    assert_eq!(text(&opened), "c");
    drop(opened);
    other.forget(node, 1000);
    // Nothing keeps the file system of the branch from being unmounted.
    walk(&*one, "both").unwrap();
    assert!(!is_held(&scratch, "c"));

    // In another order, and with another mode.
    set(&*one, "branches", &format!("={place}/b:{place}/a=RO")).unwrap();
    assert_eq!(branches(&scratch, &*other), "b=RW:a=RO");
    assert_eq!(shows("both"), "b");
    assert_eq!(["only", "d/g"].map(number), numbers[1..]);
    assert_eq!(listed(&*other, "d"), ["f", "g"]);
    let removed = other.unlink(&me(), walk(&*other, "d").unwrap().node, b"g");
    assert_eq!(removed.unwrap_err().errno(), Errno::EROFS);

    // Patterns are filled in anew, and take slashes where something is removed.
    scratch.sh("mkdir disk1 disk2; touch disk2/second");
    set(&*one, "branches", &format!("+>{place}/disk*=RO")).unwrap();
    assert_eq!(branches(&scratch, &*other), "b=RW:a=RO:disk1=RO:disk2=RO");
    assert_eq!(shows("second"), "");
    let patterns = format!("-{place}/a:/*/disk?");
    set(&*one, "srcmounts", &patterns).unwrap();
    assert_eq!(branches(&scratch, &*other), "b=RW");
    assert_eq!(listed(&*other, ""), ["both", "d", "only"]);
    assert_eq!(listed(&*other, "d"), ["f"]);
    assert_eq!(walk(&*other, "d/g").unwrap_err().errno(), Errno::ENOENT);

    // Who comes later sees the same, whatever has become of the first ones.
    fs::remove_dir_all(scratch.0.join("a")).unwrap();
    let third = scratch.open_again(&mount);
    assert_eq!(branches(&scratch, &*third), "b=RW");
    assert_eq!(walk(&*third, "only").unwrap().inode, numbers[1]);
}

/// The file that says what was changed.
fn file_of_changes(scratch: &Scratch) -> PathBuf {
    let all = fs::read_dir(scratch.0.join("run")).unwrap();
    let mut all = all.map(|entry| entry.unwrap().path());
    all.find(|path| path.as_os_str().as_bytes().ends_with(b".options"))
        .unwrap()
}

#[test]
fn who_cannot_read_what_was_changed_keeps_what_there_was_and_tries_again() {
    let scratch = Scratch::new();
    scratch.sh("mkdir c");
    let mount = scratch.prepare(&["a", "b"], &[]).unwrap();
    let [one, other] = [(); 2].map(|()| scratch.open_again(&mount));
    let place = scratch.0.display();
    set(&*one, "branches", "->").unwrap();
    set(&*one, "statfs", "full").unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW");
    set(&*one, "branches", &format!("+{place}/c")).unwrap();
    let (file, away) = (file_of_changes(&scratch), scratch.0.join("away"));
    fs::rename(&file, &away).unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW");
    assert_eq!(get(&*other, "statfs"), "full");
    fs::rename(&away, &file).unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW:c=RW");
}

#[test]
fn a_change_that_was_cut_short_takes_none_with_it() {
    let scratch = Scratch::new();
    let mount = scratch.prepare(&["a", "b"], &[]).unwrap();
    let [one, other] = [(); 2].map(|()| scratch.open_again(&mount));
    set(&*one, "statfs", "full").unwrap();
    let file = file_of_changes(&scratch);
    let whole = fs::read(&file).unwrap();
    // Its writer was killed.
    let mut appended = fs::File::options().append(true).open(&file).unwrap();
    appended.write_all(b"statfs=ba").unwrap();
    assert_eq!(get(&*scratch.open_again(&mount), "statfs"), "full");
    set(&*one, "branches", "->").unwrap();
    assert_eq!(branches(&scratch, &*other), "a=RW");
    assert_eq!(get(&*other, "statfs"), "full");
    let now = fs::read(&file).unwrap();
    let told = now.strip_prefix(&whole[..]).unwrap();
    assert!(told.starts_with(b"branches=") && told.ends_with(b"\n"));
}

#[test]
fn a_branch_that_could_not_be_opened_is_there_when_it_can_be() {
    let scratch = Scratch::new();
    scratch.write("c/only", "c");
    let mount = scratch.prepare(&["a", "b"], &[]).unwrap();
    let [one, other] = [(); 2].map(|()| scratch.open_again(&mount));
    let (place, away) = (scratch.0.join("c"), scratch.0.join("away"));
    set(&*one, "branches", &format!("+{}", place.display())).unwrap();
    fs::rename(&place, &away).unwrap();
    walk(&*other, "only").unwrap_err();
    fs::rename(&away, &place).unwrap();
    set(&*one, "statfs", "full").unwrap();
    walk(&*other, "only").unwrap();
}

/// Nothing has a descriptor.
struct EmptyBook;

impl NodeBook for EmptyBook {
    fn note(&self, _: i32, _: u64, _: u64) {}

    fn erase(&self, _: i32) {}

    fn each(&self, _: &mut dyn FnMut(i32, u64, u64)) {}

    fn put_away(&self, _: u64, _: u64, _: &Traces) -> Option<u32> {
        None
    }

    fn count(&self, _: u32, _: u64) {}

    fn take_back(&self, _: u32) {}

    fn each_away(&self, _: &mut dyn FnMut(u32, u64, u64, &Traces)) {}
}

#[test]
fn the_next_server_of_a_mount_has_the_branches_of_the_one_before() {
    let scratch = Scratch::new();
    let mount = scratch.prepare(&["a", "b"], &[]).unwrap();
    let directory = scratch.0.join("run");
    let server = |mount: &Mount| {
        let environment = Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            alone: true,
            book: Some(&EmptyBook),
            ..Environment::default()
        };
        culvert_drivers::open(mount, &environment).unwrap()
    };
    let one = server(&mount);
    set(&*one, "branches", "-<").unwrap();
    set(&*one, "statfs", "full").unwrap();
    assert_eq!(branches(&scratch, &*one), "b=RW");
    assert_eq!(get(&*one, "statfs"), "full");
    drop(one);
    let next = server(&mount);
    assert_eq!(branches(&scratch, &*next), "b=RW");
    assert_eq!(get(&*next, "statfs"), "full");
    set(&*next, "statfs", "base").unwrap();
    assert_eq!(get(&*server(&mount), "statfs"), "base");
}

#[test]
fn a_directory_that_has_lost_a_part_shows_the_others() {
    let scratch = Scratch::new();
    scratch.write("a/d/e/f", "a");
    scratch.write("b/d/e/g", "b");
    scratch.write("b/d/only/h", "b");
    let union = scratch.open(&["a", "b"], &["category.create=ff"]);
    let place = scratch.0.display();
    let dirs = ["d", "d/e", "d/only"].map(|path| walk(&*union, path).unwrap().node);
    set(&*union, "branches", "->").unwrap();
    let look = |dir: Node, name: &str| {
        let found = union.lookup(&me(), dir, name.as_bytes());
        found.map(drop).map_err(|error| error.errno())
    };
    assert_eq!(look(dirs[1], "f"), Ok(()));
    assert_eq!(look(dirs[1], "g"), Err(Errno::ENOENT));
    // Of who is in a directory that is gone.
    assert!(look(dirs[2], "h").is_err());
    let made = union.mkdir(&me(), dirs[2], b"new", 0o755);
    assert!(made.is_err() && scratch.on(&["a", "b"], "d/only/new").is_empty());
    // It is there again.
    set(&*union, "branches", &format!("+<{place}/b=NC")).unwrap();
    assert_eq!(look(dirs[1], "g"), Ok(()));
    assert_eq!(look(dirs[0], "only"), Ok(()));
    union.mkdir(&me(), dirs[1], b"new", 0o755).unwrap();
    assert_eq!(scratch.on(&["a", "b"], "d/e/new"), [0]);
}

#[test]
fn branches_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    scratch.sh("mkdir a b; mkdir c; echo text > c/packed; tar -C c -cf c.tar packed; echo > file");
    let union = scratch.open(&["a", "b"], &[]);
    let place = scratch.0.display();
    for (instruction, errno) in [
        (format!("-{place}/*"), Errno::EINVAL),
        (String::new(), Errno::EINVAL),
        (format!("+{place}/none"), Errno::ENOENT),
        (format!("+{place}/a"), Errno::EINVAL),
        (format!("+<{place}/c:{place}/c=RO"), Errno::EINVAL),
        ("+c".into(), Errno::ENOENT),
        (format!("+{place}/c=XX"), Errno::EINVAL),
        (format!("+{place}/c=RW=RO"), Errno::EINVAL),
        ("+/mnt/below".into(), Errno::EINVAL),
        (format!("?{place}/c"), Errno::ENOENT),
    ] {
        let refused = set(&*union, "branches", &instruction).unwrap_err();
        assert_eq!(refused.errno(), errno, "{instruction}: {refused}");
    }
    assert_eq!(branches(&scratch, &*union), "a=RW:b=RW");
    // The union has said that its files can be locked by the kernel.
    let archive = format!("+{place}/c.tar=RO");
    let refused = set(&*union, "branches", &archive).unwrap_err().to_string();
    assert!(refused.contains("it has no locks"), "{refused}");
    // Where there is one already, an archive can be one more.
    scratch.sh("cp c.tar first.tar");
    let union = scratch.open(&["a", "first.tar=RO"], &[]);
    set(&*union, "branches", &archive).unwrap();
    set(&*union, "branches", &format!("-{place}/first.tar")).unwrap();
    let node = walk(&*union, "packed").unwrap().node;
    assert_eq!(
        text(&union.open(&me(), node, OpenFlags::READ).unwrap()),
        "text\n"
    );
}

#[test]
fn branches_are_listed_at_once_where_there_are_threads() {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    fn at_once(work: &mut [&mut (dyn FnMut() + Send)]) {
        MOST.fetch_max(work.len(), Relaxed);
        thread::scope(|scope| {
            for one in work {
                scope.spawn(one);
            }
        });
    }
    let scratch = Scratch::new();
    for number in 0..300 {
        let branch = ["a", "b", "c"][number % 3];
        scratch.write(&format!("{branch}/d/{number}"), "");
        scratch.write(&format!("{branch}/d/{}", number / 2), "");
    }
    let orders = ["seq", "cosr:2", "cor"].map(|how| {
        let option = format!("func.readdir={how}");
        let mount = scratch.prepare(&["a", "b", "c"], &[&option]).unwrap();
        let environment = Environment {
            at_once: Some(at_once),
            ..Environment::default()
        };
        let union = culvert_drivers::open(&mount, &environment).unwrap();
        let dir = walk(&*union, "d").unwrap().node;
        let mut listed = Vec::new();
        union
            .read_directory(&me(), dir, 0, &mut |entry| {
                listed.push((entry.name.to_vec(), entry.inode));
                true
            })
            .unwrap();
        (MOST.swap(0, Relaxed), listed)
    });
    assert_eq!(orders.each_ref().map(|one| one.0), [0, 2, 3]);
    assert_eq!(orders[0].1.len(), 300);
    assert!(orders.iter().all(|one| one.1 == orders[0].1));
}

#[test]
fn the_space_of_a_path_is_that_of_the_branches_that_have_it() {
    let scratch = Scratch::new();
    scratch.write("a/d/f", "");
    let union = scratch.open(&["a", "memory"], &["statfs=full"]);
    let both = union.statfs().unwrap();
    let of = |path: &str| union.statfs_of(walk(&*union, path).unwrap().node).unwrap();
    assert!(of("d").blocks < both.blocks);
    assert_eq!(union.statfs_of(union.root()).unwrap().blocks, both.blocks);
    set(&*union, "statfs", "base").unwrap();
    assert_eq!(of("d").blocks, both.blocks);
}
