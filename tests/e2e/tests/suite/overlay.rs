//! Overlays: images of containers below memory, and what the kernel's overlayfs shows of what we
//! wrote.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, not_tested, world};
use std::{fs, path::Path};

/// What scripts/overlay/container.sh says.
const CONTAINER: &str = "app
app
etc:
name

lib:
new
200
app
changed
198
base 7
base 9
more
base 10
seven
0
app
changed
";

/// Layers of archives, one with Docker's whiteouts, below memory: for `who`, a command's beginning.
fn container(name: &str, who: &str, options: &str) {
    if world().only_native {
        return;
    }
    let place = Mounted::place(&format!("overlay-{name}"));
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!(
        "overlay/container.sh",
        place,
        culvert,
        who,
        options
    ));
    assert_eq!(done.text(), CONTAINER, "{}", done.report());
}

#[test]
fn an_image_of_a_container_runs_below_memory() {
    container("memory", "", "");
}

#[test]
fn an_image_of_a_container_runs_without_root() {
    if !world().is_root() {
        return not_tested("it is run without root already");
    }
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp";
    container("nobody", nobody, "");
}

#[test]
fn an_image_layout_is_read_where_it_is() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("overlay-oci");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/oci.sh", place, culvert));
    let expected = "app\nname\nran\napp\nmore\nblobs\nindex.json\noci-layout\n";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// What scripts/overlay/root.sh says, but for who may call chroot(2).
const ROOT: &str = "/
absolute
bin
dev
dir
etc
lib
lib64
proc
tmp
app
app
app
app
/dir/sub
/bin/readlink
/dir/sub
/
script /bin/script one
script /bin/script two
2
new
/made
same 0
/etc
app
4
outside: 1
mounts: 0 1
static: 126
no mount: 1
inherited: outside outside
";

/// The root of an overlay as the root directory, by `--root` and by chroot(2), for `who`, a
/// command's beginning; `chroot` is what the latter comes to.
fn root_directory(name: &str, who: &str, chroot: &str) {
    if world().only_native {
        return;
    }
    let place = Mounted::place(&format!("overlay-root-{name}"));
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/root.sh", place, culvert, who));
    assert_eq!(done.text(), format!("{ROOT}{chroot}"), "{}", done.report());
}

#[test]
fn an_image_of_a_container_is_the_root_directory() {
    if !world().is_root() {
        return not_tested("only root may call chroot(2)");
    }
    root_directory("root", "", "again: app 1\nchroot: app\n");
}

#[test]
fn an_image_of_a_container_is_the_root_directory_of_an_ordinary_user() {
    if !world().is_root() {
        return not_tested("it is run by one already");
    }
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp";
    let refused = "again: 0\nchroot: Operation not permitted\n";
    root_directory("nobody", nobody, refused);
}

/// The same changes on the kernel's overlayfs and on ours, `way` being a run or a kernel mount: the
/// same lies on disk, and the kernel shows the same of it.
fn directories(way: &str) {
    if !possible() || !installed("getfattr") {
        return;
    }
    let place = Mounted::place(&format!("overlay-{way}"));
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/directories.sh", place, culvert, way));
    assert_eq!(done.text(), "same\n", "{}", done.report());
}

#[test]
fn the_kernel_shows_the_same_of_what_a_run_wrote() {
    directories("run");
}

#[test]
fn the_kernel_shows_the_same_of_what_a_kernel_mount_wrote() {
    directories("mount");
}

/// Whoever is killed at a step of a copy, a rename or a removal leaves the old or the new state.
#[test]
fn who_is_killed_in_an_overlay_leaves_the_old_or_the_new_state() {
    if !possible() {
        return;
    }
    let place = Mounted::place("overlay-killed");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/killed.sh", place, culvert));
    assert_eq!(done.text(), "whole\n", "{}", done.report());
}

/// Runs `words`, a script that uses operations.py, in a mount namespace of its own, as `who`.
fn by_operations(mounted: &Mounted, who: &str, words: &str) {
    let place = mounted.text("");
    let base = Path::new(&place);
    let operations = script!("overlay/operations.py");
    fs::write(base.join("operations.py"), operations).expect("a place of ours");
    let script = base.join("script.sh");
    fs::write(&script, words).expect("a place of ours");
    let done = shell(&format!(
        "cd {place}; unshare -m --propagation private sh -ec \
         'mount -t tmpfs none target; chmod 777 target; exec {who} bash {}'",
        script.display()
    ));
    assert_eq!(done.text(), "same\n", "{}", done.report());
}

/// The last seed of random operations.
fn last() -> u32 {
    let rounds = std::env::var("CULVERT_ROUNDS");
    rounds.map_or(8, |rounds| rounds.parse().expect("a number"))
}

/// Random operations by two processes, on the kernel's overlayfs and on ours by `way`, as `who`:
/// the same answers, trees and marks on disk, and each reads what the other has written.
fn random(name: &str, way: &str, who: &str, prefix: &str) {
    if !possible() || !installed("getfattr") {
        return;
    }
    let mounted = Mounted::place(&format!("overlay-random-{name}"));
    let words = script!(
        "overlay/random.sh",
        place = mounted.text(""),
        culvert = world().culvert.display(),
        prefix,
        way,
        first = 1,
        last = last()
    );
    by_operations(&mounted, who, &words);
}

#[test]
fn fuse_overlayfs_reads_what_was_written_and_the_reverse() {
    if !possible() || !installed("fuse-overlayfs") {
        return;
    }
    let mounted = Mounted::place("overlay-fuse");
    let words = script!(
        "overlay/fuse.sh",
        place = mounted.text(""),
        culvert = world().culvert.display(),
        first = 1,
        last = last()
    );
    by_operations(&mounted, "", &words);
}

#[test]
fn random_operations_in_a_run_do_what_the_kernels_overlayfs_does() {
    random("run", "run", "", "trusted");
}

#[test]
fn random_operations_on_archives_below_memory_do_what_the_kernels_overlayfs_does() {
    random("image", "image", "", "trusted");
}

#[test]
fn random_operations_on_a_kernel_mount_do_what_the_kernels_overlayfs_does() {
    random("mount", "mount", "", "trusted");
}

#[test]
fn random_operations_of_an_ordinary_user_do_what_the_kernels_overlayfs_does() {
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp unshare -Urm";
    random("user", "run", nobody, "user");
}

/// A file that is open while other processes copy, rename and remove it is one file; the same as on
/// the kernel's overlayfs.
#[test]
fn a_file_that_is_open_while_it_is_copied_stays_one_file() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("overlay-one-file");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/one_file.sh", place, culvert));
    let once = r"b'1\n2' b'1\n2'
b'XYZ' b'1\n2' True
b'more\n' 0o100600 True
b'XYZ' 0
ran
ran
again

";
    assert_eq!(done.text(), once.repeat(3), "{}", done.report());
}

/// A second run on an upper layer is refused for as long as the first one lives.
#[test]
fn a_second_run_on_an_upper_layer_is_refused() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("overlay-second");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("overlay/second.sh", place, culvert));
    let refused = "refused\nrefused by a mount\nafter\n";
    let refused = match possible() {
        true => refused.to_owned(),
        false => refused.replace("refused by a mount\n", ""),
    };
    assert_eq!(done.text(), refused, "{}", done.report());
}
