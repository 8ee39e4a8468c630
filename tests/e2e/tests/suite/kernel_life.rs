//! The life of kernel mounts: servers that die and go on, service managers, fstab, the list.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Finished, User, installed, not_tested, world};

/// A mount with a keeper.
fn kept(name: &str, words: &[&str]) -> Mounted {
    let mut all = vec!["--restart"];
    all.extend(words);
    Mounted::new(name, &all)
}

/// The keeper's process: the older of the two.
pub fn keeper(mount: &Mounted) -> String {
    let target = mount.text("target");
    let found = shell(&format!("pgrep -of 'culvert mount.*{target}$'"));
    found.text().trim().to_owned()
}

/// `script` with `culvert` as a function, `$S` and `$T` the directories, in a mount namespace of its own, as `user`, who may open the device.
pub fn privately(name: &str, user: User, script: &str) -> Finished {
    let place = Mounted::place(name);
    let (source, target) = (place.text("source"), place.text("target"));
    let culvert = world().culvert.display();
    let (owned, acting) = match user {
        User::Nobody => (
            format!("chown 65534:65534 {source} {target}"),
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups --",
        ),
        _ => (String::new(), "exec"),
    };
    shell(&format!(
        "rm -rf {target}.d; mkdir -p {target}.d; chmod 777 {target}.d; {owned}
         export S={source} T={target} D={target}.d C={culvert}
         unshare -m bash -c 'mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse && mount --bind /mnt/fuse /dev/fuse && {acting} bash -c \"$0\"' '{script}'"
    ))
}

/// The program natively, and on a mount whose server is killed again and again.
fn load(name: &str, words: &[&str], kills: usize) {
    if !possible() {
        return;
    }
    load_on(&kept(name, words), kills);
}

/// [`load`] on a mount with a keeper.
pub fn load_on(mount: &Mounted, kills: usize) {
    let program = format!(
        "python3 {}/programs/served_again.py",
        env!("CARGO_MANIFEST_DIR")
    );
    let keeper = keeper(mount);
    let done = shell(&format!(
        "{program} {} {kills} {keeper}",
        mount.text("target")
    ));
    assert_eq!(done.text(), "nothing failed\n", "{}", done.report());
    // The keeper holds no more than the last server: nothing of the dead ones is left.
    let listed = culvert(&["list", "--json"]);
    assert!(
        listed.text().contains(&format!("\"restarts\":{kills}")),
        "{}",
        listed.report()
    );
    let left = shell(&format!("ls /proc/{keeper}/fd | wc -l"));
    let left: usize = left.text().trim().parse().expect("a number");
    assert!(left < 500, "{left} descriptors");
}

#[test]
fn the_load_goes_on_when_the_server_is_killed() {
    load("kernel-again", &[], 15);
}

#[test]
fn the_load_goes_on_when_the_server_is_killed_driven() {
    load("kernel-again-driven", &["-o", "driven"], 10);
}

#[test]
fn the_load_goes_on_without_privilege() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let script = format!(
        "$C mount --restart $D $T && python3 {}/programs/served_again.py $T 8 $(pgrep -of \"culvert mount.*$T\\$\"); $C umount $T",
        env!("CARGO_MANIFEST_DIR")
    );
    let done = privately("kernel-again-user", User::Nobody, &script);
    assert_eq!(done.text(), "nothing failed\n", "{}", done.report());
}

/// Killed by the moment it would have answered, one answer after the other: what was carried out is not done twice.
#[test]
fn a_request_that_was_carried_out_is_not_done_again() {
    if !possible() || !installed("strace") {
        return;
    }
    let program = "import os; os.mkdir('d'); os.rename('d', 'e'); f = os.open('f', os.O_CREAT|os.O_EXCL|os.O_WRONLY, 0o444); os.write(f, b'x'); \
                   a = os.open('a', os.O_CREAT|os.O_APPEND|os.O_WRONLY, 0o600); os.write(a, b'one'); os.write(a, b'two'); os.link('f', 'g'); os.symlink('f', 's'); \
                   os.mkfifo('p'); os.setxattr('a', 'user.x', b'1', os.XATTR_CREATE); os.removexattr('a', 'user.x'); os.unlink('f'); os.rename('g', 'h'); \
                   os.unlink('p'); os.unlink('s'); os.rmdir('e'); print(sorted(os.listdir('.')), open('a').read(), open('h').read(), os.listxattr('a')); \
                   os.unlink('a'); os.unlink('h')";
    for driven in [false, true] {
        let words: &[&str] = if driven { &["-o", "driven"] } else { &[] };
        let mount = kept(&format!("kernel-once-{driven}"), words);
        let (target, keeper) = (mount.text("target"), keeper(&mount));
        let mut killed = 0;
        for number in 1..=16 {
            let done = shell(&format!(
                "cd {target} && server=$(cat /proc/{keeper}/task/{keeper}/children | tr -d ' ')
                 strace -qq -f -p $server -e trace=writev -e inject=writev:signal=KILL:when={number} -o {target}.trace 2>/dev/null & tracer=$!
                 until grep -q \"^TracerPid:.*[1-9]\" /proc/$server/status 2>/dev/null || [ ! -d /proc/$server ]; do :; done
                 python3 -c \"{program}\"; kill $tracer 2>/dev/null; wait $tracer; ls -A"
            ));
            assert_eq!(
                done.text(),
                "['a', 'h'] onetwo x []\n",
                "killed at answer {number} of a thread, driven {driven}: {}",
                done.report()
            );
            let now = shell(&format!("cat /proc/{keeper}/task/{keeper}/children"));
            killed += usize::from(!now.text().is_empty());
        }
        assert!(killed > 0);
        let restarts = culvert(&["list", "--json"]);
        // Other tests' mounts are in the list, too.
        let text = restarts.text();
        let ours = text
            .split("\"source\":")
            .find(|mount| mount.contains(&format!("\"keeper\":{keeper}}}")))
            .expect("the mount is listed");
        assert!(!ours.contains("\"restarts\":0,"), "{text}");
    }
}

/// A request that kills every server is an error in the end, and the others go on.
#[test]
fn a_deadly_request_is_given_up() {
    if !possible() {
        return;
    }
    let mount = kept(
        "kernel-deadly",
        &["-o", "layer=fault,fault.rule=mkdir+action=abort"],
    );
    let done = shell(&format!(
        "cd {}; echo x > f; mkdir d; cat f; ls",
        mount.text("target")
    ));
    assert_eq!(done.text(), "x\nf\n", "{}", done.report());
    assert!(
        done.errors().contains("Input/output error"),
        "{}",
        done.report()
    );
}

/// Who kills a server that has nothing to do says nothing about the next one, however often.
#[test]
fn an_idle_server_is_started_again_however_often() {
    if !possible() {
        return;
    }
    let mount = kept("kernel-idle", &[]);
    let (target, keeper) = (mount.text("target"), keeper(&mount));
    let done = shell(&format!(
        "cd {target}; echo x > f; exec 5< f
         for kill in $(seq 12); do
           until server=$(cat /proc/{keeper}/task/{keeper}/children) && [ -n \"$server\" ]; do :; done
           kill -9 $server; tail --pid=$server -f /dev/null
         done; cat <&5; echo y > g; cat g"
    ));
    assert_eq!(done.text(), "x\ny\n", "{}", done.report());
    assert_eq!(done.errors(), "", "{}", done.report());
}

/// What `mount -t culvert` and lines of fstab lead to.
#[test]
fn mount_and_fstab() {
    if !possible() {
        return;
    }
    let script = "
        mkdir /mnt/up /mnt/a /mnt/b && ln -s $C /mnt/up/mount.culvert && mount -t overlay none -o lowerdir=/mnt/up:/usr/sbin /usr/sbin || exit 77
        echo content > $S/f
        mount -t culvert -o type=passthrough,noatime,nodev,noexec,x-thing=1 $S /mnt/a && cat /mnt/a/f
        mount -t culvert -o remount,ro $S /mnt/a 2>/dev/null; grep -c \"/mnt/a fuse.culvert .*noexec\" /proc/mounts; umount /mnt/a
        mount -t culvert passthrough#$S /mnt/a && cat /mnt/a/f; umount /mnt/a
        echo \"$S /mnt/a culvert defaults,ro,_netdev,nofail 0 0\" > /mnt/fstab; echo \"$S /mnt/b culvert noauto,user 0 0\" >> /mnt/fstab
        mount -a -T /mnt/fstab; mount -a -T /mnt/fstab; cat /mnt/a/f; touch /mnt/a/g 2>/dev/null || echo read-only; mount -T /mnt/fstab /mnt/b; cat /mnt/b/f
        grep -c \"/mnt/[ab] fuse.culvert\" /proc/mounts; umount /mnt/a /mnt/b
        mount -t culvert -o type=floppy $S /mnt/a 2>&1 | grep -o \"no driver .floppy.\"; $C umount --all; echo $?";
    let done = privately("kernel-fstab", User::Me, script);
    if done.status == "exit 77" {
        not_tested("no overlay file system");
        return;
    }
    assert_eq!(
        done.text(),
        "content\n1\ncontent\ncontent\nread-only\ncontent\n2\nno driver \"floppy\"\n0\n",
        "{}",
        done.report()
    );
}

/// `Type=notify`: ready when the mount can be used, and told when it ends.
#[test]
fn a_service_manager_is_told() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-notify");
    let (source, target) = (place.text("source"), place.text("target"));
    let program = "
import os, signal, socket, subprocess, sys
culvert, source, target, where, *more = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind('\\0' + where[1:] if where[0] == '@' else where)
server = subprocess.Popen([culvert, 'mount', '-f', *more, source, target], env={**os.environ, 'NOTIFY_SOCKET': where})
said = dict(line.split('=', 1) for line in listener.recv(4096).decode().split('\\n'))
print(said['READY'], int(said['MAINPID']) == server.pid, target in said['STATUS'], os.path.ismount(target))
server.send_signal(signal.SIGTERM)
print(listener.recv(4096).decode(), server.wait(), os.path.ismount(target))
";
    for (socket, more) in [("@culvert-test", ""), (&*place.text("socket"), "--restart")] {
        let done = shell(&format!(
            "rm -f {socket}; python3 -c \"{program}\" {} {source} {target} {socket} {more}",
            world().culvert.display()
        ));
        assert_eq!(
            done.text(),
            "1 True True True\nSTOPPING=1 0 False\n",
            "{more} {}",
            done.report()
        );
    }
}

/// Where messages go: a file, the journal (here a stand-in), and an error where there is none.
#[test]
fn messages_go_where_they_are_told() {
    if !possible() {
        return;
    }
    let script = "
        mkdir -p /run/systemd; mount -t tmpfs none /run/systemd; mkdir /run/systemd/journal
        $C mount -o log=journal $S $T 2>&1 | grep -c \"journal.*No such file\"
        python3 -c \"
import socket, subprocess, os
listener = socket.socket(socket.AF_UNIX); listener.bind(\\\"/run/systemd/journal/stdout\\\"); listener.listen()
subprocess.run([os.environ[\\\"C\\\"], \\\"mount\\\", \\\"--trace\\\", \\\"-o\\\", \\\"log=journal\\\", os.environ[\\\"S\\\"], os.environ[\\\"T\\\"]], check=True)
os.stat(os.environ[\\\"T\\\"]); os.listdir(os.environ[\\\"T\\\"])
with listener.accept()[0].makefile() as journal:
    head = [journal.readline() for _ in range(7)]
    print(head[0].strip(), journal.readline().split()[0])
\"
        $C umount $T; $C mount --trace --log $D/log $S $T && ls $T; $C umount $T; grep -c Opendir $D/log";
    let done = privately("kernel-log", User::Me, script);
    assert_eq!(done.text(), "1\nculvert culvert:\n1\n", "{}", done.report());
}

/// The list says what is mounted and what was asked; who uses a mount is named.
#[test]
fn mounts_are_listed() {
    if !possible() {
        return;
    }
    let script = "
        echo x > $S/f; $C mount --restart $S $T; cat $T/f > /dev/null; exec 5< $T/f
        $C list --json | python3 -c \"
import json, os, sys
(one,) = [one for one in json.load(sys.stdin) if one[\\\"target\\\"] == os.environ[\\\"T\\\"]]
print(one[\\\"type\\\"], one[\\\"source\\\"] == os.environ[\\\"S\\\"], one[\\\"files\\\"], one[\\\"restarts\\\"], one[\\\"requests\\\"][\\\"Open\\\"] > 0, os.path.exists(\\\"/proc/%d\\\" % one[\\\"server\\\"]), one[\\\"memory\\\"] < 10 << 20)
\"
        $C list | grep -c \"$S on $T type passthrough\"; $C umount $T 2>&1 | grep -o \"is used by bash\"; exec 5<&-; $C umount --all; $C list | grep -c $T";
    for user in [User::Me, User::Nobody] {
        let done = privately(&format!("kernel-list-{user:?}"), user, script);
        assert_eq!(
            done.text(),
            "passthrough True 1 0 True True True\n1\nis used by bash\n0\n",
            "{user:?} {}",
            done.report()
        );
    }
}

/// Who is root in a user namespace of his own mounts there by himself.
#[test]
fn in_a_user_namespace() {
    if !possible() {
        return;
    }
    let script = "unshare -Ur -m bash -c \"$C mount $S $T && echo x > $T/f && mkdir $T/d && mv $T/f $T/d && cat $T/d/f && stat -c %u $T/d && $C umount $T\"; stat -c %u $S/d";
    for (user, uid) in [(User::Me, 0), (User::Nobody, 65534)] {
        let done = privately(&format!("kernel-namespace-{user:?}"), user, script);
        assert_eq!(
            done.text(),
            format!("x\n0\n{uid}\n"),
            "{user:?} {}",
            done.report()
        );
    }
}

/// The source goes away while it is mounted: what is open stays, names are gone, and the mount can be ended.
#[test]
fn the_source_vanishes() {
    if !possible() {
        return;
    }
    let script = "
        mkdir $D/s; echo x > $D/s/f; $C mount --restart $D/s $T; exec 5<> $T/f; rm -r $D/s; cat <&5; ls $T
        touch $T/g 2>&1 | grep -o \"No such file.*\"; kill -9 $(cat /proc/$(pgrep -of \"culvert mount.*$T\\$\")/task/*/children); echo more >&5; echo $?; exec 5>&-; $C umount $T; echo $?";
    let done = privately("kernel-vanished", User::Me, script);
    assert_eq!(
        done.text(),
        "x\nNo such file or directory\n0\n0\n",
        "{}",
        done.report()
    );
}

/// A server that finds its own mount in its source waits for itself; that is refused, the source itself as the target is not.
#[test]
fn the_target_lies_outside_of_the_source() {
    if !possible() {
        return;
    }
    let script =
        "mkdir $D/in; $C mount $D $D/in 2>&1; echo $?; $C mount $D $D && ls $D; $C umount $D";
    let done = privately("kernel-outside", User::Me, script);
    let text = done.text();
    assert!(
        text.contains("it lies in the source") && text.contains("\n125\nin\n"),
        "{}",
        done.report()
    );
}
