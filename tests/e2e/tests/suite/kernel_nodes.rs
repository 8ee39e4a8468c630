//! Nodes of kernel mounts that have no descriptor for the time being: more of them than
//! descriptors, on several file systems, for mapped users.

use crate::{kernel_life::privately, kernel_mount::possible};
use culvert_e2e::{User, not_tested};

/// A source with other file systems mounted below: those have no handles that could be opened by
/// the root's mount, so what is closed is found by its name.
const BELOW: &str = script!(part "kernel_nodes/below.sh");

#[test]
fn file_systems_below_the_source() {
    if !possible() {
        return;
    }
    let done = privately("kernel-below", User::Me, BELOW);
    let expected = "0 1 4513
a/0a/11
more
b/0
b/1
b/1
cross-device link
cross-device link
Errno 18
a/1500
busy
late
free
";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// With mapped users the kernel judges who may, and the server makes what they make as theirs, with
/// more rights than they have. Having opened a directory again it still has them.
#[test]
fn mapped_users_make_files_in_directories_that_were_closed() {
    if !possible() {
        return;
    }
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    // By a group that the caller has besides, of which the server is not told.
    let script = script!(
        "kernel_nodes/mapped_users_make_files_in_directories_that_were_closed.sh",
        program
    );
    let done = privately("kernel-mapped-closed", User::Me, &script);
    match done.status.as_str() {
        "exit 77" => not_tested("no idmapped mounts here"),
        _ => assert_eq!(done.text(), " 1500 1000 1000\n", "{}", done.report()),
    }
}

/// After a load, once nobody asks for anything, the server holds little memory, and sleeps.
#[test]
fn an_idle_server_is_small_and_sleeps() {
    if !possible() {
        return;
    }
    // Of memory that is the server's; what it has read of the command itself is everybody's.
    // Switches of its threads: those of any kind.
    let script = script!("kernel_nodes/an_idle_server_is_small_and_sleeps.sh");
    for (name, words) in [("backed", ""), ("cached", "--without passthrough")] {
        let script = format!("WORDS=\"{words}\"\n{script}");
        let done = privately(&format!("kernel-idle-{name}"), User::Me, &script);
        assert_eq!(done.text(), "small\nsleeps\n", "{name} {}", done.report());
    }
}
