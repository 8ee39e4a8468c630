//! Kernel mounts in an administrator's hands: what is asked for by mistake, changed afterwards, looked at and ended.

use crate::{
    kernel_life::privately,
    kernel_mount::{Mounted, possible, shell},
};
use culvert_e2e::{User, installed, not_tested, world};

/// mount(8) finds the helper, in a mount namespace of its own.
const HELPER: &str = "mkdir /mnt/up && ln -s $C /mnt/up/mount.culvert && ln -s $C /mnt/up/mount.fuse.culvert && mount -t overlay none -o lowerdir=/mnt/up:/usr/sbin /usr/sbin || exit 77";

/// `script` prints `expected`.
fn prints(name: &str, user: User, script: &str, expected: &str) {
    if !possible() || user == User::Nobody && !installed("fusermount3") {
        return;
    }
    let done = privately(name, user, script);
    if done.status == "exit 77" {
        not_tested("no overlay file system, or no user namespaces");
        return;
    }
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A server that cannot see the device, /proc or its run directory would wait for itself.
#[test]
fn a_target_that_hides_what_the_server_uses_is_refused() {
    let script =
        "mount -t tmpfs -o mode=1777 none /dev/shm; for t in / /dev /dev/shm /proc /sys; do $C mount $S $t 2>&1 | grep -c \"would hide\"; done
         $C list | grep -c \"$S on\"";
    prints("kernel-hiding", User::Me, script, "1\n1\n1\n1\n1\n0\n");
}

/// The next server would look for the archive on its own mount.
#[test]
fn an_archive_that_would_be_hidden_from_the_next_server_is_refused() {
    let script = "mkdir $D/a; echo x > $D/a/f; tar cf $D/a/a.tar -C $D/a f; $C mount --restart $D/a/a.tar $D/a 2>&1 | grep -c \"hides it\"
        $C mount $D/a/a.tar $D/a 2> /dev/null && ls $D/a; $C umount $D/a";
    prints("kernel-hidden-archive", User::Me, script, "1\nf\n");
}

/// Messages go where the place was before the mount covered it.
#[test]
fn the_log_lies_under_the_mount() {
    let script = "for more in \"\" --restart; do $C mount $more --trace --log $T/log $S $T 2>/dev/null; ls $T; $C umount $T; grep -c Opendir $T/log; rm $T/log; done";
    for user in [User::Me, User::Nobody] {
        prints(
            &format!("kernel-log-under-{user:?}"),
            user,
            script,
            "1\n1\n",
        );
    }
}

/// `mount -o remount` changes the mount's own flags and leaves the rest; what a mount was made with cannot be taken from it.
#[test]
fn flags_are_changed() {
    let script = format!(
        "{HELPER}; echo x > $S/f; ln -s f $S/l
         flags() {{ grep -o \"$T fuse.culvert [^ ]*\" /proc/mounts | sed \"s/.* //; s/,user_id.*//\"; }}
         mount -t culvert -o type=passthrough,restart $S $T; flags
         mount -o remount,ro,noexec $T; flags; touch $T/g 2>&1 | grep -o Read-only
         mount -o remount,rw,suid $T; flags; touch $T/g && ls $S
         exec 5> $T/g; mount -o remount,ro $T 2>&1 | grep -c \"open for writing\"; exec 5>&-; umount $T
         mount -t culvert -o ro,default_permissions,nonempty,nosymfollow $S $T; flags; cat $T/l 2>&1 | grep -o symbolic
         mount -o remount,rw $T 2>&1 | grep -c \"mounted read-only\"; umount $T
         mount -o remount,ro $S 2>/dev/null; echo $?; mount -t culvert $S $D/none 2>/dev/null; echo $?"
    );
    let expected = "rw,nosuid,nodev,relatime\nro,nosuid,nodev,noexec,relatime\nRead-only\nrw,nodev,noexec,relatime\nf\ng\nl\n1\n\
                    ro,nosuid,nodev,relatime,nosymfollow\nsymbolic\n1\n32\n32\n";
    prints("kernel-remount", User::Me, &script, expected);
}

/// What keeps a mount is named: other mounts, programs, but not who asks.
#[test]
fn what_keeps_a_mount_is_named() {
    let script = "
        mkdir $S/in; $C mount $S $T; $C mount -t memory memory $T/in; $C umount $T 2>&1 | grep -o \"has mounts in it: .*/in$\"; $C umount --all
        $C mount $S $T; cd $T; $C umount . > $D/said 2>&1; cd /; grep -c \"is used by bash ([0-9]*)$\" $D/said; $C umount $T; $C umount $T 2>&1 | grep -c \"culvert list\"
        $C umount /proc 2>&1 | grep -c \"umount(8)\"";
    let done = "has mounts in it: ";
    let place = world().path("mounts/kernel-kept/target/in");
    prints(
        "kernel-kept",
        User::Me,
        script,
        &format!("{done}{}\n1\n1\n1\n", place.display()),
    );
}

/// In a user namespace, mounts of outside stay, and it is said why.
#[test]
fn mounts_of_outside_are_ended_there() {
    let script = "unshare -Urm true 2> /dev/null || exit 77; $C mount $S $T; unshare -Urm $C umount $T 2>&1 | grep -c \"from outside\"; $C umount $T; echo $?";
    prints("kernel-outer", User::Me, script, "1\n0\n");
}

/// A user's wish that only root can grant is not passed over in silence.
#[test]
fn a_user_is_told_what_is_roots() {
    let script = "
        $C mount -o suid,dev $S $T 2>&1 | grep -c \"root.s mounts alone\"; grep -c \"$T .*nosuid,nodev\" /proc/mounts
        mkdir $S/in; $C mount $S $T/in 2>&1 | grep -c \"beside them\\|No such file\"; $C mount $S $T/in 2>&1 | tail -1 | grep -c \"^         \"; $C umount $T
        $C mount -o nosymfollow $S $T 2>&1 | grep -c \"leave it out\"; $C mount $S /usr 2>&1 | grep -c \"may write to\"";
    prints(
        "kernel-users-wish",
        User::Nobody,
        script,
        "1\n1\n1\n1\n1\n1\n",
    );
}

/// Names in the list for programs are the names.
#[test]
fn listed_names_are_exact() {
    let script = "
        cd $D; name=$(printf \"a\\nb\\\\\\\\040\\\" c,\\303\\251\"); mkdir \"$name\"; $C mount $S \"$name\"
        $C list --json | python3 -c \"
import json, os, sys
print([os.path.basename(one[\\\"target\\\"]) for one in json.load(sys.stdin) if one[\\\"source\\\"] == os.environ[\\\"S\\\"]])\"
        $C umount \"$name\"; echo $?";
    for user in [User::Me, User::Nobody] {
        prints(
            &format!("kernel-list-names-{user:?}"),
            user,
            script,
            "['a\\nb\\\\040\" c,é']\n0\n",
        );
    }
}

/// A dead server is not listed as a living one while nobody has waited for it, and a server whose keeper is gone is told as the last.
#[test]
fn the_dead_are_not_listed_as_living() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-list-dead");
    let (source, target) = (place.text("source"), place.text("target"));
    let program = "
import ctypes, itertools, json, os, signal, subprocess, sys
culvert, source, target = sys.argv[1:]
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what the command leaves behind is ours, and we do not wait for it.
def one():
    listed = subprocess.run([culvert, 'list', '--json'], stdout=subprocess.PIPE, check=True).stdout
    return next(one for one in json.loads(listed) if one['target'] == target)
def text():
    listed = subprocess.run([culvert, 'list'], stdout=subprocess.PIPE, check=True).stdout.decode()
    first, *more = listed[listed.index(source + ' on ' + target):].splitlines()
    return first + str(list(itertools.takewhile(lambda line: line.startswith('  '), more)))
def kill(number):
    os.kill(number, signal.SIGKILL)
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
subprocess.run([culvert, 'mount', '--restart', source, target], check=True)
mount = one()
kill(mount['keeper'])
print(one()['served'], 'keeper' in one(), 'is gone: it is the last' in text())
kill(mount['server'])
print(one()['served'], 'no server answers' in text())
";
    let done = shell(&format!(
        "python3 -c \"{program}\" {} {source} {target}",
        world().culvert.display()
    ));
    assert_eq!(
        done.text(),
        "True False True\nFalse True\n",
        "{}",
        done.report()
    );
}
