//! FUSE servers that cannot be intercepted, by an adapter, as an ordinary user without /dev/fuse.

use crate::{fuse_server_kinds::serves, kernel_mount::culvert};
use culvert_e2e::{installed, not_tested, world};
use std::path::Path;

/// Where scripts/prerequisites unpacks Debian's sources of libfuse.
const EXAMPLES: &str = "/usr/src/culvert/fuse3/example";

#[test]
fn a_server_of_32_bits_is_served_by_an_adapter() {
    let source = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/server32.c"));
    let script = script!(part "fuse_servers/adapter-32.sh", source);
    serves("adapter-32", &["cc"], &script);
}

#[test]
fn statically_linked_servers_are_served_by_an_adapter() {
    if !Path::new(EXAMPLES).exists() || !Path::new("/usr/include/fuse3").exists() {
        return not_tested("statically linked servers: libfuse3-dev and its source are wanted");
    }
    let script = script!(part "fuse_servers/adapter-static.sh", examples = EXAMPLES);
    serves("adapter-static", &["cc", "pkg-config"], &script);
}

#[test]
fn by_an_adapter_several_programs_ask_a_server_of_several_threads() {
    let script = script!(part "fuse_servers/adapter-bindfs.sh");
    serves("adapter-bindfs", &["bindfs"], script);
}

#[test]
fn gocryptfs_by_an_adapter() {
    let script = script!(part "fuse_servers/adapter-gocryptfs.sh");
    serves("adapter-gocryptfs", &["gocryptfs"], script);
}

#[test]
fn rclone_by_an_adapter() {
    let script = script!(part "fuse_servers/adapter-rclone.sh");
    serves("adapter-rclone", &["rclone"], script);
}

#[test]
fn a_server_that_splices_into_the_device_by_an_adapter() {
    let script = script!(part "fuse_servers/adapter-overlay.sh");
    serves("adapter-overlay", &["fuse-overlayfs"], script);
}

#[test]
fn packets_are_bounded_and_those_that_are_no_messages_are_errors() {
    let server = world().program("packet_server.py");
    let script = script!(part "fuse_servers/adapter-packets.sh", server = server.display());
    serves("adapter-packets", &["python3"], &script);
}

#[test]
fn doctor_says_the_way_of_each_server() {
    let done = culvert(&["doctor"]);
    if installed("bindfs") {
        assert!(
            done.text().contains("bindfs: intercepted\n"),
            "{}",
            done.report()
        );
    }
    let place = world().claim("fuse", "way");
    let mount = format!("type=fuse.true,way=moon,target={}", place.display());
    let done = culvert(&["run", "--mount", &mount, "--", "true"]);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("way=moon: no such way"), "{told}");
}
