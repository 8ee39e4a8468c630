//! Directories and file systems in memory that cannot be as asked: a clear line and status 125, or
//! as natively.

use crate::bad_input::{ends, nothing, refused};
use culvert_e2e::{Case, Driver, User, not_tested, on_each_driver, world};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Directories of this test alone: an empty target and a source with one file.
struct Place {
    case: Case,
    source: String,
    target: String,
}

impl Place {
    fn new(name: &str, user: User) -> Self {
        let home = world().path("other").with_file_name("bad").join(name);
        let of = |name: &str| home.join(name).display().to_string();
        for made in ["source", "target"] {
            fs::create_dir_all(of(made)).expect("the base directory is ours");
            fs::set_permissions(of(made), fs::Permissions::from_mode(0o777)).expect("it is ours");
        }
        fs::write(home.join("source/file"), "content\n").expect("the base directory is ours");
        Self {
            case: Case::new(&format!("bad-{name}"), user),
            source: of("source"),
            target: of("target"),
        }
    }

    /// `name` beside source and target.
    fn beside(&self, name: &str) -> String {
        let beside = Path::new(&self.source).with_file_name(name);
        beside.display().to_string()
    }

    /// `sh -c SCRIPT` in a run with these mounts; `$T` is the target.
    fn run(&self, mounts: &[&str], script: &str) -> culvert_e2e::Finished {
        let mut words = vec!["run"];
        words.extend(mounts);
        let script = format!("T={}\n{script}", self.target);
        words.extend(["--", "bash", "-c", &script]);
        self.case.culvert(&words)
    }
}

#[test]
fn options_that_cannot_be_are_refused() {
    let place = Place::new("options", User::Me);
    let (volume, memory) = (
        format!("{}:{}", place.source, place.target),
        format!("type=memory,target={}", place.target),
    );
    let mut wrong = Vec::new();
    for (options, says) in [
        ("links=sideways", ["links", "sideways"]),
        ("links", ["links", ""]),
        ("floppy", ["floppy", "there are"]),
        ("drivn", ["drivn", "did you mean driven"]),
        ("size=1m", ["size", "passthrough"]),
    ] {
        refused(
            &mut wrong,
            options,
            &["-v", &format!("{volume}:{options}")],
            &says,
        );
    }
    for (options, says) in [
        ("size=0", ["size=0", "least"]),
        ("size=-1", ["size=-1", "not a size"]),
        ("size=", ["size", "not a size"]),
        ("size=ten", ["size=ten", "not a size"]),
        ("size=1.5g", ["size=1.5g", "not a size"]),
        (
            "size=1152921504606846976",
            ["size=1152921504606846976", "most"],
        ),
        (
            "size=18446744073709551616",
            ["size=18446744073709551616", "not a size"],
        ),
        ("size=99999999t", ["size=99999999t", ""]),
        ("inodes=0", ["inodes=0", ""]),
        ("inodes=-5", ["inodes=-5", ""]),
        (
            "inodes=18446744073709551615",
            ["inodes=18446744073709551615", ""],
        ),
        ("mode=999", ["mode=999", "octal"]),
        ("uid=-1", ["uid=-1", ""]),
        ("uid=root", ["uid=root", ""]),
        ("floppy=1", ["floppy", "there are"]),
        ("sise=1m", ["sise", "did you mean size"]),
    ] {
        refused(
            &mut wrong,
            options,
            &["--mount", &format!("{memory},{options}")],
            &says,
        );
    }
    nothing(&wrong);
}

#[test]
fn names_in_memory_that_cannot_be_are_refused() {
    let place = Place::new("names", User::Me);
    let mut wrong = Vec::new();
    let long = "n".repeat(256);
    for name in [
        "memory:",
        "memory:.",
        "memory:..",
        "memory:a/b",
        "memory:../../../etc/passwd",
        "memory:/",
        &format!("memory:{long}"),
        "elsewhere",
        &place.source,
    ] {
        let mount = format!("type=memory,source={name},target={}", place.target);
        refused(
            &mut wrong,
            &format!(
                "name-{}",
                &name[name.len().saturating_sub(8)..].replace('/', "-")
            ),
            &["--mount", &mount],
            &["memory"],
        );
    }
    nothing(&wrong);
}

#[test]
fn sources_that_cannot_be_are_refused() {
    let place = Place::new("sources", User::Me);
    let target = &place.target;
    fs::write(place.beside("plain"), "text").expect("the base directory is ours");
    let _ = symlink("nowhere", place.beside("dangling"));
    let mut wrong = Vec::new();
    for (name, mount, says) in [
        (
            "missing",
            format!("{}:{target}", place.beside("missing")),
            ["missing", "No such file"],
        ),
        (
            "dangling",
            format!("{}:{target}", place.beside("dangling")),
            ["dangling", "No such file"],
        ),
        (
            "below-a-file",
            format!("{}/x:{target}", place.beside("plain")),
            ["plain/x", "Not a directory"],
        ),
        ("empty", format!(":{target}"), ["source", ""]),
        ("no-target", format!("{}:", place.source), ["target", ""]),
        ("root", format!("{}:/", place.source), ["target /", "root"]),
        (
            "full-target",
            format!("{}:{}", target, place.source),
            ["source", "not empty"],
        ),
    ] {
        refused(&mut wrong, name, &["-v", &mount], &says);
    }
    let file = format!(
        "type=passthrough,source={},target={target}",
        place.beside("plain")
    );
    refused(
        &mut wrong,
        "a-file",
        &["--mount", &file],
        &["plain", "a file, not a directory"],
    );
    nothing(&wrong);
}

#[test]
fn a_source_that_may_not_be_entered_is_refused() {
    if !world().is_root() || world().only_native {
        return;
    }
    let place = Place::new("unreadable", User::Nobody);
    let mount = format!("{}:{}", place.source, place.target);
    for mode in [0o000, 0o644, 0o700] {
        fs::set_permissions(&place.source, fs::Permissions::from_mode(mode)).expect("it is ours");
        let done = place.run(&["--no-private", "-v", &mount], "echo STARTED");
        ends(&done, 125, &["source", "permission"]);
        assert!(!done.text().contains("STARTED"));
    }
    // Searching is enough, as for a directory of the kernel's.
    fs::set_permissions(&place.source, fs::Permissions::from_mode(0o711)).expect("it is ours");
    let done = place.run(
        &["--no-private", "-v", &mount],
        "cat $T/file; ls $T; touch $T/new",
    );
    assert_eq!(done.text(), "content\n", "{}", done.report());
    assert_eq!(
        done.errors().matches("Permission denied").count(),
        2,
        "{}",
        done.report()
    );
}

/// The source shows what it has, its own target in it too.
#[test]
fn a_target_in_its_source() {
    let place = Place::new("target-in-source", User::Me);
    let inner = format!("{}/inner", place.source);
    fs::create_dir_all(&inner).expect("the base directory is ours");
    if world().only_native {
        return;
    }
    for flag in ["--no-private", "--"] {
        let mount = format!("{}:{inner}", place.source);
        let mut mounts = vec!["-v", &mount];
        if flag != "--" {
            mounts.insert(0, flag);
        }
        let done = place.run(
            &mounts,
            &script!(
                "bad_directories/a_target_in_its_source.sh",
                source = place.source
            ),
        );
        // Bound, the second `inner` is the directory below the mount. The pure bypass knows that
        // directory by its identity, also where the source shows it: there the mount is seen again.
        let again = match flag == "--" && world().is_root() {
            true => "",
            false => "file\ninner\n",
        };
        assert_eq!(
            (done.status.as_str(), done.text()),
            ("exit 0", format!("content\nfile\ninner\nmore\n{again}")),
            "{flag}\n{}",
            done.report()
        );
    }
}

#[test]
fn a_source_on_another_mount_and_a_target_in_another() {
    if world().only_native {
        return;
    }
    let place = Place::new("nested", User::Me);
    fs::create_dir_all(format!("{}/below", place.source)).expect("the base directory is ours");
    fs::write(format!("{}/below/deep", place.source), "deep\n")
        .expect("the base directory is ours");
    let outer = format!("{}:{}", place.source, place.target);
    let inner = format!("{}/below:{}/again", place.source, place.target);
    for private in ["--private", "--no-private"] {
        if private == "--private" && !world().is_root() {
            continue;
        }
        let script =
            script!("bad_directories/a_source_on_another_mount_and_a_target_in_another.sh");
        let done = place.run(&[private, "-v", &outer, "-v", &inner], script);
        assert_eq!(
            (done.status.as_str(), done.text().as_str()),
            ("exit 0", "content\ndeep\ndeep\nx\ndeep\n"),
            "{private}\n{}",
            done.report()
        );
    }
    assert!(
        !fs::exists(format!("{}/again", place.source)).expect("it can be asked"),
        "the target of the inner mount was made in the source of the outer one"
    );
}

/// What cannot be written says so with the words of the kernel.
#[test]
fn a_directory_that_cannot_be_written() {
    if !world().is_root() || world().only_native {
        return;
    }
    let place = Place::new("not-writable", User::Nobody);
    fs::set_permissions(&place.source, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mount = format!("{}:{}", place.source, place.target);
    let script = script!("bad_directories/a_directory_that_cannot_be_written.sh");
    for (options, word, times) in [
        ("", "Permission denied", 6),
        (":driven", "Permission denied", 6),
        (":ro", "Read-only file system", 7),
    ] {
        let done = place.run(
            &["--no-private", "-v", &format!("{mount}{options}")],
            script,
        );
        assert_eq!(done.text(), "content\n", "{options}\n{}", done.report());
        assert_eq!(
            done.errors().matches(word).count(),
            times,
            "{options}\n{}",
            done.report()
        );
    }
    assert_eq!(fs::read_dir(&place.source).expect("it is ours").count(), 1);
}

#[test]
fn a_program_on_the_mount_that_cannot_be_started() {
    if world().only_native {
        return;
    }
    let place = Place::new("programs", User::Me);
    let mount = format!("{}:{}", place.source, place.target);
    fs::write(format!("{}/garbage", place.source), [0_u8, 1, 2, 3])
        .expect("the base directory is ours");
    fs::set_permissions(
        format!("{}/garbage", place.source),
        fs::Permissions::from_mode(0o755),
    )
    .expect("it is ours");
    for arguments in [
        vec!["--no-private", "-v", &mount],
        vec![
            "--no-private",
            "-v",
            &mount,
            "--mount",
            "type=memory,target=/tmp/culvert-e2e-not-there",
        ],
    ] {
        for (program, status, says) in [
            ("missing", 127, "missing"),
            ("file", 126, "file"),
            ("garbage", 126, "garbage"),
            ("", 126, "target"),
        ] {
            let program = format!("{}/{program}", place.target);
            let mut words = vec!["run"];
            words.extend(&arguments);
            words.extend(["--", &program]);
            ends(&place.case.culvert(&words), status, &[says]);
        }
    }
}

/// A named file system belongs to whoever made it.
#[test]
fn a_name_of_somebody_else_is_refused() {
    if !world().is_root() || world().only_native {
        return;
    }
    let place = Place::new("somebody-else", User::Nobody);
    let name = format!("e2e-{}", std::process::id());
    let mount = format!("type=memory,source=memory:{name},target={}", place.target);
    let mounts = ["--no-private", "--mount", &mount];
    let done = place.run(&mounts, "echo mine > $T/file");
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let file = Path::new("/dev/shm/culvert-65534/memory").join(&name);
    if !file.exists() {
        let file = file.display();
        not_tested(format_args!("named file systems do not lie in {file}"));
        return;
    }
    // Root has names of its own.
    let mine = Place::new("somebody-else-root", User::Me);
    let root_mount = format!("type=memory,source=memory:{name},target={}", mine.target);
    let done = mine.run(&["--no-private", "--mount", &root_mount], "ls $T");
    assert_eq!(
        (done.status.as_str(), done.text().as_str()),
        ("exit 0", ""),
        "{}",
        done.report()
    );
    let _ = fs::remove_file(format!("/dev/shm/culvert-0/memory/{name}"));

    std::os::unix::fs::chown(&file, Some(0), Some(0)).expect("we are root");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("we are root");
    ends(
        &place.run(&mounts, "echo STARTED"),
        125,
        &[&name, "another user"],
    );
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).expect("we are root");
    ends(&place.run(&mounts, "echo STARTED"), 125, &[&name, "mode"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("we are root");
    let done = place.run(&mounts, "cat $T/file");
    assert_eq!(done.text(), "mine\n", "{}", done.report());

    // What is no file system, and what leads elsewhere.
    fs::write(&file, "text").expect("we are root");
    ends(&place.run(&mounts, "echo STARTED"), 125, &[&name]);
    fs::remove_file(&file).expect("we are root");
    symlink("/etc/passwd", &file).expect("we are root");
    ends(&place.run(&mounts, "echo STARTED"), 125, &[&name, "link"]);
    fs::remove_file(&file).expect("we are root");
}

/// The same with mapped files, whose bytes lie in files of their own there: as root and as an
/// ordinary user.
#[test]
fn a_full_shared_memory_is_enomem_where_files_are_mapped() {
    if !world().is_root() || world().only_native {
        return;
    }
    for user in ["0", "65534"] {
        let place = Place::new(&format!("full-mapped-{user}"), User::Me);
        let (culvert, target) = (world().culvert.display(), &place.target);
        let program = place.case.program("full_memory.py");
        let script = script!(
            "bad_directories/a_full_shared_memory_is_enomem_where_files_are_mapped.sh",
            user,
            culvert,
            target,
            program
        );
        let done = outside(&place.case, &script);
        let expected = "small ok\nsparse ENOMEM\nwrite ENOSPC True\nmoved ENOMEM\nsmall ok \
            b'x\\x07x'\nread True b'y'\nagain ok b'\\x07z'\n";
        assert_eq!(done.text(), expected, "{}", done.report());
    }
}

/// 64 MB of shared memory, as containers have: a full one is ENOSPC, and what is removed can be
/// used again.
#[test]
fn a_full_shared_memory_is_enospc() {
    if !world().is_root() || world().only_native {
        return;
    }
    let place = Place::new("full", User::Me);
    let culvert = world().culvert.display();
    let target = &place.target;
    // More is asked for than there is, in three ways: write, a hole written through a mapping's
    // twin, fallocate.
    let inside = script!("bad_directories/a_full_shared_memory_is_enospc-inside.sh");
    let script = script!(
        "bad_directories/a_full_shared_memory_is_enospc.sh",
        culvert,
        target,
        inside
    );
    let done = outside(&place.case, &script);
    let said = done.text();
    for line in ["dd 1", "filled", "again", "20971520", "status 0"] {
        assert!(
            said.lines().any(|found| found == line),
            "{line:?} is not said\n{}",
            done.report()
        );
    }
    assert!(
        done.errors().contains("No space left on device"),
        "{}",
        done.report()
    );

    // Nothing is left before the run begins: another place is found, or the reason is told.
    let script = script!(
        "bad_directories/a_full_shared_memory_is_enospc-2.sh",
        culvert,
        target
    );
    let done = outside(&place.case, &script);
    let said = done.text();
    assert!(
        said == "x\nstatus 0\n" || (said == "status 125\n" && done.errors().contains("no room")),
        "{}",
        done.report()
    );
}

/// Runs a script in a mount namespace of its own, with nothing of ours around it.
fn outside(case: &Case, script: &str) -> culvert_e2e::Finished {
    case.natively(&["unshare", "-m", "bash", "-c", script])
}

on_each_driver! {
    long_names |case| {
        let program = case.program("long_names");
        case.good(&format!("{program} $M"));
    };

    deeper_than_a_path_is_long |case| {
        let program = case.program("long_names");
        let script = format!("{program} $M deep");
        case.good(&script);
    };

    file_size_limit |case| {
        case.good(script!("bad_directories/file_size_limit.sh"));
    };

    few_descriptors_for_writers |case| {
        // Each file that is driven by a descriptor of the kernel's costs two.
        let many = if case.driver() == Some(Driver::Driven) { "exec 5>a 9>e" } else { "exec 5>a \
            6>b 7>c 8>d 9>e" };
        case.good(&script!("bad_directories/few_descriptors_for_writers.sh", many));
    };

    little_address_space_for_writers |case| {
        case.good(script!("bad_directories/little_address_space_for_writers.sh"));
    };
}
