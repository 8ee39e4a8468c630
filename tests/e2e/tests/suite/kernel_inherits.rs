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
        let done = shell(&format!(
            "exec 2>/dev/null; exec 7< {source}; mkfifo {source}/p; exec 8<> {source}/p
             {culvert} mount {words} {source} {target} > {source}/out; echo $?
             for one in $(pgrep -f 'culvert mount.*{target}$'); do
               (cd /proc/$one/fd; readlink 7 8 63 | grep -c '^{source}'; readlink 1)
             done
             stat {target}/p > /dev/null && echo served; {culvert} umount {target}; :"
        ));
        let one = "0\n/dev/null\n";
        let expected = match words.contains("restart") {
            true => format!("0\n{one}{one}served\n"),
            false => format!("0\n{one}served\n"),
        };
        assert_eq!(done.text(), expected, "{name} {}", done.report());
        // In the foreground standard output stays.
        let done = shell(&format!(
            "exec 7< {source}; {culvert} mount -f {words} {source} {target} > {source}/out 2>&1 &
             one=$!; until grep -q ' {target} ' /proc/self/mountinfo && stat {target}/p > /dev/null 2>&1; do sleep .01; done
             until [ $(readlink /proc/$one/fd/7 | grep -c '^{source}$') = 0 ]; do sleep .01; done
             readlink /proc/$one/fd/1; {culvert} umount {target}; wait"
        ));
        assert_eq!(done.text(), format!("{source}/out\n"), "{}", done.report());
    }
}

/// Sets times of access long back, reads, and tells which have changed: of a file, of one whose time of
/// access is newer than that of its content, of a directory.
const READS: &str = r#"
cd $1; for f in f g; do echo content > $f; done; mkdir -p d; touch d/x
touch -a -d @1000 f d; touch -m -d @900 f g d; touch -a -d "1 hour ago" g
before=$(stat -c %X f g d); cat f g > /dev/null; ls d > /dev/null; sync
stat -c %X f g d | paste - <(echo "$before") | while read now then; do [ $now = $then ]; echo -n "$? "; done; echo
"#;

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
        let script = format!(
            "exec unshare -m bash -c 'mount --bind {there} {there} && mount -o remount,bind,{words} {there} && bash -c \"$0\" - {there}' '{}'",
            READS.replace('\'', "'\\''")
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

/// The time of birth comes through; flags of inodes (statx(2), STATX_ATTR_*) the kernel does not take from
/// a FUSE server (`fuse_do_statx`, fs/fuse/dir.c).
#[test]
fn the_time_of_birth_is_the_files() {
    if !possible() {
        return;
    }
    for words in [&[][..], &["-o", "driven"], &["--without", "passthrough"]] {
        let mount = Mounted::new("kernel-birth", words);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let done = shell(&format!(
            "touch {source}/f; mkdir {source}/d; cd {source}; stat -c '%n %w' f d; cd {target}; stat -c '%n %w' f d"
        ));
        let text = done.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{}", done.report());
        assert_eq!(lines[..2], lines[2..], "{}", done.report());
    }
}
