//! The rules of path_resolution(7) and openat2(2), one row each, with trees in memory.

use super::fake::{ROOT, Tree};
use super::world::World;
use crate::OpenDriver;
use crate::resolver::{LastStep, Magic, MountId, Restrictions};
use LastStep::{Create, CreateNoFollow, Follow, NoFollow, Parent};
use alloc::{boxed::Box, format, string::String, vec};
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Caller, FileSystem};

pub(super) const HOST: &str = "mnt/fs/ mnt/fs2/a home/u/ home/f in>/mnt/fs/d via>mnt \
    home/rel>../mnt/fs/d/f home/new>/mnt/fs/new \
    home/loop>loop data/ proc/17/fd/3>x proc/17/fd/4>x proc/17/fd/5>pipe proc/17/cwd>x \
    proc/self>17 dev/fd>/proc/self/fd";
pub(super) const TREE: &str = "d/e/g f d/f d/up>../f d/abs>/mnt/fs/f d/out>/home/u \
    d/out2>../../../home/f d/dir>e d/dangling>nothing \
    d/dirslash>e/ d/fileslash>f/ d/here>. d/above>.. d/root>/ loop>loop a>b b>a \
    d/child>/mnt/fs/sub/c out>/home sub/ d/self>/proc/self/fd/3";

pub(super) fn world() -> World {
    World::new(
        HOST,
        &[
            ("/mnt/fs", TREE),
            ("/mnt/fs/sub", "c/x up>../d root"),
            ("/data", "q x>/mnt/fs/d/f"),
        ],
    )
}

pub(super) fn check(world: &World, rows: &[(&str, &str, LastStep, u64, &str)]) {
    for &(base, path, step, bits, want) in rows {
        let got = world.walk(&ROOT, base, path, step, bits);
        assert_eq!(got, want, "{base} {path} {step:?} {bits:#x}");
    }
}

#[test]
fn names_lead_where_the_kernel_would_go() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs", Follow, 0, "0:[mount]"),
            ("/", "/mnt/fs/", Follow, 0, "0:[mount]"),
            ("/", "/mnt/fs/.", Follow, 0, "0:[.]"),
            ("/", "/mnt/fs/f", Follow, 0, "0:f"),
            ("/", "//mnt/./fs//d/.//e/g", Follow, 0, "0:d/e/g"),
            ("/", "/mnt/fs2/a", Follow, 0, "untouched"),
            ("/", "mnt/fs/d/e", Follow, 0, "0:d/e"),
            ("/mnt", "fs/d/e", Follow, 0, "0:d/e"),
            ("/mnt/fs", "d/e", Follow, 0, "0:d/e"),
            ("/mnt/fs/d", "e/../f", Follow, 0, "0:d/f"),
            ("/mnt/fs/d", ".", Follow, 0, "0:d[.]"),
            ("/mnt/fs/d", "..", Follow, 0, "0:[..]"),
            ("/mnt/fs/d", "../..", Follow, 0, "out:/mnt"),
            ("/mnt/fs/d", "../../..", Follow, 0, "out:/"),
            ("/mnt/fs/d", "../../../../..", Follow, 0, "out:/"),
            ("/mnt/fs/d", "../../fs2/a", Follow, 0, "out:/mnt/fs2/a"),
            ("/mnt/fs/d", "../../fs2/no/b", Follow, 0, "ENOENT"),
            ("/mnt/fs/d", "../../fs2/a/b", Follow, 0, "ENOTDIR"),
            ("/mnt/fs/d", "../../fs/f", Follow, 0, "0:f"),
            ("/home", "../mnt/fs/f", Follow, 0, "0:f"),
            ("/", "/home/u/../../mnt/fs/f", Follow, 0, "0:f"),
            ("/", "/home/no/../../mnt/fs/f", Follow, 0, "untouched"),
            ("/", "/home/f/../../mnt/fs/f", Follow, 0, "untouched"),
            ("/", "", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/no", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/no/x", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/f/x", Follow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/f/.", Follow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/f/..", Follow, 0, "ENOTDIR"),
        ],
    );
}

#[test]
fn trailing_slashes_ask_for_directories() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs/d/", Follow, 0, "0:d/"),
            ("/", "/mnt/fs/d///", NoFollow, 0, "0:d/"),
            ("/", "/mnt/fs/f/", Follow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/d/f/", NoFollow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/d/dir/", NoFollow, 0, "0:d/e/"),
            ("/", "/mnt/fs/d/up/", NoFollow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/no/", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/no/", Create, 0, "EISDIR"),
            ("/", "/mnt/fs/d/", Create, 0, "EISDIR"),
            ("/", "/mnt/fs/d/dirslash", Create, 0, "EISDIR"),
            ("/", "/mnt/fs/no/", Parent, 0, "0:+no/"),
            ("/", "/mnt/fs/f/", Parent, 0, "0:f/"),
            ("/", "/mnt/fs/d/dir/", Parent, 0, "0:d/dir/"),
            ("/", "/mnt/fs/d/dirslash", Follow, 0, "0:d/e/"),
            ("/", "/mnt/fs/d/fileslash", Follow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/d/fileslash", NoFollow, 0, "0:d/fileslash"),
            ("/mnt/fs", "../fs2/", Follow, 0, "out:/mnt/fs2/"),
        ],
    );
}

#[test]
fn links_are_followed_but_for_the_last() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs/d/up", Follow, 0, "0:f"),
            ("/", "/mnt/fs/d/up", NoFollow, 0, "0:d/up"),
            ("/", "/mnt/fs/d/up", Parent, 0, "0:d/up"),
            ("/", "/mnt/fs/d/up/x", NoFollow, 0, "ENOTDIR"),
            ("/", "/mnt/fs/d/dir/g", NoFollow, 0, "0:d/e/g"),
            ("/", "/mnt/fs/d/dir/../f", NoFollow, 0, "0:d/f"),
            ("/", "/mnt/fs/d/abs", Follow, 0, "0:f"),
            ("/", "/mnt/fs/d/here", Follow, 0, "0:d[.]"),
            ("/", "/mnt/fs/d/above", Follow, 0, "0:[..]"),
            ("/", "/mnt/fs/d/above/d/f", Follow, 0, "0:d/f"),
            ("/", "/mnt/fs/d/dangling", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/d/dangling", Create, 0, "0:d+nothing"),
            ("/", "/mnt/fs/d/dangling", CreateNoFollow, 0, "0:d/dangling"),
            ("/", "/mnt/fs/d/dangling/x", Create, 0, "ENOENT"),
            ("/", "/mnt/fs/loop", Follow, 0, "ELOOP"),
            ("/", "/mnt/fs/loop", NoFollow, 0, "0:loop"),
            ("/", "/mnt/fs/a", Follow, 0, "ELOOP"),
            ("/", "/mnt/fs/a/x", NoFollow, 0, "ELOOP"),
        ],
    );
}

#[test]
fn links_lead_out_of_and_into_mounts() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs/d/out", Follow, 0, "out:/home/u"),
            ("/", "/mnt/fs/d/out/", Follow, 0, "out:/home/u/"),
            ("/", "/mnt/fs/d/out/../f", Follow, 0, "out:/home/f"),
            ("/", "/mnt/fs/d/out2", Follow, 0, "out:/home/f"),
            ("/", "/mnt/fs/out/new", Parent, 0, "out:/home/new"),
            ("/", "/mnt/fs/out/loop", Follow, 0, "ELOOP"),
            ("/", "/mnt/fs/out/loop", NoFollow, 0, "out:/home/loop"),
            ("/", "/mnt/fs/out/rel", Follow, 0, "0:d/f"),
            ("/", "/mnt/fs/out/rel", NoFollow, 0, "out:/home/rel"),
            ("/", "/mnt/fs/d/root", Follow, 0, "out:/"),
            ("/", "/mnt/fs/d/root/mnt/fs/f", Follow, 0, "0:f"),
            ("/", "/in", Follow, 0, "0:d"),
            ("/", "/in", NoFollow, 0, "untouched"),
            ("/", "/in/e/g", Follow, 0, "0:d/e/g"),
            ("/", "/in/..", Follow, 0, "0:[..]"),
            ("/", "/via/fs/f", Follow, 0, "0:f"),
            ("/", "/via/fs2/a", Follow, 0, "untouched"),
            ("/home", "rel", Follow, 0, "0:d/f"),
            ("/home", "new", Create, 0, "0:+new"),
            ("/home", "new", Follow, 0, "ENOENT"),
            ("/home", "loop", Follow, 0, "untouched"),
            ("/data", "x", Follow, 0, "0:d/f"),
            ("/data", "x", NoFollow, 0, "2:x"),
        ],
    );
}

#[test]
fn mounts_cover_directories_of_mounts() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs/sub", Follow, 0, "1:[mount]"),
            ("/", "/mnt/fs/sub/c/x", Follow, 0, "1:c/x"),
            ("/", "/mnt/fs/d/../sub/c/x", Follow, 0, "1:c/x"),
            ("/mnt/fs", "sub/c", Follow, 0, "1:c"),
            ("/mnt/fs/sub", "..", Follow, 0, "0:[..]"),
            ("/mnt/fs/sub", "../f", Follow, 0, "0:f"),
            ("/mnt/fs/sub", "up/f", Follow, 0, "0:d/f"),
            (
                "/mnt/fs/sub/c",
                "../../../fs2/a",
                Follow,
                0,
                "out:/mnt/fs2/a",
            ),
            ("/", "/mnt/fs/d/child/x", Follow, 0, "1:c/x"),
            ("/mnt/fs", "sub", Parent, 0, "1:[mount]"),
            ("/mnt/fs", "sub/", Parent, 0, "1:[mount]"),
            ("/", "/mnt/fs", Parent, 0, "0:[mount]"),
            ("/mnt", "fs", Parent, 0, "0:[mount]"),
            ("/", "/home/../mnt/fs/", Parent, 0, "0:[mount]"),
        ],
    );
}

#[test]
fn calls_that_make_or_remove_get_the_parent() {
    check(
        &world(),
        &[
            ("/", "/mnt/fs/d/e/new", Parent, 0, "0:d/e+new"),
            ("/", "/mnt/fs/d/e/new", Create, 0, "0:d/e+new"),
            ("/", "/mnt/fs/new", CreateNoFollow, 0, "0:+new"),
            ("/", "/mnt/fs/no/new", Parent, 0, "ENOENT"),
            ("/", "/mnt/fs/f/new", Parent, 0, "ENOTDIR"),
            ("/", "/mnt/fs/d/.", Parent, 0, "0:d[.]"),
            ("/", "/mnt/fs/d/e/..", Parent, 0, "0:d[..]"),
            ("/", "/mnt/fs/out/.", Parent, 0, "out:/home/."),
            ("/", "/mnt/fs/out/u/..", Parent, 0, "out:/home/u/.."),
            ("/mnt/fs", "..", Parent, 0, "out:/mnt/fs/.."),
            ("/mnt/fs/d", "../../new", Parent, 0, "out:/mnt/new"),
            ("/", "/home/x", Parent, 0, "untouched"),
        ],
    );
}

#[test]
fn openat2_restrictions_hold() {
    use Restrictions as R;
    check(
        &world(),
        &[
            ("/mnt/fs/d", "e/g", Follow, R::BENEATH, "0:d/e/g"),
            ("/mnt/fs/d", "e/../e/g", Follow, R::BENEATH, "0:d/e/g"),
            ("/mnt/fs/d", "..", Follow, R::BENEATH, "EXDEV"),
            ("/mnt/fs/d", "up", Follow, R::BENEATH, "EXDEV"),
            ("/mnt/fs/d", "abs", Follow, R::BENEATH, "EXDEV"),
            ("/mnt/fs/d", "abs", NoFollow, R::BENEATH, "0:d/abs"),
            ("/mnt/fs/d", "/e", Follow, R::BENEATH, "EXDEV"),
            ("/mnt/fs", "d/up", Follow, R::BENEATH, "0:f"),
            ("/mnt", "fs/f", Follow, R::BENEATH, "0:f"),
            ("/mnt", "fs/../fs2/a", Follow, R::BENEATH, "out:/mnt/fs2/a"),
            ("/mnt", "fs/../../home", Follow, R::BENEATH, "EXDEV"),
            ("/mnt/fs/d", "..", Follow, R::IN_ROOT, "0:d[..]"),
            ("/mnt/fs/d", "/", Follow, R::IN_ROOT, "0:d[/]"),
            ("/mnt/fs/d", "/e/g", Follow, R::IN_ROOT, "0:d/e/g"),
            ("/mnt/fs/d", "../../e/g", Follow, R::IN_ROOT, "0:d/e/g"),
            ("/mnt/fs/d", "abs", Follow, R::IN_ROOT, "ENOENT"),
            ("/mnt/fs/d", "root/e", Follow, R::IN_ROOT, "0:d/e"),
            ("/mnt/fs/d", "/mnt/fs/f", Follow, R::IN_ROOT, "ENOENT"),
            ("/mnt", "/fs/f", Follow, R::IN_ROOT, "0:f"),
            ("/mnt/fs", "d/up", Follow, R::NO_SYMLINKS, "ELOOP"),
            ("/mnt/fs", "d/up", NoFollow, R::NO_SYMLINKS, "0:d/up"),
            ("/mnt/fs", "d/dir/g", NoFollow, R::NO_SYMLINKS, "ELOOP"),
            ("/mnt/fs", "d/dir/", NoFollow, R::NO_SYMLINKS, "ELOOP"),
            ("/mnt/fs", "d/up", Follow, R::NO_XDEV, "0:f"),
            ("/mnt/fs", "d/abs", Follow, R::NO_XDEV, "EXDEV"),
            ("/mnt/fs", "sub", Follow, R::NO_XDEV, "EXDEV"),
            ("/mnt/fs", "..", Follow, R::NO_XDEV, "EXDEV"),
            ("/mnt/fs/sub", "..", Follow, R::NO_XDEV, "EXDEV"),
            ("/mnt", "fs/f", Follow, R::NO_XDEV, "EXDEV"),
            ("/", "/mnt/fs/f", Follow, R::NO_XDEV, "EXDEV"),
            ("/mnt", "fs2/a", Follow, R::NO_XDEV, "untouched"),
        ],
    );
}

#[test]
fn magic_links_jump() {
    use Restrictions as R;
    let mut world = world();
    let file = Magic::File {
        mount: MountId(0),
        node: world.trees[0].at("d/f"),
        hold: None,
    };
    world.host.magic = [
        ("/proc/17/fd/3", file.clone()),
        (
            "/proc/17/fd/4",
            Magic::Directory(world.place("/mnt/fs/sub/c")),
        ),
        ("/proc/17/fd/5", Magic::Kernel),
        ("/proc/17/cwd", Magic::Directory(world.place("/mnt"))),
    ]
    .into();
    check(
        &world,
        &[
            ("/", "/proc/self/fd/3", Follow, 0, "0:d/f[magic]"),
            ("/", "/dev/fd/3", Follow, 0, "0:d/f[magic]"),
            ("/", "/proc/self/fd/3/", Follow, 0, "ENOTDIR"),
            ("/", "/proc/self/fd/3/x", Follow, 0, "ENOTDIR"),
            ("/", "/proc/self/fd/4", Follow, 0, "1:c[magic]"),
            ("/", "/proc/self/fd/4/x", Follow, 0, "1:c/x"),
            ("/", "/proc/self/fd/4/../root", Follow, 0, "1:root"),
            ("/", "/proc/self/fd/5", Follow, 0, "untouched"),
            ("/", "/proc/17/cwd/fs/f", Follow, 0, "0:f"),
            ("/", "/proc/17/cwd/fs2", Follow, 0, "untouched"),
            ("/", "/proc/self/fd/3", NoFollow, 0, &format!("{file:?}")),
            ("/", "/proc/self/fd/5", NoFollow, 0, "untouched"),
            ("/", "/mnt/fs/d/self", Follow, 0, "0:d/f[magic]"),
            (
                "/",
                "/mnt/fs/d/root/proc/self/fd/5",
                Follow,
                0,
                "out:/proc/17/fd/5",
            ),
            (
                "/",
                "/mnt/fs/d/root/proc/self/fd/5/x/y",
                Follow,
                0,
                "out:/proc/17/fd/5/x/y",
            ),
            ("/", "/proc/self/fd/3", Follow, R::NO_MAGICLINKS, "ELOOP"),
            ("/", "/mnt/fs/d/self", Follow, R::NO_MAGICLINKS, "ELOOP"),
            ("/", "proc/self/fd/3", Follow, R::BENEATH, "EXDEV"),
            ("/", "/proc/17/fd/3", Follow, R::NO_SYMLINKS, "untouched"),
            ("/", "/proc/17/fd/3", Follow, R::NO_XDEV, "EXDEV"),
        ],
    );
}

#[test]
fn the_forty_first_link_is_too_many() {
    let mut words = String::from("0");
    for n in 1..=41 {
        words += &format!(" {n}>{}", n - 1);
    }
    let world = World::new("m/", &[("/m", &words)]);
    check(
        &world,
        &[
            ("/", "/m/40", Follow, 0, "0:0"),
            ("/", "/m/41", Follow, 0, "ELOOP"),
        ],
    );
}

#[test]
fn lengths_are_limited() {
    let name = "n".repeat(256);
    let world = World::new("m/", &[("/m", "d/ f")]);
    let deep = "./".repeat(2046);
    check(
        &world,
        &[
            ("/m", &name, Follow, 0, "ENAMETOOLONG"),
            ("/m", &name, Parent, 0, "ENAMETOOLONG"),
            ("/m", &name[1..], Follow, 0, "ENOENT"),
            ("/m", &format!("d/{name}/x"), Follow, 0, "ENAMETOOLONG"),
            ("/m", &format!("no/{name}"), Follow, 0, "ENOENT"),
            ("/m", &format!("f/{name}"), Follow, 0, "ENOTDIR"),
            ("/m", &format!("{deep}d/f"), Follow, 0, "ENOENT"),
            ("/m", &format!("{deep}/f"), Follow, 0, "0:f"),
            ("/m", &format!("{deep}///f"), Follow, 0, "ENAMETOOLONG"),
        ],
    );
}

#[test]
fn search_permission_is_needed_on_every_directory_passed() {
    let world = World::new(
        "m/ h/",
        &[
            (
                "/m",
                "open/ closed/:600 closed/a group/:710 group/a l>closed/a",
            ),
            ("/m/open", "x locked/:0 locked/y"),
        ],
    );
    let user = Caller {
        uid: 5,
        gid: 5,
        groups: &[8],
        ..ROOT
    };
    let in_group = Caller {
        groups: &[8, 0],
        ..user
    };
    for (caller, base, path, step, want) in [
        (&user, "/", "/m/group/a", Follow, "EACCES"),
        (&in_group, "/", "/m/group/a", Follow, "0:group/a"),
        (&user, "/", "/m/group", Follow, "0:group"),
        (&user, "/", "/m/group/", Follow, "0:group/"),
        (&user, "/", "/m/group/.", Follow, "EACCES"),
        (&user, "/m/group", "..", Follow, "EACCES"),
        (&user, "/m/group", ".", Follow, "EACCES"),
        (&user, "/", "/m/closed/no", Follow, "EACCES"),
        (&user, "/", "/m/closed/no", Parent, "EACCES"),
        (&user, "/", "/m/l", Follow, "EACCES"),
        (&user, "/", "/m/l", NoFollow, "0:l"),
        (&user, "/", "/m/open/x", Follow, "1:x"),
        (&user, "/", "/m/open/locked", Follow, "1:locked"),
        (&user, "/", "/m/open/locked/y", Follow, "EACCES"),
        (&ROOT, "/", "/m/open/locked/y", Follow, "1:locked/y"),
        (&ROOT, "/", "/m/l", Follow, "0:closed/a"),
    ] {
        assert_eq!(
            world.walk(caller, base, path, step, 0),
            want,
            "{base} {path} {step:?}"
        );
    }
}

#[test]
fn a_miss_outside_is_walked_again() {
    let world = world();
    let again = |path: &str| {
        let base = world.place("/home");
        let (path, plain) = (path.as_bytes(), Restrictions(0));
        world.show(
            world
                .table
                .after_miss(&world.host, || ROOT, &base, path, Follow, plain),
        )
    };
    assert_eq!(again("/in/e/g"), "0:d/e/g");
    assert_eq!(again("rel"), "0:d/f");
    assert_eq!(again("/in/no"), "ENOENT");
    assert_eq!(again("/home/no"), "untouched");
    assert_eq!(again("no"), "untouched");
}

#[test]
fn no_driver_is_asked_for_a_whole_path_that_is_to_be_walked() {
    let world = world();
    let whole = |path| {
        let before = world.trees[2].reaches.load(Relaxed);
        assert_eq!(world.walk(&ROOT, "/", path, Follow, 0), "2:q");
        world.trees[2].reaches.load(Relaxed) - before
    };
    // Its driver is opened by the first.
    whole("/data/q");
    assert_eq!(whole("/data/q"), 1);
    world.table.walk_next(2);
    assert_eq!(["/data/q"; 3].map(whole), [0, 0, 1]);
    world.table.walk_next(2);
    world.table.walk_next(0);
    assert_eq!(whole("/data/q"), 1);
}

#[test]
fn targets_need_not_exist() {
    let world = World::new(
        "home/",
        &[("/a/b/c", "d/ l>../../x"), ("/a/b/c/new/m", "z")],
    );
    check(
        &world,
        &[
            ("/", "/a/b/c/d", Follow, 0, "0:d"),
            ("/home", "../a/b/c/d", Follow, 0, "0:d"),
            ("/", "/a/b/c/l", Follow, 0, "out:/a/x"),
            ("/a/b/c", "..", Parent, 0, "out:/a/b/."),
            ("/", "/a/b/c/new/m/z", Follow, 0, "1:z"),
            ("/a/b/c", "new/m/z", Follow, 0, "ENOENT"),
            ("/a/b/c/new/m", "..", Follow, 0, "ENOENT"),
        ],
    );
}

#[test]
fn a_target_is_the_mount_under_any_name() {
    let mut world = World::new("mnt/fs/ moved/fs/ moved/a", &[]);
    let ino = world.host.at("moved/fs").0;
    world.mount("/mnt/fs", Tree::new("f"), Some((1, ino)));
    check(
        &world,
        &[
            ("/", "/moved/fs/f", Follow, 0, "0:f"),
            ("/moved", "fs", Follow, 0, "0:[mount]"),
            ("/", "/moved/a", Follow, 0, "untouched"),
        ],
    );
}

#[test]
fn a_further_mount_hides_the_first_and_leaves_it_as_it_is() {
    let world = world();
    let table = &world.table;
    let (known, first) = (table.count(), MountId(0));
    let inner = table.deepest(b"/mnt/fs/sub/c").unwrap().0;
    let old = table.driver(first).unwrap().root();
    let further = |target: &[u8]| {
        let make = || Ok(Box::new(Tree::new("new")) as Box<dyn FileSystem>);
        (target.to_vec(), Box::new(make) as OpenDriver)
    };
    // Another one was faster, or there is nothing to be hidden.
    table.extend(known - 1, vec![further(b"/mnt/fs")]);
    table.extend(known, vec![further(b"/mnt/other")]);
    assert_eq!(table.count(), known);
    table.extend(known, vec![further(b"/mnt/fs")]);
    let new = MountId(known as u16);
    assert_eq!(table.deepest(b"/mnt/fs/d").unwrap().0, new);
    assert_eq!(table.deepest(b"/mnt/fs/sub/c").unwrap().0, inner);
    assert_eq!((table.parent(inner), table.parent(new)), (Some(new), None));
    assert!(table.is_shown(new) && !table.is_shown(first));
    // Who has the first open goes on with its driver.
    assert_eq!(table.driver_if_open(first).unwrap().root(), old);
    assert_eq!(table.target(first), b"/mnt/fs");
    let driver = table.driver(new).unwrap();
    assert!(driver.lookup(&ROOT, driver.root(), b"new").is_ok());
}

/// The root of a mount as the root directory (chroot(2)).
#[test]
fn a_root_on_a_mount_is_where_absolute_paths_begin() {
    let world = world();
    world.table.enter_root(MountId(0), |_, _| false).unwrap();
    check(
        &world,
        &[
            ("/", "/", Follow, 0, "0:[mount]"),
            ("/", "/f", Follow, 0, "0:f"),
            ("/", "f", Follow, 0, "0:f"),
            ("/", "//d/./e/g", Follow, 0, "0:d/e/g"),
            ("/", "/..", Follow, 0, "0:[..]"),
            ("/", "/../../f", Follow, 0, "0:f"),
            ("/d", "../../../f", Follow, 0, "0:f"),
            ("/d", "..", Follow, Restrictions::NO_XDEV, "0:[..]"),
            ("/", "/d/up", Follow, 0, "0:f"),
            ("/", "/d/out2", Follow, 0, "ENOENT"),
            // A link's target begins there, too.
            ("/", "/d/root", Follow, 0, "0:[mount]"),
            ("/", "/d/abs", Follow, 0, "ENOENT"),
            ("/", "/d/out", Follow, 0, "ENOENT"),
            // The mount within it is there, and nothing of the others.
            ("/", "/sub/c/x", Follow, 0, "1:c/x"),
            ("/", "/sub/..", Follow, 0, "0:[..]"),
            ("/sub", "../f", Follow, 0, "0:f"),
            ("/", "/data/q", Follow, 0, "ENOENT"),
            ("/", "/mnt/fs/f", Follow, 0, "ENOENT"),
            ("/", "/new", Parent, 0, "0:+new"),
        ],
    );
    let again = |mount| world.table.enter_root(MountId(mount), |_, _| false);
    assert_eq!(again(0), Ok(()));
    assert_eq!(again(2), Err(culvert::Errno::EBUSY));
    let place = world.table.place(b"/").unwrap();
    assert_eq!(world.table.path_of(&place).unwrap(), b"/");
    assert_eq!(world.table.target(MountId(2)), b"(unreachable)/data");
}

/// What the kernel has below that root at the very path is the kernel's.
#[test]
fn what_the_kernel_has_at_its_place_below_a_root_is_the_kernels() {
    let world = world();
    let kernels = |mount: MountId, target: &[u8]| mount == MountId(1) && target == b"/sub";
    world.table.enter_root(MountId(0), kernels).unwrap();
    assert!(world.table.is_kernels(MountId(1)));
    assert!(!world.table.is_kernels(MountId(0)));
    assert!(world.table.backed(b"/sub/c").is_none());
}
