//! PLFS containers in runs and on kernel mounts; the driver's own tests are
//! `crates/culvert-drivers/tests/plfs`.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{Finished, installed, not_tested, world};

/// A place with directories `back` and `mnt`.
fn place(name: &str) -> String {
    let place = world().claim("plfs", name);
    for directory in ["back", "mnt"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
    }
    place.display().to_string()
}

/// On back ends of all kinds, and where all files are in a few.
#[test]
fn killed_writers_lose_nothing_that_was_answered() {
    let place = place("killed");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_killed.py");
    let culvert = world().culvert.display();
    for directory in ["canonical", "shadow", "both", "small", "more"] {
        std::fs::create_dir(format!("{place}/{directory}")).unwrap();
    }
    for source in [
        format!("{place}/back"),
        format!("{place}/canonical=canonical;{place}/shadow=shadow;{place}/both"),
        format!("{place}/small;{place}/more,workload=small_file"),
    ] {
        let done = shell(&format!(
            "python3 {program} {culvert} '{source}' {place}/mnt 15 7"
        ));
        assert_eq!(done.text(), "nothing lost\n", "{source}: {}", done.report());
    }
}

/// Of six writers: all that they wrote at first, two files each; then what has changed since.
#[test]
fn fsync_brings_what_is_new() {
    if !installed("strace") {
        return;
    }
    let place = place("fsync");
    let culvert = world().culvert.display();
    let script = format!(
        "run() {{ {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- \"$@\"; }}
         run sh -c 'for i in 1 2 3 4 5; do
             dd if=/dev/zero of={place}/mnt/f bs=4096 count=1 seek=$i conv=notrunc status=none
         done'
         run strace -f -qq -e trace=fdatasync -o {place}/trace python3 -c '
import os
fd = os.open(\"{place}/mnt/f\", os.O_WRONLY)
for i in range(3):
    os.pwrite(fd, b\"x\", i)
    os.fsync(fd)
'
         grep -c fdatasync {place}/trace"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "16\n", "{}", done.report());
}

/// What another process of the run has synced is on the disk, until it is written, or the file cut.
#[test]
fn fsync_leaves_what_others_have_synced() {
    if !installed("strace") {
        return;
    }
    let place = place("fsync-others");
    let culvert = world().culvert.display();
    let script = format!(
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- \
         strace -f -qq -e trace=fdatasync,sched_yield -o {place}/trace python3 -c '
import os
fd = os.open(\"{place}/mnt/f\", os.O_RDWR | os.O_CREAT)
def synced():
    os.fsync(fd)
    os.sched_yield()
def child(then):
    pid = os.fork()
    if pid == 0:
        os.pwrite(fd, b\"y\", 1)
        then()
        os._exit(0)
    return pid
os.pwrite(fd, b\"x\", 0)
synced()
reading, writing = os.pipe()
hold, go = os.pipe()
def then():
    synced()
    os.write(writing, b\"1\")
    os.read(hold, 1)
    os.pwrite(fd, b\"z\", 1)
    os.write(writing, b\"1\")
    os.read(hold, 1)
pid = child(then)
os.read(reading, 1)
synced()
os.write(go, b\"1\")
os.read(reading, 1)
synced()
synced()
os.ftruncate(fd, 1)
synced()
os.write(go, b\"1\")
'
         awk '/fdatasync/ {{ n++ }} /sched_yield/ {{ printf \"%d \", n; n = 0 }}' {place}/trace"
    );
    let done = shell(&script);
    // Its own; the child's; nothing; the child's; nothing; both.
    assert_eq!(done.text(), "2 2 0 2 0 4 ", "{}", done.report());
}

/// `CULVERT_PLFS` names a checkout of plfs-core 2.5, built as `tests/plfs-referee/run` says.
#[test]
fn plfs_itself_reads_the_same() {
    let Ok(core) = std::env::var("CULVERT_PLFS") else {
        return not_tested("PLFS 2.5 as the referee: CULVERT_PLFS names no checkout of plfs-core");
    };
    let referee = concat!(env!("CARGO_MANIFEST_DIR"), "/../plfs-referee/run");
    let culvert = world().culvert.display();
    let done = shell(&format!("CULVERT_BIN={culvert} {referee} {core}"));
    let want = "1 back ends: the same for PLFS and Culvert\n\
        3 back ends: the same for PLFS and Culvert\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn processes_of_a_run_share_a_file() {
    let place = place("shared");
    let culvert = world().culvert.display();
    let script = format!(
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- sh -ec '
            cd {place}/mnt
            for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8; do echo $i $j; done >> log) & done; wait
            sort -u log | wc -l
            exec 3>> log; rm log; echo more >&3; ls
            mkdir d; cp /bin/sh d/sh; ./d/sh -c \"echo executed\"; mv d/sh d/other; cmp d/other \
            /bin/sh'
         ls {place}/back"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "32\nexecuted\nd\n", "{}", done.report());
}

/// What another process of the run has removed is changed by who holds it, and has no link.
#[test]
fn a_removed_directory_is_changed_and_synced() {
    let place = place("held");
    let culvert = world().culvert.display();
    let script = format!(
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- python3 -c '
import os, subprocess
os.chdir(\"{place}/mnt\")
os.mkdir(\"d\")
fd = os.open(\"d\", os.O_RDONLY)
subprocess.run([\"rmdir\", \"d\"], check=True)
os.fsync(fd)
os.fchmod(fd, 0o700)
os.utime(fd, (1, 2))
now = os.fstat(fd)
print(oct(now.st_mode), now.st_nlink, now.st_mtime)
fd = os.open(\"f\", os.O_RDWR | os.O_CREAT)
subprocess.run([\"rm\", \"f\"], check=True)
os.write(fd, b\"x\")
print(os.fstat(fd).st_nlink, os.fstat(fd).st_size)'"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "0o40700 0 2.0\n0 1\n", "{}", done.report());
}

/// Under one lock for each file they were three times as slow. One writes while another's write
/// stands still; who maps the file or removes it waits for that write, and has it.
#[test]
fn writers_of_one_file_do_not_wait_for_each_other() {
    if !world().is_root() {
        return not_tested("writes beside a write that stands still: userfaultfd(2) wants root");
    }
    let place = place("beside");
    let run = |words: &str| together(&place, "written_together", words);
    for (how, expected) in [
        ("write", "beside\n"),
        ("map", "waits\n"),
        ("remove", "waits\n"),
    ] {
        let done = run(&format!("{how} {place}/mnt/{how}"));
        assert_eq!(done.text(), expected, "{how}: {}", done.report());
    }
    for how in ["mapped", "removed"] {
        let done = run(&format!("{how} {place}/mnt/{how} 20"));
        let expected = "20 rounds, 0 wrong\n";
        assert_eq!(done.text(), expected, "{how}: {}", done.report());
    }
}

/// Writes go side by side, but not beside a truncation, nor beside appends.
#[test]
fn writes_truncations_and_appends_have_an_order() {
    let place = place("order");
    for how in ["cut", "append"] {
        let words = format!("{how} {place}/mnt/{how} 1000");
        let done = together(&place, "written_in_order", &words);
        assert_eq!(done.text(), "0 wrong\n", "{how}: {}", done.report());
    }
}

/// A program of the tests in a run of its own with containers at `place`.
fn together(place: &str, program: &str, words: &str) -> Finished {
    let (culvert, program) = (world().culvert.display(), world().program(program));
    shell(&format!(
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- \
         {} {words}",
        program.display()
    ))
}

#[test]
fn a_kernel_mount_serves_containers() {
    if !possible() {
        return;
    }
    let place = Mounted::place("plfs");
    let (culvert, place) = (world().culvert.display(), place.text(""));
    let script = format!(
        "mkdir -p {place}/back {place}/mnt
         {culvert} mount -t plfs {place}/back {place}/mnt
         cd {place}/mnt; seq 1 100000 > n; tail -n 1 n; mv n m; truncate -s 10 m; cat m; ls; cd /
         umount {place}/mnt; ls -a {place}/back/m | grep access"
    );
    let done = shell(&script);
    let want = "100000\n1\n2\n3\n4\n5\nm\n.plfsaccess113918400\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// `programs/locks_of_runs.py` in two places, as natively.
fn locks_of(file: &str, native: &str, one: &str, other: &str) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/locks_of_runs.py");
    let native = shell(&format!("python3 {program} {native} env env"));
    assert_eq!(native.status, "exit 0", "{}", native.report());
    let ours = shell(&format!("python3 {program} {file} '{one}' '{other}'"));
    assert_eq!(ours.text(), native.text(), "{}", ours.report());
}

/// Also of hosts, which have nothing in common but the back end.
#[test]
fn record_locks_exclude_other_runs() {
    let place = place("locks");
    let culvert = world().culvert.display();
    let run = format!("{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt --");
    let (file, native) = (format!("{place}/mnt/f"), format!("{place}/f"));
    locks_of(&file, &native, &run, &run);
    if world().is_root() {
        let host = format!("unshare -n -m -u {run}");
        locks_of(&file, &native, &host, &host);
    }
}

/// Four runs count in one place, whatever waits in the index or is looked at by sync alone.
#[test]
fn who_gets_a_lock_reads_what_was_written_under_it() {
    let place = place("locks-count");
    let culvert = world().culvert.display();
    for options in ["", ",index=lazy", ",consistency=close"] {
        let script = format!(
            "rm -rf {place}/back/*
             for i in 1 2 3 4; do
                 {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt{options} -- \
                 python3 -c '
import fcntl, os
fd = os.open(\"{place}/mnt/count\", os.O_RDWR | os.O_CREAT)
for i in range(100):
    fcntl.lockf(fd, fcntl.LOCK_EX, 8)
    count = int(os.pread(fd, 8, 0) or b\"0\")
    os.pwrite(fd, b\"%08d\" % (count + 1), 0)
    fcntl.lockf(fd, fcntl.LOCK_UN, 8)
' &
             done; wait
             {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- \
             cat {place}/mnt/count"
        );
        let done = shell(&script);
        assert_eq!(done.text(), "00000400", "{options} {}", done.report());
    }
}

#[test]
fn record_locks_exclude_kernel_mounts() {
    if !possible() {
        return;
    }
    let back = place("locks-kernel");
    let culvert = world().culvert.display();
    let words = ["-t", "plfs", "--with", "posix-locks"];
    std::fs::create_dir_all(format!("{back}/back")).unwrap();
    std::fs::write(format!("{back}/back/plain"), "").unwrap();
    let mount = Mounted::of("plfs-locks", &words, &format!("{back}/back"));
    // No other host would see it; and the kernel must go on asking about others.
    let refused = shell(&format!(
        "python3 -c 'import fcntl; fcntl.lockf(open(\"{}\", \"r+\"), fcntl.LOCK_EX)' 2>&1 |
         tail -n 1",
        mount.text("target/plain")
    ));
    let expected = "OSError: [Errno 37] No locks available\n";
    assert_eq!(refused.text(), expected, "{}", refused.report());
    let run = format!("{culvert} run --mount type=plfs,source={back}/back,target={back}/mnt --");
    let file = format!("{back}/mnt/f:{}", mount.text("target/f"));
    locks_of(&file, &format!("{back}/f:{back}/f"), &run, "env");
}

/// The groups of `programs/locking.c`, as natively.
#[test]
fn locks_within_a_run_are_as_natively() {
    let place = place("locks-within");
    let program = world().program("locking");
    let (program, culvert) = (program.display(), world().culvert.display());
    for group in ["record", "close", "numbers", "descriptions", "wait", "exec"] {
        let here = |directory: &str| {
            format!("mkdir -p {directory}; cd {directory} && exec {program} {group}")
        };
        let native = shell(&here(&format!("{place}/native/{group}")));
        let ours = shell(&format!(
            "exec {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt -- sh -c \
             '{}'",
            here(&format!("{place}/mnt/{group}"))
        ));
        assert_eq!(ours.text(), native.text(), "{group} {}", ours.report());
    }
}

#[test]
fn killed_appenders_and_services_lose_nothing_that_was_answered() {
    let place = place("appenders");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_appenders.py");
    let culvert = world().culvert.display();
    let done = shell(&format!(
        "python3 {program} {culvert} {place}/back {place}/mnt 12 11"
    ));
    assert_eq!(done.text(), "nothing lost\n", "{}", done.report());
}

/// Table II of the paper: runs that know nothing of each other, with a service, and with one that
/// is killed meanwhile.
#[test]
fn appenders_of_four_runs_write_four_times_what_one_does() {
    let place = place("table");
    let culvert = world().culvert.display();
    for (kilobytes, kill) in [
        (64, ":"),
        (256, ":"),
        (1024, ":"),
        (1024, "kill -9 $service"),
    ] {
        let script = format!(
            "rm -rf {place}/back/f
             {culvert} sync --socket {place}/sync 2> {place}/told & service=$!
             until grep -q serving {place}/told; do :; done
             one() {{
                 {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync={place}/sync -- \
                     dd if=/dev/zero of={place}/mnt/f bs=4096 count=$(({kilobytes} / 4)) \
                         oflag=append conv=notrunc status=none
             }}
             one & first=$!; one & second=$!; one & third=$!; {kill}; one
             wait $first $second $third; kill $service; wait $service
             {culvert} plfs ls {place}/back"
        );
        let done = shell(&script);
        let size = 4 * kilobytes * 1024;
        let (report, told) = (done.report(), done.text());
        assert!(told.contains(&format!(" {size} ")), "{kilobytes}: {report}");
    }
}

/// The whole way: the service starts by itself, and children, exec, dup and truncation use it.
#[test]
fn a_run_with_sync_auto_has_a_service() {
    let place = place("auto");
    let culvert = world().culvert.display();
    let script = format!(
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync=auto -- sh \
        -ec '
            cd {place}/mnt
            for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8; do echo $i $j >> log; done) & done; wait
            exec 3>> log 4>&3; echo to 3 >&3; echo to 4 >&4; sh -c \"echo of a child >&3\"
            sort -u log | wc -l; truncate -s 0 log; echo end >&4; cat log'
         python3 - << 'end'
import os, pathlib, socket, struct
bases = [pathlib.Path('/dev/shm'), pathlib.Path('/tmp')]
found = [one for base in bases for one in base.glob(f'culvert-{{os.getuid()}}*/sync')]
for path in found:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.connect(str(path))
    except OSError:
        continue
    size = struct.calcsize('3i')
    _, uid, _ = struct.unpack('3i', link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    print('served', uid == os.getuid())
end"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "35\nend\nserved True\n", "{}", done.report());
}

/// Who writes where another process appends asks the service once, and then tells its memory.
#[test]
fn writes_are_told_by_memory_where_the_service_has_the_file() {
    if !installed("strace") {
        return;
    }
    let place = place("told");
    let culvert = world().culvert.display();
    let script = format!(
        "{culvert} sync --socket {place}/sync 2> {place}/told & service=$!
         until grep -q serving {place}/told; do :; done
         {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync={place}/sync -- \
             sh -c 'exec 3>> {place}/mnt/f
                 (while :; do echo a >&3; done) & keeps=$!
                 strace -f -qq -e trace=sendto -o {place}/trace \
                     dd if=/dev/zero of={place}/mnt/f bs=1 count=10 conv=notrunc status=none
                 kill $keeps'
         grep -c sendto {place}/trace
         kill $service; wait $service"
    );
    let done = shell(&script);
    // For the memory, and for the file; once more where the service has begun another turn.
    assert!(
        ["2\n", "3\n"].contains(&done.text().as_str()),
        "{}",
        done.report()
    );
}

/// What a child opens and closes before it becomes another program is not its parent's, in memory
/// that they share or not.
#[test]
fn children_leave_their_parents_droppings_as_they_are() {
    let place = place("spawned");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_spawned.py");
    let culvert = world().culvert.display();
    for sync in ["no", "auto"] {
        let script = format!(
            "rm -rf {place}/back/*
             {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync={sync} -- \
             python3 {program} {place}/mnt/f > {place}/told || exit
             read -r as written pid < {place}/told
             echo $as $written
             find {place}/back/f -name \"dropping.index.*.$pid\" | wc -l
             ls {place}/back/f/meta | grep -c open; {culvert} plfs check {place}/back/f > \
             {place}/told || cat {place}/told"
        );
        let done = shell(&script);
        assert_eq!(done.text(), "as written\n1\n0\n", "{}", done.report());
    }
}

/// `victim` is killed before each of its system calls, of `every` so many, in turn.
fn killed_at_each_step(victim: &str, how: &str, every: u32) {
    let place = place(&format!("steps-{victim}-{how}"));
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_steps.py");
    let culvert = world().culvert.display();
    let done = shell(&format!(
        "python3 {program} {culvert} {place} {victim} {how} {every}"
    ));
    assert_eq!(done.text(), "nothing lost\n", "{}", done.report());
}

#[test]
fn a_writer_killed_at_a_step_of_an_append_loses_nothing() {
    killed_at_each_step("writer", "append", 5);
}

#[test]
fn a_service_killed_at_a_step_loses_nothing() {
    killed_at_each_step("service", "append", 4);
}

/// Two services of two hosts, as far as a machine can be two: one works, and when it is killed the
/// other one does, found by the lease in the back end.
#[test]
fn services_of_hosts_take_over_from_each_other() {
    let place = place("hosts");
    let culvert = world().culvert.display();
    let script = format!(
        "cd {place}
         told() {{ until grep -q \"$2\" told$1; do :; done; }}
         {culvert} sync --socket {place}/s1 --hosts {place}/back 2> told1 & first=$!
         told 1 'epoch 1'
         {culvert} sync --socket {place}/s2 --hosts {place}/back 2> told2 & second=$!
         told 2 waiting
         run() {{ {culvert} run --mount \
         type=plfs,source={place}/back,target={place}/mnt,sync=hosts,host=$1 -- $2; }}
         append() {{ run $1 \"dd if=/dev/zero of={place}/mnt/f bs=4096 count=50 oflag=append \
         conv=notrunc status=none\"; }}
         append a & a=$!; append b & b=$!; wait $a $b
         append a & a=$!; append b & b=$!; kill -9 $first; wait $a $b; wait $first
         told 2 'epoch 2'
         append a & a=$!; append b & b=$!; wait $a $b
         {culvert} plfs ls {place}/back
         run a 'ls -A {place}/mnt'
         run c 'strace -f -qq -e trace=connect -o {place}/trace dd if=/dev/zero of={place}/mnt/f \
         bs=4096 count=1 oflag=append conv=notrunc status=none'
         grep -c 'AF_INET.*= 0' {place}/trace
         python3 {}/programs/plfs_secret.py {place}/back
         kill $second; wait $second",
        env!("CARGO_MANIFEST_DIR")
    );
    let done = shell(&script);
    let (report, told) = (done.report(), done.text());
    let size = 6 * 50 * 4096;
    assert!(told.contains(&format!(" {size} ")), "{report}");
    assert!(told.ends_with("\nf\n1\nrefused\n"), "{report}");
}

/// The relay starts by itself, and the program talks to it alone; without `tls=yes` the user is
/// told.
#[test]
fn a_run_with_tls_has_a_relay() {
    let place = place("tls");
    let culvert = world().culvert.display();
    let script = format!(
        "cd {place}
         {culvert} sync --socket {place}/sync --hosts {place}/back --tls 2> told & service=$!
         until grep -q 'by TLS, epoch 1' told; do :; done
         run() {{ {culvert} run --mount \
         type=plfs,source={place}/back,target={place}/mnt,sync=hosts,tls=$1 -- strace -f -qq \
         -e trace=connect -o trace dd if=/dev/zero of={place}/mnt/f bs=4096 count=5 oflag=append \
         conv=notrunc status=none; }}
         run yes
         grep -c 'sync-relay.*= 0' trace; grep -c AF_INET trace
         run no 2>&1 | grep -c 'no tls=yes; appends use locks'
         {culvert} plfs ls {place}/back
         kill $service; wait $service"
    );
    let (done, size) = (shell(&script), 2 * 5 * 4096);
    let (report, told) = (done.report(), done.text());
    assert!(told.starts_with("1\n0\n1\n"), "{report}");
    assert!(told.contains(&format!(" {size} ")), "{report}");
}

/// A service of `sync=auto` that is killed is there again, without a new run, and record locks stay
/// with those that have them.
#[test]
fn a_service_that_is_killed_is_there_again() {
    let place = place("service");
    let culvert = world().culvert.display();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_service.py");
    let done = shell(&format!("python3 -B {program} {culvert} {place}"));
    let want = "True\nhas it EAGAIN\nEAGAIN\nthe next one True\n\
                EAGAIN gave it back has it EAGAIN\nhas it\nTrue True\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// A relay that is killed is there again; one that is told to end, ends.
#[test]
fn a_relay_that_is_killed_is_there_again() {
    let place = place("relay");
    let culvert = world().culvert.display();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_relay.py");
    let script = format!(
        "cd {place}
         {culvert} sync --socket {place}/sync --hosts {place}/back --tls 2> told & service=$!
         until grep -q 'by TLS, epoch 1' told; do :; done
         {culvert} run-sync-relay {place}/relay
         {culvert} run --mount \
         type=plfs,source={place}/back,target={place}/mnt,sync=hosts,tls={place}/relay -- \
         python3 -B {program} {place}/mnt/f {place}/relay
         kill $service; wait $service"
    );
    let done = shell(&script);
    let want = "two processes\nanswers\nanswers again\n12\nended\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// Appends, becomes another user for good, and appends again; what it has of the service meanwhile.
const BECOMES: &str = r#"
import os, subprocess
os.umask(0)
log = os.open("the file", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
reading, told = os.pipe()
waiting, go = os.pipe()
child = os.fork()
if child == 0:
    try:
        os.write(log, b"root\n")
        os.write(told, b"x")
        os.read(waiting, 1)
        os.setresuid(65534, 65534, 65534)
        os.write(told, b"x")
        os.read(waiting, 1)
        os.write(log, b"other\n")
        os._exit(0)
    finally:
        os._exit(1)
for _ in range(2):
    os.read(reading, 1)
    text = f"cd /proc/{child}; grep -c memfd:culvert-sync maps; ls -l fd | grep -c socket:"
    print(subprocess.run(["sh", "-c", text], capture_output=True, text=True).stdout.split())
    os.write(go, b"x")
print(os.waitpid(child, 0)[1], open("the file").read())
"#;

#[test]
fn who_becomes_another_user_keeps_nothing_of_the_service() {
    // Only root can become somebody else.
    if !world().is_root() {
        return;
    }
    let place = place("becomes");
    let culvert = world().culvert.display();
    let program = BECOMES.replace("the file", &format!("{place}/mnt/f"));
    std::fs::write(format!("{place}/becomes.py"), program).unwrap();
    let script = format!(
        "{culvert} sync --socket {place}/sync 2> {place}/told & service=$!
         until grep -q serving {place}/told; do :; done
         {culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync={place}/sync \
         -- python3 {place}/becomes.py
         kill $service; wait $service"
    );
    let done = shell(&script);
    let want = "['1', '1']\n['0', '0']\n0 root\nother\n\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// Another user is sent away at the socket, even where its mode would let him connect, cannot read
/// the secret, and appends by locks.
#[test]
fn other_users_are_refused_by_a_service() {
    // Only root can be two users.
    if !world().is_root() {
        return;
    }
    let place = place("users");
    let culvert = world().culvert.display();
    let script = format!(
        "chmod 755 {place}; chmod 777 {place}/back; cp $(dirname {culvert})/culvert* $(dirname \
        {culvert})/libculvert.so {place}
         {culvert} sync --socket {place}/sync --hosts {place}/back 2> {place}/told & service=$!
         until grep -q serving {place}/told; do :; done
         chmod 666 {place}/sync
         other() {{ setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"; }}
         other /usr/bin/python3 -c '
import socket
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(\"{place}/sync\")
try:
    link.send(b\"CvS2\" + bytes([3]) + bytes(43))
    print(link.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b\"\")'
         other cat {place}/back/.culvert-sync/secret 2> /dev/null || echo unread
         for sync in {place}/sync hosts; do
             other {place}/culvert run --mount \
             type=plfs,source={place}/back,target={place}/mnt,sync=$sync -- \
                 sh -c 'echo line >> {place}/mnt/f && wc -l < {place}/mnt/f'
         done
         kill $service; wait $service"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "b''\nunread\n1\n2\n", "{}", done.report());
}
