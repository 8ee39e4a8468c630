//! Paths in a directory that is a mount: the kernel's own tree, but with the links, `..` and working directories of the place where it is seen.

use culvert_e2e::{Case, Driver, on_each_driver, world};

/// Whether the mount is the kernel's own tree: what these tests are about. The other drivers have tests of their own.
fn is_tree(case: &Case) -> bool {
    matches!(case.driver(), Some(Driver::Passthrough | Driver::Bound))
}

on_each_driver! {
    random_paths_mean_what_the_kernel_says |case| {
        if !is_tree(&case) { return; }
        let program = world().program("random_paths.py");
        let seeds = if case.driver() == Some(Driver::Passthrough) { "1 2 3 4" } else { "5" };
        case.good(&format!(
            "for s in {seeds}; do rm -rf $M/* $W/out; mkdir $W/out; python3 {} $M $W/out $s 700; done",
            program.display()
        ));
    };

    a_directory_is_followed_when_others_rename_it |case| { if !is_tree(&case) { return; } case.good(
        "mkdir -p $M/a/b $M/other; echo in-a > $M/a/f; cd $M/a; exec 5< .
         bash -c \"mv $M/a $M/moved; mkdir $M/a; echo new > $M/a/f\"
         cat f; cat $M/a/f; /bin/pwd; readlink /proc/self/cwd; cat /dev/fd/5/f; mkdir made; ls $M/moved $M/a; cd b; /bin/pwd; cd ../..; /bin/pwd; ls
         cd $M/other; rmdir $M/other; ls; echo x > f; /bin/pwd; cd $M; /bin/pwd",
    ); };

    links_lead_where_they_would_from_the_target |case| { if !is_tree(&case) { return; } case.good(
        "mkdir -p $M/d/e $W/away; echo away > $W/away/f; echo top > $M/f; cd $M
         ln -s $W/away abs; ln -s $M/f back; ln -s ../f d/up; ln -s \"$(realpath --relative-to=$M $W/away)\" climbs; ln -s l1 l2; ln -s l2 l1; ln -s ../../../../../../../.. d/e/root
         for p in abs/f back d/up climbs/f l1 d/e/root/ d/../f d/e/../../f d/up/x f/ climbs/../away/f; do cat $p 2>&1; stat -c '%F %s' $p 2>&1; test -r $p; echo $?; done 2>&1
         echo new > climbs/made; echo more >> abs/made; cat $W/away/made; mv climbs/made abs/moved; ln $W/away/f climbs/hard; ls $W/away; rm climbs/moved; cp -a d d2; ls -lR --time-style=+ d2 | sed 's/ [0-9]* / /'
         chmod 600 back climbs/f; stat -c %a f $W/away/f; touch -d @5 d/up; stat -c %Y f; truncate -s 2 d/up; cat f; rm -r climbs d/up; ls",
    ); };

    names_of_descriptors_are_the_mounts |case| { if !is_tree(&case) { return; } case.good(
        "mkdir $M/d; echo x > $M/d/f; cd $M/d; exec 5< f 6< .; readlink /proc/self/fd/6; cat /proc/self/fd/5; ls /proc/self/fd/6/ .
         python3 -c 'import os; print([os.readlink(\"/proc/self/fd/%d\" % os.open(name, os.O_RDONLY)) for name in (\"f\", \".\", \"../d/f\")]); d = os.dup(6); print(os.readlink(\"/proc/self/fd/%d\" % d), os.stat(\"f\", dir_fd=d).st_size, os.stat(\"../d/f\", dir_fd=d).st_size, os.getcwd()); os.fchdir(d); print(os.getcwd(), os.listdir())'",
    ); };

    files_without_a_name_get_one |case| { if !is_tree(&case) { return; } case.good(
        "python3 - $M <<'E'
import os, sys
os.chdir(sys.argv[1])
try:
    f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
except OSError as error:
    sys.exit(print('none', error.errno))
os.write(f, b'born nameless')
os.link('/proc/self/fd/%d' % f, 'named', src_dir_fd=os.open('/', 0), follow_symlinks=True)
print(open('named').read(), os.listdir())
E",
    ); };
}

/// With `links=backing` a link that climbs ends where it would in the source.
#[test]
fn links_of_the_source_if_asked() {
    let case = Case::new("links-of-the-source", culvert_e2e::User::Me)
        .directory(culvert_e2e::Driver::Passthrough)
        .options("links=backing");
    let done = case.through_culvert(&[
        "bash",
        "-c",
        "cd $M; echo x > f; ln -s f l; ln -s ../culvert/f climbs; ln -s /etc abs; cat l climbs; test -d abs/; stat -c %F abs/.; mkdir -p a/b/c; cd a/b/c; cat ../../../l; /bin/pwd | sed 's/.*mounts//'",
    ]);
    assert_eq!(
        (done.status.as_str(), done.text().as_str()),
        ("exit 0", "x\nx\ndirectory\nx\n/links-of-the-source/a/b/c\n"),
        "{}",
        done.report()
    );
}

/// Who goes to the source by its own name stays there, whatever programs he starts; the mount is where its target is.
#[test]
fn the_source_keeps_its_own_name() {
    let case = Case::new("source-by-name", culvert_e2e::User::Me)
        .directory(culvert_e2e::Driver::Passthrough);
    let done = case.through_culvert(&[
        "bash",
        "-c",
        "S=$B/backing/source-by-name/culvert; mkdir $M/d; export S
         { cd $S; /bin/pwd; cd d; sh -c '/bin/pwd; cd $M/d; /bin/pwd; cd $S/d; env /bin/pwd'; cd $M/d; sh -c '/bin/pwd; cd ..; env /bin/pwd'; } | sed \"s,$B,,\"",
    ]);
    let (source, mount) = ("/backing/source-by-name/culvert", "/mounts/source-by-name");
    assert_eq!(
        done.text(),
        format!("{source}\n{source}/d\n{mount}/d\n{source}/d\n{mount}/d\n{mount}\n"),
        "{}",
        done.report()
    );
}
