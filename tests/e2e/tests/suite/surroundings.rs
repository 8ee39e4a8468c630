//! Strange surroundings of `culvert run`: closed descriptors, small limits, full and forbidden directories, archives
//! that change under a running program, many runs at once.

use culvert_e2e::{Case, Finished, User, world};

/// Runs a script in which `$C` is `culvert run` of the archive `x.KIND` of a fresh copy of the tree `odd` on `$M`.
fn script(name: &str, kind: &str, script: &str) -> Option<Finished> {
    if world().only_native {
        return None;
    }
    let case = Case::new(name, User::Me);
    let archive = world().tree("odd", None).archive(kind);
    let prologue = format!(
        "cp --preserve=timestamps {} x.{kind}; export XDG_CACHE_HOME=$W/cache; c() {{ $B/bin/culvert run -v $W/x.{kind}:$M -- \"$@\"; }}\n",
        archive.display()
    );
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
        "(exec 0<&- 1>&- 2>&-; c sh -c 'cat $M/hello.txt > out 2> err; ls /proc/self/fd > fds'; sh -c 'ls /proc/self/fd > native'); cat out err; cmp fds native
         c sh -c 'exec 0<&-; cat $M/dir/a.txt; read x' 2>/dev/null; (exec 1>&-; c cat $M/hello.txt) 2>/dev/null || echo no output",
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
    let script = "umask 0177; $B/bin/culvert run --mount type=memory,target=$W/m -- bash -c 'cd $W/m && mkdir d && stat -c %a d && chmod 700 d && cd d && echo ${PWD##*/}'";
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
    // Run directories and indexes are files: without any, an error with a reason, not death by SIGXFSZ.
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
            "for i in $(seq 1000); do export V$i=$(printf %500s x); done; c sh -c 'cat $M/hello.txt; env | grep -c ^V'; c env -i sh -c \"cat $M/hello.txt\"",
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
            "for i in 1 2 3 4 5 6 7 8; do c md5sum < /dev/null $M/big.txt $M/hello.txt > out.$i & done; wait; sort -u out.? | wc -l; find cache -type f | wc -l",
        ),
        "2\n1\n",
    );
}

/// Killed while the index is built: the next run finds nothing half done, and one index is there in the end.
#[test]
fn a_killed_run_leaves_nothing_half_done() {
    prints(
        script(
            "killed",
            "tar.gz",
            "for t in 002 005 01 02 03 04 05 08; do timeout -s KILL 0.$t $B/bin/culvert run -v $W/x.tar.gz:$M -- true >/dev/null 2>&1; done; c cat $M/hello.txt; find cache -type f | wc -l",
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
            "mkdir cache; unshare -m bash -c 'mount -t tmpfs -o size=4k none cache; $B/bin/culvert run -v $W/x.tar.gz:$M -- cat $M/hello.txt' 2>/dev/null",
        ),
        "hello, world\n",
    );
    prints(
        script(
            "no-shm",
            "tar.gz",
            "unshare -m bash -c 'mount -t tmpfs -o ro none /dev/shm; $B/bin/culvert run -v $W/x.tar.gz:$M -- sh -c \"cat $M/hello.txt; exec 3<$M/lines.txt; busybox head -n 1 <&3\"' 2>/dev/null",
        ),
        "hello, world\nline 1\n",
    );
    prints(
        script(
            "read-only-root",
            "tar",
            "unshare -m bash -c 'mount -o remount,bind,ro $W 2>/dev/null || { mount --bind $W $W && mount -o remount,bind,ro $W; }; cd /; XDG_CACHE_HOME=$W/cache $B/bin/culvert run -v $W/x.tar:$M -- cat $M/hello.txt' 2>/dev/null",
        ),
        "hello, world\n",
    );
}

/// An archive that is cut or removed while programs read it: an error or the old content, never a crash or other bytes.
#[test]
fn an_archive_that_changes_under_a_program() {
    for kind in ["tar", "tar.gz"] {
        let done = script(
            &format!("changes-{kind}"),
            kind,
            &format!(
                "c md5sum $M/data.bin > before; c bash -c 'exec 3<$M/data.bin; head -c 10 $M/data.bin | wc -c; truncate -s 3000 x.{kind}; md5sum $M/data.bin > after; echo $?; cat $M/big.txt 2>/dev/null | tail -c 100 >/dev/null; md5sum <&3 >/dev/null; test $? -lt 128 && echo alive; ls $M >/dev/null; test $? -lt 128 && echo alive'"
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
        // Programs that start afterwards see it still, or are told; never an empty directory without a word.
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
        "$B/bin/culvert run --strict -v $W/x.tar:$M -- busybox true; echo $?; $B/bin/culvert run --strict -v $W/x.tar:$M -- cat $M/hello.txt; c busybox echo run anyway",
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
