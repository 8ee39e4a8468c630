//! Archives that are none, are broken, or mean harm: a clear line and status 125, or no harm.

use culvert_e2e::{Case, Finished, User, world};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

fn case(name: &str) -> Case {
    Case::new(name, User::Me)
}

/// The directory of hostile archives, written at first use.
pub fn hostile() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = world().path("hostile");
        fs::create_dir_all(&directory).expect("the base directory is ours");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/hostile.py");
        let done = Command::new("python3")
            .arg(script)
            .arg(&directory)
            .output()
            .expect("there is Python");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        directory
    })
}

#[track_caller]
pub fn ends(done: &Finished, status: i32, says: &[&str]) {
    assert_eq!(done.status, format!("exit {status}"), "{}", done.report());
    let text = done.errors();
    for word in says {
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "{word:?} is not said:\n{}",
            done.report()
        );
    }
    assert!(
        !text.contains("panicked") && !text.contains("RUST_BACKTRACE"),
        "a panic is no message:\n{}",
        done.report()
    );
    if status == 125 {
        assert!(
            text.lines().filter(|line| !line.trim().is_empty()).count() <= 6,
            "one clear message:\n{}",
            done.report()
        );
        assert!(
            text.starts_with("culvert"),
            "the message names its sender:\n{}",
            done.report()
        );
    }
}

/// Runs `culvert run ARGUMENTS`, which must fail with status 125 and a message with all of `says`,
/// before the command is started. What is wrong is added to `wrong`, so that one test shows all.
pub fn refused(wrong: &mut Vec<String>, name: &str, arguments: &[&str], says: &[&str]) {
    if world().only_native {
        return;
    }
    let case = case(name);
    let mut all = vec!["run"];
    all.extend(arguments);
    all.extend(["--", "sh", "-c", "echo STARTED"]);
    let done = case.culvert(&all);
    let text = done.errors();
    let mut complain = |what: &str| wrong.push(format!("{name}: {what}\n{}", done.report()));
    if done.status != "exit 125" || done.text().contains("STARTED") {
        complain("not refused");
    } else if let Some(word) = says
        .iter()
        .find(|word| !text.to_lowercase().contains(&word.to_lowercase()))
    {
        complain(&format!("{word:?} is not said"));
    } else if !text.starts_with("culvert") || text.lines().count() > 6 || text.contains("panicked")
    {
        complain("not one clear message");
    }
}

#[track_caller]
pub fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As [`refused`], of the archive `name` among the hostile ones.
fn archive_refused(wrong: &mut Vec<String>, name: &str) {
    let (archive, target) = (hostile().join(name), world().path("other"));
    let mount = format!("{}:{}", archive.display(), target.display());
    refused(wrong, name, &["-v", &mount], &[name]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let mut wrong = Vec::new();
    for name in [
        "text.tar",
        "noise.tar",
        "text.zip",
        "text.tar.gz",
        "text.tar.xz",
        "text.tar.zst",
        "text.tar.bz2",
        "empty.zip.txt",
    ] {
        archive_refused(&mut wrong, name);
    }
    nothing(&wrong);
}

#[test]
fn a_broken_archive_is_refused() {
    let mut wrong = Vec::new();
    let names = [
        "cut-header.tar",
        "cut-data.tar",
        "cut.tar.gz",
        "cut-trailer.tar.gz",
        "cut.zip",
        "cut-directory.zip",
        "cut.tar.xz",
        "cut.tar.zst",
        "cut.tar.bz2",
        "bad-checksum.tar",
        "bad-middle.tar.gz",
        "bad-crc.tar.gz",
        "size-2-63.tar",
        "size-2-63-1.tar",
        "size-negative.tar",
        "size-octal.tar",
        "size-letters.tar",
        "pax-size.tar",
        "pax-length.tar",
        "long-name-huge.tar",
    ];
    for name in names {
        archive_refused(&mut wrong, name);
    }
    nothing(&wrong);
}

/// Odd but readable archives, and those whose harm is in single members: the good member reads
/// right, nothing leaves the mount, and all of it can be walked and read to the end. Or the archive
/// is refused, as any other.
#[test]
fn hostile_archives_do_no_harm() {
    if world().only_native {
        return;
    }
    let target = world().path("other").display().to_string();
    let names = [
        "good.tar",
        "good.zip",
        "absolute.tar",
        "dotdot.tar",
        "dots.tar",
        "dotdot.zip",
        "through-link.tar",
        "duplicates.tar",
        "duplicates.zip",
        "conflict.tar",
        "conflict2.tar",
        "hard-cycle.tar",
        "hard-self.tar",
        "hard-missing.tar",
        "hard-directory.tar",
        "hard-out.tar",
        "symbolic-cycle.tar",
        "deep.tar",
        "sparse-huge.tar",
        "overlap.zip",
        "bomb.tar.gz",
        "size.zip",
        "bad-offset.zip",
        "encrypted.zip",
    ];
    for name in names {
        let case = case(name);
        let mount = format!("{}:{target}", hostile().join(name).display());
        let script = script!("bad_input/hostile_archives_do_no_harm.sh");
        let done = case.culvert(&["run", "-v", &mount, "--", "bash", "-c", script, &target]);
        if done.status == "exit 125" {
            ends(&done, 125, &[name]);
            assert!(
                ![
                    "good.tar",
                    "good.zip",
                    "duplicates.tar",
                    "duplicates.zip",
                    "bomb.tar.gz"
                ]
                .contains(&name),
                "{name} is readable:\n{}",
                done.report()
            );
            continue;
        }
        assert_eq!(done.status, "exit 0", "{name}\n{}", done.report());
        if !["encrypted.zip", "size.zip", "bad-offset.zip", "overlap.zip"].contains(&name) {
            assert!(
                done.text().contains("RIGHT"),
                "{name}: the good member\n{}",
                done.report()
            );
        }
        if name.starts_with("duplicates") {
            assert!(
                done.text().contains("second, the one that counts"),
                "{name}: the last one counts\n{}",
                done.report()
            );
        }
        if name == "hard-out.tar" {
            assert!(
                !done.text().contains("root:"),
                "{name}: a file outside was read\n{}",
                done.report()
            );
        }
        if name == "encrypted.zip" {
            assert!(
                !done.text().contains("secret\n") && done.errors().contains("secret.txt"),
                "{name}\n{}",
                done.report()
            );
        }
    }
    assert!(!world().path("escaped").exists() && !world().path("escaped2").exists());
}
