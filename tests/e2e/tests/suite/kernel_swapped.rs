//! Kernel mounts whose path has come to lead elsewhere: only the mount itself is ever ended or changed.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, world};

/// Somebody who may rename a directory above a mount puts a link in its place, which leads to another
/// mount of the same user. `SERVERS`: the processes of the first one, the oldest first.
const ATTACK: &str = r#"
seen() { for m in "$@"; do grep -c " $W/$m " /proc/self/mountinfo; done | tr "\n" " "; }
try() {
  mkdir -p theirs/m a/d/m
  $CULVERT mount $PWD/s1 $PWD/theirs/m && $CULVERT mount $1 $PWD/s2 $PWD/a/d/m || exit 1
  SERVERS=$(pgrep -f "mount $1 *$PWD/s2" | tr "\n" " "); oldest=${SERVERS%% *}; set -- "$1" "$2" $SERVERS; newest=${!#}
  mv a/d a/old; ln -s ../theirs a/d
  eval "$2"
  for i in $(seq 500); do grep -q " $W/a/old/m " /proc/self/mountinfo || break; sleep .01; done
  seen theirs/m a/old/m; echo
  for m in theirs/m a/old/m; do $CULVERT umount --lazy $m 2>/dev/null; done; rm -rf a theirs
}
cd $W; mkdir s1 s2
try "-o valid=1" "kill -TERM \$newest"
try "--restart" "kill -TERM \$oldest"
try "--restart" "kill -STOP \$newest; kill -TERM \$oldest; kill -KILL \$newest"
try "-o valid=1" "\$CULVERT umount \$PWD/a/old/m"
"#;

#[test]
fn what_has_come_to_lie_on_the_path_is_not_unmounted() {
    if !possible() || !installed("pgrep") {
        return;
    }
    let expected = "1 0 \n".repeat(4);
    let users = match installed("fusermount3") {
        true => &[0, 65534][..],
        false => &[0],
    };
    for user in users {
        let place = Mounted::place(&format!("kernel-swapped-{user}"));
        let there = place.text("source");
        let culvert = world().culvert.display();
        // A device that others may open, for this mount namespace alone.
        let script = format!(
            "mknod {there}/fuse c 10 229; chmod 666 {there}/fuse; mount --bind {there}/fuse /dev/fuse || exit 1
             mkdir {there}/w; chown {user}:{user} {there}/w; export W={there}/w CULVERT={culvert}
             exec setpriv --reuid={user} --regid={user} --clear-groups -- bash -c \"$0\""
        );
        let done = shell(&format!(
            "exec unshare -m bash -c '{script}' '{}'",
            ATTACK.replace('\'', "'\\''")
        ));
        assert_eq!(done.text(), expected, "user {user} {}", done.report());
    }
}

/// A target whose path has become one through a link since it was checked is not mounted on, and what is
/// mounted again at the path of a mount is another one.
#[test]
fn a_mount_is_known_by_its_number() {
    if !possible() {
        return;
    }
    let mount = Mounted::new("kernel-numbered", &[]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let culvert = world().culvert.display();
    let server = mount.server();
    // Below another one it is neither ended by its server nor is that one.
    let done = shell(&format!(
        "{culvert} mount {source} {target} 2>&1 | grep -c already
         mount -t tmpfs above {target} && kill -TERM {server}
         for i in $(seq 500); do [ -e /proc/{server} ] || break; sleep .01; done
         grep -c \" {target} .* above \" /proc/self/mountinfo; umount {target}"
    ));
    assert_eq!(done.text(), "1\n1\n", "{}", done.report());
}
