//! Programs that use one FUSE server and get into each other's way: one writes into the memory that
//! they share, some are killed and stopped, and one moves what another has open.

use crate::fuse_servers::Place;
use crate::kernel_mount::shell;
use culvert_e2e::{installed, world};

#[test]
fn who_scribbles_over_slots_and_caches_causes_errors_at_most() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("scribbled");
    let (source, target) = (place.text("source"), place.text("target"));
    // 124: it has not ended; from 128 on: it has crashed.
    let script = format!(
        r#"try() {{ timeout 200 "$@" > /dev/null 2>&1; s=$?; [ $s -lt 124 ] || echo "$s: $*"; }}
        for seed in 1 2 3 4; do
            python3 {program} {target} $seed 20000 &
            for i in 1 2 3; do
                try cat {target}/file; try ls -l {target}; try cp {target}/big /dev/null
                try touch {target}/made$i; try rm {target}/made$i
            done
            wait
        done"#,
        program = world().program("scribbles.py").display(),
    );
    let done = place.run("type=fuse.bindfs,attr_timeout=5,entry_timeout=5", &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let text = done.text();
    // The server may have been told to close what it has not opened, or to end.
    let others: Vec<_> = text.lines().filter(|line| *line != "scribbled").collect();
    assert!(others.is_empty(), "{}", done.report());
    let left = shell(&format!(
        "for i in $(seq 600); do
             pgrep -f '[b]indfs {source} ' > /dev/null || {{ echo none; break; }}; sleep .1
         done"
    ));
    assert_eq!(left.text(), "none\n");
}

/// How many programs are killed or stopped; more by hand.
const DEATHS: usize = 60;

#[test]
fn programs_that_are_killed_at_any_moment_leave_nothing_open_and_hold_up_nobody() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("deaths");
    let (log, target) = (place.text("log"), place.text("target"));
    let deaths = std::env::var("CULVERT_PROGRAM_DEATHS").map_or(DEATHS, |deaths| {
        deaths.parse().expect("CULVERT_PROGRAM_DEATHS is a number")
    });
    let script = format!(
        r#"python3 {program} {target} {deaths}
        count() {{ grep -c " opcode: $1 " {log}; }}
        opened() {{ echo $(( $(count OPEN) + $(count CREATE) )); }}
        for i in $(seq 300); do
            [ $(opened) = $(count RELEASE) ] && [ $(count OPENDIR) = $(count RELEASEDIR) ] && break
            sleep .1
        done
        echo $(( $(opened) - $(count RELEASE) )) $(( $(count OPENDIR) - $(count RELEASEDIR) ))"#,
        program = world().program("killed_users.py").display(),
    );
    let done = place.run(&crate::fuse_servers::LOGGED.replace("LOG", &log), &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "all ended\n0 0\n", "{}", done.report());
}

#[test]
fn what_others_have_moved_keeps_its_place_over_fork_and_exec() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("moved");
    let target = place.text("target");
    let script = format!(
        r#"mkdir -p {target}/one {target}/two
        python3 -c 'import os, subprocess
os.chdir("{target}/one")
waits, go = os.pipe()
child = os.fork()
if child == 0:
    os.read(waits, 1)
    os.write(1, os.getcwd().encode() + b"\n")
    os._exit(0)
os.rename("{target}/one", "{target}/two/moved")
os.write(go, b"x")
os.waitpid(child, 0)
subprocess.run(["mv", "{target}/two", "{target}/three"])
os.write(1, os.getcwd().encode() + b"\n")
file = os.open("{target}/file", os.O_RDONLY)
subprocess.run(["mv", "{target}/file", "{target}/three/renamed"])
os.dup2(file, 0)
os.execlp("cat", "cat")'"#
    );
    let done = place.run("type=fuse.bindfs", &script);
    assert_eq!(
        done.text(),
        format!("{target}/two/moved\n{target}/three/moved\nhello\n"),
        "{}",
        done.report()
    );
}
