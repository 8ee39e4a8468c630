//! FUSE servers as Debian has them, each at real work, by an ordinary user without /dev/fuse:
//! docs/drivers/fuse-servers.md is the table of them.

use culvert_e2e::{installed, script, world};
use std::{fs, os::unix::fs::chown, process::Command, time::Duration};

/// The ordinary user (setpriv in `user.sh`).
const NOBODY: u32 = 65534;

/// Runs `work` as that user, in a directory of his, if `needs` are installed.
fn serves(name: &str, needs: &[&str], work: &str) {
    // The user's /dev is made by root.
    if !world().is_root() || !needs.iter().all(|program| installed(program)) {
        return;
    }
    let place = world().claim("served", name);
    fs::create_dir_all(&place).expect("the base directory is ours");
    chown(&place, Some(NOBODY), Some(NOBODY)).expect("we are root");
    let culvert = world().culvert.display();
    let begin = script!(part "fuse_servers/begin.sh", place = place.display(), culvert);
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-ec", script!("fuse_servers/user.sh"), "user"]);
    command.args(["bash", "-c", &(begin + work)]);
    command.env("HOME", &place).env("PATH", PATH);
    let done = culvert_e2e::run_within(command, &[], Duration::from_secs(120));
    assert_eq!(done.status, "exit 0", "{name}\n{}", done.report());
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

macro_rules! servers {
    ($($test:ident $name:literal $needs:expr;)*) => { $(
        #[test]
        fn $test() {
            let work = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/fuse_servers/", $name));
            serves($name.trim_end_matches(".sh"), &$needs, work);
        }
    )* };
}

servers! {
    archivemount "archivemount.sh" ["archivemount"];
    avfsd "avfsd.sh" ["avfsd"];
    encfs "encfs.sh" ["encfs"];
    fuse2fs_writes_an_ext4_image_that_e2fsck_passes "fuse2fs.sh" ["fuse2fs", "mkfs.ext4", "debugfs"];
    fuse_overlayfs "fuse-overlayfs.sh" ["fuse-overlayfs"];
    fuse_zip "fuse-zip.sh" ["fuse-zip", "zip", "unzip"];
    fuseiso "fuseiso.sh" ["fuseiso", "genisoimage"];
    gocryptfs_by_the_descriptor_of_the_device "gocryptfs.sh" ["gocryptfs"];
    lowntfs_3g "lowntfs-3g.sh" ["lowntfs-3g", "mkntfs"];
    squashfuse "squashfuse.sh" ["squashfuse", "mksquashfs"];
    unionfs "unionfs.sh" ["unionfs"];
}
