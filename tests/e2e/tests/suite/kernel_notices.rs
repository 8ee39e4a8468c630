//! Kernel mounts whose driver tells what others change (`-o watch`): everything is believed for long, and nothing old is seen.

use crate::{
    kernel_mount::{Mounted, possible, shell},
    kernel_requests::asks,
};
use culvert_e2e::{Driver, User, not_tested, world};

/// For longer than a test takes.
const LONG: &str = "watch,valid=600,absent=600";

/// Shell functions: `seen WANTED COMMAND...` waits until the command says what is wanted. The kernel is told within a moment, not within the call that makes
/// the change.
const SEEN: &str = "SECONDS=0; seen() { w=$1; shift; until [ \"$(\"$@\" 2>&1)\" = \"$w\" ]; do [ $SECONDS -lt 100 ] || { echo \"$* is not: $w, but: $(\"$@\" 2>&1)\"; exit 1; }; done; }; ";

/// Each change of others, after what it changes was looked at and is believed.
fn changes(source: &str, target: &str) -> String {
    format!(
        "{SEEN} S={source}; cd {target}; no() {{ [ -e $1 ] && echo there || echo none; }}
         mkdir -p $S/d/e; echo one > $S/d/f; seen one cat d/f; seen none no d/new; seen f$'\\n'e ls -r d
         echo longer > $S/d/f; seen longer cat d/f; seen 7 stat -c %s d/f
         printf LONGER > $S/d/f; seen LONGER cat d/f
         chmod 600 $S/d/f; seen 600 stat -c %a d/f; ln $S/d/f $S/other; seen 2 stat -c %h d/f; rm $S/other; seen 1 stat -c %h d/f
         touch -d @5 $S/d/f; seen 5 stat -c %Y d/f; setfattr -n user.a -v b $S/d/f; getfattr --only-values -n user.a d/f; echo
         echo new > $S/d/new; seen there no d/new; seen new cat d/new; seen new$'\\n'f$'\\n'e ls -r d
         rm $S/d/new; seen none no d/new; seen f$'\\n'e ls -r d
         echo another > $S/d/g; mv $S/d/g $S/d/f; seen another cat d/f
         mv $S/d/f $S/d/e/f; seen none no d/f; seen another cat d/e/f; echo moved > $S/d/e/f; seen moved cat d/e/f
         mv $S/d $S/d2; seen none no d; seen moved cat d2/e/f; echo again > $S/d2/e/f; seen again cat d2/e/f
         mkdir $S/d; echo second > $S/d/f; seen second cat d/f; rm -r $S/d; seen none no d
         ln -s one l; seen one readlink l; ln -sfn two $S/l; seen two readlink l
         exec 3< d2/e/f; rm $S/d2/e/f; seen 0 stat -Lc %h /proc/self/fd/3; seen again cat /proc/self/fd/3
         for i in 1 2 3 4 5 6 7 8; do echo $i > $S/n; mv $S/n $S/m; seen $i cat m; echo $i$i > $S/m; seen $i$i cat m; done"
    )
}

#[test]
fn what_others_change_is_told() {
    if !possible() {
        return;
    }
    for words in [
        &["-o", LONG][..],
        &["-o", LONG, "--without", "passthrough"],
        &["-o", "watch,driven"],
        &["-o", "watch", "--restart"],
    ] {
        let mount = Mounted::new("notices-told", words);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let done = shell(&changes(&source, &target));
        assert_eq!(done.text(), "b\n", "{words:?} {}", done.report());
        assert_eq!(done.status, "exit 0", "{words:?} {}", done.report());
        shell(&format!("rm -r {source}/*"));
    }
}

/// And what nobody changes is not asked for.
#[test]
fn what_is_watched_is_not_asked_for() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-warm", &["-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let look = format!(
        "find {target} -ls; stat {target}/d/none; for i in 1 2 3; do cat {target}/d/file; done"
    );
    let warm = format!(
        "mkdir -p {source}/d/e; cp /usr/share/common-licenses/GPL-3 {source}/d/file; touch -d @5 {source}/d/file; {SEEN} seen 5 stat -c %Y {target}/d/file; {look}; {look}"
    );
    // Not a LOOKUP, and no GETATTR but of directories that were read: their time of access may have changed (`fuse_readdir`, fs/fuse/readdir.c).
    asks(
        &target,
        &format!("{warm} 2>/dev/null"),
        &format!("{{ {look}; true; }} 2>/dev/null"),
        &[
            ("OPEN", 3),
            ("RELEASE", 3),
            ("STATFS", 1),
            ("GETATTR", 3),
            ("OPENDIR", 3),
            ("RELEASEDIR", 3),
            ("READDIRPLUS", 6),
            ("READDIR", 6),
        ],
    );
}

/// What is done through the mount is not told back: the kernel would lose its picture of what is open.
#[test]
fn own_changes_are_not_others() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-own", &["-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let done = shell(&format!(
        "{SEEN} cd {target}; mkdir d; cd d; for i in $(seq 50); do exec 3> f$i; echo x >&3; ln f$i g$i; mv f$i h$i; readlink /proc/self/fd/3; rm g$i; done | grep deleted
         pwd -P; echo x > {source}/d/others; seen x cat others; ls | wc -l; readlink /proc/self/fd/3; rm -f {source}/d/h1; seen 50 sh -c 'ls | wc -l'"
    ));
    assert_eq!(
        done.text(),
        format!("{target}/d\n51\n"),
        "{}",
        done.report()
    );
}

/// A server that is killed takes its watches with it: the next one believes nothing of before.
#[test]
fn what_changed_while_no_server_was_there() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("notices-restart", &["--restart", "-o", LONG]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    // The keeper is held, so that no server is there.
    let done = shell(&format!(
        "{SEEN} cd {target}; mkdir -p {source}/d; echo one > {source}/d/f; seen one cat d/f; exec 3< d/f; stat -c %s d/f d/none 2>&1 | grep -c 4
         keeper=$(pgrep -of 'culvert mount.*{target}$'); server=$(pgrep -P $keeper); kill -STOP $keeper; kill -KILL $server
         echo changed > {source}/d/f; chmod 604 {source}/d/f; echo came > {source}/d/none; kill -CONT $keeper
         seen changed cat d/f; seen 604 stat -Lc %a /proc/self/fd/3; seen came cat d/none; echo later > {source}/d/none; seen later cat d/none"
    ));
    assert_eq!(done.text(), "1\n", "{}", done.report());
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

/// Where no more can be watched, the rest is believed for a second, and the log says so.
#[test]
fn more_than_can_be_watched() {
    if !possible() {
        return;
    }
    let place = Mounted::place("notices-many");
    let (source, target) = (place.text("source"), place.text("target"));
    let culvert = world().culvert.display();
    let done = shell(&format!(
        "unshare -Urm --propagation private bash -c '{SEEN} echo 6 > /proc/sys/user/max_inotify_watches || exit 77
         cd {source}; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d$i; echo $i > d$i/f; done
         {culvert} mount -o {LONG} --log {source}/log {source} {target} || exit 78
         cd {target}; for i in 1 2 3 4 5 6 7 8 9; do cat d$i/f; done; for i in 1 2 3 4 5 6 7 8 9; do echo changed$i > {source}/d$i/f; done; for i in 1 2 3 4 5 6 7 8 9; do seen 9 stat -c %s d$i/f; done; cat d?/f | grep -c changed
         cd /; {culvert} umount {target}; grep -c max_user_watches {source}/log'"
    ));
    if matches!(done.status.as_str(), "exit 77" | "exit 78" | "exit 1") && done.text().is_empty() {
        not_tested(format_args!("no user namespaces: {}", done.report()));
        return;
    }
    assert_eq!(
        done.text(),
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n9\n1\n",
        "{}",
        done.report()
    );
}

/// An ordinary user's files, watched as such.
#[test]
fn watched_by_an_ordinary_user() {
    if !possible() {
        return;
    }
    let case = culvert_e2e::Case::new("notices-user", User::Nobody).directory(Driver::Passthrough);
    let script = format!(
        "{SEEN} cd $M; mkdir -p d; echo one > d/f; chmod 000 d/f; chmod 311 d; stat -c %a d/f d; chmod 755 d; chmod 644 d/f; seen one cat d/f; rm -r d; ls"
    );
    let done = case.through_kernel(&["-o", LONG], &["bash", "-c", &script]);
    assert_eq!(done.text(), "0\n311\n", "{}", done.report());
}
