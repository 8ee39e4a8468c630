//! FUSE servers as they are, for a run, without /dev/fuse, fusermount or a kernel mount.

use crate::kernel_mount::{culvert, possible, shell};
use culvert_e2e::{Finished, installed, world};
use std::{fs, path::PathBuf};

/// Directories for one test: the server's source and the mount's target.
pub struct Place {
    pub base: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let base = world().claim("fuse", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        fs::write(base.join("source/file"), "hello\n").expect("ours");
        fs::write(base.join("source/big"), vec![b'x'; 3_000_000]).expect("ours");
        Self { base }
    }

    pub fn text(&self, name: &str) -> String {
        self.base.join(name).display().to_string()
    }

    pub fn run(&self, kind: &str, script: &str) -> Finished {
        let (source, target) = (self.text("source"), self.text("target"));
        let mount = format!("{kind},source={source},target={target}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", script])
    }
}

#[test]
fn files_of_a_fuse_server_are_read_and_changed() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("bindfs");
    let script = format!(
        "cd {}; ls; cat file; cmp big ../source/big; echo new > made; mv made moved; cat moved; \
         mkdir d; (cd d; echo below > one); cat d/one; rm -r d moved; ls",
        place.text("target")
    );
    let done = place.run("type=fuse.bindfs", &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(
        done.text(),
        "big\nfile\nhello\nnew\nbelow\nbig\nfile\n",
        "{}",
        done.report()
    );
    assert!(!place.base.join("source/moved").exists());
}

#[test]
fn a_server_that_does_not_start_is_told_with_its_last_lines() {
    let place = Place::new("failing");
    let run = |command: &str| {
        let kind = format!("type=fuse,start-timeout=1,\"command={command}\"");
        place.run(&kind, "echo ran")
    };
    let done = run("sh -c 'echo it is broken >&2; exit 3'");
    assert_eq!(done.status, "exit 125", "{}", done.report());
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.contains("status 3") && told.contains("it is broken"),
        "{told}"
    );
    let done = run("sleep 100");
    assert_eq!(done.status, "exit 125", "{}", done.report());
    assert!(done.text().is_empty());
    // What it has left in the background ends, too, and so does its guardian.
    let sleep = format!("sleep 4321{}", std::process::id());
    let done = run(&format!("sh -c 'setsid {sleep} & exit 0'"));
    assert_eq!(done.status, "exit 125", "{}", done.report());
    let left = shell(&format!(
        "for i in $(seq 600); do pgrep -f '[s]{}' || {{ echo none; exit; }}; sleep .1; done",
        &sleep[1..]
    ));
    assert!(left.text().ends_with("none\n"), "{}", left.report());
}

#[test]
fn a_server_that_dies_is_named_and_its_files_are_errors() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("dying");
    let (source, target) = (place.text("source"), place.text("target"));
    let script =
        format!("cat {target}/file; pkill -9 -f '^/[a-z/]*bindfs {source} '; cat {target}/file");
    let done = place.run("type=fuse.bindfs", &script);
    assert_eq!(done.status, "exit 1", "{}", done.report());
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("not connected"), "{told}");
    // The guardian ends after the program; the brackets keep the shell itself out of the list.
    let left = shell(&format!(
        "for i in $(seq 100); do pgrep -f '[b]indfs {source}' || {{ echo none; exit; }}; sleep \
        .1; done"
    ));
    assert!(left.text().ends_with("none\n"), "{}", left.report());
}

/// Two runs at a time: what `script` prints, whose `first` and `second` run bash in them, and reads
/// and writes by two FIFOs of that name.
pub fn together(place: &Place, script: &str) -> Finished {
    let culvert = &world().culvert;
    let mount = format!(
        "type=fuse.bindfs,source={},target={}",
        place.text("source"),
        place.text("target")
    );
    let run = format!("{} run --mount {mount} -- bash -c", culvert.display());
    shell(&format!(
        "cd {}; run='{run}'; {script}",
        place.base.display()
    ))
}

#[test]
fn two_runs_of_a_mount_have_one_server_and_see_each_others_changes() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("two-runs");
    // Each waits for the other's word in a FIFO.
    let done = together(
        &place,
        r#"mkfifo a b
        $run 'cd target; stat -c %s file; ls; echo ready > ../a; read word < ../b
              stat -c "%s %a" file; ls; cat made; echo once more >> made; echo > ../a; read word < ../b
              test -e made || echo gone; echo > ../a' &
        $run 'cd target; read word < ../a; stat -c %s file
              echo longer line > file; chmod 600 file; echo new > made; echo > ../b
              read word < ../a; cat made; rm made; echo > ../b; read word < ../a
              pgrep -c -f "^[a-z/]*bindfs $(realpath ../source) "'
        wait"#,
    );
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(
        done.text(),
        "6\nbig\nfile\n6\n12 600\nbig\nfile\nmade\nnew\nnew\nonce more\ngone\n1\n",
        "{}",
        done.report()
    );
}

#[test]
fn the_server_ends_with_the_last_run_that_uses_it() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("last-run");
    let done = together(
        &place,
        r#"mkfifo a b
        $run 'cat target/file; echo ready > a; read word < b' &
        read word < a
        $run 'cat target/file; echo > b; sleep 0.2; cat target/file; kill -0 $$'
        wait
        for i in $(seq 100); do
            pgrep -f "[b]indfs $PWD/source " > /dev/null || { echo none; break; }; sleep .1
        done"#,
    );
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(
        done.text(),
        "hello\nhello\nhello\nnone\n",
        "{}",
        done.report()
    );
}

/// Runs that begin while others of the same mount end: each has a server.
#[test]
fn a_run_that_begins_while_another_ends_is_served() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("racing-runs");
    let done = together(
        &place,
        r#"for i in $(seq 6); do
            for j in 1 2 3; do $run 'cat target/file' & done; wait -n
        done; wait"#,
    );
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "hello\n".repeat(18), "{}", done.report());
}

#[test]
fn what_a_killed_guardian_has_left_is_taken_over() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("killed-guardian");
    let done = together(
        &place,
        r#"mkfifo a b
        $run 'cat target/file; echo > a; read word < b' &
        read word < a
        pkill -9 -f "[r]un-fuse .* $PWD/source "
        while pgrep -f "[b]indfs $PWD/source " > /dev/null; do sleep .05; done
        $run 'cat target/file; echo > b'
        wait"#,
    );
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "hello\nhello\n", "{}", done.report());
}

#[test]
fn a_server_in_the_background_whose_guardian_was_killed_ends_before_another_starts() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("left-server");
    let done = shell(&format!(
        r#"cd {base}
        run() {{
            {culvert} run --mount "type=fuse,command=bindfs %s %m,source=$PWD/source,target=$PWD/target" \
                -- bash -c "$1"
        }}
        mkfifo a b
        run 'cat target/file; echo > a; read word < b' &
        read word < a
        guardian="[r]un-fuse .* $PWD/source"
        lock=$(pgrep -af "$guardian" | cut -d ' ' -f 7)/guardian
        pkill -9 -f "$guardian"
        # It is gone when its lock can be had.
        flock "$lock" true
        run 'servers() {{ pgrep -c -f "^[a-z/]*bindfs $PWD/source "; }}
             # The one that has started the new one may still be there.
             for i in $(seq 100); do [ $(servers) -gt 1 ] || break; sleep .1; done
             servers; cat target/file; echo > b'
        wait"#,
        base = place.base.display(),
        culvert = world().culvert.display(),
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "hello\n1\nhello\n", "{}", done.report());
}

#[test]
fn a_server_mounts_by_the_kernel_with_its_own_options() {
    if !possible() || !installed("bindfs") {
        return;
    }
    let place = Place::new("by-the-kernel");
    let culvert = world().culvert.display();
    let (source, target) = (place.text("source"), place.text("target"));
    let done = shell(&format!(
        "{culvert} mount -t fuse.bindfs {source} {target} -o ro && cat {target}/file; \
         touch {target}/new; {culvert} umount {target}; ls {target}"
    ));
    assert_eq!(done.text(), "hello\n", "{}", done.report());
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("Read-only file system"), "{told}");
}

/// bindfs, which says in a file what it is asked.
pub const LOGGED: &str = "type=fuse,\"command=bindfs -d %s %m > LOG 2>&1\"";

#[test]
fn what_a_killed_program_had_open_is_released() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("killed");
    let log = place.text("log");
    let target = place.text("target");
    // Each is killed with two files and a directory open.
    let script = format!(
        "for i in $(seq 20); do
             python3 -c 'import os, signal, time
a, b = open(\"{target}/file\"), open(\"{target}/big\", \"r+b\")
d = os.open(\"{target}\", os.O_RDONLY)
os.kill(os.getpid(), 9)'
         done 2> /dev/null
         count() {{ grep -c \" opcode: $1 \" {log}; }}
         for i in $(seq 100); do
             [ $(count OPEN) = $(count RELEASE) ] && break
             sleep .1
         done
         echo $(count OPEN) $(count RELEASE) $(( $(count OPENDIR) - $(count RELEASEDIR) ))"
    );
    let done = place.run(&LOGGED.replace("LOG", &log), &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "40 40 0\n", "{}", done.report());
}

#[test]
fn what_one_process_changes_of_a_servers_file_another_sees_however_it_looks() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("two-processes");
    let program = world().program("two_processes.py");
    let script = format!("python3 {} {}", program.display(), place.text("target"));
    for kind in [
        "type=fuse.bindfs,attr_timeout=60,entry_timeout=60",
        "type=fuse.bindfs,attr_timeout=0",
        "type=passthrough,place=host",
    ] {
        let done = place.run(kind, &script);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        assert_eq!(done.text(), "all is seen\n", "{}", done.report());
    }
}

#[test]
fn a_program_that_waits_for_a_stopped_server_ends_at_ctrl_c() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("stopped");
    let (source, target) = (place.text("source"), place.text("target"));
    let script = format!(
        "cat {target}/file
         server=$(pgrep -f '^/[a-z/]*[b]indfs {source} ')
         kill -STOP $server
         python3 -c 'import os, signal, subprocess, time
waits = subprocess.Popen([\"stat\", \"{target}/big\"])
time.sleep(.5)
began = time.monotonic()
waits.send_signal(signal.SIGINT)
print(waits.wait(), time.monotonic() - began < 5)'
         kill -CONT $server
         cat {target}/file"
    );
    let done = place.run("type=fuse.bindfs,attr_timeout=0,entry_timeout=0", &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "hello\n-2 True\nhello\n", "{}", done.report());
}

/// Children that become another user, looked at by their parent: what they have of the area, and of
/// its bell.
const DROPS: &str = r#"
import ctypes, os, subprocess, threading
TARGET = "the target"
system = ctypes.CDLL(None).syscall
SETRESUID, CAPSET, PRCTL, KEEPCAPS = 117, 126, 157, 8

def look(pid):
    text = f"grep -c /area /proc/{pid}/maps; ls -l /proc/{pid}/fd | grep -c /bell"
    return subprocess.run(["sh", "-c", text], capture_output=True, text=True).stdout.split()

def start(become):
    reading, told = os.pipe()
    waits, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become()
            os.write(told, b"x")
            os.close(go)
            os.read(waits, 1)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(told)
    os.close(waits)
    return child, reading, go

def finish(name, started):
    child, reading, go = started
    os.read(reading, 1)
    found = look(child)
    os.close(go)
    print(name, found, os.waitpid(child, 0)[1], flush=True)

def with_a_file_open():
    file = os.open(TARGET + "/file", os.O_RDWR)
    os.setresuid(65534, 65534, 65534)
    # A slot in which it could say that it is another user, by its name and by those that have it.
    memory = f"/proc/{os.getppid()}/mem"
    for call in (lambda: os.stat(TARGET + "/file"), lambda: os.fstatvfs(file),
                 lambda: os.open(AREA[0], os.O_RDWR), lambda: os.open(memory, os.O_RDWR)):
        try:
            call()
        except OSError as error:
            print(error.strerror, flush=True)

def by_capset():
    os.stat(TARGET + "/file")
    system(PRCTL, KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(65534, 65534, 65534)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if system(CAPSET, header, sets):
        raise OSError("capset")

def in_a_thread(then):
    def run():
        if system(SETRESUID, 65534, 65534, 65534):
            raise OSError("setresuid")
        then()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

os.stat(TARGET + "/file")
AREA = [line.split()[-1] for line in open("/proc/self/maps") if line.endswith("/area\n")]
finish("all", start(with_a_file_open))
finish("capset", start(by_capset))
forked = []
in_a_thread(lambda: forked.append(start(lambda: None)))
finish("fork", forked[0])
in_a_thread(lambda: None)
print("own", look(os.getpid()), os.stat(TARGET + "/file").st_size)
"#;

#[test]
fn who_becomes_another_user_keeps_nothing_of_the_slots() {
    if !installed("bindfs") || !world().is_root() {
        return;
    }
    let place = Place::new("dropped");
    fs::write(
        place.base.join("drops.py"),
        DROPS.replace("the target", &place.text("target")),
    )
    .expect("the base directory is ours");
    let script = format!("python3 {}", place.text("drops.py"));
    let done = place.run("type=fuse.bindfs,attr_timeout=0,entry_timeout=0", &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(
        done.text(),
        "Permission denied\nTransport endpoint is not connected\n\
         Permission denied\nPermission denied\nall ['0', '0'] 0\ncapset ['0', '0'] 0\nfork ['0', '0'] 0\n\
         own ['1', '1'] 6\n",
        "{}",
        done.report()
    );
}

/// A mount whose server notes its requests in `log`, and lets names and attributes be believed.
fn noting(place: &Place) -> String {
    format!(
        "type=fuse,\"command=bindfs -d -o entry_timeout=1000 -o attr_timeout=1000 %s %m 2> {}\"",
        place.text("log")
    )
}

#[test]
fn what_one_program_has_looked_up_others_do_not_ask_the_server_for() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("believed");
    let script = format!(
        r#"stat {target}/file > {target}/../first
        asked() {{ grep -c 'opcode: \(LOOKUP\|GETATTR\|FORGET\|BATCH_FORGET\) ' {log}; }}
        before=$(asked); [ $before -gt 0 ] || echo nothing is noted
        for i in 1 2 3 4 5; do stat {target}/file | cmp - {target}/../first; done
        echo $(($(asked) - before))
        rm {target}/file; stat {target}/file 2>&1 | grep -o 'No such file.*'
        {culvert} list | grep -o 'fuse on {target} in 1 runs'"#,
        target = place.text("target"),
        log = place.text("log"),
        culvert = world().culvert.display(),
    );
    let done = place.run(&noting(&place), &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let listed = format!("fuse on {} in 1 runs", place.text("target"));
    assert_eq!(
        done.text(),
        format!("0\nNo such file or directory\n{listed}\n"),
        "{}",
        done.report()
    );
}

/// A user with further groups makes files by a server that has agreed on FUSE_CREATE_SUPP_GROUP and
/// FUSE_SECURITY_CTX.
#[test]
fn a_server_hears_of_the_directorys_group_where_the_maker_is_in_it() {
    if !world().is_root() {
        return;
    }
    for way in ["", ",way=adapter"] {
        let place = Place::new(&format!("making{}", way.len()));
        let (base, target) = (place.text(""), place.text("target"));
        let done = shell(&format!("chown -R 65534:65534 {base}"));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let script = format!(
            "cd {target}; mkdir made other; mkfifo fifo; ln -s made link; : > file; \
             python3 -c 'import os; os.open(\".\", os.O_TMPFILE | os.O_RDWR)'; \
             : > other/file; : > made/file"
        );
        let run = format!(
            "setpriv --reuid=65534 --regid=65534 --groups=777,778 {culvert} run --mount \
             'type=fuse,\"command=python3 {server} %f {base}/log 777 999\",target={target}{way}' -- \
             bash -ec \"$0\"",
            culvert = world().culvert.display(),
            server = world().program("making_server.py").display(),
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &run, &script]);
        let done = culvert_e2e::run(command, &[]);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        // An empty list of labels, and the group of the directory; in `other`, whose group the user
        // is not in, none.
        let (none, group) = ("65534 65534 8 0", "65534 65534 8 0 16 32 1 777");
        let want = [9, 9, 8, 6, 35, 51].map(|opcode| format!("{opcode} {group}"));
        let log = fs::read_to_string(place.base.join("log")).expect("the server writes it");
        let log: Vec<_> = log.lines().collect();
        assert_eq!(log[..6], want, "{way}: {}", done.report());
        assert_eq!(
            log[6..],
            [format!("35 {none}"), format!("35 {group}")],
            "{way}"
        );
    }
}
