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
