//! Strange surroundings of `culvert run`: closed descriptors, small limits, full and forbidden
//! directories, archives that change under a running program, many runs at once.

use culvert_e2e::{Case, Finished, User, world};

/// Runs a script in which `$C` is `culvert run` of the archive `x.KIND` of a fresh copy of the tree
/// `odd` on `$M`.
fn script(name: &str, kind: &str, script: &str) -> Option<Finished> {
    if world().only_native {
        return None;
    }
    let case = Case::new(name, User::Me);
    let archive = world().tree("odd", None).archive(kind);
    let prologue = script!(part "surroundings/script.sh", archive = archive.display(), kind);
    Some(case.natively(&["bash", "-c", &(prologue + script)]))
}

#[track_caller]
fn prints(done: Option<Finished>, expected: &str) {
    if let Some(done) = done {
        assert_eq!(
            (done.text().as_str(), done.status.as_str()),
            (expected, "exit 0"),
            "{}",
            done.report()
        );
    }
}

#[test]
fn closed_standard_descriptors() {
    let done = script(
        "closed",
        "tar",
        script!("surroundings/closed_standard_descriptors.sh"),
    );
    if let Some(done) = &done {
        assert!(
            done.text().starts_with("hello, world\n"),
            "{}",
            done.report()
        );
    }
    prints(done, "hello, world\na\nno output\n");
}

/// Directories that are made for a run can be used though the umask takes that right away.
#[test]
fn a_umask_without_search() {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new("umask", User::Nobody);
    let script = script!("surroundings/a_umask_without_search.sh");
    prints(Some(case.natively(&["bash", "-c", script])), "600\nd\n");
}

#[test]
fn small_limits_from_outside() {
    prints(
        script(
            "few",
            "tar",
            "ulimit -n 16; c sh -c 'cat $M/hello.txt; ulimit -n; cat < $M/dir/a.txt'",
        ),
        "hello, world\n16\na\n",
    );
    prints(
        script(
            "stack",
            "tar.gz",
            "ulimit -s 256; c sh -c 'cat $M/hello.txt; md5sum < $M/empty'",
        ),
        "hello, world\nd41d8cd98f00b204e9800998ecf8427e  -\n",
    );
    prints(
        script(
            "unlimited-stack",
            "tar",
            "ulimit -s unlimited; c sh -c 'cat $M/hello.txt'",
        ),
        "hello, world\n",
    );
    // Run directories and indexes are files: without any, an error with a reason, not death by
    // SIGXFSZ.
    if let Some(done) = script("file-size", "tar.gz", "ulimit -f 0; c cat $M/hello.txt") {
        let refused = done.status == "exit 125" && done.errors().starts_with("culvert: ");
        assert!(
            refused || done.text() == "hello, world\n",
            "{}",
            done.report()
        );
    }
    prints(
        script(
            "addresses",
            "tar",
            "ulimit -v 400000; c sh -c 'cat $M/hello.txt'",
        ),
        "hello, world\n",
    );
    prints(
        script(
            "no-randomisation",
            "tar",
            "setarch -R $B/bin/culvert run -v $W/x.tar:$M -- sh -c 'cat $M/hello.txt'",
        ),
        "hello, world\n",
    );
}

#[test]
fn a_big_environment() {
    prints(
        script(
            "environment",
            "tar",
            script!("surroundings/a_big_environment.sh"),
        ),
        "hello, world\n1000\nhello, world\n",
    );
}

#[test]
fn many_runs_at_once_build_one_index() {
    prints(
        script(
            "at-once",
            "tar.gz",
            script!("surroundings/many_runs_at_once_build_one_index.sh"),
        ),
        "2\n1\n",
    );
}

/// Killed while the index is built: the next run finds nothing half done, and one index is there in
/// the end.
#[test]
fn a_killed_run_leaves_nothing_half_done() {
    prints(
        script(
            "killed",
            "tar.gz",
            script!("surroundings/a_killed_run_leaves_nothing_half_done.sh"),
        ),
        "hello, world\n1\n",
    );
}

#[test]
fn full_and_forbidden_directories() {
    if world().native != culvert_e2e::Native::BindAsRoot {
        return;
    }
    prints(
        script(
            "full",
            "tar.gz",
            script!("surroundings/full_and_forbidden_directories.sh"),
        ),
        "hello, world\n",
    );
    prints(
        script(
            "no-shm",
            "tar.gz",
            script!("surroundings/full_and_forbidden_directories-2.sh"),
        ),
        "hello, world\nline 1\n",
    );
    prints(
        script(
            "read-only-root",
            "tar",
            script!("surroundings/full_and_forbidden_directories-3.sh"),
        ),
        "hello, world\n",
    );
}

/// An archive that is cut or removed while programs read it: an error or the old content, never a
/// crash or other bytes.
#[test]
fn an_archive_that_changes_under_a_program() {
    for kind in ["tar", "tar.gz"] {
        let done = script(
            &format!("changes-{kind}"),
            kind,
            &script!(
                "surroundings/an_archive_that_changes_under_a_program.sh",
                kind
            ),
        );
        if let Some(done) = done {
            let text = done.text();
            assert!(
                text == "10\n1\nalive\nalive\n" || text == "10\n0\nalive\nalive\n",
                "{kind}: {}",
                done.report()
            );
        }
        // Programs that start afterwards see it still, or are told; never an empty directory
        // without a word.
        let removed =
            format!("c bash -c 'exec 3<$M/hello.txt; rm x.{kind}; cat $M/hello.txt; cat <&3'");
        if let Some(done) = script(&format!("removed-{kind}"), kind, &removed) {
            let told = done.errors().contains("Input/output error") && done.status != "exit 0";
            assert!(
                told || done.text() == "hello, world\nhello, world\n",
                "{kind}: {}",
                done.report()
            );
        }
    }
}

#[test]
fn strict_refuses_what_cannot_be_intercepted() {
    if let Some(done) = script(
        "strict",
        "tar",
        script!("surroundings/strict_refuses_what_cannot_be_intercepted.sh"),
    ) {
        assert_eq!(
            done.text(),
            "126\nhello, world\nrun anyway\n",
            "{}",
            done.report()
        );
        assert!(
            done.errors().matches("busybox").count() >= 2,
            "both say why\n{}",
            done.report()
        );
    }
}

#[test]
fn without_patching_for_debuggers() {
    let done = script(
        "no-patch",
        "tar",
        "$B/bin/culvert run --no-patch -v $W/x.tar:$M -- echo started; echo $?",
    );
    if let Some(done) = done {
        assert!(done.text().ends_with("started\n0\n"), "{}", done.report());
    }
}
