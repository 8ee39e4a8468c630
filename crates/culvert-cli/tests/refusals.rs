//! Bad input to the command: the exit status, one clear message, and nothing left behind.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output},
};

/// A directory with the command, something in the library's place (nothing here comes as far as
/// loading it), and sources and targets.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("refusals-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        for directory in ["bin", "empty", "full", "home", "run"] {
            fs::create_dir_all(place.join(directory)).unwrap();
        }
        fs::set_permissions(place.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        // A link, not a copy: a file that another thread's child still has open for writing cannot
        // be executed.
        fs::hard_link(
            env!("CARGO_BIN_EXE_culvert-full"),
            place.join("bin/culvert"),
        )
        .unwrap();
        fs::write(place.join("bin/libculvert.so"), b"").unwrap();
        fs::write(place.join("full/file"), b"x").unwrap();
        fs::write(place.join("text"), b"this is no archive\n").unwrap();
        fs::write(place.join("zeros.tar"), [0; 100]).unwrap();
        fs::write(
            place.join("cut.tar.gz"),
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xed",
        )
        .unwrap();
        Self(place)
    }

    fn culvert(&self, words: &str) -> Output {
        Command::new(self.0.join("bin/culvert"))
            .args(words.split_whitespace())
            .current_dir(&self.0)
            .env_remove("CULVERT_RUN")
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", self.0.join("home"))
            .output()
            .unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn says(output: &Output, status: i32, want: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert!(text.starts_with("culvert: "), "{text}");
    assert!(text.contains(want), "\"{want}\" is not in: {text}");
    assert!(text.lines().count() <= 2, "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn bad_input_is_refused_with_125_and_the_cause() {
    let place = Place::new("table");
    for (words, want) in [
        ("", "no command given"),
        ("serve a b", "unknown command \"serve\""),
        ("run", "no program to run"),
        ("run --fast true", "invalid option '--fast'"),
        ("run -v text true", "no target"),
        (
            "run -v missing.tar:empty true",
            "missing.tar: No such file or directory",
        ),
        ("run -v text:empty true", "text: "),
        ("run -v zeros.tar:empty true", "zeros.tar: "),
        ("run -v cut.tar.gz:empty true", "cut.tar.gz: "),
        (
            "run --mount type=archive,source=empty,target=new true",
            "is a directory, not an archive file",
        ),
        (
            "run --mount type=passthrough,source=text,target=empty true",
            "is a file, not a directory",
        ),
        ("run -v /dev/null:empty true", "is a device"),
        ("run -v text:full true", "full: the directory is not empty"),
        ("run -v text:text true", "text: not a directory"),
        (
            "run -v text:empty:/full true",
            "A:B:TARGET:type=union for several sources",
        ),
        ("run -v text:empty true", "culvert drivers archive"),
        ("save missing new.tar", "missing: No such file or directory"),
        (
            "save full missing/new.tar",
            "making missing/new.tar: No such",
        ),
        (
            "run -v text:no/../such true",
            "below a directory that does not exist",
        ),
        (
            "run --mount type=floppy,source=text,target=empty true",
            "no driver \"floppy\"",
        ),
        (
            "run --mount source=text,target=empty,speed=9 true",
            "no option \"speed\"",
        ),
        (
            "run -v full:empty:layer=fault,fault.rule=sleep true",
            "its options: culvert drivers fault",
        ),
        (
            "run -v full:empty:layer=floppy true",
            "what each does: culvert drivers",
        ),
        (
            "run --mount type=overlay,source=full,target=empty true",
            "option lowerdir=LIST names, which is missing",
        ),
        ("run -v cut.tar.gz:empty true", "once it is decompressed"),
        ("run --mount source=text true", "no target"),
        (
            "run -v text:empty -v text:empty true",
            "two mounts have the target",
        ),
        ("drivers floppy", "floppy"),
        ("doctor --xml", "invalid option '--xml'"),
    ] {
        let output = place.culvert(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{words}: {text}");
        says(&output, 125, want);
    }
    assert_eq!(fs::read_dir(place.0.join("empty")).unwrap().count(), 0);
    assert!(!place.0.join("new").exists());
}

#[test]
fn programs_that_cannot_be_run_are_126_and_unknown_ones_127() {
    let place = Place::new("programs");
    for (words, status, want) in [
        (
            "run no-such-program-anywhere",
            127,
            "no such program in PATH",
        ),
        ("run ./missing", 127, "No such file or directory"),
        (
            "run text:empty ls",
            127,
            "a mount is named by -v SOURCE:TARGET",
        ),
        ("run ./text", 126, "not executable"),
        ("run ./full", 126, "it is a directory"),
        ("doctor -- ./missing", 127, "No such file or directory"),
    ] {
        says(&place.culvert(words), status, want);
    }
}

#[test]
fn a_missing_library_is_said() {
    let place = Place::new("library");
    fs::remove_file(place.0.join("bin/libculvert.so")).unwrap();
    says(&place.culvert("run true"), 125, "libculvert.so is missing");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let place = Place::new("help");
    for words in [
        "--help",
        "-h",
        "help",
        "--version",
        "run --help",
        "drivers --help",
        "doctor -h",
        "drivers",
        "drivers archive",
    ] {
        let output = place.culvert(words);
        assert!(output.status.success(), "{words}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{words}"
        );
    }
}
