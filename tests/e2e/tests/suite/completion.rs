//! `culvert completion`: what real shells make of it, and the words of `help` and `version`.

use culvert_e2e::{Case, User, installed, world};

fn case(name: &str) -> Case {
    Case::new(&format!("completion-{name}"), User::Me)
}

/// Makes the script for `shell` and a few files, then runs `command` there with `lines` behind it;
/// what it prints.
fn completed(case: &Case, shell: &str, command: &str, lines: &[&str]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| format!("'{line}'")).collect();
    let culvert = world().culvert.display();
    let script = script!(
        "completion/completed.sh",
        culvert,
        shell,
        command,
        join = lines.join(" ")
    );
    let done = case.natively(&["bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    done.text()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn bash_completes() {
    if world().only_native {
        return;
    }
    let case = case("bash");
    let program = case.program("completed.bash");
    let lines = [
        ("culvert r", "run"),
        ("culvert mo", "mount"),
        ("culvert me", "memory"),
        ("culvert run --pr", "--private"),
        ("culvert run -v arch", "archive.tar"),
        ("culvert run -v archive.tar:pla", "place"),
        ("culvert run -v archive.tar:", "archive.tar place script"),
        ("culvert run -v archive.tar:place:ro --st", "--strict"),
        ("culvert run --volume=archive.tar:place --st", "--strict"),
        ("culvert run --mount=ty", "type="),
        ("culvert run -v archive.tar:place gunzi", "gunzip"),
        ("culvert run -v archive.tar:place -- gunzi", "gunzip"),
        ("culvert run gunzip arch", "archive.tar"),
        ("culvert mount -t mem", "memory"),
        ("culvert mount --log j", "journal"),
        ("culvert mount --with wr", "writeback-cache"),
        ("culvert drivers fau", "fault"),
        ("culvert help do", "doctor"),
        ("culvert completion ", "bash fish zsh"),
        ("culvert list --j", "--json"),
    ];
    let typed: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let command = format!("bash {program} $W/script");
    let found = completed(&case, "bash", &command, &typed);
    for ((line, wanted), found) in lines.iter().zip(found) {
        assert_eq!(found, *wanted, "{line}");
    }
}

#[test]
fn zsh_completes() {
    if world().only_native || !installed("zsh") {
        return;
    }
    let case = case("zsh");
    let program = case.program("completed.zsh");
    let lines = [
        ("culvert ru", "culvert run "),
        ("culvert run --stri", "culvert run --strict "),
        ("culvert run -v arch", "culvert run -v archive.tar"),
        (
            "culvert run -v archive.tar:pla",
            "culvert run -v archive.tar:place/",
        ),
        ("culvert mount -t mem", "culvert mount -t memory "),
        ("culvert mount --log=jou", "culvert mount --log=jou"),
        ("culvert run gunzi", "culvert run gunzip "),
        ("culvert help doct", "culvert help doctor "),
        ("culvert completion fi", "culvert completion fish "),
    ];
    let typed: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let command = format!("zsh -f {program} $W/script");
    let found = completed(&case, "zsh", &command, &typed);
    for ((line, wanted), found) in lines.iter().zip(found) {
        assert_eq!(found.trim(), wanted.trim(), "{line}");
    }
}

#[test]
fn fish_completes() {
    if world().only_native || !installed("fish") {
        return;
    }
    let case = case("fish");
    let lines = [
        ("culvert ru", "run"),
        ("culvert run --stri", "--strict"),
        ("culvert run -v archive.tar:pla", "archive.tar:place/"),
        ("culvert mount -t mem", "memory"),
        ("culvert run -v archive.tar:place gunzi", "gunzip"),
        ("culvert help doct", "doctor"),
        ("culvert completion ba", "bash"),
        ("culvert drivers fau", "fault"),
    ];
    let typed: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let command = script!("completion/fish_completes-command.sh");
    let found = completed(&case, "fish", command, &typed);
    for ((line, wanted), found) in lines.iter().zip(found) {
        assert_eq!(found, *wanted, "{line}");
    }
}

#[test]
fn help_and_version_are_commands() {
    if world().only_native {
        return;
    }
    let case = case("help");
    let version = case.culvert(&["version"]);
    assert_eq!(version.text(), case.culvert(&["--version"]).text());
    assert!(
        version.text().starts_with("culvert "),
        "{}",
        version.report()
    );
    for word in [
        "run",
        "mount",
        "umount",
        "list",
        "drivers",
        "doctor",
        "config",
        "help",
        "version",
        "completion",
    ] {
        let help = case.culvert(&["help", word]);
        let long = case.culvert(&[word, "--help"]);
        assert_eq!(
            (&help.status[..], &long.status[..]),
            ("exit 0", "exit 0"),
            "{word}"
        );
        assert!(
            help.text().starts_with(&long.text()),
            "{word}\n{}",
            help.report()
        );
        assert!(
            help.text().contains("manual page culvert"),
            "{}",
            help.report()
        );
        assert!(case.culvert(&["help"]).text().contains(word), "{word}");
    }
    let none = case.culvert(&["help", "nosuch"]);
    assert_eq!(none.status, "exit 125", "{}", none.report());
    let none = case.culvert(&["completion", "tcsh"]);
    assert!(
        none.errors().contains("bash, zsh, fish"),
        "{}",
        none.report()
    );
}

/// What the doctor says of kinds of programs that are intercepted, or not.
#[test]
fn doctor_says_what_to_do() {
    if world().only_native {
        return;
    }
    let case = case("doctor");
    let make = script!("completion/doctor_says_what_to_do-make.sh");
    let made = case.alone(&["bash", "-c", make]);
    assert_eq!(made.status, "exit 0", "{}", made.report());
    let path = |name: &str| {
        world()
            .path("programs/kinds")
            .join(name)
            .display()
            .to_string()
    };
    let nobody = Case::new("completion-doctor-nobody", User::Nobody);
    let of = |case: &Case, name: &str, words: &[&str]| {
        let done = case.culvert(&["doctor", "--", &path(name)]);
        for word in words {
            assert!(
                done.text().contains(word),
                "{name}: {word}\n{}",
                done.report()
            );
        }
        done.status
    };
    let refused = "exit 1";
    assert_eq!(
        of(
            &case,
            "by-env",
            &["busybox", "statically linked", "culvert mount"]
        ),
        refused
    );
    assert_eq!(
        of(
            &case,
            "static",
            &["busybox (interpreter of", "statically linked"]
        ),
        refused
    );
    assert_eq!(
        of(
            &case,
            "twice",
            &["busybox (interpreter of", "statically linked"]
        ),
        refused
    );
    assert_eq!(
        of(&case, "rings", &["is intercepted", "io_uring"]),
        "exit 0"
    );
    assert_eq!(
        of(
            &case,
            "bwrap",
            &["is intercepted", "makes sandboxes", "--bind /dev/shm"]
        ),
        "exit 0"
    );
    if world().is_root() {
        assert_eq!(
            of(&nobody, "owner", &["set-user-ID", "--allow-other"]),
            refused
        );
        assert_eq!(
            of(&nobody, "group", &["set-group-ID", "--allow-other"]),
            refused
        );
        assert_eq!(
            of(&nobody, "unreadable", &["may not be read", "chmod a+r"]),
            refused
        );
    }
    let json = case.culvert(&["doctor", "--json", "--", &path("static")]);
    for member in ["\"remedy\"", "\"advice\""] {
        assert!(json.text().contains(member), "{}", json.report());
    }
}

#[test]
fn wrong_words_get_the_word_that_helps() {
    if world().only_native {
        return;
    }
    let case = case("words");
    let at = world().path("other").display().to_string();
    for (words, wanted) in [
        (
            vec!["-v".into(), format!("https://example.org/a.tar:{at}")],
            "is a URL, not a path",
        ),
        (
            vec!["-v".into(), format!("https://example.org:80/a.tar:{at}:ro")],
            "download it first",
        ),
        (
            vec![
                "--mount".into(),
                format!("source=https://example.org/a,target={at}"),
            ],
            "download it first",
        ),
        (
            vec!["--mount".into(), format!("type=memry,target={at}")],
            "did you mean memory?",
        ),
        (
            vec!["-v".into(), format!("memory:{at}:damaged")],
            "driver archive has it",
        ),
        (
            vec![
                "-v".into(),
                format!("{}:{at}:sparse", world().path("bin").display()),
            ],
            "has no option",
        ),
    ] {
        let mut all = vec!["run".to_owned()];
        all.extend(words);
        all.push("true".into());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let done = case.culvert(&all);
        assert_eq!(done.status, "exit 125", "{all:?}\n{}", done.report());
        assert!(
            done.errors().contains(wanted),
            "{wanted}\n{}",
            done.report()
        );
    }
    // In a mount namespace of its own no mount of others is seen.
    let culvert = world().culvert.display();
    let alone = "unshare -m bash -c 'umount -a -t fuse.culvert 2>/dev/null; exec \"$@\"' _";
    for (user, enter) in [(User::Nobody, ""), (User::Me, alone)] {
        let case = Case::new(&format!("completion-list-{user:?}"), user);
        let list = case.natively(&["bash", "-c", &format!("{enter} {culvert} list")]);
        assert_eq!(
            (&list.status[..], &list.text()[..]),
            ("exit 0", ""),
            "{}",
            list.report()
        );
        assert!(list.errors().contains("no mounts"), "{}", list.report());
        let json = case.natively(&["bash", "-c", &format!("{enter} {culvert} list --json")]);
        assert_eq!(
            (&json.text()[..], &json.errors()[..]),
            ("[]\n", ""),
            "{}",
            json.report()
        );
    }
}
