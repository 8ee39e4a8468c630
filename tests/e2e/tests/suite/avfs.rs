//! Archives in archives, by names with a sign.

use crate::kernel_mount::{culvert, possible, shell};
use culvert_e2e::world;
use std::path::PathBuf;

/// A place with `files`, archives in them, and `mnt`.
fn place(name: &str) -> PathBuf {
    let place = world().claim("avfs", name);
    for directory in ["files", "mnt"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
    }
    let made = shell(&format!(
        "set -e; cd {}/files; mkdir d; seq 30000 > d/n; cp /bin/true d/true
         tar czf x.tgz d; gzip -k d/n; mv d/n.gz .; rm -r d
         python3 -c \"
import zipfile
with zipfile.ZipFile('y.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.write('x.tgz')\"
         echo made",
        place.display()
    ));
    assert_eq!(made.text(), "made\n", "{}", made.report());
    place
}

/// What programs do, and what it says: descriptors that are inherited, mappings, programs that are
/// started from there, working directories.
const SCRIPT: &str = "cd MNT
    wc -l < 'y.zip#/x.tgz#/d/n'
    (read a; read b; echo $a $b; sh -c 'read c; echo $c') < 'y.zip#/x.tgz#/d/n'
    'y.zip#/x.tgz#/d/true' && echo started
    cd 'y.zip#/x.tgz#/d'; /bin/pwd | sed s:.*/mnt::; cmp n 'MNT/n.gz#' && echo same
    cd ../../..; ls
    (exec 5< 'MNT/y.zip#/x.tgz#/d/n'; tail -n 1 /proc/self/fd/5)
    python3 -c \"
import mmap
f = open('MNT/n.gz#ugz', 'rb')
print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:3])\"
    echo x 2>/dev/null > 'MNT/y.zip#/new' || echo refused
    find 'MNT/y.zip#' -name n
    head -n 2 'MNT/#avfsstat/modules'";

const SAID: &str = "30000\n1 2\n3\nstarted\n/y.zip#/x.tgz#/d\nsame\nn.gz\nx.tgz\ny.zip\n30000\n\
    b'1\\n2'\nrefused\nugz:\t.gz .tgz(.tar)\n\
    ubz2:\t.bz2 .bz .tbz2(.tar) .tbz(.tar)\n";

#[test]
fn programs_look_into_archives_in_archives() {
    let at = place("run");
    let (target, source) = (at.join("mnt"), at.join("files"));
    let script = SCRIPT.replace("MNT", target.to_str().unwrap());
    for options in ["layer=avfs", "layer=avfs,driven"] {
        let volume = format!("{}:{}:{options}", source.display(), target.display());
        let done = culvert(&[
            "run",
            "--no-private",
            "-v",
            &volume,
            "--",
            "bash",
            "-c",
            &script,
        ]);
        assert_eq!(done.text(), SAID, "{options}: {}", done.report());
    }
    // Of a real archive what is looked into in it is as below a directory.
    let volume = format!("{}/y.zip:{}:avfs", source.display(), target.display());
    let read = format!("wc -l < '{}/x.tgz#/d/n'", target.display());
    let done = culvert(&["run", "-v", &volume, "--", "sh", "-c", &read]);
    assert_eq!(done.text(), "30000\n", "{}", done.report());
}

#[test]
fn kernel_mounts_look_into_archives_in_archives() {
    if !possible() {
        return;
    }
    let at = place("mount");
    let (target, source) = (at.join("mnt"), at.join("files"));
    let [target, source] = [&target, &source].map(|path| path.to_str().unwrap());
    let words = [
        "mount",
        "-t",
        "passthrough",
        "-o",
        "layer=avfs",
        source,
        target,
    ];
    let mounted = culvert(&words);
    assert_eq!(mounted.status, "exit 0", "{}", mounted.report());
    let done = shell(&SCRIPT.replace("MNT", target));
    let ended = culvert(&["umount", target]);
    assert_eq!(ended.status, "exit 0", "{}", ended.report());
    assert_eq!(done.text(), SAID, "{}", done.report());
}
