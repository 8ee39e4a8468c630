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

    a_directory_is_followed_when_others_rename_it |case| { case.good(
        "mkdir -p $M/a/b $M/other; echo in-a > $M/a/f; cd $M/a; exec 5< .
         bash -c \"mv $M/a $M/moved; mkdir $M/a; echo new > $M/a/f\"
         cat f; cat $M/a/f; /bin/pwd; readlink /proc/self/cwd; cat /dev/fd/5/f; mkdir made; ls $M/moved $M/a; cd b; /bin/pwd; cd ../..; /bin/pwd; ls",
    ); };

    // What a program that is started in a removed directory meets is ESTALE on driven mounts, where it knows no more than a number.
    a_directory_that_was_removed_is_empty |case| { if case.driver() == Some(Driver::Driven) { return; } case.good(
        "mkdir $M/other; cd $M/other; rmdir $M/other; ls; echo x > f; /bin/pwd; cd $M; /bin/pwd",
    ); };

    links_lead_where_they_would_from_the_target |case| { case.good(
        "mkdir -p $M/d/e $W/away; echo away > $W/away/f; echo top > $M/f; cd $M
         ln -s $W/away abs; ln -s $M/f back; ln -s ../f d/up; ln -s \"$(realpath --relative-to=$M $W/away)\" climbs; ln -s l1 l2; ln -s l2 l1; ln -s ../../../../../../../.. d/e/root
         for p in abs/f back d/up climbs/f l1 d/e/root/ d/../f d/e/../../f d/up/x f/ climbs/../away/f; do cat $p 2>&1; stat -c '%F %s' $p 2>&1; test -r $p; echo $?; done 2>&1
         echo new > climbs/made; echo more >> abs/made; cat $W/away/made; mv climbs/made abs/moved; ln $W/away/f climbs/hard; ls $W/away; rm climbs/moved; cp -a d d2; find d2 -printf '%p %M %l %n\\n' | sort
         chmod 600 back climbs/f; stat -c %a f $W/away/f; touch -d @5 d/up; stat -c %Y f; truncate -s 2 d/up; cat f; rm -r climbs d/up; ls",
    ); };

    names_of_descriptors_are_the_mounts |case| { case.good(
        "mkdir $M/d; echo x > $M/d/f; cd $M/d; exec 5< f 6< .; readlink /proc/self/fd/6; cat /proc/self/fd/5; ls /proc/self/fd/6/ .
         python3 -c 'import os; print([os.readlink(\"/proc/self/fd/%d\" % os.open(name, os.O_RDONLY)) for name in (\"f\", \".\", \"../d/f\")]); d = os.dup(6); print(os.readlink(\"/proc/self/fd/%d\" % d), os.stat(\"f\", dir_fd=d).st_size, os.stat(\"../d/f\", dir_fd=d).st_size, os.getcwd()); os.fchdir(d); print(os.getcwd(), sorted(os.listdir()))'",
    ); };

    nothing_stays_open_behind_a_call |case| { case.good(
        "python3 - $M <<'E'
import os, subprocess, sys
os.chdir(sys.argv[1])
os.makedirs('d/e'); os.symlink('d/e', 'l')
for i in range(400): open('f%d' % i, 'w').close()
def held(): return len(subprocess.check_output(['ls', '/proc/%d/fd' % os.getpid()]).split())
def work(names):
    for name in names:
        for path in (name, 'd/e/../../' + name, os.path.abspath(name)):
            os.stat(path); os.lstat(path); os.access(path, os.R_OK); os.close(os.open(path, os.O_RDONLY))
        os.stat('l'); os.listdir('l')
        try: os.open(name + '/x', os.O_RDONLY)
        except NotADirectoryError: pass
work('f%d' % i for i in range(200))
before = held()
work('f%d' % i for i in range(200, 400))
print(held() - before < 20)
E",
    ); };

    the_list_of_mounts_has_one_line_with_the_device_of_the_files |case| { if !is_tree(&case) { return; }
        // Natively the mount is a bind: `bound` is one, too, and of the file system that is bound. The other has a type of its own.
        let kind = if case.driver() == Some(Driver::Bound) { "print $1" } else { "" };
        case.good(&format!(
            "for list in mountinfo mounts; do grep -c \" $M \" /proc/self/$list; done; : > $M/f
             test \"$(awk -v m=$M '$5 == m {{ print $3 }}' /proc/self/mountinfo)\" = \"$(stat -c %Hd:%Ld $M/f)\" && echo the device
             awk -v m=$M '$5 == m {{ sub(/.* - /, \"\"); {kind} }}' /proc/self/mountinfo"
        ));
    };

    shared_extents_are_the_file_systems_affair |case| { if case.driver() == Some(Driver::Memory) { return; } case.good(
        "cd $M; python3 - <<'E'
import errno, fcntl, os, struct
a, b, directory = open('a', 'w+b'), open('b', 'w+b'), os.open('.', os.O_RDONLY)
for other in b.fileno(), a.fileno(), 77, directory, os.open('/dev/null', os.O_RDWR):
    for request, argument in (0x40049409, other), (0x4020940d, struct.pack('qQQQ', other, 0, 0, 0)), (0xc0189436, struct.pack('QQHHIqQQiI', 0, 2, 1, 0, 0, other, 0, 0, 0, 0)):
        try:
            print(hex(request), fcntl.ioctl(a.fileno(), request, argument))
        except OSError as error:
            print(hex(request), errno.errorcode[error.errno])
E",
    ); };

    programs_that_are_not_intercepted |case| {
        if case.driver() != Some(Driver::Bound) { return; }
        let program = case.program("writing-static");
        for group in ["write", "vectors", "append", "size"] {
            case.good(&format!("umask 022; cd $M && {program} {group}; cat f | md5sum; ls -l --time-style=+ ."));
        }
        let done = case.options("ro").through_culvert(&["bash", "-c", &format!("cd $M && {program} write; : > g; cat /proc/self/mountinfo | grep -c \" $M ro\"")]);
        assert_eq!(done.text(), "FAILED f: EROFS\n1\n", "{}", done.report());
        assert!(done.errors().contains("g: Read-only file system"), "{}", done.report());
    };

    files_without_a_name_get_one |case| { case.good(
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

/// A mount whose target lies in such a tree covers what is there, and paths lead through it in both directions.
#[test]
fn a_mount_inside_a_tree() {
    let case = Case::new("mount-inside-a-tree", culvert_e2e::User::Me);
    for privacy in ["--no-private", "--private"] {
        let script = format!(
            "rm -rf s m in; mkdir -p s/sub/covered s/d m in/a; echo top > s/top; echo packed > in/a/f; ln -s ../top in/up; tar -C in -cf in.tar a up
             exec $B/bin/culvert run {privacy} -v s:m -v in.tar:m/sub -- bash -c '
             cd m; ls; ls sub; cat sub/a/f sub/up sub/../top d/../sub/a/f; cd d; cat ../sub/a/f
             cd ../sub/a; cat f ../../top ../up; /bin/pwd | grep -o \"m/.*\"; cd ../..; /bin/pwd | grep -o \"/m$\"
             ln -s sub/a/f l; ln -s ../sub d/back; cat l d/back/a/f d/back/../top; find . | sort
             for c in \"mkdir sub/x\" \"mv sub x\" \"rmdir sub\" \"mv top sub/top\"; do $c 2>/dev/null && echo $c works; done; ls'"
        );
        let done = case.natively(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            "d\nsub\ntop\na\nup\npacked\ntop\ntop\npacked\npacked\npacked\ntop\ntop\nm/sub/a\n/m\npacked\npacked\ntop\n\
             .\n./d\n./d/back\n./l\n./sub\n./sub/a\n./sub/a/f\n./sub/up\n./top\nd\nl\nsub\ntop\n",
            "{privacy}\n{}",
            done.report()
        );
    }
}

/// The same for directories that another program opened, also where the tree is bound over the target, so that the kernel's own paths go there.
#[test]
fn a_mount_inside_a_tree_beside_an_inherited_directory() {
    let case = Case::new("mount-beside-a-directory", culvert_e2e::User::Me);
    for privacy in ["--no-private", "--private"] {
        let script = format!(
            "rm -rf s m in; mkdir -p s/sub/covered s/d m in/a; echo top > s/top; echo packed > in/a/f; tar -C in -cf in.tar a
             exec $B/bin/culvert run {privacy} -v s:m -v in.tar:m/sub -- bash -c '
             cd m/d; exec 5< . 6< ..; cat /dev/fd/5/../sub/a/f /dev/fd/6/sub/a/f; ls /dev/fd/5/../sub
             bash -c \"cat /dev/fd/5/../sub/a/f /dev/fd/6/sub/a/f ../sub/a/f; ls /dev/fd/6/ /dev/fd/6/sub; cd /dev/fd/6/; cat top sub/a/f; mv top d/\"
             cat top; python3 -c \"import os; print(os.listdir(os.open(\\\"../sub\\\", os.O_RDONLY, dir_fd=5)))\"'"
        );
        let done = case.natively(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            "packed\npacked\na\npacked\npacked\npacked\n/dev/fd/6/:\nd\nsub\ntop\n\n/dev/fd/6/sub:\na\ntop\npacked\ntop\n['a']\n",
            "{privacy}\n{}",
            done.report()
        );
    }
}

/// A removed directory, held open by two mounts of its source, of which a program in between looks at one only.
#[test]
fn a_removed_directory_of_two_mounts_is_inherited_by_both() {
    let case = Case::new("removed-of-two-mounts", culvert_e2e::User::Me);
    let script = "rm -rf s m n; mkdir -p s/d/sub m n; cat > looks.py <<'end'
import os, sys
for word in sys.argv[1].split(','):
    print(word, *[os.fstat(int(fd)).st_nlink for fd in word], flush=True)
if len(sys.argv) > 2:
    os.execv(sys.executable, ['python3', 'looks.py', *sys.argv[2:]])
end
        exec $B/bin/culvert run --no-private -v s:m:driven -v s:n:driven -- bash -c '
        exec 5< m/d 6< n/d; rmdir m/d/sub m/d; exec python3 looks.py 5 6 5 56'";
    let done = case.natively(&["bash", "-c", script]);
    assert_eq!(done.text(), "5 0\n6 0\n5 0\n56 0 0\n", "{}", done.report());
}
