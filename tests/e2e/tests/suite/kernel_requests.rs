//! What the kernel asks the server of a mount: counted by the kernel's own tracepoint, for requests
//! are exact where times are not. And that nothing of what it remembers instead is wrong.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{Case, Driver, User, caches_stay, not_tested, world};
use std::{collections::BTreeMap, path::Path};

/// Requests by name.
pub type Requests = BTreeMap<String, usize>;

/// What the kernel asked for the mount at `target` while `program` ran, after `warm` had; none
/// where tracing is not to be had.
pub fn requests(target: &str, warm: &str, program: &str) -> Option<Requests> {
    let _caches = caches_stay();
    let traced = shell(&script!(
        "kernel_requests/requests.sh",
        target,
        warm,
        program
    ));
    if traced.status == "exit 77" {
        not_tested("no tracefs");
        return None;
    }
    assert_eq!(traced.status, "exit 0", "{}", traced.report());
    let line = |line: &str| {
        let (count, name) = line.trim().split_once(' ')?;
        let name = name.strip_prefix("(FUSE_")?.strip_suffix(')')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    Some(traced.text().lines().filter_map(line).collect())
}

/// `program` makes the kernel ask exactly `expected`, of that at most.
#[track_caller]
pub fn asks(target: &str, warm: &str, program: &str, expected: &[(&str, usize)]) {
    let Some(found) = requests(target, warm, program) else {
        return;
    };
    for (name, count) in &found {
        let most = expected.iter().find(|(known, _)| known == name);
        let most = most.map_or(0, |(_, most)| *most);
        assert!(
            *count <= most,
            "{program}: {name}, expected {expected:?}, found {found:?}"
        );
    }
}

/// Files that nobody has changed for a while.
const OLD: &str = "/usr/share/common-licenses";
/// A directory of some hundreds, none of which is set-user-ID: what is, is asked for each time.
const LARGE: &str = "/usr/lib/x86_64-linux-gnu";

#[test]
fn a_file_that_is_read_again() {
    if !possible() {
        return;
    }
    let mount = Mounted::of("requests-read", &["-o", "valid=600"], OLD);
    let target = mount.text("target");
    let file = format!("{target}/GPL-3");
    let read = format!("cat {file}");
    // The kernel's own reads of the backing file, then the page cache of the mount.
    asks(
        &target,
        "true",
        &read,
        &[("LOOKUP", 2), ("GETATTR", 2), ("OPEN", 1), ("RELEASE", 1)],
    );
    let warm = format!("for i in 1 2 3 4; do {read}; done");
    asks(&target, &warm, &read, &[("OPEN", 1), ("RELEASE", 1)]);
    let mount = Mounted::of("requests-memory", &["-t", "memory"], "memory");
    let target = mount.text("target");
    let warm = format!("cp {OLD}/GPL-3 {target}; cat {target}/GPL-3; cat {target}/GPL-3");
    asks(
        &target,
        &warm,
        &format!("cat {target}/GPL-3"),
        &[("OPEN", 1), ("RELEASE", 1)],
    );
}

/// Nothing is asked at close(2) where the file below has nothing to report there.
#[test]
fn what_is_read_through_a_layer_is_closed_without_a_request() {
    if !possible() {
        return;
    }
    let below = format!("/dev/shm/culvert-e2e-closing-{}", std::process::id());
    std::fs::create_dir(&below).expect("/dev/shm is there");
    std::fs::write(format!("{below}/file"), "text").expect("written");
    let union = format!("{below}=RW");
    let ways: [(&[&str], &str); 2] = [
        (&["-o", "valid=600,layer=bind"], &below),
        (&["-o", "valid=600", "-t", "union"], &union),
    ];
    for (number, (words, source)) in ways.iter().enumerate() {
        let mount = Mounted::of(&format!("requests-closing-{number}"), words, source);
        let target = mount.text("target");
        let read = format!("cat {target}/file");
        asks(
            &target,
            &read,
            &read,
            &[("OPEN", 1), ("GETATTR", 1), ("RELEASE", 1)],
        );
    }
    std::fs::remove_dir_all(&below).expect("removed");
}

#[test]
fn an_archive_is_asked_once() {
    if !possible() {
        return;
    }
    let place = Mounted::place("requests-archive");
    let archive = place.text("a.tar.gz");
    let packed = shell(&format!("tar -C /usr/share -czf {archive} common-licenses"));
    assert_eq!(packed.status, "exit 0", "{}", packed.report());
    let mount = Mounted::of("requests-archive", &[], &archive);
    let target = mount.text("target");
    let all = script!("kernel_requests/an_archive_is_asked_once-all.sh", target);
    asks(
        &target,
        &all,
        &format!("{{ {all}; true; }}"),
        &[("STATFS", 2)],
    );
    let same = shell(&format!(
        "diff -r /usr/share/common-licenses {target}/common-licenses"
    ));
    assert_eq!(same.status, "exit 0", "{}", same.report());
}

#[test]
fn writes_ask_nothing_each() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("requests-write", &["-o", "valid=600"]);
    let target = mount.text("target");
    let writing =
        |more: &str| format!("dd if=/dev/zero of={target}/w bs=4096 count=1000 status=none {more}");
    let made = [
        ("LOOKUP", 1),
        ("CREATE", 1),
        ("GETATTR", 1),
        ("GETXATTR", 1),
        ("RELEASE", 1),
    ];
    asks(&target, "true", &writing(""), &made);
    let opened = [("OPEN", 1), ("GETATTR", 2), ("GETXATTR", 1), ("RELEASE", 1)];
    asks(&target, "true", &writing("conv=notrunc"), &opened);
}

/// Three: a name that nobody has looked for, the file, its end. One more where there are extended
/// attributes, for the kernel asks for security.capability before the first write.
#[test]
fn a_small_file_is_made() {
    if !possible() {
        return;
    }
    let make = |target: &str| script!("kernel_requests/a_small_file_is_made.sh", target);
    for (name, words, xattrs) in [
        ("requests-make", &["-o", "valid=600"][..], 1),
        (
            "requests-make-plain",
            &["-o", "valid=600", "--without", "xattrs"],
            0,
        ),
    ] {
        let mount = Mounted::new(name, words);
        let target = mount.text("target");
        let least = [
            ("LOOKUP", 1),
            ("CREATE", 1),
            ("RELEASE", 1),
            ("GETXATTR", xattrs),
            ("GETATTR", 1),
        ];
        // A first file: the kernel learns that it need not ask for attributes.
        let first = format!("ls -l {target}; echo > {target}/first");
        asks(&target, &first, &make(&target), &least);
    }
}

#[test]
fn a_directory_is_listed_again() {
    if !possible() {
        return;
    }
    let names = std::fs::read_dir(LARGE).expect("there").count();
    for (name, words, xattrs) in [
        ("requests-list", &["-o", "valid=600"][..], 3 * names),
        (
            "requests-list-plain",
            &["-o", "valid=600", "--without", "xattrs"],
            0,
        ),
    ] {
        let mount = Mounted::of(name, words, LARGE);
        let target = mount.text("target");
        let list = format!("ls -l {target}");
        let warm = format!("{list}; {list}");
        // The targets of links are read again: others may have replaced the directory that they are
        // in.
        let links = shell(&format!("find {LARGE} -maxdepth 1 -type l | wc -l"));
        let links: usize = links.text().trim().parse().expect("a number");
        // `ls` follows them to see whether they are broken.
        asks(
            &target,
            &warm,
            &list,
            &[
                ("OPENDIR", 1),
                ("RELEASEDIR", 1),
                ("GETATTR", 1),
                ("READLINK", 2 * links),
                ("GETXATTR", xattrs),
            ],
        );
    }
    let mount = Mounted::of(
        "requests-list-memory",
        &["-t", "memory", "--without", "xattrs"],
        "memory",
    );
    let target = mount.text("target");
    let list = format!("ls -l {target}");
    let warm = format!("(cd {target}; for i in $(seq 200); do echo $i > $i; done); {list}; {list}");
    asks(&target, &warm, &list, &[]);
}

/// Nothing is remembered that this mount itself has changed, however long it may be believed.
#[test]
fn what_the_mount_changes_is_seen_at_once() {
    if !possible() {
        return;
    }
    let program = "own_changes.py";
    for user in [User::Me, User::Nobody] {
        for (driver, words) in [
            (Driver::Passthrough, &["-o", "valid=600,absent=600"][..]),
            (
                Driver::Passthrough,
                &["-o", "valid=600,absent=600", "--without", "passthrough"],
            ),
            (Driver::Passthrough, &["-o", "valid=0"]),
            (Driver::Driven, &["-o", "valid=600,absent=600"]),
            (Driver::Memory, &[]),
        ] {
            let case = Case::new(&format!("requests-own-{}-{user:?}", driver.name()), user)
                .directory(driver);
            let path = case.program(program);
            let script = format!("umask 022; cd $M && exec python3 {path}");
            let argv = ["bash", "-c", &script];
            let native = case.natively(&argv);
            assert_eq!(native.status, "exit 0", "{}", native.report());
            let ours = case.through_kernel(words, &argv);
            assert_eq!(ours.text(), native.text(), "{words:?} {}", ours.report());
        }
    }
}

/// What others change in the source is seen when the time is over; with `valid=0` at once.
#[test]
fn what_others_change_is_seen() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("requests-others", &["-o", "valid=0"]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let seen = shell(&script!(
        "kernel_requests/what_others_change_is_seen.sh",
        target,
        source
    ));
    let first = "3 644 1\none f\n";
    let expected = format!(
        "{}6 644 1\nlonger f\n6 600 2\nlonger f\ng\n6 600 2\nLONGER f\ng\n",
        first.repeat(3)
    );
    let text = seen
        .text()
        .replace("onef", "one f")
        .replace("longerf", "longer f")
        .replace("LONGERf", "LONGER f");
    assert!(text.starts_with(&expected), "{}", seen.report());
    assert!(
        text.contains("No such file") && text.ends_with("5 644 1\nagainf\ng\n"),
        "{}",
        seen.report()
    );
    assert!(Path::new(&source).exists() && world().is_root());
    for wrong in ["valid=x", "valid=-1", "absent=", "valid=1e400"] {
        let place = Mounted::place("requests-wrong");
        let words = [
            "mount",
            "-o",
            wrong,
            &place.text("source"),
            &place.text("target"),
        ];
        let done = crate::kernel_mount::culvert(&words);
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(
            done.errors().contains("number of seconds"),
            "{}",
            done.report()
        );
    }
}
