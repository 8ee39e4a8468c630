//! Kernel mounts with options about writing, and calls about files that FUSE passes on.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use crate::kernel_requests::requests;
use culvert_e2e::{Case, Driver, User, installed, suite, world};

const WRITEBACK: &[&str] = &["--with", "writeback-cache"];

/// What is written stays in the kernel for a while, and everybody who looks through the mount, or
/// after fsync(2) and close(2), sees it.
#[test]
fn what_is_written_back_is_right() {
    if !possible() {
        return;
    }
    let program = world().program("written_back.py");
    let native = Mounted::place("written-back-native");
    let native = shell(&format!(
        "python3 {} {}",
        program.display(),
        native.text("source")
    ));
    assert_eq!(native.status, "exit 0", "{}", native.report());
    for (name, more) in [
        ("", &[][..]),
        ("-driven", &["-o", "driven"]),
        ("-memory", &["-t", "memory"]),
    ] {
        let mut words = vec!["--allow-other", "-o", "suid"];
        words.extend(WRITEBACK);
        words.extend(more);
        let name = format!("written-back{name}");
        let source = match more.contains(&"memory") {
            true => "memory".to_owned(),
            false => Mounted::place(&name).text("source"),
        };
        let mount = Mounted::of(&name, &words, &source);
        let target = mount.text("target");
        // What lies in memory is seen through the mount alone.
        let below = if source == "memory" { &target } else { &source };
        let ours = shell(&format!("python3 {} {target} {below}", program.display()));
        assert_eq!(ours.text(), native.text(), "{name} {}", ours.report());
    }
}

#[test]
fn small_writes_are_written_back_together() {
    if !possible() {
        return;
    }
    let write =
        |target: &str| format!("dd if=/dev/zero of={target}/w bs=128 count=1000 status=none");
    for (name, words, most) in [
        ("requests-through", &["--without", "passthrough"][..], 1000),
        ("requests-back", WRITEBACK, 3),
    ] {
        let mount = Mounted::new(name, words);
        let target = mount.text("target");
        let Some(found) = requests(&target, "true", &write(&target)) else {
            return;
        };
        let writes = found.get("WRITE").copied().unwrap_or(0);
        assert!(writes <= most && writes > most / 2 / 2, "{name}: {found:?}");
    }
    // The user is told what it costs others.
    let place = Mounted::place("requests-warned");
    let mut words = vec!["mount"];
    words.extend(WRITEBACK);
    let (source, target) = (place.text("source"), place.text("target"));
    words.extend([source.as_str(), &target]);
    let up = culvert(&words);
    assert!(
        up.errors().contains("nobody else must change"),
        "{}",
        up.report()
    );
}

/// Not posix_fallocate, which of nothing is EINVAL and for fsx a failure.
const FSX: &str = "
flen = 40000
[opsize]
max = 6000
min = 1
[weights]
close_open = 2
read = 10
write = 10
mapread = 5
mapwrite = 5
truncate = 5
fsync = 1
fdatasync = 1
punch_hole = 1
copy_file_range = 1
";

/// fsx, mappings too: each byte and size is compared.
#[test]
fn fsx_with_writeback() {
    if !possible() {
        return;
    }
    for (driver, user) in [
        (Driver::Passthrough, User::Nobody),
        (Driver::Memory, User::Me),
    ] {
        let case = Case::new(&format!("kernel-fsx-{}", driver.name()), user).directory(driver);
        let fsx = suite("fsx");
        let script = script!(
            "kernel_writing/fsx_with_writeback.sh",
            fsx = FSX,
            fsx_2 = fsx.display()
        );
        let done = case.through_kernel(WRITEBACK, &["bash", "-c", &script]);
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }
}

/// ioctl_iflags(2) of files and directories, with the caller's rights: what lsattr and chattr do.
#[test]
fn attributes_of_inodes() {
    if !possible() || !installed("chattr") {
        return;
    }
    let run = |place: &str| shell(&script!("kernel_writing/attributes_of_inodes.sh", place));
    let native = Mounted::place("kernel-flags-native");
    let native = run(&native.text("source"));
    for (name, words) in [
        ("kernel-flags", &["--allow-other"][..]),
        ("kernel-flags-driven", &["--allow-other", "-o", "driven"]),
    ] {
        let mount = Mounted::new(name, words);
        let ours = run(&mount.text("target"));
        // FS_IOC_FIEMAP holds an array behind its structure: FUSE does not send it.
        assert_eq!(
            ours.text(),
            native
                .text()
                .replace("refused\ndone\nrefused\n", "refused\nrefused\nrefused\n"),
            "{name} {}",
            ours.report()
        );
    }
}
