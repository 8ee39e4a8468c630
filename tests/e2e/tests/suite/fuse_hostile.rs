//! Programs that use one FUSE server and get into each other's way: one writes into the memory that
//! they share, some are killed and stopped, and one moves what another has open.

use crate::fuse_servers::Place;
use crate::kernel_mount::{possible, shell};
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

/// What the device says to each wrong write, and what programs get. The kernel compares the length
/// of a reply with what was asked for before the server's write returns; here the program does, so
/// of these the server is not told.
const LIES: [&str; 2] = [
    "short EINVAL EINVAL done
length EINVAL EINVAL done
unknown ENOENT ENOENT done
positive EINVAL done
large EINVAL EINVAL done
notice EINVAL EINVAL done
errorbody EINVAL ENOENT
twice done ENOENT ENOENT
absent done
",
    "short ENOENT
length ENOENT
unknown ENOENT
positive ENOENT
large ENOENT
notice ENOENT
errorbody EIO
twice ENOENT
truncated EIO
longer EIO
kind EIO
absent ENOENT
read EIO
written EIO
",
];

#[test]
fn what_a_server_writes_wrongly_is_refused_as_by_the_kernel() {
    let place = Place::new("liar");
    let (target, server) = (place.text("target"), world().program("device_liar.py"));
    let program = world().program("meets_liar.py");
    let (log, program) = (place.text("log"), program.display());
    let kind = format!(
        "type=fuse,\"command=python3 {} %m {log}\"",
        server.display()
    );
    let done = place.run(&kind, &format!("python3 {program} {target}"));
    let told = std::fs::read_to_string(&log).unwrap_or_default();
    assert_eq!([&told[..], &done.text()[..]], LIES, "{}", done.report());
    if !possible() || !world().is_root() {
        return;
    }
    let done = shell(&format!(
        "python3 {} {target} {log} & python3 - <<'END'
import os, time
while not os.path.ismount('{target}'):
    time.sleep(.01)
END
        python3 {program} {target}; umount -l {target}; wait",
        server.display()
    ));
    let told = std::fs::read_to_string(&log).unwrap_or_default();
    assert_eq!([&told[..], &done.text()[..]], LIES, "{}", done.report());
}

/// What is opened is released, once nobody has it: `script` says nothing of its own then.
fn all_is_released(place: &Place, script: &str) -> String {
    let log = place.text("log");
    let script = format!(
        r#"{script}
        count() {{ grep -c " opcode: $1 " {log}; }}
        opened() {{ echo $(( $(count OPEN) + $(count CREATE) )); }}
        for i in $(seq 300); do
            [ $(opened) = $(count RELEASE) ] && [ $(count OPENDIR) = $(count RELEASEDIR) ] && break
            sleep .1
        done
        echo $(( $(opened) - $(count RELEASE) )) $(( $(count OPENDIR) - $(count RELEASEDIR) ))"#
    );
    let done = place.run(&crate::fuse_servers::LOGGED.replace("LOG", &log), &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    done.text()
}

#[test]
fn more_programs_than_have_places_see_all_that_others_change() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("many");
    let script = format!(
        "python3 {} {} 60",
        world().program("many_users.py").display(),
        place.text("target")
    );
    assert_eq!(all_is_released(&place, &script), "all right\n0 0\n");
}

#[test]
fn a_file_that_killed_programs_had_together_is_released() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("together");
    let script = format!(
        r#"for time in 1 2 3; do
            python3 -c 'import os, signal
file = os.open("{target}/file", os.O_RDWR)
waits, go = os.pipe()
for child in range(3):
    if os.fork() == 0:
        os.write(go, b"x")
        signal.pause()
for child in range(3):
    os.read(waits, 1)
os.killpg(0, signal.SIGKILL)' &
            wait $!
        done 2> /dev/null; ls -A {target}"#,
        target = place.text("target")
    );
    let script = format!("set -m; {script}");
    assert_eq!(all_is_released(&place, &script), "big\nfile\n0 0\n");
}
