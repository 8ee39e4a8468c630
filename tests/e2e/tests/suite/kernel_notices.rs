//! Kernel mounts whose driver tells what others change (`-o watch`): everything is believed for
//! long, and nothing old is seen.

use crate::{
    kernel_mount::{Mounted, possible, shell},
    kernel_requests::asks,
};
use culvert_e2e::{Driver, User, caches_may_go, not_tested, world};

/// For longer than a test takes.
const LONG: &str = "watch,valid=600,absent=600";

/// Shell functions: `seen WANTED COMMAND...` waits until the command says what is wanted. The
/// kernel is told within a moment, not within the call that makes the change.
const SEEN: &str = script!(part "kernel_notices/seen.sh");

/// Each change of others, after what it changes was looked at and is believed.
fn changes(source: &str, target: &str) -> String {
    script!("kernel_notices/changes.sh", seen = SEEN, source, target)
}

#[test]
fn what_others_change_is_told() {
    if !possible() {
        return;
    }
    for words in [
        &["-o", LONG][..],
        &["-o", LONG, "--without", "passthrough"],
        &["-o", "watch,driven"],
        &["-o", "watch", "--restart"],
    ] {
        let mount = Mounted::new("notices-told", words);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let done = shell(&changes(&source, &target));
        assert_eq!(done.text(), "b\n", "{words:?} {}", done.report());
        assert_eq!(done.status, "exit 0", "{words:?} {}", done.report());
        shell(&format!("rm -r {source}/*"));
    }
}

/// And what nobody changes is not asked for.
#[test]
fn what_is_watched_is_not_asked_for() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-warm", &["-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let look = script!(
        "kernel_notices/what_is_watched_is_not_asked_for-look.sh",
        target
    );
    let warm = script!(
        "kernel_notices/what_is_watched_is_not_asked_for-warm.sh",
        source,
        seen = SEEN,
        target,
        look
    );
    // Not a LOOKUP, and no GETATTR but of directories that were read: their time of access may have
    // changed (`fuse_readdir`, fs/fuse/readdir.c).
    asks(
        &target,
        &format!("{warm} 2>/dev/null"),
        &format!("{{ {look}; true; }} 2>/dev/null"),
        &[
            ("OPEN", 3),
            ("RELEASE", 3),
            ("STATFS", 1),
            ("GETATTR", 3),
            ("OPENDIR", 3),
            ("RELEASEDIR", 3),
            ("READDIRPLUS", 6),
            ("READDIR", 6),
        ],
    );
}

/// With `watch` alone, for a day: longer than the second after which it would be asked for.
#[test]
fn what_is_watched_is_believed_for_a_day() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-day", &["-o", "watch"]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let look = format!("ls -l {target}/d");
    // What is heard of the new file, perhaps late, ends a listing.
    let warm = format!("mkdir {source}/d; echo > {source}/d/f; sleep 1; {look}; {look}; sleep 1.5");
    asks(
        &target,
        &warm,
        &look,
        &[("STATFS", 1), ("GETXATTR", 9), ("LISTXATTR", 9)],
    );
}

/// Directories are opened without a request, and their listings kept: none is old, and none lacks
/// what stays.
#[test]
fn listings_that_are_kept() {
    if !possible() {
        return;
    }
    for words in [&["-o", "watch"][..], &["-o", "watch,driven"]] {
        let mount = Mounted::new("notices-listings", words);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/kept_listings.py");
        let caches = caches_may_go();
        let done = shell(&format!("python3 {program} {source} {target}"));
        drop(caches);
        assert_eq!(done.text(), "listed\n", "{words:?} {}", done.report());
        shell(&format!("rm -r {source}/*"));
    }
}

/// What is done through the mount is not told back: the kernel would lose its picture of what is
/// open.
#[test]
fn own_changes_are_not_others() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-own", &["-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let done = shell(&script!(
        "kernel_notices/own_changes_are_not_others.sh",
        seen = SEEN,
        target,
        source
    ));
    assert_eq!(
        done.text(),
        format!("{target}/d\n51\n"),
        "{}",
        done.report()
    );
}

/// A server that is killed takes its watches with it: the next one believes nothing of before.
#[test]
fn what_changed_while_no_server_was_there() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-restart", &["--restart", "-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    // The keeper is held, so that no server is there.
    let done = shell(&script!(
        "kernel_notices/what_changed_while_no_server_was_there.sh",
        seen = SEEN,
        target,
        source
    ));
    assert_eq!(done.text(), "1\n", "{}", done.report());
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

/// Where no more can be watched, the rest is believed for a second, and the log says so.
#[test]
fn more_than_can_be_watched() {
    if !possible() {
        return;
    }
    let place = Mounted::place("notices-many");
    let (source, target) = (place.text("source"), place.text("target"));
    let culvert = world().culvert.display();
    let done = shell(&script!(
        "kernel_notices/more_than_can_be_watched.sh",
        seen = SEEN,
        source,
        culvert,
        long = LONG,
        target
    ));
    if matches!(done.status.as_str(), "exit 77" | "exit 78" | "exit 1") && done.text().is_empty() {
        not_tested(format_args!("no user namespaces: {}", done.report()));
        return;
    }
    assert_eq!(
        done.text(),
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n9\n1\n",
        "{}",
        done.report()
    );
}

/// An ordinary user's files, watched as such.
#[test]
fn watched_by_an_ordinary_user() {
    if !possible() {
        return;
    }
    let case = culvert_e2e::Case::new("notices-user", User::Nobody).directory(Driver::Passthrough);
    let script = script!("kernel_notices/watched_by_an_ordinary_user.sh", seen = SEEN);
    let done = case.through_kernel(&["-o", LONG], &["bash", "-c", &script]);
    assert_eq!(done.text(), "0\n311\n", "{}", done.report());
}
