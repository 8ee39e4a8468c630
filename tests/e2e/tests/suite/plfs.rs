//! PLFS containers in runs and on kernel mounts; the driver's own tests are
//! `crates/culvert-drivers/tests/plfs`.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::world;

/// A place with directories `back` and `mnt`.
fn place(name: &str) -> String {
    let place = world().claim("plfs", name);
    for directory in ["back", "mnt"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
    }
    place.display().to_string()
}

#[test]
fn killed_writers_lose_nothing_that_was_answered() {
    let place = place("killed");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/plfs_killed.py");
    let culvert = world().culvert.display();
    let done = shell(&format!(
        "python3 {program} {culvert} {place}/back {place}/mnt 15 7"
    ));
    assert_eq!(done.text(), "nothing lost\n", "{}", done.report());
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
            mkdir d; cp /bin/sh d/sh; ./d/sh -c \"echo executed\"; mv d/sh d/other; cmp d/other /bin/sh'
         ls {place}/back"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "32\nexecuted\nd\n", "{}", done.report());
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
        "{culvert} run --mount type=plfs,source={place}/back,target={place}/mnt,sync=auto -- sh -ec '
            cd {place}/mnt
            for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8; do echo $i $j >> log; done) & done; wait
            exec 3>> log 4>&3; echo to 3 >&3; echo to 4 >&4; sh -c \"echo of a child >&3\"
            sort -u log | wc -l; truncate -s 0 log; echo end >&4; cat log'
         python3 - << 'end'
import os, pathlib, signal, socket, struct
bases = [pathlib.Path('/dev/shm'), pathlib.Path('/tmp')]
found = [one for base in bases for one in base.glob(f'culvert-{{os.getuid()}}*/sync')]
for path in found:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.connect(str(path))
    except OSError:
        continue
    size = struct.calcsize('3i')
    pid, uid, _ = struct.unpack('3i', link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    print('served', uid == os.getuid())
    os.kill(pid, signal.SIGKILL)
end"
    );
    let done = shell(&script);
    assert_eq!(done.text(), "35\nend\nserved True\n", "{}", done.report());
}
