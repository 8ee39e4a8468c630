//! `bind`, beside bindfs behind the kernel: the same random operations, option by option.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{installed, world};

/// Who mounts, who works on the mount, and what is compared: mounts of bindfs's (`original`) and
/// ours (`mount`), and runs of ours (`run`).
#[derive(Clone, Copy)]
pub struct Who {
    ways: &'static str,
    users: &'static str,
    mounter: u32,
}

/// Root alone, and three users in turn.
const USERS: &str = r#"0 "0 1 65534""#;
const EVERYWHERE: Who = Who {
    ways: "original run mount",
    users: USERS,
    mounter: 0,
};
const MOUNTS: Who = Who {
    ways: "original mount",
    ..EVERYWHERE
};
/// An ordinary user, with what he has mounted himself.
const HIS_OWN: Who = Who {
    users: "65534",
    mounter: 65534,
    ..EVERYWHERE
};

/// What bindfs gives by its options `original`, by the same random operations.
fn compared(name: &str, who: Who, options: &str, original: &str) {
    let place = Mounted::place(&format!("bind-{name}"));
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/bind_random.py");
    let (culvert, steps) = (world().culvert.display(), 250);
    let place = place.text("");
    let Who {
        ways,
        users,
        mounter,
    } = who;
    let script = script!(
        "bind/beside.sh",
        place,
        program,
        culvert,
        options,
        original,
        ways,
        users,
        steps,
        mounter
    );
    let done = shell(&script);
    assert_eq!(done.text(), "compared\n", "{options}\n{}", done.report());
}

/// The same by the same options, each in turn.
fn beside(name: &str, who: Who, all: &[&str]) {
    if !possible() || !installed("bindfs") {
        return;
    }
    for options in all {
        compared(name, who, options, options);
    }
}

#[test]
fn owners_and_modes() {
    beside(
        "shown",
        EVERYWHERE,
        &[
            "force-user=65534",
            "force-group=65534",
            "force-user=1,force-group=1,perms=0644:a+X",
            "perms=a-w",
            "perms=u=rwX:g=rD:o=",
            "perms=gd-w:of+w:g=u",
            "hide-hard-links",
            "ctime-from-mtime",
        ],
    );
}

#[test]
fn mirrors() {
    beside(
        "mirror",
        EVERYWHERE,
        &[
            "mirror=65534:1",
            "mirror-only=65534",
            "mirror=@daemon,perms=0600:u+X",
        ],
    );
}

#[test]
fn numbers() {
    beside(
        "numbers",
        MOUNTS,
        &[
            "map=0/65534:@0/@65534",
            "map=1/65534:65534/1:@1/@65534:@65534/@1",
        ],
    );
    // What root makes would be user -1's, where bindfs makes it all the same, or says that it did
    // not.
    beside(
        "offsets",
        Who {
            users: r#""1 65534""#,
            ..MOUNTS
        },
        &["uid-offset=1,gid-offset=1"],
    );
}

/// Users by files like passwd(5): what has their numbers there is theirs here, and the other way
/// round, which Debian's bindfs has no word for.
#[test]
fn numbers_of_files() {
    if !possible() || !installed("bindfs") {
        return;
    }
    let users = "# old\ndaemon:x:0:1::/:/bin/sh\nroot:x:65534:0::/:/bin/sh\nnobody:x:1:1::/:\n\
                 no-such-user-here:x:7:7::/:\n";
    let groups = "root:x:65534:\nnogroup:x:0:root\n";
    for (suffix, original) in [
        ("", "map-passwd={},map-group={}"),
        ("-rev", "map=1/0:0/65534:65534/1:@0/@65534:@65534/@0"),
    ] {
        let name = format!("files{suffix}");
        let place = Mounted::place(&format!("bind-{name}-of"));
        let files = [("passwd", users), ("group", groups)].map(|(name, text)| {
            let path = place.text(name);
            std::fs::write(&path, text).expect("the place is ours");
            path
        });
        let [passwd, group] = files;
        let original = original.replacen("{}", &passwd, 1).replace("{}", &group);
        let ours = format!("map-passwd{suffix}={passwd},map-group{suffix}={group}");
        compared(&name, MOUNTS, &ours, &original);
    }
}

/// An ordinary user's own mount and run, beside bindfs that he has mounted.
#[test]
fn an_ordinary_users_own() {
    beside(
        "own",
        HIS_OWN,
        &[
            "chown-normal,chgrp-normal,chmod-normal,xattr-rw",
            "realistic-permissions",
            "realistic-permissions,perms=a+rwX",
            "force-user=1,perms=u=rwX:g=rD:o=",
            "mirror=65534:1,perms=0600:u+X",
            "chmod-filter=g-w:o-rwx,chown-ignore",
            "ro",
        ],
    );
}

#[test]
fn what_is_made() {
    beside(
        "made",
        EVERYWHERE,
        &["create-with-perms=0640:ud+x", "create-with-perms=o=u:g+w"],
    );
    beside(
        "given",
        MOUNTS,
        &[
            "create-as-user",
            "create-as-mounter",
            "create-for-user=1,create-for-group=1",
            "create-as-mounter,create-for-group=65534",
        ],
    );
}

#[test]
fn chown_and_chgrp() {
    beside(
        "chown",
        EVERYWHERE,
        &[
            "chown-ignore",
            "chown-deny",
            "chgrp-ignore",
            "chgrp-deny",
            "chown-ignore,chgrp-deny",
        ],
    );
}

#[test]
fn chmod() {
    beside(
        "chmod",
        EVERYWHERE,
        &[
            "chmod-ignore",
            "chmod-deny",
            "chmod-filter=g-w:o-rwx",
            "chmod-filter=fa-x:u+D",
            "chmod-ignore,chmod-allow-x",
            "chmod-deny,chmod-allow-x",
        ],
    );
}

#[test]
fn other_changes() {
    beside(
        "other",
        EVERYWHERE,
        &[
            "multithreaded",
            "delete-deny",
            "rename-deny",
            "xattr-none",
            "xattr-ro",
            "delete-deny,rename-deny,perms=o-w",
            "disable-lock-forwarding,ro",
        ],
    );
}

/// Links that are shown as files, and what is left when they are removed.
#[test]
fn resolved_links() {
    if !possible() || !installed("bindfs") {
        return;
    }
    for policy in ["", "deny", "symlink-only", "symlink-first", "target-first"] {
        let place = Mounted::place("bind-links");
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/bind_links.sh");
        let culvert = world().culvert.display();
        let options = match policy {
            "" => String::new(),
            policy => format!(",resolved-symlink-deletion={policy}"),
        };
        let place = place.text("");
        let script = script!("bind/links.sh", place, program, culvert, options);
        let done = shell(&script);
        assert_eq!(done.text(), "compared\n", "{policy}\n{}", done.report());
    }
}

/// Who may change links in the source gets nothing by it from a server of root's.
#[test]
fn links_that_others_swap_lead_nowhere_else() {
    if !possible() {
        return;
    }
    let place = Mounted::place("bind-swapped");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/bind_swapped.py");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("bind/swapped.sh", place, culvert, program));
    assert_eq!(done.text(), "0 some\n", "{}", done.report());
}

/// The same of what is changed, made and removed, by each policy; and of the layers over
/// directories that others may change.
#[test]
fn links_that_others_swap_change_nothing_outside() {
    if !possible() {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/swapped.py");
    let culvert = world().culvert.display();
    let resolving =
        |policy: &str| format!("perms=a+rwX,resolve-symlinks,resolved-symlink-deletion={policy}");
    for (name, kind, options) in [
        ("bind", "bind", "perms=a+rwX,create-as-user".to_owned()),
        ("deny", "bind", resolving("deny")),
        ("only", "bind", resolving("symlink-only")),
        ("first", "bind", resolving("symlink-first")),
        ("target", "bind", resolving("target-first")),
        (
            "sdcard",
            "sdcard",
            "view=write,fullwrite,uid=65534,gid=65534".to_owned(),
        ),
        ("casefold", "passthrough", "layer=casefold".to_owned()),
    ] {
        let place = Mounted::place(&format!("swapped-{name}"));
        let place = place.text("");
        let script = script!(
            "bind/swapped_changes.sh",
            place,
            culvert,
            program,
            kind,
            options
        );
        let done = shell(&script);
        assert_eq!(
            done.text(),
            "0 some unchanged\n",
            "{name}: {}",
            done.report()
        );
    }
}

/// One user after the other, on one kernel mount: each sees his own.
#[test]
fn each_user_sees_his_own() {
    if !possible() {
        return;
    }
    let place = Mounted::place("bind-users");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("bind/users.sh", place, culvert));
    let mirrored = "1 400\n65534 400\n0 400\n1 400\n0 400\n0 400\n";
    let expected = format!("{mirrored}1 400\nrefused\n1 400\n");
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// What a run cannot do is said before the program starts.
#[test]
fn a_run_says_what_takes_roots_rights() {
    let place = Mounted::place("bind-refused");
    let (source, target) = (place.text("source"), place.text("target"));
    let mount = format!("type=bind,source={source},target={target},map=1/2");
    let done = culvert(&["run", "--mount", &mount, "--", "echo", "started"]);
    assert_eq!(done.status, "exit 125", "{}", done.report());
    assert!(
        done.report().contains("option map: it needs root's rights"),
        "{}",
        done.report()
    );
}

/// Two processes of a run share one rate: together they wait as long as all bytes take.
#[test]
fn a_rate_is_of_all_processes_together() {
    let place = Mounted::place("bind-rate");
    let (source, target) = (place.text("source"), place.text("target"));
    std::fs::write(format!("{source}/file"), [b'x'; 100 << 10]).expect("the source is ours");
    let mount = format!("type=bind,source={source},target={target},read-rate=100k");
    let script = format!("cat {target}/file > /dev/null & cat {target}/file | wc -c; wait");
    let began = std::time::Instant::now();
    let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
    assert_eq!(done.text(), "102400\n", "{}", done.report());
    assert!(
        began.elapsed().as_millis() >= 1_900,
        "{:?}",
        began.elapsed()
    );
}

/// What a user is shown is not what another was, at the same time: views that depend on who asks.
#[test]
fn user_b_after_user_a() {
    if !possible() || !installed("bindfs") {
        return;
    }
    let place = Mounted::place("bind-after");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("bind/after.sh", place, culvert));
    assert_eq!(done.text(), "compared\n", "{}", done.report());
}

/// Each option of Debian's bindfs stands in the table, and is one of the layer's but for those of
/// its command.
#[test]
fn the_table_says_something_of_each_option_of_bindfs() {
    if !installed("bindfs") {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drivers/bind.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let known = crate::kernel_mount::culvert(&["drivers", "bind"]);
    let help = shell("bindfs --help | grep -oE -- '--[a-z][a-z-]+' | sort -u")
        .text()
        .to_owned();
    let of_command = ["help", "version", "fuse-version"];
    let mut count = 0;
    for option in help.lines().map(|line| line.trim_start_matches('-')) {
        let stands = culvert_e2e::stands_in(&page, option);
        assert!(stands, "{option} is not in the table");
        let is_ours = known.text().contains(option);
        assert!(
            is_ours || of_command.contains(&option),
            "{option} is unknown"
        );
        count += 1;
    }
    assert!(count > 40, "{help}");
    let stands = culvert_e2e::stands_in(&page, "no-such-option-at-all");
    assert!(!stands, "the table names everything");
}
