//! FUSE servers as Debian has them, each at real work, by an ordinary user without /dev/fuse:
//! docs/drivers/fuse-servers.md is the table of them.

use crate::{
    kernel_mount::{possible, shell},
    mapped::suites::FSX,
    suites::{PJDFSTEST, results},
};
use culvert_e2e::{installed, not_tested, suite, world};
use std::{fs, os::unix::fs::chown, path::Path, process::Command, time::Duration};

/// The ordinary user (setpriv in `user.sh`).
const NOBODY: u32 = 65534;

/// Runs `work` as that user, in a directory of his, if `needs` are installed.
pub fn serves(name: &str, needs: &[&str], work: &str) {
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
    borg_mount "borg.sh" ["borg"];
    encfs "encfs.sh" ["encfs"];
    exfat_fuse "exfat.sh" ["mount.exfat-fuse", "mkfs.exfat"];
    fuse2fs_writes_an_ext4_image_that_e2fsck_passes "fuse2fs.sh" ["fuse2fs", "mkfs.ext4", "debugfs"];
    fuse_overlayfs "fuse-overlayfs.sh" ["fuse-overlayfs"];
    fuse_zip "fuse-zip.sh" ["fuse-zip", "zip", "unzip"];
    fuseiso "fuseiso.sh" ["fuseiso", "genisoimage"];
    gocryptfs_by_the_descriptor_of_the_device "gocryptfs.sh" ["gocryptfs"];
    lowntfs_3g "lowntfs-3g.sh" ["lowntfs-3g", "mkntfs"];
    mergerfs "mergerfs.sh" ["mergerfs"];
    mp3fs "mp3fs.sh" ["mp3fs", "flac"];
    ntfs_3g "ntfs-3g.sh" ["ntfs-3g", "mkntfs"];
    rclone "rclone.sh" ["rclone"];
    squashfuse "squashfuse.sh" ["squashfuse", "mksquashfs"];
    sshfs "sshfs.sh" ["sshfs"];
    sshfs_by_a_real_sshd_that_is_connected_to_again "sshd.sh" ["sshfs", "sshd", "ssh-keygen"];
    unionfs "unionfs.sh" ["unionfs"];
}

/// Where scripts/prerequisites puts what Debian has not.
const MORE: &str = "/usr/local/lib/culvert-tests/bin";

/// Servers of which PyPI and crates.io have what is needed.
#[test]
fn ratarmount_s3fs_and_examples_of_fuser() {
    let scripts: [(&str, &[&str], &[&str], &str); 3] = [
        (
            "ratarmount",
            &["ratarmount"],
            &[],
            script!(part "fuse_servers/ratarmount.sh"),
        ),
        (
            "s3fs",
            &["moto_server"],
            &["s3fs", "curl"],
            script!(part "fuse_servers/s3fs.sh"),
        ),
        (
            "fuser",
            &["hello", "simple"],
            &["setfattr"],
            script!(part "fuse_servers/fuser.sh"),
        ),
    ];
    for (name, more, needs, work) in scripts {
        let missing = more
            .iter()
            .find(|name| !Path::new(MORE).join(name).exists());
        match missing {
            Some(missing) => not_tested(format_args!("{name}: {MORE}/{missing} is missing")),
            None => serves(name, needs, work),
        }
    }
}

#[test]
fn pyfuse3() {
    if !Path::new("/usr/lib/python3/dist-packages/trio").exists() {
        return not_tested("pyfuse3: python3-pyfuse3 and python3-trio are missing");
    }
    let script = script!(part "fuse_servers/pyfuse3.sh");
    with_our_own_named("pyfuse3", "pyfuse3_server.py", script);
}

#[test]
fn examples_of_libfuse() {
    const EXAMPLES: &str = "/usr/src/culvert/fuse3/example";
    if !Path::new(EXAMPLES).exists() || !Path::new("/usr/include/fuse3").exists() {
        return not_tested("libfuse's examples: libfuse3-dev and its source are missing");
    }
    let script = script!(part "fuse_servers/examples.sh", examples = EXAMPLES);
    serves("examples", &["cc", "pkg-config"], &script);
}

#[test]
fn who_waits_for_a_servers_file_waits_until_it_says_so() {
    let script = script!(
        part "fuse_servers/poll.sh",
        telling = env!("CARGO_BIN_EXE_telling"),
        programs = concat!(env!("CARGO_MANIFEST_DIR"), "/programs")
    );
    serves("poll", &["cc", "python3"], &script);
}

/// What fails in a run that does not behind the kernel, and why.
const DIFFERENT: &[(&str, &str)] = &[(
    "rmdir::ebusy",
    "mounts a file system of the kernel on a directory of the mount, which the kernel cannot: it \
    knows no such directory",
)];

/// The server is the same, so that what it cannot do fails in both; a run may know better what has
/// changed than the kernel, which believes the server for a second.
#[test]
fn pjdfstest_of_a_server_fails_at_nothing_that_succeeds_behind_the_kernel() {
    if !possible() || !world().is_root() || !installed("bindfs") {
        return;
    }
    let place = world().claim("served", "pj");
    fs::create_dir_all(&place).expect("the base directory is ours");
    let script = script!(
        "fuse_servers/pjdfstest.sh",
        place = place.display(),
        configuration = PJDFSTEST,
        pjdfstest = suite("pjdfstest").display(),
        culvert = world().culvert.display()
    );
    let done = shell(&script);
    let text = done.text();
    let (kernel, run) = text.split_once("in a run").expect("the script says so");
    let [kernel, run] = [kernel, run].map(results);
    assert!(kernel.len() > 380, "{}", done.report());
    let worse = kernel.iter().filter(|(name, (result, _))| {
        let is_known = DIFFERENT.iter().any(|(known, _)| known == name);
        result == "ok" && !is_known && run.get(*name).map(|(result, _)| &**result) != Some("ok")
    });
    let worse: Vec<_> = worse.map(|(name, _)| (name, run.get(name))).collect();
    assert!(worse.is_empty(), "{worse:#?}");
}

#[test]
fn fsx_with_mappings_on_a_server() {
    // bindfs has no fallocate(2), and copies nothing itself.
    let configuration = FSX
        .replace("_fallocate = 3", "_fallocate = 0")
        .replace("hole = 3", "hole = 0");
    let fsx = suite("fsx");
    let fsx = fsx.display();
    let work = script!("fuse_servers/fsx.sh", configuration, fsx);
    serves("fsx", &["bindfs"], &work);
}

/// The work of `script` with tests/e2e/programs/passthrough_server.py, or another.
fn with_our_own(name: &str, script: &str) {
    with_our_own_named(name, "passthrough_server.py", script);
}

fn with_our_own_named(name: &str, server: &str, script: &str) {
    let server = world().program(server);
    let server = server.display().to_string();
    let work = culvert_e2e::filled(script, &[("server", server)]);
    serves(name, &["python3"], &work);
}

#[test]
fn a_backing_file_of_the_servers_is_read_and_written_without_it() {
    with_our_own("passthrough", script!(part "fuse_servers/passthrough.sh"));
}

#[test]
fn a_name_that_the_server_tells_of_is_asked_for_again() {
    with_our_own("told", script!(part "fuse_servers/told.sh"));
}
