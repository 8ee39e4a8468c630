//! Drivers of ours in a process of their own, `place=host`: no /dev/fuse, no kernel mount.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Finished, world};
use std::{fs, path::PathBuf};

/// Directories for one test.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let base = world().claim("hosts", name);
        for directory in ["source", "other", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        fs::write(base.join("source/file"), "hello\n").expect("ours");
        fs::write(base.join("other/two"), "second\n").expect("ours");
        Self { base }
    }

    /// `words` with `{}` for the base directory, in its target.
    fn run(&self, mount: &str, script: &str) -> Finished {
        let base = self.base.display().to_string();
        let mount = format!(
            "{},target={base}/target,place=host",
            mount.replace("{}", &base)
        );
        let script = format!("cd {base}/target; {}", script.replace("{}", &base));
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script])
    }

    #[track_caller]
    fn prints(&self, mount: &str, script: &str, want: &str) {
        let done = self.run(mount, script);
        assert_eq!(done.text(), want, "{}", done.report());
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }
}

/// Prints the number of the host of the mount at the working directory.
const HOST: &str = "pgrep -P $(pgrep -f \"[r]un-fuse .* $PWD \")";

#[test]
fn processes_of_a_run_see_one_state_of_a_host() {
    let place = Place::new("state");
    let script = "echo one > made; bash -c 'cat made; echo two >> made'; cat made; mkdir d; \
                  (mv made d/moved); ls -R; bash -c 'rm d/moved' & wait; ls d; stat -fc %T .";
    let want = "one\none\ntwo\n.:\nd\n\n./d:\nmoved\n";
    let done = place.run("type=memory,source=memory", script);
    assert!(done.text().starts_with(want), "{}", done.report());
    let done = place.run("type=passthrough,source={}/source", script);
    let want = "one\none\ntwo\n.:\nd\nfile\n\n./d:\nmoved\n";
    assert!(done.text().starts_with(want), "{}", done.report());
    assert!(place.base.join("source/d").is_dir());
}

#[test]
fn the_time_of_birth_is_that_of_the_file_behind() {
    let place = Place::new("birth");
    let script = "stat -c %w file > {}/seen; stat -c %w {}/source/file | cmp - {}/seen && echo same
                  stat -c %w . > {}/seen; stat -c %w {}/source | cmp - {}/seen && echo same";
    place.prints("type=passthrough,source={}/source", script, "same\nsame\n");
}

#[test]
fn what_a_program_opens_stays_open_when_a_child_ends_that_used_the_mount_first() {
    let place = Place::new("spawned");
    fs::copy("/bin/sleep", place.base.join("source/sleep")).expect("ours");
    // The first that the program has of the mount is what its child of vfork runs.
    let script = "cd /; python3 -c 'import os, subprocess, time
child = subprocess.Popen([\"{}/target/sleep\", \".2\"], close_fds=False)
fd = os.open(\"{}/target/file\", os.O_RDONLY)
child.wait()
time.sleep(.5)
print(os.pread(fd, 10, 0).decode(), end=\"\")'";
    place.prints("type=passthrough,source={}/source", script, "hello\n");
}

/// Beside each other, in runs of one user.
#[test]
fn hosts_of_other_sources_are_others() {
    let (place, other) = (Place::new("one-source"), Place::new("other-source"));
    fs::write(other.base.join("source/file"), "other\n").expect("ours");
    let culvert = world().culvert.display();
    let run = |place: &Place| {
        format!(
            "{culvert} run --mount type=passthrough,source={base}/source,target={base}/target,\
             place=host -- bash -c",
            base = place.base.display()
        )
    };
    let (first, second) = (place.base.display(), other.base.display());
    let done = shell(&format!(
        "{} 'cat {first}/target/file; {} \"cat {second}/target/file\"; cat {first}/target/file'",
        run(&place),
        run(&other),
    ));
    assert_eq!(done.text(), "hello\nother\nhello\n", "{}", done.report());
}

#[test]
fn every_driver_and_layer_runs_in_a_host() {
    let place = Place::new("drivers");
    let made = shell(&format!(
        "cd {}; tar cf a.tar -C source file",
        place.base.display()
    ));
    assert_eq!(made.status, "exit 0", "{}", made.report());
    place.prints("type=archive,source={}/a.tar", "cat file", "hello\n");
    let refused = place.run("type=archive,source={}/a.tar", "echo x > file");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("Read-only file system"), "{told}");
    place.prints(
        "type=union,source={}/source,source={}/other",
        "ls; cat two",
        "file\ntwo\nsecond\n",
    );
    place.prints(
        "type=memory,source=memory",
        "echo made > new; bash -c 'cat new; mv new moved'; ls",
        "made\nmoved\n",
    );
    place.prints(
        "type=bind,source={}/source,perms=u+x:go=",
        "stat -c %a file; cat file; touch new; stat -c %a new",
        "700\nhello\n700\n",
    );
    place.prints(
        "type=passthrough,source={}/source,layer=bind,bind.exclude=new",
        "ls; cat file",
        "file\nhello\n",
    );
    if world().is_root() {
        place.prints(
            "type=sdcard,source={}/source,view=write,packages={}/none",
            "stat -c '%g %a' file; cat FILE; chmod 700 new; stat -c %a new",
            "9997 644\nhello\n644\n",
        );
    }
    place.prints(
        "type=passthrough,source={}/source,layer=trace,trace.to={}/trace",
        "cat file; grep -q read_at {}/trace && echo traced",
        "hello\ntraced\n",
    );
    place.prints(
        "type=passthrough,source={}/source,layer=casefold",
        "cat FILE",
        "hello\n",
    );
    place.prints(
        "type=passthrough,source={}/source,layer=log,log.file={}/log",
        "cat file; for i in $(seq 100); do grep -q read_at {}/log && break; sleep .1; done; \
         grep -c read_at {}/log | grep -vx 0 > /dev/null && echo logged",
        "hello\nlogged\n",
    );
    place.prints(
        "type=passthrough,source={}/source,layer=fault,fault.rule=read+errno=ENOSPC",
        "cat file 2>&1 || true",
        "cat: file: No space left on device\n",
    );
}

#[test]
fn a_host_that_dies_is_named_and_its_files_are_errors() {
    let place = Place::new("dying");
    let script = format!(
        "echo a > made; host=$({HOST}); kill -ABRT $host\n\
         while kill -0 $host 2> /dev/null; do sleep .05; done; cat made; ls"
    );
    let done = place.run("type=memory,source=memory", &script);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.contains("cat: made: Transport endpoint is not connected"),
        "{told}"
    );
    let what = format!("the host of {}/target", place.base.display());
    // The guardian may say it after the program's end.
    assert!(
        !told.contains("culvert:") || told.contains(&format!("{what} was ended by signal 6")),
        "{told}"
    );
    let left = shell(&format!(
        "for i in $(seq 100); do pgrep -f '[r]un-fuse .* {}/target ' || {{ echo none; exit; }}; \
        sleep .1; done",
        place.base.display()
    ));
    assert!(left.text().ends_with("none\n"), "{}", left.report());
}

#[test]
fn a_terminals_keys_do_not_end_a_host() {
    let place = Place::new("keys");
    let script = format!(
        "echo a > made; for key in INT QUIT HUP; do kill -$key $({HOST}); cat made; done; ls"
    );
    let done = place.run("type=memory,source=memory", &script);
    assert_eq!(done.text(), "a\na\na\nmade\n", "{}", done.report());
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

#[test]
fn what_cannot_be_hosted_is_refused_with_the_reason() {
    let place = Place::new("refused");
    for (mount, want) in [
        ("type=memory,source=memory,size=a", "size"),
        ("type=memory,source=memory,frob", "no option \"frob\""),
        ("type=archive,source={}/source/file", "not an archive"),
        ("type=memory,source=memory,place=moon", "host"),
    ] {
        let done = place.run(mount, "echo ran");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        match mount.contains("moon") {
            // The last one decides.
            true => assert_eq!(done.text(), "ran\n", "{}", done.report()),
            false => {
                assert_eq!(done.status, "exit 125", "{mount}: {}", done.report());
                assert!(told.contains(want), "{mount}: {told}");
            }
        }
    }
    let base = place.base.display();
    let mount = |more: &str| format!("type=memory,source=memory,target={base}/target,{more}");
    let run = |mount: &str| culvert(&["run", "--mount", mount, "--", "true"]);
    for (mount, want) in [
        (mount("place=moon"), "place=moon: no such place"),
        (mount("place="), "place=: no such place"),
        (
            format!("type=fuse.true,source=x,target={base}/target,place=process"),
            "a program of its own",
        ),
    ] {
        let done = run(&mount);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status, "exit 125", "{mount}: {}", done.report());
        assert!(told.contains(want), "{mount}: {told}");
    }
    let target = format!("{base}/target");
    let words = [
        "mount",
        "-t",
        "memory",
        "-o",
        "place=host",
        "memory",
        &target,
    ];
    let done = culvert(&words);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("option place is for culvert run"), "{told}");
}
