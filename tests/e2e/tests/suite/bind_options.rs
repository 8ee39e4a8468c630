//! `bind`, beside bindfs behind the kernel: options that random operations do not meet, each by
//! steps of its own.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{installed, not_tested, world};

/// Options of ours and of bindfs's for the steps of a program, and how ours is mounted.
struct Steps {
    program: &'static str,
    options: &'static str,
    original: &'static str,
    /// Options of ours on a kernel mount.
    mounted: &'static str,
    /// Before them.
    own: &'static str,
    /// Before the type.
    with: &'static str,
    /// What bindfs says has so many.
    lines: u32,
    /// What follows `compared`.
    others: &'static str,
}

impl Steps {
    const fn of(program: &'static str, options: &'static str, lines: u32) -> Self {
        Self {
            program,
            options,
            original: options,
            mounted: options,
            own: "allow_other,",
            with: "",
            lines,
            others: "",
        }
    }

    /// They give on a kernel mount of ours and in a run what they give on bindfs.
    fn compare(&self) {
        if !possible() || !installed("bindfs") {
            return;
        }
        let Self {
            options,
            original,
            mounted,
            own,
            with,
            lines,
            ..
        } = self;
        let place = Mounted::place(&format!("bind-steps-{}", self.program));
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
        let program = format!("{directory}/bind_{}.sh", self.program);
        let (place, culvert) = (place.text(""), world().culvert.display());
        let done = shell(&script!(
            "bind/same.sh",
            place,
            culvert,
            program,
            options,
            original,
            mounted,
            own,
            with,
            lines
        ));
        let want = format!("compared\n{}", self.others);
        assert_eq!(done.text(), want, "{options}\n{}", done.report());
    }
}

/// By the mounter's rights there, by the caller's here: who owns a file changes its flags, others
/// do not.
#[test]
fn enable_ioctl() {
    Steps {
        others: "OSError: [Errno 25] Inappropriate ioctl for device\n",
        ..Steps::of("flags", "enable-ioctl", 10)
    }
    .compare();
}

#[test]
fn block_devices_as_files() {
    if shell("losetup -f").status != "exit 0" {
        return not_tested("there are no loop devices");
    }
    Steps::of("devices", "block-devices-as-files", 11).compare();
}

/// A lock of a file of the mount is one of the file in the source.
#[test]
fn enable_lock_forwarding() {
    Steps {
        with: "--with posix-locks --with flock-locks",
        // It says that these words are wanted.
        mounted: "multithreaded",
        original: "enable-lock-forwarding,multithreaded",
        ..Steps::of("locks", "enable-lock-forwarding", 5)
    }
    .compare();
}

#[test]
fn read_rate_and_write_rate() {
    Steps::of("rates", "read-rate=512k,write-rate=512k", 4).compare();
}

#[test]
fn no_allow_other() {
    Steps {
        own: "",
        ..Steps::of("closed", "no-allow-other", 2)
    }
    .compare();
}

/// What others write behind a mount is there at the next read, or what the kernel has kept.
#[test]
fn direct_io() {
    if !possible() {
        return;
    }
    for (options, want) in [("direct-io", "old\nnew\n"), ("no-direct-io", "old\nold\n")] {
        let place = Mounted::place(&format!("bind-{options}"));
        let (place, culvert) = (place.text(""), world().culvert.display());
        let done = shell(&script!("bind/direct.sh", place, culvert, options));
        assert_eq!(done.text(), want, "{options}\n{}", done.report());
    }
    let place = Mounted::place("bind-direct-run");
    let (source, target) = (place.text("source"), place.text("target"));
    let mount = format!("type=bind,source={source},target={target},direct-io");
    let script = format!("echo in > {target}/f; cat {source}/f {target}/f");
    let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
    assert_eq!(done.text(), "in\nin\n", "{}", done.report());
}

#[test]
fn forward_odirect_is_refused() {
    let place = Mounted::place("bind-odirect");
    let (source, target) = (place.text("source"), place.text("target"));
    let mount = format!("type=bind,source={source},target={target},forward-odirect=512");
    let done = culvert(&["run", "--mount", &mount, "--", "true"]);
    assert_eq!(done.status, "exit 125", "{}", done.report());
    assert!(
        done.errors().contains("forward-odirect"),
        "{}",
        done.report()
    );
}

/// Each option of bindfs's is one of these tests' options.
#[test]
fn each_option_is_compared() {
    if !installed("bindfs") {
        return;
    }
    let tests = concat!(
        include_str!("kernel_bind.rs"),
        include_str!("bind_options.rs")
    );
    let (of_these, _) = tests.split_once("OF_THE_COMMAND").expect("below");
    let help = shell("bindfs --help | grep -oE -- '--[a-z][a-z-]+' | sort -u");
    let text = help.text();
    let missing: Vec<_> = text
        .lines()
        .map(|line| line.trim_start_matches('-'))
        .filter(|option| !OF_THE_COMMAND.contains(option))
        .filter(|option| {
            !['"', ','].iter().any(|before| {
                of_these
                    .split(&format!("{before}{option}"))
                    .skip(1)
                    .any(|rest| rest.starts_with(['"', ',', '=']))
            })
        })
        .collect();
    assert!(missing.is_empty(), "in no test: {missing:?}");
}

const OF_THE_COMMAND: [&str; 3] = ["help", "version", "fuse-version"];
