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

/// `script` with `culvert` as a function, `$S` and `$T` the directories, in a mount namespace of
/// its own, as `user`, who may open the device.
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
    shell(&script!(
        "kernel_life/privately.sh",
        target,
        owned,
        source,
        culvert,
        acting,
        script
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
    let script = script!(
        "kernel_life/the_load_goes_on_without_privilege.sh",
        cargo_manifest_dir = env!("CARGO_MANIFEST_DIR")
    );
    let done = privately("kernel-again-user", User::Nobody, &script);
    assert_eq!(done.text(), "nothing failed\n", "{}", done.report());
}

/// Killed by the moment it would have answered, one answer after the other: what was carried out is
/// not done twice.
#[test]
fn a_request_that_was_carried_out_is_not_done_again() {
    if !possible() || !installed("strace") {
        return;
    }
    let program =
        script!("kernel_life/a_request_that_was_carried_out_is_not_done_again-program.py");
    for driven in [false, true] {
        let words: &[&str] = if driven { &["-o", "driven"] } else { &[] };
        let mount = kept(&format!("kernel-once-{driven}"), words);
        let (target, keeper) = (mount.text("target"), keeper(&mount));
        let mut killed = 0;
        for number in 1..=16 {
            let done = shell(&script!(
                "kernel_life/a_request_that_was_carried_out_is_not_done_again.sh",
                target,
                keeper,
                number,
                program
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
    let done = shell(&script!(
        "kernel_life/an_idle_server_is_started_again_however_often.sh",
        target,
        keeper
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
    let script = script!("kernel_life/mount_and_fstab.sh");
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
    let program = script!("kernel_life/a_service_manager_is_told-program.py");
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
    let script = script!("kernel_life/messages_go_where_they_are_told.sh");
    let done = privately("kernel-log", User::Me, script);
    assert_eq!(done.text(), "1\nculvert culvert:\n1\n", "{}", done.report());
}

/// The list says what is mounted and what was asked; who uses a mount is named.
#[test]
fn mounts_are_listed() {
    if !possible() {
        return;
    }
    let script = script!("kernel_life/mounts_are_listed.sh");
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
    let script = script!("kernel_life/in_a_user_namespace.sh");
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

/// The source goes away while it is mounted: what is open stays, names are gone, and the mount can
/// be ended.
#[test]
fn the_source_vanishes() {
    if !possible() {
        return;
    }
    let script = script!("kernel_life/the_source_vanishes.sh");
    let done = privately("kernel-vanished", User::Me, script);
    assert_eq!(
        done.text(),
        "x\nNo such file or directory\n0\n0\n",
        "{}",
        done.report()
    );
}

/// A server that finds its own mount in its source waits for itself; that is refused, the source
/// itself as the target is not.
#[test]
fn the_target_lies_outside_of_the_source() {
    if !possible() {
        return;
    }
    let script = script!("kernel_life/the_target_lies_outside_of_the_source.sh");
    let done = privately("kernel-outside", User::Me, script);
    let text = done.text();
    assert!(
        text.contains("it lies in the source") && text.contains("\n125\nin\n"),
        "{}",
        done.report()
    );
}
