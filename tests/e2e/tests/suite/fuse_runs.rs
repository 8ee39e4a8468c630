//! Runs that share a FUSE server, and the terminal of the one that starts it.

use crate::fuse_servers::{Place, together};
use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{installed, world};
use std::fs;

/// A server that asks at the terminal.
const ASKS: &str = r#"import getpass, os, sys
if getpass.getpass("password? ") != "secret":
    sys.exit(3)
os.execvp("bindfs", ["bindfs", "-f", sys.argv[1], sys.argv[2]])
"#;

#[test]
fn a_server_asks_for_a_password_at_the_terminal_of_its_run() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("asks");
    fs::write(place.base.join("asks.py"), ASKS).expect("ours");
    let (source, target) = (place.text("source"), place.text("target"));
    let at_terminal = |answer: &str, run: &str| {
        let done = shell(&format!(
            "cd {base}; python3 {program} '{answer}' \
             {culvert} run --mount \"type=fuse,\\\"command=python3 {base}/asks.py %s %m\\\",\
             source={source},target={target}\" -- {run}",
            base = place.base.display(),
            program = world().program("at_terminal.py").display(),
            culvert = world().culvert.display(),
        ));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        done.text()
    };
    // The terminal is the run's again, which the server is not a part of.
    let reads =
        "sh -c 'cat target/file; printf \"word? \"; read word < /dev/tty; echo it is $word'";
    let text = at_terminal("secret\\n,mine\\n", reads);
    assert!(text.contains("hello\n"), "{text}");
    assert!(text.ends_with("it is mine\nstatus 0\n"), "{text}");
    let text = at_terminal("other\\n", reads);
    assert!(text.contains("ended with status 3"), "{text}");
    assert!(text.ends_with("status 125\n"), "{text}");
    // Ctrl-C is for the run, and what it was about to start ends with it.
    assert!(at_terminal("\\x03", reads).ends_with("status -2\n"));
    let left = shell(&format!(
        "for i in $(seq 200); do
             pgrep -f '[a]sks.py {source}' > /dev/null || {{ echo none; break; }}; sleep .1
         done"
    ));
    assert_eq!(left.text(), "none\n");
}

#[test]
fn signals_for_the_group_of_one_run_leave_the_server_to_others() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("groups");
    // setsid(1) gives each a group of its own; who runs the tests may ignore the signals.
    let done = together(
        &place,
        r#"mkfifo a b c
        for signal in TERM HUP; do
            env --default-signal=TERM,HUP setsid $run 'echo $$ > pid; cat target/file; echo > a; exec sleep 1000' &
            read word < a
            setsid $run 'cat target/file; echo > c; read word < b; cat target/file' &
            read word < c
            kill -s $signal -- -$(cat pid)
            while kill -0 $(cat pid) 2> /dev/null; do sleep .05; done
            sleep .2
            echo > b
            wait
        done 2> errors; cat errors | grep -v sleep"#,
    );
    assert_eq!(done.text(), "hello\n".repeat(6), "{}", done.report());
}

#[test]
fn runs_that_end_are_noticed_in_any_order() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("order");
    let done = together(
        &place,
        r#"mkfifo a{0..3} {0..3}
        for i in {0..3}; do
            $run "echo > a$i; read word < $i" &
            read word < a$i
        done
        runs() {
            for i in $(seq 100); do
                CULVERT list | grep -q "bindfs on $PWD/target in $1 runs" && break; sleep .1
            done
            CULVERT list | grep -o "bindfs on $PWD/target in . runs" | grep -o ". runs"
        }
        runs 4
        for i in 2 0 3; do echo > $i; runs $(( 3 - n++ )); done
        CULVERT list --json | python3 -c 'import json, os, sys
for one in json.load(sys.stdin):
    if one["target"] == os.getcwd() + "/target":
        print(one["type"], one["runs"], one["requests"]["all"] > 0, one["files"])'
        echo > 1
        wait"#
            .replace("CULVERT", &world().culvert.display().to_string())
            .as_str(),
    );
    assert_eq!(
        done.text(),
        "4 runs\n3 runs\n2 runs\n1 runs\nfuse.bindfs 1 True 0\n",
        "{}",
        done.report()
    );
}

#[test]
fn a_server_that_dies_is_started_again_and_what_was_open_is_lost() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("again");
    let (source, target) = (place.text("source"), place.text("target"));
    let script = format!(
        r#"cat {target}/file; exec 3< {target}/file
        for time in 1 2; do
            pkill -9 -f '^[a-z/]*bindfs {source} '
            for i in $(seq 300); do cat {target}/file 2> /dev/null && break; sleep .1; done
            cat <&3 2> /dev/null || echo what was inherited is dead
            python3 -c 'import mmap
with open("{target}/file") as file:
    print(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:].decode(), end="")
open("{target}/made", "a").write("{target}"[:1])'
        done
        cat {target}/made; echo
        read word < {target}/file; echo the shell itself has "$word""#
    );
    let done = place.run("type=fuse.bindfs,restart", &script);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(
        done.text(),
        "hello\nhello\nwhat was inherited is dead\nhello\nhello\nwhat was inherited is \
        dead\nhello\n\
         //\nthe shell itself has hello\n",
        "{}",
        done.report()
    );
    assert!(
        told.contains("signal 9") && told.contains("was started again"),
        "{told}"
    );
    let done = place.run("type=memory,place=host,restart", "true");
    assert_eq!(done.status, "exit 125", "{}", done.report());
}

#[test]
fn programs_that_run_go_on_with_a_server_that_was_started_again() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("goeson");
    let target = place.text("target");
    // Beside it a shell that uses the mount for the first time when its server is not the first
    // one.
    let script = format!(
        r#"mkfifo {target}/../go
        bash -c 'read go < {target}/../go; read word < {target}/file; echo later: $word' &
        python3 {program} {target} {source}
        echo > {target}/../go
        wait"#,
        program = world().program("goes_on.py").display(),
        source = place.text("source"),
    );
    let done = place.run("type=fuse.bindfs,restart", &script);
    let once = "ENOTCONN ENOTCONN ENOTCONN hello\n";
    assert_eq!(
        done.text(),
        format!("{}made once each\nlater: hello\n", once.repeat(3)),
        "{}",
        done.report()
    );
}

/// Also one that outlives the run in which it was started.
#[test]
fn a_run_within_a_run_goes_on_with_its_server_and_with_one_that_was_started_again() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("nested");
    fs::create_dir_all(place.base.join("inner")).expect("the base directory is ours");
    let script = format!(
        r#"inner() {{ {culvert} run -v {source}:{base}/inner -- "$@"; }}
        inner python3 {program} {target} {source}
        mkfifo {base}/go
        inner bash -c 'echo > {base}/go; read word < {base}/go
            until cat {target}/file > {base}/later; do sleep .1; done' &
        read word < {base}/go"#,
        culvert = world().culvert.display(),
        base = place.base.display(),
        program = world().program("goes_on.py").display(),
        target = place.text("target"),
        source = place.text("source"),
    );
    let culvert = world().culvert.display();
    let (source, target) = (place.text("source"), place.text("target"));
    // Its output goes to a file: the end of a pipe would be that of the inner run.
    let done = shell(&format!(
        r#"cd {base}
        {culvert} run --mount type=fuse.bindfs,restart,source={source},target={target} \
            -- bash -c '{script}' > said
        echo > go; for i in $(seq 600); do [ -s later ] && break; sleep .1; done; cat said later"#,
        base = place.base.display(),
        script = script.replace('\'', r"'\''"),
    ));
    let once = "ENOTCONN ENOTCONN ENOTCONN hello\n";
    assert_eq!(
        done.text(),
        format!("{}made once each\nhello\n", once.repeat(3)),
        "{}",
        done.report()
    );
}

#[test]
fn a_server_that_is_started_again_stays_behind_what_hides_it() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("hidden");
    for directory in ["cover", "empty"] {
        fs::create_dir_all(place.base.join(directory)).expect("the base directory is ours");
    }
    fs::write(place.base.join("cover/own"), "own\n").expect("ours");
    let script = format!(
        r#"cd {base}; mkfifo go on
        {culvert} run -v {base}/cover:{target} -- bash -c \
            'cat {target}/own; echo > go; read word < on; cat {target}/own; ls {target}' &
        read word < go
        pkill -9 -f '^[a-z/]*bindfs {source} '
        # Nothing of this is remembered.
        until touch {target}/made 2> /dev/null; do sleep .05; done
        echo > on; wait; ls {target}"#,
        culvert = world().culvert.display(),
        base = place.base.display(),
        target = place.text("target"),
        source = place.text("empty"),
    );
    let mount = format!(
        "type=fuse.bindfs,restart,source={},target={}",
        place.text("empty"),
        place.text("target")
    );
    let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
    assert_eq!(done.text(), "own\nown\nown\nmade\n", "{}", done.report());
}

#[test]
fn a_child_of_vfork_takes_up_no_server_for_its_parent() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("spawns");
    let script = format!(
        "timeout 300 python3 {program} {target} {source}",
        program = world().program("spawns_again.py").display(),
        target = place.text("target"),
        source = place.text("source"),
    );
    let done = place.run("type=fuse.bindfs,restart", &script);
    assert_eq!(
        done.text(),
        "hello hello hello\n".repeat(3),
        "{}",
        done.report()
    );
}
