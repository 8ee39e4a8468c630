//! Kernel mounts (`culvert mount`): the same programs natively and on the mount.
//!
//! They need /dev/fuse and, but for the one of ordinary users, root.

use crate::{
    kernel_life::privately,
    suites::{PJDFSTEST, results},
};
use culvert_e2e::{Case, Driver, Finished, User, not_tested, suite, world};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Whether kernel mounts can be tried here.
pub fn possible() -> bool {
    let possible = world().is_root() && Path::new("/dev/fuse").exists();
    if !possible {
        not_tested("kernel mounts need root and /dev/fuse");
    }
    possible
}

/// The groups `names` of `program`, each for each driver and user.
fn groups(driver: Driver, user: User, program: &str, names: &[&str]) {
    if !possible() {
        return;
    }
    for name in names {
        let case = Case::new(
            &format!("kernel-{program}-{name}-{}-{user:?}", driver.name()),
            user,
        )
        .directory(driver);
        let program = case.program(program);
        let script = format!("umask 022; cd $M && OUTSIDE=$W/outside exec {program} {name}");
        let done = case.same_on_kernel_mount(&["bash", "-c", &script]);
        assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
    }
}

macro_rules! on_kernel_mounts {
    ($($name:ident $program:literal $names:expr;)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn passthrough_as_root() { groups(Driver::Passthrough, User::Me, $program, $names); }
            #[test]
            fn passthrough_as_nobody() { groups(Driver::Passthrough, User::Nobody, $program, $names); }
            #[test]
            fn driven_as_nobody() { groups(Driver::Driven, User::Nobody, $program, $names); }
            #[test]
            fn memory_as_nobody() { groups(Driver::Memory, User::Nobody, $program, $names); }
        }
    )* };
}

// Not "append" of `writing`: FUSE does not tell the server of RWF_NOAPPEND.
on_kernel_mounts! {
    bytes "writing" &["write", "vectors", "half", "open", "size", "limit", "umask", "transfer", "map", "shared-map"];
    locks "locking" &["record", "close", "numbers", "descriptions", "wait", "exec"];
    sharing "sharing" &["offset", "append", "readers", "heirs", "killed"];
}

/// Reads of an archive, with every kind of name, link and mode.
#[test]
fn archives_are_read() {
    if !possible() {
        return;
    }
    for user in [User::Me, User::Nobody] {
        let case = Case::new(&format!("kernel-archive-{user:?}"), user).mount_of_tester(
            "odd",
            "tar.zst",
            "mounts/kernel-archive",
        );
        let (reading, looking) = (case.program("reading"), case.program("looking"));
        let target = world().path("mounts/kernel-archive");
        let mut scripts = vec![
            format!("for g in read positioned seek mmap; do {reading} $g; done"),
            format!("for g in directory stat; do {looking} $g; done"),
            // Times of access are the kernel's: natively they move.
            script!("kernel_mount/archives_are_read.sh").into(),
        ];
        // Natively the mount is read-only and the file system below is not, so that without rights
        // EACCES comes before EROFS.
        if user == User::Me {
            scripts.push(
                "touch hello.txt; rm -r dir; mkdir x; echo y > hello.txt; chmod 700 dir; ln \
                hello.txt h; mv dir other; head -c 5 sparse.bin"
                    .into(),
            );
        }
        for script in scripts {
            let script = format!("cd {} && {script}", target.display());
            case.same_on_kernel_mount(&["bash", "-c", &script]);
        }
    }
}

/// An archive that somebody cuts off is an error to who reads what is gone, and the mount goes on:
/// a server has nobody to catch its faults.
#[test]
fn an_archive_that_is_cut_off_is_an_error() {
    if !possible() {
        return;
    }
    for kind in ["tar", "zip"] {
        let name = format!("kernel-cut-off-{kind}");
        let place = Mounted::place(&name);
        let archive = place.text(&format!("a.{kind}"));
        let packed = shell(&script!(
            "kernel_mount/an_archive_that_is_cut_off_is_an_error-pack.sh",
            archive,
            kind
        ));
        assert_eq!(packed.status, "exit 0", "{}", packed.report());
        let mount = Mounted::of(&name, &[], &archive);
        let target = mount.text("target");
        let read = shell(&script!(
            "kernel_mount/an_archive_that_is_cut_off_is_an_error.sh",
            archive,
            target
        ));
        assert_eq!(read.status, "exit 0", "{}", read.report());
    }
}

/// pjdfstest has the same results on a kernel mount as natively.
pub fn pjdfstest(driver: Driver, words: &[&str], name: &str) {
    if !possible() {
        return;
    }
    let case = Case::new(
        &format!("kernel-pjdfstest-{}{name}", driver.name()),
        User::Me,
    )
    .directory(driver)
    .limit(Duration::from_secs(180));
    let program = suite("pjdfstest");
    let script = format!(
        "printf %s '{PJDFSTEST}' > conf && exec {} -c conf -s $W -p $M",
        program.display()
    );
    let native = case.natively(&["bash", "-c", &script]);
    let ours = case.through_kernel(words, &["bash", "-c", &script]);
    let (expected, met) = (results(&native.text()), results(&ours.text()));
    assert!(expected.len() > 380, "{}", native.report());
    let mut report = String::new();
    for (name, (result, said)) in &expected {
        let got = met.get(name);
        if name != LINK_MAX && got.map(|(result, _)| result) != Some(result) {
            report += &format!("{name}: natively {result}, here {got:?}\n{said}");
        }
    }
    assert!(report.is_empty(), "{report}\n{}", ours.report());
}

/// The test asks the C library for LINK_MAX, which guesses it from the device.
const LINK_MAX: &str = "link::link_count_max";

#[test]
fn pjdfstest_on_passthrough() {
    pjdfstest(Driver::Passthrough, &[], "");
}

#[test]
fn pjdfstest_on_memory() {
    pjdfstest(Driver::Memory, &[], "");
}

/// A mount by hand, with its directories; ends with the value.
pub struct Mounted {
    base: PathBuf,
    target: PathBuf,
}

pub fn culvert(words: &[&str]) -> Finished {
    let mut command = Command::new(&world().culvert);
    command.args(words).env("HOME", world().path("home"));
    culvert_e2e::run(command, &[])
}

pub fn shell(script: &str) -> Finished {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    culvert_e2e::run(command, &[])
}

impl Mounted {
    /// Directories for a mount of this name, nothing mounted yet.
    pub fn place(name: &str) -> Self {
        let base = world().claim("mounts", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
            culvert_e2e::open_to_all(&base.join(directory));
        }
        culvert_e2e::open_to_all(&base);
        let target = base.join("target");
        Self { base, target }
    }

    /// The source, passed through.
    pub fn new(name: &str, words: &[&str]) -> Self {
        let source = Self::place(name).text("source");
        Self::of(name, words, &source)
    }

    /// `source`, whatever it is.
    pub fn of(name: &str, words: &[&str], source: &str) -> Self {
        let place = Self::place(name);
        let target = place.text("target");
        let mut all = vec!["mount"];
        all.extend(words);
        all.extend([source, target.as_str()]);
        let up = culvert(&all);
        assert_eq!(up.status, "exit 0", "{}", up.report());
        place
    }

    pub fn text(&self, below: &str) -> String {
        self.base.join(below).to_str().expect("plain").to_owned()
    }

    /// The server's process.
    pub fn server(&self) -> String {
        let target = self.target.display();
        let found = shell(&format!("pgrep -f 'culvert mount.*{target}$'"));
        found.text().trim().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        culvert(&["umount", "--lazy", &self.text("target")]);
    }
}

#[test]
fn what_cannot_be_mounted_is_said_with_what_to_do() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-wrong");
    let (source, target) = (place.text("source"), place.text("target"));
    let refused = |words: &[&str], want: &[&str]| {
        let mut all = vec!["mount"];
        all.extend(words);
        let done = culvert(&all);
        assert_eq!(done.status, "exit 125", "{words:?} {}", done.report());
        for want in want {
            assert!(done.errors().contains(want), "{want}: {}", done.report());
        }
    };
    fs::write(place.base.join("file"), "x").expect("ours");
    refused(&[&source, &place.text("file")], &["not a directory"]);
    refused(&[&source, &place.text("none")], &["No such file", "mkdir"]);
    refused(&[&place.text("none"), &target], &["none", "No such file"]);
    refused(
        &["-t", "floppy", &source, &target],
        &["no driver \"floppy\"", "passthrough"],
    );
    refused(&["-t", "archive", &source, &target], &["is a directory"]);
    // A directory with something in it: a warning.
    fs::write(place.target.join("hidden"), "x").expect("ours");
    let up = culvert(&["mount", &source, &target]);
    assert_eq!(up.status, "exit 0", "{}", up.report());
    assert!(up.errors().contains("not empty"), "{}", up.report());
    refused(&[&source, &target], &["mounted already", "culvert umount"]);
    // In use.
    let busy = shell(&format!(
        "cd {target} && {} umount {target}",
        world().culvert.display()
    ));
    assert!(busy.errors().contains("--lazy"), "{}", busy.report());
    assert_eq!(culvert(&["umount", &target]).status, "exit 0");
    let none = culvert(&["umount", &target]);
    assert!(
        none.errors().contains("nothing is mounted"),
        "{}",
        none.report()
    );
    // Without the device.
    let without = format!(
        "unshare -m bash -c 'mount -t tmpfs none /dev && {} mount {source} {target}'",
        world().culvert.display()
    );
    let done = shell(&without);
    assert!(done.errors().contains("culvert run"), "{}", done.report());
}

#[test]
fn the_mount_ends_with_sigterm_and_can_be_ended_after_kill_9() {
    if !possible() {
        return;
    }
    for (signal, idle) in [
        ("TERM", true),
        ("TERM", false),
        ("INT", true),
        ("KILL", true),
    ] {
        let open = if idle { "" } else { "exec 5< $T/f" };
        let after = match signal {
            "KILL" => "ls $T 2>&1 | grep -o \"endpoint is not connected\"; $C umount $T",
            _ => "ls $T | wc -l",
        };
        // In a namespace of its own: another test's copy of the mount would keep the server. tail
        // waits for a process that is not its child.
        let script = script!(
            "kernel_mount/the_mount_ends_with_sigterm_and_can_be_ended_after_kill_9.sh",
            open,
            signal,
            after
        );
        let done = privately(
            &format!("kernel-signals-{signal}-{idle}"),
            User::Me,
            &script,
        );
        let after = match signal {
            "KILL" => "endpoint is not connected",
            _ => "0",
        };
        assert_eq!(
            done.text(),
            format!("ended\n{after}\n0\ncontent\n"),
            "{signal} {}",
            done.report()
        );
    }
}

/// In the foreground the command is the server; messages come on standard error.
#[test]
fn foreground() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-foreground");
    let (source, target) = (place.text("source"), place.text("target"));
    let done = shell(&script!(
        "kernel_mount/foreground.sh",
        culvert = world().culvert.display(),
        source,
        target
    ));
    assert!(done.text().starts_with("0\n"), "{}", done.report());
}

/// Two users on a mount of root's: each has his own rights, also by groups.
#[test]
fn each_caller_has_his_own_rights() {
    if !possible() {
        return;
    }
    let run = |name: &str, words: &[&str], native: bool| {
        let mount = match native {
            true => Mounted::place(name),
            false => Mounted::new(name, words),
        };
        let place = match native {
            true => mount.text("source"),
            false => mount.text("target"),
        };
        shell(&script!(
            "kernel_mount/each_caller_has_his_own_rights.sh",
            place
        ))
    };
    let native = run("kernel-rights-native", &[], true);
    for (name, words) in [
        ("kernel-rights", &["--allow-other"][..]),
        ("kernel-rights-driven", &["--allow-other", "-o", "driven"]),
        (
            "kernel-rights-cached",
            &["--allow-other", "--without", "passthrough"],
        ),
    ] {
        let ours = run(name, words, false);
        assert_eq!(ours.text(), native.text(), "{name} {}", ours.report());
    }
    // Without --allow-other nobody else may look at all.
    let mount = Mounted::new("kernel-own", &[]);
    let other = format!(
        "setpriv --reuid=2 --regid=2 --clear-groups ls {}",
        mount.text("target")
    );
    assert!(shell(&other).errors().contains("Permission denied"));
}

/// An ordinary user mounts by fusermount3.
#[test]
fn without_privilege() {
    if !possible() || !culvert_e2e::installed("fusermount3") {
        return;
    }
    let place = Mounted::place("kernel-user");
    let (source, target) = (place.text("source"), place.text("target"));
    let culvert = world().culvert.display();
    let as_user = |script: &str| {
        // The device may be for root alone here: one for all is bound over it, where only this test
        // sees it.
        shell(&script!(
            "kernel_mount/without_privilege.sh",
            source,
            target,
            script
        ))
    };
    let done = as_user(&script!(
        "kernel_mount/without_privilege-2.sh",
        culvert,
        source,
        target
    ));
    assert_eq!(done.text(), "hello\n65534\nf\nhello\n", "{}", done.report());
    let done = as_user(&format!(
        "PATH=/nowhere exec {culvert} mount {source} {target}"
    ));
    assert!(done.errors().contains("fuse3"), "{}", done.report());
}
