//! Runs that share a FUSE server, and the terminal of the one that starts it.

use crate::fuse_servers::{Place, together};
use crate::kernel_mount::shell;
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
fn a_server_that_dies_is_started_again_for_programs_that_start_then() {
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
        read word < {target}/file || echo the shell itself has the old one"#
    );
    let done = place.run("type=fuse.bindfs,restart", &script);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(
        done.text(),
        "hello\nhello\nwhat was inherited is dead\nhello\nhello\nwhat was inherited is dead\nhello\n\
         //\nthe shell itself has the old one\n",
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
