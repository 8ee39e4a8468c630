//! A program that was promised mounts never runs without them: it joins its run, or its start fails
//! with status 125 and a line that says why. Only who is told apart beforehand (static, with other
//! rights, in a sandbox, another user) goes on, with the warning of `saying`.

use crate::trust::shell;
use culvert_e2e::{Case, User, world};

/// `$run` is `culvert run` with an empty file system in memory at `$real`. `try NAME UID
/// COMMAND...` executes the command as that user and says what came of it: its status, the words
/// after `name:`, `STRAYED` when the directory itself was written to, and what it has said.
const TRY: &str = script!(part "promises/try.sh");

/// Checks that the lines of what `script` tries are `expected`: a line without indentation whole,
/// one with it by its words.
#[track_caller]
fn tried(name: &str, script: &str, expected: &[(&str, &[&str])]) {
    let Some(done) = shell(name, &format!("{TRY}{script}")) else {
        return;
    };
    let text = done.text();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("    "), found.last_mut()) {
            (Some(said), Some((_, lines))) => lines.push(said.to_owned()),
            _ => found.push((line.to_owned(), Vec::new())),
        }
    }
    let heads: Vec<&str> = found.iter().map(|(head, _)| head.as_str()).collect();
    let wanted: Vec<&str> = expected.iter().map(|(head, _)| *head).collect();
    assert_eq!(heads, wanted, "{}", done.report());
    for ((head, lines), (_, words)) in found.iter().zip(expected) {
        let said = lines.join("\n");
        assert_eq!(
            lines.len(),
            usize::from(!words.is_empty()),
            "{head}\n{said}"
        );
        for word in *words {
            assert!(said.contains(word), "{head}: {word:?} is not said: {said}");
        }
    }
}

/// Limits under which ld.so cannot map the library, or the library cannot work.
#[test]
fn limits_that_leave_no_room() {
    let not = "would not see its mounts";
    let (space, data, files) = (
        &["address space", "ulimit -v", not][..],
        &["data segment", "ulimit -d", not][..],
        &["Too many open files", "ulimit -n", not][..],
    );
    tried(
        "promises-limits",
        script!("promises/limits_that_leave_no_room.sh"),
        &[[
            ("v 2600: 125", space),
            ("v 3000: 125", space),
            ("v 3500: 125", space),
            ("v 4000: 125", space),
            ("d 400: 125", data),
            ("command d 400: 125", data),
            ("d 1000: 125", data),
            ("command d 1000: 125", data),
            ("d 1300: 125", data),
            ("command d 1300: 125", data),
            ("files: 125", files),
            ("script: 125", space),
            ("enough: 0 y", &[]),
        ]; 2]
            .concat(),
    );
}

/// A run directory that is gone, moved, open to others, or without its mounts; a library that
/// cannot be loaded.
#[test]
fn what_the_run_is_made_of_is_gone() {
    let not = "would not see its mounts";
    let same = [
        ("gone: 125", &["No such file", not][..]),
        ("once: 0 y", &[]),
        ("again: 0 y", &[]),
        ("mounts: 125", &["No such file", not]),
        ("fifo: 125", &["says what is mounted", not]),
        ("damaged: 125", &["says what is mounted", not]),
        ("mode: 125", &["0755", not]),
        ("moved: 125", &["No such file", not]),
        ("link: 125", &["symbolic link", not]),
    ];
    let unread = ("unread: 125", &["Permission denied"][..]);
    let noexec = ("noexec: 125", &["noexec"][..]);
    tried(
        "promises-gone",
        script!("promises/what_the_run_is_made_of_is_gone.sh"),
        &[&same[..], &[noexec], &same, &[unread, noexec]].concat(),
    );
}

/// What takes rights or room, and not the mounts; and a program without /proc, which does not
/// start.
#[test]
fn what_does_not_hinder() {
    tried(
        "promises-works",
        script!("promises/what_does_not_hinder.sh"),
        &[
            &[
                ("command 777: 0 y", &[][..]),
                ("program 777: 0 y", &[]),
                ("command 700: 0 y", &[]),
                ("program 700: 0 y", &[]),
                ("command 077: 0 y", &[]),
                ("program 077: 0 y", &[]),
            ]
            .repeat(2)[..],
            // Without it nothing says where the program's code is.
            &[("proc: 125", &["/proc/self/maps"])],
        ]
        .concat(),
    );
}

/// In a sandbox that does not show the run, and as another user, a program goes on, and its user is
/// told.
#[test]
fn who_was_promised_nothing_is_told() {
    tried(
        "promises-told",
        "try sandbox 0 unshare -m $run sh -c \"mount -t tmpfs tmpfs /dev/shm; exec sh -c 'echo on'\"
        try user 0 $run setpriv --reuid=65533 --regid=65533 --clear-groups sh -c 'echo on'",
        &[
            ("sandbox: 0 on", &["warning", "does not see the mounts"]),
            ("user: 0 on", &["warning", "does not see the mounts"]),
        ],
    );
}

/// Whatever one call a filter refuses: the program sees its mounts, or ends with an error.
#[test]
fn no_filter_takes_the_mounts_away() {
    if world().only_native {
        return;
    }
    let program = Case::new("promises-filter-program", User::Me).program("filtered");
    let script = script!("promises/no_filter_takes_the_mounts_away.sh", try = TRY, program);
    let Some(done) = shell("promises-filter", &script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}
