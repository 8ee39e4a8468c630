//! What a kernel mount has of the command that made it, and of its words about times.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{installed, world};

/// Who waits for the end of a pipe does not wait for the end of the mount.
#[test]
fn a_server_keeps_no_descriptor_that_it_was_given() {
    if !possible() || !installed("pgrep") {
        return;
    }
    for (name, words) in [
        ("plain", ""),
        ("kept", "--restart"),
        ("telling", "--log terminal"),
    ] {
        let place = Mounted::place(&format!("kernel-inherits-{name}"));
        let (source, target) = (place.text("source"), place.text("target"));
        let culvert = world().culvert.display();
        let done = shell(&script!(
            "kernel_inherits/a_server_keeps_no_descriptor_that_it_was_given.sh",
            source,
            culvert,
            words,
            target
        ));
        let one = "0\n/dev/null\n";
        let expected = match words.contains("restart") {
            true => format!("0\n{one}{one}served\n"),
            false => format!("0\n{one}served\n"),
        };
        assert_eq!(done.text(), expected, "{name} {}", done.report());
        // In the foreground standard output stays.
        let done = shell(&script!(
            "kernel_inherits/a_server_keeps_no_descriptor_that_it_was_given-2.sh",
            source,
            culvert,
            words,
            target
        ));
        assert_eq!(done.text(), format!("{source}/out\n"), "{}", done.report());
    }
}

/// Sets times of access long back, reads, and tells which have changed: of a file, of one whose
/// time of access is newer than that of its content, of a directory.
const READS: &str = script!(part "kernel_inherits/reads.sh");

#[test]
fn times_of_access_are_as_mounted_or_refused() {
    if !possible() {
        return;
    }
    let reads = |place: &str| {
        let done = shell(&format!(
            "bash -c '{}' - {place}",
            READS.replace('\'', "'\\''")
        ));
        done.text()
    };
    for words in [
        "noatime",
        "nodiratime",
        "relatime",
        "strictatime",
        "strictatime,nodiratime",
    ] {
        let place = Mounted::place("kernel-times-native");
        let there = place.text("source");
        let script = script!(
            "kernel_inherits/times_of_access_are_as_mounted_or_refused.sh",
            there,
            words,
            replace = READS.replace('\'', "'\\''")
        );
        let native = shell(&script);
        assert_eq!(native.status, "exit 0", "{}", native.report());
        for more in [&[][..], &["--without", "passthrough"], &["--restart"]] {
            let mut all = vec!["-o", words, "-o", "valid=0"];
            all.extend(more);
            let mount = Mounted::new("kernel-times", &all);
            let ours = reads(&mount.text("target"));
            assert_eq!(ours, native.text(), "{words} {more:?}");
        }
    }
    let place = Mounted::place("kernel-times-refused");
    let (source, target) = (place.text("source"), place.text("target"));
    for (words, what) in [
        (&["-o", "lazytime", &source][..], "lazytime"),
        (&["-t", "memory", "-o", "noatime", "memory"], "noatime"),
    ] {
        let mut all = vec!["mount"];
        all.extend(words);
        all.push(&target);
        let done = culvert(&all);
        assert!(
            done.status == "exit 125" && done.errors().contains(&format!("option {what}")),
            "{}",
            done.report()
        );
    }
    let mount = Mounted::new("kernel-times-again", &[]);
    let helper = place.text("mount.culvert");
    let done = shell(&format!(
        "ln -s {} {helper}; {helper} none {} -o remount,noatime; echo $?",
        world().culvert.display(),
        mount.text("target")
    ));
    assert!(
        done.text() == "32\n" && done.errors().contains("times of access"),
        "{}",
        done.report()
    );
}

/// The time of birth comes through; flags of inodes (statx(2), STATX_ATTR_*) the kernel does not
/// take from a FUSE server (`fuse_do_statx`, fs/fuse/dir.c).
#[test]
fn the_time_of_birth_is_the_files() {
    if !possible() {
        return;
    }
    for words in [&[][..], &["-o", "driven"], &["--without", "passthrough"]] {
        let mount = Mounted::new("kernel-birth", words);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let done = shell(&script!(
            "kernel_inherits/the_time_of_birth_is_the_files.sh",
            source,
            target
        ));
        let text = done.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{}", done.report());
        assert_eq!(lines[..2], lines[2..], "{}", done.report());
    }
}
