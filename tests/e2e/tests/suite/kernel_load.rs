//! Load on kernel mounts by other people's programs that check what they read: fsx with mappings,
//! stress-ng, fio, dbench. And what is left of it in the server.
//!
//! `CULVERT_LOAD=N` does N times as much; see docs/testing.md.

use crate::{
    kernel_life::privately,
    kernel_mount::{Mounted, possible, shell},
};
use culvert_e2e::{User, installed, not_tested, suite};

/// How much more than usual.
fn factor() -> u32 {
    let asked = std::env::var("CULVERT_LOAD").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// `count` of load `name` on passthrough and on memory, by root and by an ordinary user on a mount
/// of his own.
fn load(name: &str, count: u32) {
    if !possible() || !installed("fusermount3") {
        return;
    }
    if let Some(program) = [
        ("stress", "stress-ng"),
        ("fio", "fio"),
        ("dbench", "dbench"),
    ]
    .iter()
    .find_map(|(load, program)| (*load == name).then_some(*program))
        && !installed(program)
    {
        return;
    }
    let fsx = match name {
        "fsx" => suite("fsx").display().to_string(),
        _ => String::new(),
    };
    for user in [User::Me, User::Nobody] {
        for mount in ["$D/source", "-t memory memory"] {
            // One of each is enough of those that take long.
            if name == "stress" && factor() == 1 && (user == User::Me) != (mount == "$D/source") {
                continue;
            }
            let kind = &mount[mount.len() - 6..];
            let script = script!(
                "kernel_load/load.sh",
                mount,
                fsx,
                cargo_manifest_dir = env!("CARGO_MANIFEST_DIR"),
                name,
                factor = count * factor()
            );
            let done = privately(&format!("load-{name}-{kind}-{user:?}"), user, &script);
            assert_eq!(done.text(), "right\n", "{mount} {user:?} {}", done.report());
        }
    }
}

#[test]
fn fsx_with_mappings() {
    load("fsx", 1000);
}

#[test]
fn stressors() {
    load("stress", 10);
}

#[test]
fn verified_writes() {
    load("fio", 512);
}

#[test]
fn a_file_servers_clients() {
    load("dbench", 2000);
}

/// How many descriptors the server has beside its channels and rings, of which it opens more when
/// many ask at once.
const HELD: &str = "ls -l /proc/$server/fd | grep -vc -e /dev/fuse -e io_uring";

/// The server's descriptors but its channels, and KiB of memory that is its alone.
fn held(server: &str) -> (usize, usize) {
    let said = shell(&format!(
        "server={server}; {HELD}; awk '/RssAnon/ {{ print $2 }}' /proc/{server}/status"
    ));
    let text = said.text();
    let mut numbers = text
        .lines()
        .map(|line| line.trim().parse().expect("a number"));
    (numbers.next().expect("one"), numbers.next().expect("two"))
}

/// Has the kernel forget what nobody uses of the mount at `target`, and of no other, until its
/// server, which is told of that when it comes to it, holds `most` descriptors; how many it holds
/// in the end.
fn forget(target: &str, server: &str, most: usize) -> usize {
    let said = shell(&script!(
        "kernel_load/forget.sh",
        server,
        target,
        held = HELD,
        most
    ));
    if said.status == "exit 77" {
        not_tested("nothing can be mounted here");
        return most;
    }
    said.text().trim().parse().expect("a number")
}

/// Files that are looked at in each round, which a server that forgets nothing would hold 2.7 MiB
/// more for.
const NODES: usize = 10_000;

/// A storm of FORGET takes back everything that looking at many files took.
#[test]
fn nothing_is_left_of_what_is_forgotten() {
    if !possible() {
        return;
    }
    for (name, words) in [("left", &[][..]), ("left-driven", &["-o", "driven"])] {
        let mount = Mounted::new(&format!("kernel-{name}"), words);
        let (target, server) = (mount.text("target"), mount.server());
        let (first, _) = held(&server);
        let tree = mount.text("source/tree");
        let made = shell(&format!(
            "mkdir {tree} && cd {tree} && touch $(seq {NODES})"
        ));
        assert_eq!(made.status, "exit 0", "{}", made.report());
        let look = script!(
            "kernel_load/nothing_is_left_of_what_is_forgotten-look.sh",
            target
        );
        let mut memory = Vec::new();
        for _ in 0..5 {
            let done = shell(&look);
            assert_eq!(
                done.text(),
                format!("500\n {NODES} 0\n"),
                "{}",
                done.report()
            );
            assert_eq!(forget(&target, &server, first), first, "{name}");
            memory.push(held(&server).1);
        }
        // The nodes of three rounds would be 8 MiB. What threads have used for requests, more of
        // them on a busy machine, is given back when nothing comes any more.
        let most = memory[1] + 4096;
        let settled = shell(&script!(
            "kernel_load/nothing_is_left_of_what_is_forgotten.sh",
            server,
            most
        ));
        let settled: usize = settled.text().trim().parse().expect("a number");
        assert!(settled <= most, "{settled} after {memory:?}");
    }
}

/// The server knows more nodes than it may have descriptors.
#[test]
fn a_tree_of_20_000_files_with_1024_descriptors() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let script = script!("kernel_load/a_tree_of_20_000_files_with_1024_descriptors.sh");
    for user in [User::Me, User::Nobody] {
        let done = privately(&format!("kernel-many-{user:?}"), user, script);
        assert_eq!(
            done.text(),
            " 19999 0\n 1 5\nfew\nlast\nlast\n0 5\nnot empty\n1001\n",
            "{user:?} {}",
            done.report()
        );
    }
}
