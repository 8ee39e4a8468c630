//! Kernel mounts of a driver by paths whose files have no size before they are read
//! (`tests/e2e/src/bin/computed.rs`).

use crate::kernel_mount::{Mounted, possible};
use culvert_e2e::world;
use std::process::Command;

#[test]
fn computed_files_are_read_to_their_end() {
    if !possible() {
        return;
    }
    let place = Mounted::place("computed");
    // The driver ends with its input, which the shell holds open until it has looked.
    let script = script!(part "kernel_computed/computed_files_are_read_to_their_end.sh");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", script])
        .arg(env!("CARGO_BIN_EXE_computed"))
        .arg(place.text("target"))
        .current_dir(world().path("work"));
    let done = culvert_e2e::run(command, &[]);
    let want = "mounted\n0\n20000\npart\n0\n1\ncopied\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn a_server_of_ones_own_ends_at_a_signal_and_at_umount() {
    if !possible() {
        return;
    }
    let place = Mounted::place("ended");
    let script =
        script!(part "kernel_computed/a_server_of_ones_own_ends_at_a_signal_and_at_umount.sh");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", script])
        .arg(env!("CARGO_BIN_EXE_computed"))
        .arg(place.text("target"))
        .current_dir(world().path("work"));
    let done = culvert_e2e::run(command, &[]);
    let want = "0\nmounted, ended with 0\n".repeat(3);
    assert_eq!(done.text(), want, "{}", done.report());
}
