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

/// A script of extfs: of a file, each line is a member; and members that make trouble.
const EXTFS: &str = r#"#!/bin/sh
echo "$1" >> "$(dirname "$0")/calls"
pwd >> "$(dirname "$0")/places"
case "$1" in
list)
    n=0
    while read line; do
        n=$((n + 1))
        echo "-rw-r--r--   1 0 0 9999 Jan 02 2024 13:05 d/line $n"
    done < "$2"
    echo "lrwxrwxrwx   1 0 0 6 01-02-2024 13:05 link -> d/line 1"
    for name in ../out -o @file fails linked; do
        echo "-rw-r--r--   1 0 0 1 Jan 02 2024 13:05 $name"
    done
    echo "garbage" ;;
copyout)
    case "$3" in
    fails) exit 3 ;;
    linked) ln -sf /etc/passwd "$4" ;;
    d/line*) sed -n "${3#d/line }p" "$2" > "$4" ;;
    *) echo "asked for $3" >&2; exit 1 ;;
    esac ;;
*) exit 1 ;;
esac
"#;

#[test]
fn scripts_of_extfs_unpack_files() {
    use std::os::unix::fs::PermissionsExt;
    let at = world().claim("avfs", "script");
    std::fs::create_dir_all(at.join("mnt")).unwrap();
    let script = at.join("script");
    std::fs::write(&script, EXTFS).unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&script, mode(0o755)).unwrap();
    std::fs::write(at.join("lines"), "one\ntwo\n").unwrap();
    let [file, target, script] = ["lines", "mnt", "script"].map(|name| at.join(name));
    let [file, target, script] = [&file, &target, &script].map(|path| path.to_str().unwrap());
    let volume = format!("{file}:{target}:script={script}");
    let look = format!("cd {target}; find . -type f -o -type l | sort; cat link 'd/line 2'");
    let run = || culvert(&["run", "-v", &volume, "--", "sh", "-c", &look]);
    let calls = || std::fs::read_to_string(at.join("calls")).unwrap();
    let said = "./d/line 1\n./d/line 2\n./link\none\ntwo\n";
    let first = run();
    assert_eq!(first.text(), said, "{}", first.report());
    let report = first.report();
    for warning in [
        "../out is left",
        "-o is left",
        "@file is left",
        "fails is left",
        "linked is",
    ] {
        assert!(report.contains(warning), "{warning}: {report}");
    }
    assert!(report.contains("line 9 of what"), "{report}");
    assert_eq!(calls(), "list\ncopyout\ncopyout\ncopyout\ncopyout\n");
    // What is unpacked is kept, as long as the file stays as it is.
    let again = run();
    assert_eq!(again.text(), said, "{}", again.report());
    assert_eq!(calls().lines().count(), 5);
    if possible() {
        let option = format!("script={script}");
        let mounted = culvert(&["mount", "-t", "archive", "-o", &option, file, target]);
        assert_eq!(mounted.status, "exit 0", "{}", mounted.report());
        let done = shell(&look);
        let ended = culvert(&["umount", target]);
        assert_eq!(ended.status, "exit 0", "{}", ended.report());
        assert_eq!(done.text(), said, "{}", done.report());
    }
    std::fs::write(file, "three\n").unwrap();
    let changed = run();
    assert!(
        changed.text().starts_with("./d/line 1\n./link\nthree"),
        "{}",
        changed.report()
    );
    let refused = |option: &str, why: &str| {
        let volume = format!("{file}:{target}:{option}");
        let done = culvert(&["run", "-v", &volume, "--", "true"]);
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(done.report().contains(why), "{}", done.report());
    };
    refused("script=dpkg+", "it lists this machine, not a file");
    refused("script=nobody-has-this", "it is in none of");
    std::fs::write(file, "").unwrap();
    std::fs::set_permissions(script, mode(0o757)).unwrap();
    refused(&format!("script={script}"), "may be written by others");
    let places = std::fs::read_to_string(at.join("places")).unwrap();
    assert!(
        !places.is_empty()
            && !places
                .lines()
                .any(|place| std::path::Path::new(place).exists())
    );
}

#[test]
fn scripts_that_are_installed_run_as_they_are() {
    if !std::path::Path::new("/usr/share/avfs/extfs/patchfs").exists() {
        culvert_e2e::not_tested("scripts of extfs: Debian's package avfs is missing");
        return;
    }
    let at = world().claim("avfs", "installed");
    std::fs::create_dir_all(&at).unwrap();
    let made = shell(&format!(
        "set -e; cd {}; mkdir mnt a b; seq 20 > a/one; seq 20 > a/two; cp a/* b
         echo 21 >> b/one; echo 0 > b/two; diff -ru a b > changes.patch || true
         printf 'From a@b Mon Jan  1 00:00:00 2024\nFrom: a@b\nSubject: hello\n\nbody\n' > box
         echo made",
        at.display()
    ));
    assert_eq!(made.text(), "made\n", "{}", made.report());
    let look = |file: &str, script: &str, look: &str| {
        let volume = format!("{0}/{file}:{0}/mnt:script={script}", at.display());
        let look = format!("cd {}/mnt; {look}", at.display());
        culvert(&["run", "-v", &volume, "--", "sh", "-c", &look])
    };
    let done = look(
        "changes.patch",
        "patchfs",
        "find . -type f | sort; grep -c ^+ a/two.diff",
    );
    assert_eq!(
        done.text(),
        "./a/one.diff\n./a/two.diff\n2\n",
        "{}",
        done.report()
    );
    let done = look("box", "mailfs", "tail -n 1 001*hello");
    assert_eq!(done.text(), "body\n", "{}", done.report());
}
