//! Servers of kernel mounts killed under load: with a keeper the load goes on, without one
//! everybody is told and nothing synced is lost.

use crate::{
    kernel_life::{keeper, load_on, privately},
    kernel_mount::{Mounted, possible, shell},
};
use culvert_e2e::{User, installed, suite, world};

/// A program of `programs`, as a shell calls it.
fn python(name: &str) -> String {
    format!(
        "/usr/bin/python3 {}/programs/{name}.py",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn memory_goes_on() {
    if possible() {
        load_on(
            &Mounted::of(
                "kernel-load-memory",
                &["--restart", "-t", "memory"],
                "memory",
            ),
            8,
        );
    }
}

/// What is read of an archive is the same, whenever its server is killed.
#[test]
fn an_archive_is_read_on() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-again-archive");
    let archive = place.text("a.tar.zst");
    let packed = shell(&format!("tar -C /usr/share -caf {archive} common-licenses"));
    assert_eq!(packed.status, "exit 0", "{}", packed.report());
    let mount = Mounted::of("kernel-again-archive", &["--restart"], &archive);
    let (target, keeper) = (mount.text("target"), keeper(&mount));
    // One open of long standing, read further each time; and everything by new ones, half of it
    // asked of the server by an empty cache.
    let done = shell(&script!(
        "kernel_restart/an_archive_is_read_on.sh",
        target,
        keeper
    ));
    assert_eq!(done.text(), "same\n6000\n", "{}", done.report());
    assert_eq!(done.errors(), "", "{}", done.report());
}

/// Two users on one mount of root's.
#[test]
fn two_users_go_on() {
    if !possible() {
        return;
    }
    for (name, words) in [
        ("kernel-again-two", &["--allow-other", "--restart"][..]),
        (
            "kernel-again-two-driven",
            &["--allow-other", "--restart", "-o", "driven"],
        ),
    ] {
        let mount = Mounted::new(name, words);
        let (target, keeper) = (mount.text("target"), keeper(&mount));
        let program = python("served_again");
        let done = shell(&script!(
            "kernel_restart/two_users_go_on.sh",
            target,
            program,
            keeper
        ));
        assert_eq!(
            done.text().lines().collect::<Vec<_>>().join(" "),
            "nothing failed nothing failed 0 1 2",
            "{}",
            done.report()
        );
    }
}

/// A file that its server cannot open again, because its user may not any more: its descriptor
/// fails until it is closed, whatever is opened meanwhile.
#[test]
fn a_file_that_is_lost_is_no_other_file() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let program = python("lost_file");
    let script = script!(
        "kernel_restart/a_file_that_is_lost_is_no_other_file.sh",
        program
    );
    let done = privately("kernel-lost-file", User::Nobody, &script);
    let round = "lost, content of b\nlost\n";
    assert_eq!(
        done.text(),
        format!("{round}{round}closed all the same\ncontent of c, content of b\ncontent of c"),
        "{}",
        done.report()
    );
}

/// A server that has no descriptor left when it is killed: what the next one needs to begin is
/// there, and what is open stays what it is.
#[test]
fn a_server_without_descriptors_is_followed_by_another() {
    if !possible() {
        return;
    }
    let program = python("few_descriptors");
    let script = script!(
        "kernel_restart/a_server_without_descriptors_is_followed_by_another.sh",
        program
    );
    let done = privately("kernel-few-descriptors", User::Me, &script);
    assert_eq!(
        done.text(),
        format!("EMFILE\n{}", "True []\n".repeat(3)),
        "{}",
        done.report()
    );
}

/// Directories for which a server had no descriptor when it was killed are found by the next one
/// for who is in them, and has them open.
#[test]
fn directories_that_were_closed_are_not_lost() {
    if !possible() {
        return;
    }
    let script = script!("kernel_restart/directories_that_were_closed_are_not_lost.sh");
    let done = privately("kernel-again-closed", User::Me, script);
    let round = |more: &str| format!("e f 200 {more} e f ");
    let expected = round("x1") + &round("x1 x2") + &round("x1 x2 x3") + "f";
    assert_eq!(
        done.text().split_whitespace().collect::<Vec<_>>().join(" "),
        expected,
        "{}",
        done.report()
    );
    assert_eq!(done.errors(), "", "{}", done.report());
}

/// Other people's programs, which check what they read.
#[test]
fn checked_loads_go_on() {
    if !possible() {
        return;
    }
    let kills = std::env::var("CULVERT_LOAD_KILLS").unwrap_or_else(|_| "4".to_owned());
    for (kind, words, source) in [
        ("passthrough", &["--restart"][..], None),
        ("memory", &["--restart", "-t", "memory"], Some("memory")),
    ] {
        let name = format!("kernel-again-{kind}");
        let own = Mounted::place(&name).text("source");
        let mount = Mounted::of(&name, words, source.unwrap_or(&own));
        let (target, keeper) = (mount.text("target"), keeper(&mount));
        for (load, count) in [("fsx", 300), ("fio", 128), ("dbench", 500)] {
            if load != "fsx" && !installed(load) {
                continue;
            }
            let done = shell(&script!(
                "kernel_restart/checked_loads_go_on.sh",
                target,
                fsx = suite("fsx").display(),
                loads = python("loads"),
                keeper,
                kills,
                culvert = world().culvert.display(),
                load,
                count
            ));
            assert_eq!(done.text(), "right\n", "{kind} {load} {}", done.report());
        }
    }
}

/// Without a keeper.
#[test]
fn what_was_synced_outlives_the_server() {
    if !possible() {
        return;
    }
    let named = "memory:culvert-e2e-synced";
    let program = python("synced");
    for (kind, words, source) in [
        ("passthrough", &[][..], None),
        ("driven", &["-o", "driven"], None),
        ("memory", &["-t", "memory"], Some(named)),
    ] {
        let name = format!("kernel-synced-{kind}");
        let own = Mounted::place(&name).text("source");
        let source = source.unwrap_or(&own);
        for seed in 1..=3 {
            // Names of their own: a server may end a little later than its mount.
            let mount = Mounted::of(&format!("{name}-{seed}"), words, source);
            let target = mount.text("target");
            let server = mount.server();
            let done = shell(&format!(
                "{program} write {target} {target}.log {seed} {server}"
            ));
            assert_eq!(done.text(), "told\n", "{kind} {}", done.report());
            drop(mount);
            let again = Mounted::of(&format!("{name}-{seed}-again"), words, source);
            let place = again.text("target");
            let done = shell(&format!("{program} check {place} {target}.log"));
            assert_eq!(done.text(), "there True\n", "{kind} {}", done.report());
        }
    }
    // Its server was root's.
    shell("rm -r /dev/shm/culvert-0/memory/culvert-e2e-synced*");
}
