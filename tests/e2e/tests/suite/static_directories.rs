//! Directories of mounts that a program which nobody intercepts inherits: its working directory, and open ones.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};

/// A tree with something of each kind.
const TREE: &str = "cd $M && mkdir -p d/sub/deep d/empty && echo one > d/one && echo two > d/sub/two && ln -s one d/link && ln d/one d/sub/hard && mkfifo d/pipe
     chmod 640 d/one; seq 1000 > d/many; touch -d @1000000000 d/sub/two; printf 'busybox find . | sort\\n' > script; chmod +x script\n";

/// What a static program finds, with the types.
const LOOK: &str = "busybox find . -type f | busybox sort; busybox find . -type d | busybox sort; busybox find . -type l | busybox sort; busybox find . -type p
     busybox cat one sub/two link sub/hard; busybox md5sum many; busybox stat -c '%s %Y' sub/two; busybox ls | busybox sort; busybox ls nothing; echo $?\n";

/// What is below a directory that may be listed but not searched has names only.
fn not_searched(case: &Case) {
    case.good(
        "cd $M; mkdir -p d/listed/sub d/hidden; touch d/listed/file d/hidden/file; chmod 400 d/listed; chmod 100 d/hidden; cd d
         busybox ls listed 2> /dev/null | busybox sort; busybox cat listed/file; busybox cat listed/sub/nothing; busybox ls; cd ..; chmod 700 d/listed d/hidden",
    );
}

/// Programs that start each other with the mount's root open have no more descriptors, hidden ones among them, than the first.
fn inherited_root(case: &Case) {
    case.good(
        "cd $M; printf 'n=$1; exec 6<&5 6<&-; if [ $n -gt 0 ]; then exec bash again $((n - 1)) $2; fi; busybox ls /proc/$$/fd > $2' > again; exec 5< $M
         bash again 3 $W/few; bash again 12 $W/more; few=$(wc -l < $W/few); more=$(wc -l < $W/more); [ $few = $more ] && echo same || echo $few $more",
    );
}

on_each_driver! {
    a_working_directory |case: Case| {
        case.good(&format!("{TREE} cd d\n{LOOK} echo more >> one; rm sub/two; mkdir new; mv many new/; echo three > sub/three
            busybox find . | busybox sort; busybox cat one sub/three; cd sub; busybox ls | busybox sort; (cd ../new; busybox wc -l many)"));
    };

    programs_after_it |case: Case| {
        // Intercepted again, and back where it was.
        case.good(&format!("{TREE} cd d/sub; busybox env bash -c 'ls; echo text > made; cat ../one; pwd'; ls; busybox sh -c 'cat < two; exec /bin/ls ..'
            busybox env busybox env bash -c 'ls; mkdir another; cd ..; ls'; ls; (cd /; busybox ls -d .); pwd"));
    };

    a_program_that_cannot_be_started |case: Case| {
        case.good(&format!("{TREE} head -c 100 /usr/bin/busybox > broken; chmod +x broken; cd d; exec 5< .
            ../script; ../broken 2> /dev/null || echo broken; ls; echo more > more; ls /dev/fd/5/; pwd"));
    };

    a_removed_working_directory |case: Case| {
        case.good("cd $M && mkdir gone && cd gone && rmdir ../gone && busybox ls . | busybox sort; busybox ls nothing 2>&1; ls .; echo $?");
    };

    several_at_the_same_time |case: Case| {
        case.good("cd $M; for i in {1..12}; do mkdir $i; for j in {1..9}; do seq $i $((i * 150)) > $i/$j; done; done
            for i in {1..12}; do (cd $i && exec busybox md5sum 1 2 3 4 5 6 7 8 9 > $W/sums$i) & done; wait; cat $W/sums{1..12}");
    };

    names_that_come_and_go |case: Case| {
        // What vanishes between the listing and the copy is no error for the rest.
        case.good("cd $M; mkdir d; echo text > d/stay; (until [ -e done ]; do mkdir d/x; echo > d/x/file; echo > d/y; rm -r d/x d/y; done) &
            for i in {1..20}; do (cd d && busybox cat stay); done; touch done; wait");
    };

    a_directory_that_may_not_be_searched |case: Case| not_searched(&case);
    programs_that_inherit_the_root |case: Case| inherited_root(&case);

    an_open_directory |case: Case| {
        // The way to it is its number.
        case.good(&format!("{TREE} exec 5< d 6< d/sub; busybox ls /dev/fd/5/ | busybox sort; busybox find /dev/fd/6/ | busybox sort; busybox cat /dev/fd/6/two
            echo new > d/new; busybox ls /dev/fd/5/ | busybox sort; rm d/new; busybox ls /dev/fd/5/ | busybox sort; ls /dev/fd/5/"));
    };
}

as_each_user! {
    an_archives |case| {
        // Some of what is at the top is too large to be copied: see below.
        case.odd().good("cd $M/dir && busybox ls -1 | busybox sort; busybox cat a.txt; busybox find . | busybox sort; exec 5< .; busybox ls /dev/fd/5/ | busybox sort");
    };

    an_unsearchable_directory_below_a_layer |case| not_searched(&case.directory(Driver::Layered));
    programs_that_inherit_the_root_of_a_layer |case| inherited_root(&case.directory(Driver::Layered));

    below_a_layer |case| {
        case.directory(Driver::Layered).good(&format!("{TREE} cd d\n{LOOK} echo new > new; busybox cat new"));
    };
}

/// What a static program does to a copy would be lost: it is refused.
#[test]
fn a_copy_is_not_written() {
    for (driver, user) in [
        (Driver::Memory, User::Me),
        (Driver::Memory, User::Nobody),
        (Driver::Layered, User::Me),
    ] {
        let case = Case::new(&format!("static-refused-{}-{user:?}", driver.name()), user);
        let done = case.directory(driver).through_culvert(&[
            "bash",
            "-c",
            "cd $M && echo text > file && mkdir sub && for what in 'touch new' 'mkdir new' 'rm file' 'mv file other' 'cp file sub/copy' 'ln file hard' 'dd if=/dev/zero of=file'
             do busybox $what 2> /dev/null && echo \"$what WORKED\"; done; ls; cat file",
        ]);
        assert_eq!(done.text(), "file\nsub\ntext\n", "{}", done.report());
    }
}

/// A tree that is too large to be copied, or holds devices, is an error, never an empty one.
#[test]
fn what_is_too_large_is_an_error() {
    let case = Case::new("static-too-large", User::Me).directory(Driver::Memory);
    let many = "mkdir $M/d; cd $M/d; for i in $(seq 1001); do echo > $i; done";
    let large = "mkdir $M/d; cd $M/d; head -c 9000000 /dev/zero > large";
    for (make, names) in [(many, 1002), (large, 2)] {
        let program = case.program("listed-static");
        let script = format!(
            "{make}; exec 5< .; {program} . nothing /dev/fd/5/ new; echo new > new; ls new; busybox sh -c '/bin/ls | /usr/bin/wc -l'; rm *; {program} ."
        );
        let done = case.through_culvert(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            format!(
                ".: EINVAL\nnothing: ENOENT\n/dev/fd/5/: ENOTDIR\nnew: ENOENT\nnew\n{names}\n.: 2 names\n"
            ),
            "{}",
            done.report()
        );
    }
}
