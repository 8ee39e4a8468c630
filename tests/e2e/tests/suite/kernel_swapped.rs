//! Kernel mounts whose path has come to lead elsewhere: only the mount itself is ever ended or
//! changed.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, world};

/// Somebody who may rename a directory above a mount puts a link in its place, which leads to
/// another mount of the same user. `SERVERS`: the processes of the first one, the oldest first.
const ATTACK: &str = script!(part "kernel_swapped/attack.sh");

#[test]
fn what_has_come_to_lie_on_the_path_is_not_unmounted() {
    if !possible() || !installed("pgrep") {
        return;
    }
    let expected = "1 0 \n".repeat(4);
    let users = match installed("fusermount3") {
        true => &[0, 65534][..],
        false => &[0],
    };
    for user in users {
        let place = Mounted::place(&format!("kernel-swapped-{user}"));
        let there = place.text("source");
        let culvert = world().culvert.display();
        // A device that others may open, for this mount namespace alone.
        let script = script!(
            "kernel_swapped/what_has_come_to_lie_on_the_path_is_not_unmounted.sh",
            there,
            user,
            culvert
        );
        let done = shell(&format!(
            "exec unshare -m bash -c '{script}' '{}'",
            ATTACK.replace('\'', "'\\''")
        ));
        assert_eq!(done.text(), expected, "user {user} {}", done.report());
    }
}

/// A target whose path has become one through a link since it was checked is not mounted on, and
/// what is mounted again at the path of a mount is another one.
#[test]
fn a_mount_is_known_by_its_number() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("kernel-numbered", &[]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let culvert = world().culvert.display();
    let server = mount.server();
    // Below another one it is neither ended by its server nor is that one.
    let done = shell(&script!(
        "kernel_swapped/a_mount_is_known_by_its_number.sh",
        culvert,
        source,
        target,
        server
    ));
    assert_eq!(done.text(), "1\n1\n", "{}", done.report());
}
