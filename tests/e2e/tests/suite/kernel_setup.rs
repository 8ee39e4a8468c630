//! How kernel mounts come to be and end: installed, by mount(8), for ordinary users by fstab.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use crate::kernel_requests::requests;
use culvert_e2e::{Case, User, installed, not_tested, world};
use std::path::Path;

/// The project's script for it.
fn install() -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = manifest.join("../../scripts/install");
    script.to_str().expect("plain").to_owned()
}

/// A name by which mount(8) finds the helper, in this mount namespace alone.
const UPPER: &str = "mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/a && mount -t overlay none -o \
    lowerdir=/mnt/up:/usr/sbin /usr/sbin || exit 77";

/// What `scripts/install` installs works where it lies, and mount(8) finds the helper.
#[test]
fn what_is_installed_is_found() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-install");
    let (source, built) = (place.text("source"), world().culvert.with_file_name(""));
    let script = script!(
        "kernel_setup/what_is_installed_is_found.sh",
        upper = UPPER,
        built = built.display(),
        install = install(),
        source
    );
    let done = shell(&format!("unshare -m bash -c '{script}'"));
    if done.status == "exit 77" {
        not_tested("no overlay file system");
        return;
    }
    let pages = "culvert-doctor.1 culvert-drivers.1 culvert-extend.1 culvert-log.1 culvert-mount.1 \
        culvert-plfs.1 culvert-run.1 culvert-sync.1 culvert.1";
    let headers = "fuse.h fuse/fuse.h fuse/fuse_common.h fuse/fuse_log.h fuse/fuse_lowlevel.h \
        fuse/fuse_opt.h \
                   fuse3/fuse.h fuse3/fuse_common.h fuse3/fuse_log.h fuse3/fuse_lowlevel.h \
                   fuse3/fuse_opt.h \
                   fuse_common.h fuse_log.h fuse_lowlevel.h fuse_names.ld fuse_opt.h memory.h";
    let headers = headers.split_whitespace();
    let headers = headers.map(|header| format!("include/culvert/{header}"));
    let first = [
        "bin/culvert",
        "include/culvert/driver.h",
        "include/culvert/driver.hpp",
        "include/culvert/freestanding.h",
    ]
    .map(str::to_owned);
    let libraries = [
        "lib/culvert/culvert-full",
        "lib/culvert/libculvert.so",
        "lib/culvert/libculvert_fuse.so",
        "lib/culvert/pkgconfig/fuse.pc",
        "lib/culvert/pkgconfig/fuse3.pc",
        "lib/pkgconfig/culvert.pc",
        "lib/systemd/system/culvert-extend.service",
        "lib/systemd/system/culvert-extend.socket",
    ];
    let all = first.into_iter().chain(headers);
    let all = all.chain(libraries.map(str::to_owned));
    let mut expected: Vec<String> = all.map(|file| format!("/mnt/d/opt/c/{file}")).collect();
    let page = |page: &str| format!("/mnt/d/opt/c/share/man/man1/{page}");
    let completion = |file: &str| format!("/mnt/d/opt/c/share/{file}");
    expected.push(completion("bash-completion/completions/culvert"));
    expected.push(completion("fish/vendor_completions.d/culvert.fish"));
    expected.extend(pages.split(' ').map(page));
    expected.push("/mnt/d/opt/c/share/man/man8/mount.culvert.8".into());
    expected.push(completion("zsh/site-functions/_culvert"));
    expected
        .extend(["mount.culvert", "mount.fuse.culvert"].map(|link| format!("/mnt/d/sbin/{link}")));
    let found: Vec<_> = done.text().lines().map(str::to_owned).collect();
    expected.extend(["content".into(), "content".into()]);
    assert_eq!(found, expected, "{}", done.report());
}

/// Who may not write to /sbin installs all but the helper, and is told. What is taken away takes
/// its own helpers along, and no other installation's.
#[test]
fn what_is_installed_without_rights_works() {
    let case = Case::new("install-without-rights", User::Me);
    let built = world().culvert.with_file_name("");
    let script = script!(
        "kernel_setup/what_is_installed_without_rights_works.sh",
        install = install(),
        cargo_manifest_dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."),
        built = built.display()
    );
    let done = case.natively(&["bash", "-c", &script]);
    let expected = "mount.culvert was left out\nmoon\n0\n/b/bin/culvert\n";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// An ordinary user mounts and ends what fstab(5) allows with `user`: mount(8) calls the helper as
/// that user, who then needs fusermount3.
#[test]
fn a_user_mounts_what_fstab_allows() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let place = Mounted::place("kernel-fstab-user");
    let (source, target) = (place.text("source"), place.text("target"));
    let culvert = world().culvert.display();
    let script = script!(
        "kernel_setup/a_user_mounts_what_fstab_allows.sh",
        upper = UPPER,
        culvert,
        source,
        target
    );
    let done = shell(&format!("unshare -m bash -c '{script}'"));
    if done.status == "exit 77" {
        not_tested("no overlay file system, or no fstab");
        return;
    }
    assert_eq!(
        done.text(),
        "0\n65534\nnodev\nnoexec\nnosuid\nuser_id=65534\n0\n0\nx\n",
        "{}",
        done.report()
    );
}

/// A target is found by any path, also one that ends in `..`.
#[test]
fn a_mount_is_ended_by_any_path() {
    if !possible() {
        return;
    }
    let command = world().culvert.display();
    for (from, path) in [
        ("source", "../target"),
        ("source", "../target/sub/.."),
        ("source", "../source/../target/."),
        (".", "link"),
        (".", "target/"),
    ] {
        let mount = Mounted::new("kernel-paths", &[]);
        let at = mount.text(from);
        let done = shell(&script!(
            "kernel_setup/a_mount_is_ended_by_any_path.sh",
            value = mount.text("."),
            at,
            command,
            path,
            target = mount.text("target")
        ));
        assert_eq!(
            (done.status.as_str(), done.text().as_str()),
            ("exit 0", ""),
            "{path} {}",
            done.report()
        );
    }
    // The parent of the mount is none.
    let mount = Mounted::new("kernel-paths", &[]);
    let done = culvert(&["umount", &mount.text("target/..")]);
    assert!(
        done.errors().contains("nothing is mounted"),
        "{}",
        done.report()
    );
}

/// With `valid=0` nothing that an earlier open has read is kept; else it is, while the file's time
/// of change is the same.
#[test]
fn nothing_is_kept_that_is_not_believed() {
    if !possible() {
        return;
    }
    const FILE: &str = "GPL-3";
    for (name, words, kept) in [
        ("kernel-valid-0", &["-o", "valid=0"][..], false),
        ("kernel-valid-1", &["-o", "valid=600"], true),
    ] {
        let mut all = vec!["--without", "passthrough"];
        all.extend(words);
        let mount = Mounted::of(name, &all, "/usr/share/common-licenses");
        let target = mount.text("target");
        let read = format!("cat {target}/{FILE}");
        let Some(found) = requests(&target, &format!("{read}; {read}"), &read) else {
            return;
        };
        assert_eq!(found.contains_key("READ"), !kept, "{name} {found:?}");
    }
}
