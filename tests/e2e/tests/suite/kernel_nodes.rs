//! Nodes of kernel mounts that have no descriptor for the time being: more of them than descriptors, on several file systems, for mapped users.

use crate::{kernel_life::privately, kernel_mount::possible};
use culvert_e2e::{User, not_tested};

/// A source with other file systems mounted below: those have no handles that could be opened by the root's mount, so what is closed is found by its name.
const BELOW: &str = r#"
mount -t tmpfs none $S; mkdir $S/a $S/b $S/c; for m in a b c; do mount -t tmpfs none $S/$m; done
python3 -c "
import os, sys
for place in (\"\", \"a/\", \"b/\"):
    for d in range(3):
        os.mkdir(sys.argv[1] + \"/\" + place + \"d%d\" % d)
        for f in range(500):
            with open(sys.argv[1] + \"/\" + place + \"d%d/f%d\" % (d, f), \"w\") as file: file.write(place + str(d))" $S
ulimit -n 1024; $C mount $S $T || exit 1
# Opens so many files that all others are closed.
push() { for i in 1 2; do find $* -type f -exec cat {} + > /dev/null; done; }
all() { find $T -printf "$1\n" | sort; }
echo $(all %i | uniq -d | wc -l) $(all %D | uniq | wc -l) $(all x | wc -l)
# Somebody is in a directory that is moved, and above which another is: what is closed meanwhile is found there.
cd $T/a/d0; exec 5< $T/a/d1; stat -c %i . f7 > $D/before
mkdir $T/a/new; mv $T/a/d0 $T/a/new/in; mv $T/a/new $T/a/newer; mv $T/a/d1 $T/a/d9
push $T/b $T/d*; cat f8 /proc/self/fd/5/f9; stat -c %i . f7 | cmp - $D/before
echo more > made; exec 6< $T/a/newer/in/made; mv made f8; ln f8 second; rm f8; push $T/b $T/d*; stat -L -c %h /proc/self/fd/6; cat second; 
python3 -c "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
there = [os.open(sys.argv[1] + \"/b/d%d\" % d, os.O_PATH) for d in (0, 1)]
if libc.renameat2(-100, (sys.argv[1] + \"/b/d0\").encode(), -100, (sys.argv[1] + \"/b/d1\").encode(), 2): print(os.strerror(ctypes.get_errno()))
os.system(\"for i in 1 2; do find \" + sys.argv[1] + \"/a \" + sys.argv[1] + \"/d? -type f -exec cat {} + > /dev/null; done\")
for d in there: print(open(os.open(\"f20\", os.O_RDONLY, dir_fd=d)).read())" $T
cat $T/b/d0/f30; echo
# Between the file systems there are no links, and what is moved is copied.
ln $T/a/d9/f1 $T/b/link 2>&1 | grep -o "cross-device.*"; ln $T/a/d9/f1 $T/link 2>&1 | grep -o "cross-device.*"
python3 -c "import os, sys; os.rename(sys.argv[1] + \"/a/d9/f1\", sys.argv[1] + \"/f1\")" $T 2>&1 | grep -o "Errno 18"
mv $T/a/d9 $T/c/copied; cat $T/c/copied/f1; ls $T/c/copied | wc -l; rmdir $T/c 2>&1 | grep -o "busy"; rm -r $T/b/*; ls $T/b
# One that is mounted later is seen, and so is what it has covered.
mkdir $T/late; mount -t tmpfs none $S/late; echo late > $S/late/file
for i in $(seq 500); do cat $T/late/file 2> /dev/null && break; sleep 0.1; done
umount -l $S/late; for i in $(seq 500); do [ -e $T/late/file ] || break; sleep 0.1; done; ls $T/late
cd /; exec 5<&- 6<&-; server=$(pgrep -f "culvert mount.*$T$"); $C umount $T && tail --pid=$server -f /dev/null && umount $S/a && umount $S/b && echo free
"#;

#[test]
fn file_systems_below_the_source() {
    if !possible() {
        return;
    }
    let done = privately("kernel-below", User::Me, BELOW);
    let expected = "0 1 4513
a/0a/11
more
b/0
b/1
b/1
cross-device link
cross-device link
Errno 18
a/1500
busy
late
free
";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// With mapped users the kernel judges who may, and the server makes what they make as theirs, with more rights than they have. Having opened a directory again
/// it still has them.
#[test]
fn mapped_users_make_files_in_directories_that_were_closed() {
    if !possible() {
        return;
    }
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    // By a group that the caller has besides, of which the server is not told.
    let script = format!(
        "mkdir $S/d{{1..1500}} $D/again; chown 0:0 $S/d*; chmod 775 $S/d*
         ulimit -n 1024; $C mount --allow-other --with idmap $S $T || exit 1
         python3 {program} $T $D/again || exit 77; cd $D/again; ls d* > /dev/null
         setpriv --reuid=1000 --regid=1000 --groups 0 bash -c \"for i in {{1..1500}}; do : > d\\$i/made || exit; done\" 2>&1 | grep -o \"denied\"
         stat -c \"%u %g\" d*/made | uniq -c | tr -s \" \"; cd /; umount $D/again; $C umount $T"
    );
    let done = privately("kernel-mapped-closed", User::Me, &script);
    match done.status.as_str() {
        "exit 77" => not_tested("no idmapped mounts here"),
        _ => assert_eq!(done.text(), " 1500 1000 1000\n", "{}", done.report()),
    }
}

/// After a load, once nobody asks for anything, the server holds little memory, and sleeps.
#[test]
fn an_idle_server_is_small_and_sleeps() {
    if !possible() {
        return;
    }
    // Of memory that is the server's; what it has read of the command itself is everybody's. Switches of its threads: those of any kind.
    let script = "
        server() { pgrep -f \"culvert mount.*$T$\"; }
        resident() { awk \"/VmRSS/ { print \\$2 }\" /proc/$(server)/status; }
        switches() { cat /proc/$(server)/task/*/status | awk \"/ctxt_switches/ { all += \\$2 } END { print all }\"; }
        $C mount $WORDS $S $T || exit 1
        python3 -c \"
import os, sys
os.chdir(sys.argv[1])
for i in range(2000):
    os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))
for i in range(2000):
    os.chmod(str(i), 0o600)
for i in range(1000):
    with open(str(i), \\\"wb\\\") as file: file.write(bytes(4096))
    with open(str(i), \\\"rb\\\") as file: file.read()
with open(\\\"large\\\", \\\"wb\\\") as file:
    for i in range(16): file.write(bytes(1 << 20))
with open(\\\"large\\\", \\\"rb\\\") as file:
    while file.read(1 << 20): pass
for name in os.listdir():
    os.remove(name)\" $T
        mount -i -o remount $T
        for i in $(seq 300); do [ $(resident) -lt 10000 ] && break; sleep 0.1; done
        [ $(resident) -lt 10000 ] && echo small || resident
        for i in $(seq 30); do before=$(switches); sleep 1; [ $before = $(switches) ] && break; done; [ $i -lt 30 ] && echo sleeps
        $C umount $T";
    for (name, words) in [("backed", ""), ("cached", "--without passthrough")] {
        let script = format!("WORDS=\"{words}\"\n{script}");
        let done = privately(&format!("kernel-idle-{name}"), User::Me, &script);
        assert_eq!(done.text(), "small\nsleeps\n", "{name} {}", done.report());
    }
}
