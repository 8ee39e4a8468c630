//! The `culvert` command itself: its exit statuses, its words about wrong input, and that nothing
//! is left half done.

use crate::bad_input::{ends, hostile, nothing, refused};
use culvert_e2e::{Case, User, world};

fn case(name: &str) -> Case {
    Case::new(name, User::Me)
}

/// A good archive and where it goes.
fn good_mount() -> String {
    format!(
        "{}:{}",
        hostile().join("good.tar").display(),
        world().path("other").display()
    )
}

#[test]
fn the_exit_status_is_the_commands() {
    let case = case("status").odd();
    for script in [
        "exit 0",
        "exit 3",
        "exit 125",
        "exit 255",
        "kill -9 $$",
        "kill -TERM $$",
        "kill -SEGV $$",
    ] {
        case.script(script);
    }
}

#[test]
fn not_found_is_127_and_not_executable_126() {
    if world().only_native {
        return;
    }
    let case = case("found");
    let mount = good_mount();
    ends(
        &case.culvert(&["run", "-v", &mount, "--", "no-such-command-at-all"]),
        127,
        &["no-such-command-at-all"],
    );
    ends(
        &case.culvert(&["run", "-v", &mount, "--", "/no/such/command"]),
        127,
        &["/no/such/command"],
    );
    ends(
        &case.culvert(&["run", "-v", &mount, "--", "/etc/passwd"]),
        126,
        &["/etc/passwd"],
    );
    ends(
        &case.culvert(&["run", "-v", &mount, "--", "/tmp"]),
        126,
        &["/tmp"],
    );
    ends(
        &case.culvert(&["run", "--", "no-such-command-at-all"]),
        127,
        &["no-such-command-at-all"],
    );
}

#[test]
fn wrong_words_are_refused() {
    let mut wrong = Vec::new();
    let good = hostile().join("good.tar").display().to_string();
    let other = world().path("other").display().to_string();
    refused(&mut wrong, "no-colon", &["-v", &good], &[&good]);
    refused(
        &mut wrong,
        "empty-target",
        &["-v", &format!("{good}:")],
        &["target"],
    );
    refused(
        &mut wrong,
        "empty-source",
        &["-v", &format!(":{other}")],
        &["source"],
    );
    refused(
        &mut wrong,
        "no-source",
        &["-v", &format!("/no/such.tar:{other}")],
        &["/no/such.tar", "No such file"],
    );
    for (driver, why) in [
        ("", "several sources"),
        ("type=archive,", "serves one source"),
    ] {
        let words = format!("{driver}source={good},source={good},target={other}");
        refused(&mut wrong, "two-sources", &["--mount", &words], &[why]);
    }
    refused(
        &mut wrong,
        "unknown-type",
        &[
            "--mount",
            &format!("type=nosuch,source={good},target={other}"),
        ],
        &["nosuch"],
    );
    refused(
        &mut wrong,
        "unknown-option",
        &["-v", &format!("{good}:{other}:nosuch=1")],
        &["nosuch"],
    );
    refused(
        &mut wrong,
        "unknown-mount-word",
        &[
            "--mount",
            &format!("type=archive,source={good},target={other},nosuch=1"),
        ],
        &["nosuch"],
    );
    refused(
        &mut wrong,
        "no-target-word",
        &["--mount", &format!("type=archive,source={good}")],
        &["target"],
    );
    refused(
        &mut wrong,
        "target-is-a-file",
        &[
            "-v",
            &format!("{good}:{}", hostile().join("secret.txt").display()),
        ],
        &["secret.txt"],
    );
    refused(
        &mut wrong,
        "target-not-empty",
        &[
            "-v",
            &format!("{good}:{}", world().path("outside").display()),
        ],
        &["outside", "empty"],
    );
    refused(
        &mut wrong,
        "source-is-a-device",
        &["-v", &format!("/dev/null:{other}")],
        &["/dev/null"],
    );
    refused(
        &mut wrong,
        "unknown-flag",
        &["--no-such-flag"],
        &["--no-such-flag"],
    );
    nothing(&wrong);
}

#[test]
fn words_without_a_command() {
    if world().only_native {
        return;
    }
    let case = case("words");
    for arguments in [
        vec!["run"],
        vec!["run", "--"],
        vec!["nosuch"],
        vec![],
        vec!["drivers", "nosuch"],
    ] {
        let done = case.culvert(&arguments);
        assert_ne!(done.status, "exit 0", "{arguments:?}\n{}", done.report());
        assert!(
            !done.errors().contains("panicked"),
            "{arguments:?}\n{}",
            done.report()
        );
        assert!(!done.stderr.is_empty(), "{arguments:?} says nothing");
    }
    for arguments in [
        vec!["--help"],
        vec!["run", "--help"],
        vec!["--version"],
        vec!["drivers"],
        vec!["drivers", "archive"],
        vec!["doctor"],
    ] {
        let done = case.culvert(&arguments);
        assert_eq!(done.status, "exit 0", "{arguments:?}\n{}", done.report());
        assert!(!done.stdout.is_empty(), "{arguments:?} says nothing");
    }
}

/// `culvert run` in `culvert run` adds its mounts to those inherited.
#[test]
fn nested_runs_add_mounts() {
    if world().only_native {
        return;
    }
    let case = case("nested").odd();
    let culvert = world().culvert.display().to_string();
    let script = script!(
        "command_line/nested_runs_add_mounts.sh",
        culvert,
        good_mount = good_mount()
    );
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(
        done.text(),
        "hello, world\nhello, world\ngood a\ngood a\na\ngood a\n",
        "{}",
        done.report()
    );
    assert_eq!(
        done.status,
        "exit 1",
        "the inner mount is gone outside\n{}",
        done.report()
    );
    // An archive in a mount is a source, too.
    let pack = script!("command_line/nested_runs_add_mounts-pack.sh");
    let done = case.natively(&["bash", "-c", pack]);
    assert_eq!(done.text(), "innermost\n", "{}", done.report());
}

#[test]
fn both_ways_of_naming_a_mount() {
    if world().only_native {
        return;
    }
    let case = case("syntax");
    let source = hostile().join("good.tar").display().to_string();
    let target = world().path("other").display().to_string();
    let read = format!("{target}/a");
    for arguments in [
        vec![
            "run".to_owned(),
            "-v".to_owned(),
            format!("{source}:{target}"),
        ],
        vec![
            "run".to_owned(),
            "-v".to_owned(),
            format!("{source}:{target}:ro"),
        ],
        vec!["run".to_owned(), format!("-v{source}:{target}")],
        vec![
            "run".to_owned(),
            "--mount".to_owned(),
            format!("type=archive,source={source},target={target}"),
        ],
        vec![
            "run".to_owned(),
            "--mount".to_owned(),
            format!("source={source},target={target}"),
        ],
        vec![
            "run".to_owned(),
            format!("--mount=type=archive,source={source},target={target},ro"),
        ],
    ] {
        let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        words.extend(["--", "cat", &read]);
        let done = case.culvert(&words);
        assert_eq!(
            (done.text().as_str(), done.status.as_str()),
            ("good a\n", "exit 0"),
            "{words:?}\n{}",
            done.report()
        );
    }
    // Without `--`; with relative names; onto a target that does not exist.
    let done = case.natively(&[
        "bash",
        "-c",
        &script!("command_line/both_ways_of_naming_a_mount.sh", source),
    ]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert!(
        done.text().starts_with("good a\ngood a\na\nd\n"),
        "{}",
        done.report()
    );
}

/// An ordinary user with the least there is: no home, nothing writable but the temporary directory.
#[test]
fn an_ordinary_user_needs_nothing() {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new("nobody", User::Nobody);
    for home in ["HOME=/nonexistent", "HOME=/", "XDG_CACHE_HOME=/proc"] {
        let culvert = world().culvert.display().to_string();
        let target = world().path("other");
        let done = case.natively(&[
            "env",
            home,
            &culvert,
            "run",
            "-v",
            &good_mount(),
            "--",
            "cat",
            &format!("{}/a", target.display()),
        ]);
        assert_eq!(
            (done.text().as_str(), done.status.as_str()),
            ("good a\n", "exit 0"),
            "{home}\n{}",
            done.report()
        );
    }
}

#[test]
fn the_index_is_built_once_and_follows_the_content() {
    if world().only_native {
        return;
    }
    let case = case("index");
    let script = script!("command_line/the_index_is_built_once_and_follows_the_content.sh");
    let done = case.natively(&["bash", "-c", script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let text = done.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        (lines[0], lines[2]),
        ("outside", "outside"),
        "{}",
        done.report()
    );
    assert_eq!(
        lines[1],
        lines[3],
        "the second run adds no index\n{}",
        done.report()
    );
    assert_eq!(
        &lines[4..],
        ["f", "changed", "changed", "changed", "changed"],
        "{}",
        done.report()
    );
}

/// Run directories go away with their last process.
#[test]
fn nothing_is_left_behind() {
    if world().only_native {
        return;
    }
    let case = case("left");
    let script = script!("command_line/nothing_is_left_behind.sh");
    hostile();
    let done = case.natively(&["bash", "-c", script]);
    let text = done.text();
    let left: u32 = text
        .lines()
        .last()
        .and_then(|line| line.parse().ok())
        .unwrap_or(99);
    // The last process of a run may leave its directory to the next run, which clears it.
    assert!(
        text.starts_with("good a\n") && left <= 1,
        "{}",
        done.report()
    );
}

/// A debugger's breakpoint on a common name stops in the program alone.
#[test]
fn the_library_has_no_names_but_those_it_exports() {
    if world().only_native {
        return;
    }
    let library = world().culvert.with_file_name("libculvert.so");
    let library = library.to_str().expect("plain");
    let done = case("names").alone(&["nm", "--defined-only", library]);
    assert!(done.report().contains("no symbols"), "{}", done.report());
    let done = case("names-exported").alone(&["nm", "-D", "--defined-only", library]);
    let names = done.text();
    let names: Vec<&str> = names
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert!(
        !names.is_empty() && names.iter().all(|name| name.starts_with("la_")),
        "{names:?}"
    );
}

/// How mapped files are filled here, and why not on demand where they are not.
#[test]
fn doctor_says_how_mapped_files_are_filled() {
    if world().only_native {
        return;
    }
    let allowed = |path| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    let everybody = allowed("/proc/sys/vm/unprivileged_userfaultfd");
    for user in [User::Me, User::Nobody] {
        let done = Case::new(&format!("doctor-{user:?}"), user).culvert(&["doctor"]);
        let text = done.text();
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains("userfaultfd"));
        let said = at.map(|at| lines[at..lines.len().min(at + 3)].join(" "));
        let said = said.unwrap_or_else(|| panic!("no line about it\n{}", done.report()));
        let on_demand = everybody || user == User::Me && world().is_root();
        let words: &[&str] = match on_demand {
            true => &["available: large mapped files are filled on demand"],
            false => &[
                "not permitted",
                "needs root",
                "filled before they are mapped",
            ],
        };
        for word in words {
            assert!(said.contains(word), "{word} is missing in: {said}\n{text}");
        }
    }
}

/// Where no place for images may be executed from, each program's code is rewritten in place.
#[test]
fn doctor_says_why_code_is_rewritten_in_place() {
    if world().only_native {
        return;
    }
    for user in [User::Me, User::Nobody] {
        let culvert = world().culvert.to_str().expect("plain").to_owned();
        let case = Case::new(&format!("doctor-code-{user:?}"), user).variable("CULVERT", culvert);
        let script = script!("command_line/doctor_without_images.sh");
        let alone = [
            "unshare",
            "--user",
            "--map-root-user",
            "-m",
            "sh",
            "-c",
            script,
        ];
        let done = case.alone(&alone);
        let said = done.text();
        let line = said.lines().find(|line| line.contains("rewritten code"));
        let line = line.unwrap_or_else(|| panic!("{}", done.report()));
        assert!(
            line.starts_with("limited") && line.contains("copied: /dev/shm/culvert-"),
            "{line}"
        );
        assert!(line.ends_with("is mounted noexec"), "{line}");
    }
}

#[test]
fn doctor_explains_a_command() {
    if world().only_native {
        return;
    }
    let case = case("doctor");
    let done = case.culvert(&["doctor", "--", "git", "--version"]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    for word in ["git", "libc.so.6", "sites"] {
        assert!(
            done.text().contains(word),
            "{word} is missing\n{}",
            done.report()
        );
    }
    let done = case.culvert(&["doctor", "--", "busybox"]);
    assert!(done.text().contains("static"), "{}", done.report());
    let done = case.culvert(&["doctor", "--", "no-such-command"]);
    assert_eq!(done.status, "exit 127", "{}", done.report());
}
