//! What children inherit from their parents: descriptors, offsets, directories, locks.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver, world};

/// One line per way of inheriting, for one way of making a child.
fn matrix(case: Case, spawn: &str) {
    let case = case.odd();
    let heritage = case.program("heritage");
    let (reader, fixed) = (case.program("reader"), case.program("reader-static"));
    let cases = |exec: &str, reader: &str, inherit: &str| {
        format!(
            "for i in {inherit}; do echo \"== {spawn} {exec} $i\"; f=lines.txt; test $i = dir && f=many; \
             {heritage} {spawn} {exec} $i $M/$f {reader}; done\n"
        )
    };
    let usual = "plain cloexec dup2 stdin close_range cloexec_range scm dir";
    let mut script =
        format!("printf '#!/bin/sh\\nexec {reader} \"$@\"\\n' > script; chmod +x script\n");
    script += &cases("run", &reader, usual);
    script += &cases("script", &reader, "plain cloexec dup2 stdin");
    if spawn != "posix_spawn" {
        script += &cases("none", &reader, "plain dup2 stdin dir");
    }
    // A program without a dynamic loader, which nobody intercepts.
    script += &cases("run", &fixed, "plain cloexec dup2 stdin close_range");
    case.good(&script);
}

/// Runs a Python program of this suite in the mount.
fn python(case: Case, name: &str, arguments: &str) {
    let case = case.odd();
    let program = case.program(name);
    case.good(&format!("cd $M && exec python3 {program} {arguments}"));
}

as_each_user! {
    fork |case| matrix(case, "fork");
    vfork |case| matrix(case, "vfork");
    posix_spawn |case| matrix(case, "posix_spawn");
    clone3 |case| matrix(case, "clone3");
    clone_with_shared_memory |case| matrix(case, "clone_vm");
    fork_in_a_thread |case| matrix(case, "thread");

    four_thousand_descriptors |case| {
        let case = case.odd();
        let many = case.program("many_descriptors");
        case.good(&format!("{many} 4000 $M/big.txt $M"));
    };

    a_failed_exec_changes_nothing |case| {
        let case = case.odd();
        let fails = case.program("exec_fails");
        case.good(&format!("cd $M && exec {fails} hello.txt $W"));
    };

    the_offset_is_shared_by_a_subshell |case| { case.odd().good(
        "cd $M; (read -r a; echo $a; cat >/dev/null) < lines.txt
         { read -r a; (read -r b; echo $a $b); read -r c; echo $c; } < lines.txt
         exec 5<lines.txt; read -r a <&5; head -c 6 <&5 >/dev/null; read -r b <&5; echo $a $b
         (read -r c <&5; echo $c); exec 6<&5; read -r d <&6; read -r e <&5; echo $d $e
         sed -n 3q <&5; cat <&5 | md5sum; wc -c <&5",
    ); };

    flock_of_an_inherited_descriptor |case| { case.odd().good(
        "cd $M
         (flock 9; echo locked; flock -n $M/hello.txt true && echo NOT EXCLUSIVE || echo held) 9<hello.txt
         flock -n hello.txt echo free again
         exec 8<hello.txt; flock -s 8; (flock -s -n 9 && echo shared) 9<hello.txt; (flock -x -n 9 || echo not exclusive) 9<hello.txt
         flock -u 8; (flock -x -n 9 && echo exclusive) 9<hello.txt
         flock $M/dir -c 'echo a directory'; (flock 9; exec 9<&-; flock -n $M/empty echo released) 9<empty",
    ); };

    an_empty_environment |case| { case.odd().good(
        "cd $M; env -i /bin/cat hello.txt; env -i /bin/sh -c 'cat < hello.txt; exec /usr/bin/env'
         exec 3<lines.txt; read -r a <&3; env -i /usr/bin/head -n 1 <&3; env -i bash -c \"cd $M/dir; env -i /bin/ls\"",
    ); };

    python_subprocesses |case| python(case, "subprocesses.py", "");
    python_multiprocessing |case| python(case, "pool.py", "");
    descriptors_between_unrelated_processes |case| python(case, "passing.py", "receive");

    pipelines |case| { case.odd().good(
        "cd $M; cat lines.txt | grep 7 | sort -rn | head -n 5; cat < lines.txt | tail -n 2; (cat hello.txt; cat) < dir/a.txt | cat - dir/b.txt
         diff <(cat lines.txt) <(cat < lines.txt) && echo equal; while read -r a && read -r b <&4; do echo $a $b; done < hello.txt 4< lines.txt
         tee $W/copy < hello.txt | cat; cmp $W/copy hello.txt && xargs -n 1 echo < dir/a.txt; mapfile -t m < lines.txt; echo ${#m[@]} ${m[999]}; cat <<< $(< hello.txt)
         cat < lines.txt < hello.txt; cat 3<&0 0<lines.txt | wc -l; exec < dir/a.txt; cat",
    ); };

    a_program_in_between_that_nobody_intercepts |case| { case.odd().good(
        "cd $M; exec 5<lines.txt; read -r a <&5; echo $a
         busybox sh -c 'read -r b <&5; echo $b; exec bash -c \"read -r c <&5; echo \\$c\"'
         read -r d <&5; echo $d; busybox env -i /bin/bash -c 'read -r e <&5; echo $e'; read -r f <&5; echo $f",
    ); };

    static_busybox_reads_redirected_input |case| { case.odd().good(
        "cd $M; (read -r line; echo $line; busybox cat) < lines.txt | md5sum; busybox wc -c < data.bin; busybox md5sum < data.bin; busybox cat < hello.txt
         busybox tail -n 1 < big.txt; { busybox head -c 7; busybox head -c 7; cat; } < lines.txt | head -n 3
         busybox cat < empty; busybox md5sum < sparse.bin; busybox sh -c 'cat' < dir/a.txt; busybox cat - < hello.txt | cat",
    ); };
}

/// A program that nobody intercepts and its parent store into one file at the same time, and nothing of it is lost (`programs/static_stores.c`).
fn stored_by_both(case: &Case) {
    let (program, fixed) = (
        case.program("static_stores"),
        case.program("static_stores-static"),
    );
    case.good(&format!("exec {program} $M {fixed}"));
}

#[test]
fn a_static_program_and_others_store_into_one_file_without_descriptor() {
    for user in [User::Me, User::Nobody] {
        if user == User::Me || world().is_root() {
            let name = format!("stored-by-both-{user:?}");
            stored_by_both(&Case::new(&name, user).directory(Driver::NoDescriptor));
        }
    }
}

/// A file that the next program may not open, and that has been mapped: nothing is written where the driver never sees it.
#[test]
fn what_cannot_be_opened_again_is_not_written_elsewhere() {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new("not-opened-again", User::Nobody).directory(Driver::NoDescriptor);
    let script = "cd $M; echo before > f; exec python3 -c \"
import mmap, os
fd = os.open('f', os.O_RDWR)
mmap.mmap(fd, 7)
os.chmod('f', 0)
os.set_inheritable(fd, True)
os.execvp('python3', ['python3', '-c', '''
import errno, os, sys
for what in (lambda: os.pwrite(%d, b'lost', 0)), (lambda: os.ftruncate(%d, 3)), (lambda: os.fstat(%d)):
    try:
        print(what())
    except OSError as error:
        print(errno.errorcode[error.errno])
os.chmod('f', 0o644)
print(open('f').read())
''' % (fd, fd, fd)])\"";
    let done = case.through_culvert(&["bash", "-c", script]);
    assert_eq!(
        done.text(),
        "EIO\nEIO\nEIO\nbefore\n\n",
        "{}",
        done.report()
    );
}

/// A static program cuts a file, somebody else sees that, and it writes the same bytes once more.
fn written_again(case: &Case) {
    case.good(
        "cd $M; echo 123 > pid; exec 5<> pid
         busybox sh -c ': > /dev/fd/5; /usr/bin/wc -c pid; echo 123 > /dev/fd/5; /bin/cat pid; : > /dev/fd/5; /bin/true; echo 12 > /dev/fd/5'
         od -c pid; busybox sh -c 'echo 1 > /dev/fd/5; /usr/bin/wc -c pid; echo 12 > /dev/fd/5'; od -c pid",
    );
}

#[test]
fn a_static_program_writes_what_it_cut_off_without_descriptor() {
    for user in [User::Me, User::Nobody] {
        if user == User::Me || world().is_root() {
            let name = format!("written-again-{user:?}");
            written_again(&Case::new(&name, user).directory(Driver::NoDescriptor));
        }
    }
}

on_each_driver! {
    what_lies_in_a_directory_goes_to_the_next_program |case| { case.good(
        "mkdir -p $M/sub/deep; cd $M; echo hi > sub/b; cat < sub/b; cat 3< sub/b <&3
         cd sub && ls && cat b && /bin/pwd; cd deep; (cd ..; cat b; cd /; cat < $M/sub/b); ls ..
         cp /bin/echo e; ./e here; exec 5< ../b; cat <&5; ls ..",
    ); };

    a_static_program_and_others_store_into_one_file |case| stored_by_both(&case);
    a_static_program_writes_what_it_cut_off |case| written_again(&case);
}
