//! The one line for the user when a program of a run does not see the mounts.

use culvert_e2e::{Case, Driver, Finished, User, as_each_user, installed, not_tested, world};

/// The lines that say so.
fn lines(done: &Finished) -> Vec<String> {
    let errors = done.errors();
    let ours = errors
        .lines()
        .filter(|line| line.contains("does not see the mounts"));
    ours.map(str::to_owned).collect()
}

/// Runs `script` and demands one line, with `words`, and nothing else on standard error.
#[track_caller]
fn says(case: &Case, script: &str, words: &[&str]) -> Finished {
    let done = case.through_culvert(&["bash", "-c", script]);
    let lines = lines(&done);
    assert_eq!(lines.len(), 1, "{script}\n{}", done.report());
    assert_eq!(done.errors(), format!("{}\n", lines[0]), "{script}");
    assert!(lines[0].starts_with("culvert: warning: "), "{}", lines[0]);
    for word in words {
        assert!(lines[0].contains(word), "{word}: {}", lines[0]);
    }
    done
}

/// Runs `script` and demands that nothing is said.
#[track_caller]
fn silent(case: &Case, script: &str) {
    let done = case.through_culvert(&["bash", "-c", script]);
    assert_eq!(done.errors(), "", "{script}\n{}", done.report());
    assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
}

const STATIC: [&str; 3] = ["busybox", "it is statically linked", "`culvert mount`"];

as_each_user! {
    once_in_a_run |case| {
        if world().only_native || !installed("busybox") {
            return;
        }
        let case = case.odd();
        for script in [
            "busybox true",
            "busybox true; busybox true; bash -c 'busybox true; true'; cat $M/hello.txt",
            // Many at once: who makes the mark first says it.
            "for i in 1 2 3 4 5 6 7 8 9; do (busybox true) & done; wait",
            // Of a child of vfork, with another environment.
            script!("saying/once_in_a_run.sh"),
        ] {
            says(&case, script, &STATIC);
        }
        // The program that the command starts itself; what that starts; a run in the run, which is
        // another one.
        let first = case.through_culvert(&["busybox", "true"]);
        assert_eq!(lines(&first).len(), 1, "{}", first.report());
        let both = case.through_culvert(&["busybox", "sh", "-c", "/bin/bash -c 'busybox true; \
            busybox true'"]);
        assert_eq!(lines(&both).len(), 1, "{}", both.report());
        let inner = format!("exec {} run -- busybox true", world().culvert.display());
        says(&case, &inner, &STATIC);
    };

    nothing_is_said_without_need |case| {
        if world().only_native || !installed("busybox") {
            return;
        }
        let none = case.culvert(&["run", "--", "bash", "-c", "busybox true"]);
        assert_eq!(none.errors(), "", "a run without mounts\n{}", none.report());
        let case = case.odd();
        silent(&case, "cat $M/hello.txt; bash -c 'ls $M'");
        // What cannot be executed anyway, is no program, or is looked for in PATH.
        silent(&case, script!("saying/nothing_is_said_without_need.sh"));
        // Standard error that is closed, or goes with the exec.
        silent(&case, "busybox true 2>&-");
        silent(&case, script!("saying/nothing_is_said_without_need-2.sh"));
    };

    a_pipe_that_is_full_or_broken_disturbs_nobody |case| {
        if world().only_native || !installed("busybox") {
            return;
        }
        let case = case.odd();
        let program = case.program("not_told.py");
        let done = says(&case, &format!("python3 {program} $W/said"), &STATIC);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        assert_eq!(done.text(), "full\nbroken\nsocket\nlimit\ntold\n", "{}", done.report());
    };

    files_of_a_mount_are_left_alone |case| {
        if world().only_native || !installed("busybox") {
            return;
        }
        // Of the others the kernel has the file itself, and what is written there is right.
        for driver in [Driver::Driven, Driver::Memory] {
            let name = format!("saying-{}-{:?}", driver.name(), case.user());
            let case = Case::new(&name, case.user()).directory(driver);
            let script = script!("saying/files_of_a_mount_are_left_alone.sh");
            let done = case.through_culvert(&["bash", "-c", script]);
            assert_eq!(done.text(), "b\na\n1\n", "{}", done.report());
        }
    };

    who_may_not_leave_a_mark_says_it_once |case| {
        if world().only_native || case.user() == User::Me || !installed("busybox") {
            return;
        }
        // Not a second time in one life.
        let script = script!("saying/who_may_not_leave_a_mark_says_it_once.sh");
        let done = case.odd().through_culvert(&["bash", "-c", script]);
        // Each child of fork is a process of its own.
        assert_eq!(lines(&done).len(), 2, "{}", done.report());
    };

    a_library_that_cannot_be_read_is_said |case| {
        if world().only_native {
            return;
        }
        let case = case.odd();
        // Another root, or a new user; here the file is gone.
        let script = script!("saying/a_library_that_cannot_be_read_is_said.sh");
        let done = case.natively(&["bash", "-c", script]);
        assert_eq!(done.text(), "culvert\n", "{}", done.report());
        let lines = lines(&done);
        assert_eq!(lines.len(), 1, "{}", done.report());
        assert!(lines[0].contains("libculvert.so cannot be read"), "{}", lines[0]);
        assert!(!done.errors().contains("ERROR: ld.so"), "{}", done.report());
    };
}

/// The reason names the kind of program, and what to do is for that kind.
#[test]
fn each_kind_of_program_has_its_reason() {
    if world().only_native {
        return;
    }
    let case = Case::new("saying-kinds", User::Me).odd();
    let nobody = Case::new("saying-kinds-nobody", User::Nobody).odd();
    let small = ".globl _start; _start: mov $1, %eax; xor %ebx, %ebx; int $0x80";
    let make = format!("echo '{small}' > x.s; cc -m32 -nostdlib -static -o x32 x.s; ./x32");
    says(&case, &make, &["x32", "32-bit", "culvert mount"]);
    if world().is_root() {
        // Who executes them is another user.
        for (script, words) in [
            (
                "cp /bin/true $B/bin/as-root; chmod 4755 $B/bin/as-root",
                ["set-user-ID", "--allow-other"],
            ),
            (
                "cp /bin/true $B/bin/as-root; chmod 2755 $B/bin/as-root",
                ["set-group-ID", "--allow-other"],
            ),
            (
                "cp /bin/true $B/bin/as-root; chmod 4711 $B/bin/as-root",
                ["set-user-ID", "--allow-other"],
            ),
            (
                "cp /bin/busybox $B/bin/as-root; chmod 711 $B/bin/as-root",
                ["may not be read", "chmod"],
            ),
        ] {
            case.alone(&["bash", "-c", script]);
            says(&nobody, "(exec -a busybox $B/bin/as-root true)", &words);
        }
        case.alone(&["bash", "-c", "rm $B/bin/as-root"]);
    }
    if case
        .alone(&["sh", "-c", "test -x /usr/local/go/bin/go || command -v go"])
        .status
        != "exit 0"
    {
        not_tested("go is not installed");
        return;
    }
    let make = script!("saying/each_kind_of_program_has_its_reason-make.sh");
    let built = case.alone(&["bash", "-c", make]);
    assert_eq!(built.status, "exit 0", "{}", built.report());
    let make = format!("cp $B/g . 2>/dev/null; {make}");
    let done = case.through_culvert(&["bash", "-c", &make]);
    let found = lines(&done);
    assert!(
        found
            .iter()
            .any(|line| line.contains("Go program") && line.contains("-buildmode=pie")),
        "{}",
        done.report()
    );
}

/// A sandbox without the run directory; a root that the mounts lie below. Where a root has none of
/// them nothing is said, as natively nothing would be seen.
#[test]
fn sandboxes_and_roots_that_lose_the_mounts() {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new("saying-sandboxes", User::Me).directory(Driver::Driven);
    says(
        &case,
        "python3 -c \"import os; os.chroot(os.path.dirname(os.environ['M']))\"",
        &["changed its root", "culvert mount"],
    );
    silent(
        &case,
        "mkdir $W/empty; chroot $W/empty true 2> $W/said; grep mounts $W/said || exit 0",
    );
    if installed("bwrap") {
        let bwrap = "bwrap --ro-bind / / --dev /dev --proc /proc /bin/true";
        says(
            &case,
            bwrap,
            &["true does not see", "run directory", "--bind /dev/shm"],
        );
        silent(
            &case,
            script!("saying/sandboxes_and_roots_that_lose_the_mounts.sh"),
        );
    }
}

/// The root that a process has already, by any path, changes nothing.
#[test]
fn chroot_to_the_same_root_keeps_the_mounts() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("saying-same-root", User::Me).directory(Driver::Driven);
    let python = script!("saying/chroot_to_the_same_root_keeps_the_mounts-python.py");
    case.script(&script!(
        "saying/chroot_to_the_same_root_keeps_the_mounts.sh",
        python
    ));
}

/// A program with file capabilities, which an ordinary user starts.
#[test]
fn programs_with_file_capabilities_are_told_of() {
    if !installed("setcap") {
        return not_tested("setcap is not installed");
    }
    let script = script!("saying/programs_with_file_capabilities_are_told_of.sh");
    let Some(done) = crate::trust::shell("saying-capabilities", script) else {
        return;
    };
    let what = "/dev/shm/work/capable";
    let missing = format!("{what}: /dev/shm/work/real/f: No such file or directory\n");
    let line = format!(
        "culvert: warning: {what} does not see the mounts: it has file capabilities, so that the \
         dynamic loader loads no library of ours; "
    );
    let expected = format!(
        "{line}`culvert mount --allow-other` shows the same files to \
        it\n{missing}{missing}evil\n{line}so --strict does not let it start\nbash: line 1: \
        {what}: Permission denied\n126\n"
    );
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// With `--strict` it says why the program did not start.
#[test]
fn strict_says_why_a_program_does_not_start() {
    if world().only_native || !installed("busybox") {
        return;
    }
    let case = Case::new("saying-strict", User::Me);
    let target = world().path("other").display().to_string();
    let mount = format!("{}:{target}", world().path("bin").display());
    let done = case.culvert(&[
        "run",
        "--strict",
        "-v",
        &mount,
        "--",
        "bash",
        "-c",
        "busybox true",
    ]);
    assert_eq!(done.status, "exit 126", "{}", done.report());
    let lines = lines(&done);
    assert_eq!(lines.len(), 1, "{}", done.report());
    assert!(lines[0].contains("--strict"), "{}", lines[0]);
}
