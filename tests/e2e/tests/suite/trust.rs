//! Two users who would like to decide what the other one's programs see: a run directory is believed only where its user alone can have filled it.

use culvert_e2e::{Case, Finished, User, installed, not_tested, world};

/// A script as root in a mount namespace of its own, with an empty /dev/shm. In it `$culvert` is the command and `$lib` its library; `as UID COMMAND...` runs
/// it as that user; `$real` is an empty directory and `$evil` one with the file `f`, both open to all; `$look` is a program that shows what is in `$real`; `forged DIRECTORY` fills a directory
/// of the user 65534 as a run directory that shows `$evil` at `$real`.
pub fn shell(name: &str, script: &str) -> Option<Finished> {
    if !world().is_root() || world().only_native || !installed("setpriv") {
        not_tested("other users: the tests do not run as root");
        return None;
    }
    let case = Case::new(name, User::Me);
    let culvert = world().culvert.display();
    let all = format!(
        "set -u; mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 77
         culvert={culvert} lib={} W=/dev/shm/work; mkdir -m 755 $W; real=$W/real evil=$W/evil; mkdir $real $evil; chmod 755 $real $evil; cd /
         echo evil > $evil/f; look=$W/look
         printf '#!/bin/sh\ncat %s/f 2> /dev/null || echo real\n' $real > $look; chmod 755 $look
         unset CULVERT_RUN XDG_RUNTIME_DIR
         as() {{ local uid=$1; shift; setpriv --reuid=$uid --regid=$uid --clear-groups -- \"$@\"; }}
         forged() {{ as 65534 mkdir -m ${{2-755}} -p $1; as 65534 $culvert run --no-private -v $evil:$real -- sh -c \"cp /dev/shm/culvert-65534/*/mounts $1; chmod 644 $1/mounts\"; }}
         {script}",
        world().culvert.with_file_name("libculvert.so").display()
    );
    let done = case.natively(&["unshare", "-m", "bash", "-c", &all]);
    if done.status == "exit 77" {
        not_tested("no mount namespace");
        return None;
    }
    Some(done)
}

/// What `CULVERT_RUN` names is another user's, open to all or not, a link, a FIFO or has one: it is ignored and said in one line, by root and by a user, and
/// nobody waits. With a library that is loaded by hand nothing changes either.
#[test]
fn a_run_of_another_user_is_ignored() {
    let script = "
        forged /dev/shm/open 755; forged /dev/shm/closed 700; ln -s /dev/shm/open /dev/shm/link
        as 65534 mkfifo -m 666 /dev/shm/fifo; as 65534 mkdir -m 755 /dev/shm/fifos; as 65534 mkfifo -m 666 /dev/shm/fifos/mounts
        for uid in 0 65533; do
            as $uid mkdir -m 700 /dev/shm/own-$uid; as $uid mkfifo /dev/shm/own-$uid/mounts
            for run in open closed link fifo fifos own-$uid; do
                for way in run library doctor; do
                    export CULVERT_RUN=/dev/shm/$run:-1:0
                    case $way in
                        run) as $uid timeout 20 $culvert run --no-private -v $evil:$W/none -- $look;;
                        library) as $uid env LD_AUDIT=$lib timeout 20 $look;;
                        doctor) as $uid timeout 20 $culvert doctor > /dev/null; [ $? != 124 ] && echo real;;
                    esac > $W/out 2> $W/err
                    [ \"$(cat $W/out)\" = real ] || echo \"$uid $run $way: $(cat $W/out $W/err)\"
                    [ $way = library ] || [ $(grep -c 'CULVERT_RUN names /dev/shm/.*not trusted.*ignored' $W/err) = 1 ] || echo \"$uid $run $way is not told: $(cat $W/err)\"
                    unset CULVERT_RUN
                done
            done
        done
        echo done";
    let Some(done) = shell("trust-foreign", script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}

/// The run of the user's own is found by no other way than its own: a link to it, or a directory on the way that is one, could lead elsewhere later.
#[test]
fn no_link_leads_to_a_run() {
    let script = "
        as 65534 ln -s /dev/shm/culvert-65533 /dev/shm/way
        inside='base=/dev/shm/culvert-65533; id=$(ls $base | grep -v sites); export LD_AUDIT=$1
            for run in $base/$id /dev/shm/way/$id; do env CULVERT_RUN=$run:-1:0 $2; done'
        mkfifo -m 666 $W/end
        as 65533 $culvert run --no-private -v $evil:$real -- sh -c \"read line < $W/end\" &
        until [ -e /dev/shm/culvert-65533/*/mounts ]; do :; done
        as 65533 bash -c \"$inside\" bash $lib $look; echo > $W/end; wait";
    let Some(done) = shell("trust-links", script) else {
        return;
    };
    assert_eq!(done.text(), "evil\nreal\n", "{}", done.report());
}

/// In a user namespace that does not map them all users have one number. The own run goes on, another's is none.
#[test]
fn a_user_who_is_not_mapped_owns_nothing_by_number() {
    let script = "
        unshare -U true || exit 77
        forged /dev/shm/open 711
        as 65533 unshare -U env LD_AUDIT=$lib CULVERT_RUN=/dev/shm/open:-1:0 $look
        as 65533 unshare -U env CULVERT_RUN=/dev/shm/open:-1:0 $culvert run --no-private -v $evil:$W/none -- $look
        as 65533 $culvert run --no-private -v $evil:$real -- unshare -U $look
        as 65533 $culvert run --no-private -v $evil:$real -- unshare -Ur $look";
    let Some(done) = shell("trust-namespace", script) else {
        return;
    };
    assert_eq!(done.text(), "real\nreal\nevil\nevil\n", "{}", done.report());
}

/// A program that gets other rights is not told of the run: not by the command, not by a program in it, not by a variable that somebody puts there.
#[test]
fn programs_with_other_rights_are_not_told_of_the_run() {
    let script = "
        for kind in user group static unread caps; do cp $(command -v env) $W/$kind; done
        command -v busybox > /dev/null && file -L $(command -v busybox) 2>/dev/null | grep -q static && cp $(command -v busybox) $W/static
        chmod 4755 $W/user $W/static; chgrp 2 $W/group; chmod 2755 $W/group; chmod 4711 $W/unread
        setcap cap_net_raw+ep $W/caps 2>/dev/null || rm $W/caps
        cp $(command -v env) $W/plain
        for kind in user group static unread caps; do
            [ -e $W/$kind ] || continue
            env=$W/$kind; [ $kind != static ] || cmp -s $W/static $W/plain || env=\"$W/static env\"
            as 65533 $culvert run --no-private -v $evil:$real -- $env 2>/dev/null
            as 65533 $culvert run --no-private -v $evil:$real -- bash -c \"$env; CULVERT_RUN=/x:-1:0 $env\"
            as 65533 env CULVERT_RUN=/dev/shm/gone:-1:0 $culvert run --no-private -v $evil:$real -- $env 2>/dev/null
        done 2>&1 | grep -a 'CULVERT\\|LD_AUDIT'
        echo done";
    let Some(done) = shell("trust-privileged", script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}

/// Who makes the name of another user's base first, as a directory, link, file or FIFO, keeps nobody out: that user finds another one, and finds it again.
#[test]
fn a_base_that_is_taken_keeps_nobody_out() {
    let script = "
        for uid in 0 65533; do
            for kind in mkdir link file fifo; do
                name=/dev/shm/culvert-$uid; rm -rf $name $name.*
                case $kind in
                    mkdir) as 65534 mkdir -m 777 $name; as 65534 mkdir -m 700 $name.0123456789abcdef;;
                    link) as 65534 ln -s $evil $name; as 65534 ln -s /etc $name.0123456789abcdef;;
                    file) as 65534 touch $name;;
                    fifo) as 65534 mkfifo -m 666 $name;;
                esac
                for time in 1 2; do as $uid timeout 20 $culvert run --no-private -v $evil:$real -- $look; done
                found=$(find /dev/shm -maxdepth 1 -name \"culvert-$uid.*\" -uid $uid -perm 700 | wc -l)
                echo $uid $kind $found $(find $evil $name/ -mindepth 1 ! -name f 2>/dev/null)
            done
        done";
    let Some(done) = shell("trust-taken", script) else {
        return;
    };
    let mut expected = String::new();
    for uid in ["0", "65533"] {
        for kind in ["mkdir", "link", "file", "fifo"] {
            expected += &format!("evil\nevil\n{uid} {kind} 1\n");
        }
    }
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// Root uses no XDG_RUNTIME_DIR that is another user's, or that another user could put another directory in the place of; its own it does.
#[test]
fn root_uses_no_foreign_runtime_directory() {
    let script = "
        mount -t tmpfs tmpfs /mnt; chmod 755 /mnt; mkdir /mnt/work; mount --move /dev/shm /mnt/work 2>/dev/null || mount --bind /dev/shm /mnt/work
        W=/mnt/work/work real=/mnt/work/work/real evil=/mnt/work/work/evil look=/mnt/work/work/look; sed -i s:/dev/shm:/mnt/work: $look; mount -t tmpfs -o ro tmpfs /dev/shm
        mkdir -m 755 /mnt/theirs /mnt/ours /mnt/theirs/ours; chown 65534 /mnt/theirs; chmod 700 /mnt/theirs /mnt/ours /mnt/theirs/ours
        for run in theirs theirs/ours ours; do
            XDG_RUNTIME_DIR=/mnt/$run timeout 20 $culvert run --no-private -v $evil:$real -- $look; echo $run $(ls /mnt/$run)
        done";
    let Some(done) = shell("trust-runtime", script) else {
        return;
    };
    let expected = "evil\ntheirs ours\nevil\ntheirs/ours\nevil\nours culvert\n";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A descriptor that another user sends, of a file of his that has the path of a shadow in his mount namespace, stands for no file of the run.
#[test]
fn a_path_that_another_user_made_stands_for_nothing() {
    let script = format!(
        "cp {} $W/sends; chmod 755 $W/sends
         inside=\"umask 077; echo secret > $real/f; sh -c 'cd /dev/shm/culvert-0; ls */shadows' < $real/f > $W/name; $W/sends listen $W/socket; cat $real/f\"
         for way in file path fifo; do
             rm -f $W/socket $W/name /dev/shm/of-mine
             timeout 60 $culvert run --no-private -v memory:$real -- bash -c \"$inside\" &
             until [ -S $W/socket ] || ! kill -0 $! 2>/dev/null; do :; done
             as 65533 $W/sends send /dev/shm/culvert-0/x/shadows/$(cat $W/name) $W/socket $way
             wait $!; echo $way $?
         done",
        world().program("borrowed").display()
    );
    let Some(done) = shell("trust-sent", &script) else {
        return;
    };
    let own = |way| format!("of user 65533: written\nsecret\n{way} 0\n");
    let expected = [own("file"), own("path"), own("fifo")].concat();
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A process that has become another user cannot end root's run: it gives up the lock that all of them share, and the next run sweeps nothing that is used.
#[test]
fn another_user_cannot_give_up_the_lock_of_the_run() {
    let script = format!(
        "cp {} $W/borrowed; chmod 755 $W/borrowed
         $culvert run --no-private -v memory:$real -- bash -c \"echo kept > $real/f
             setpriv --reuid=65533 --regid=65533 --clear-groups $W/borrowed unlock 2> /dev/null
             env -i $culvert run true; cat $real/f; ls /dev/shm/culvert-0 | grep -vc sites\"
         $culvert run true; ls /dev/shm/culvert-0 | grep -vc sites",
        world().program("borrowed-static").display()
    );
    let Some(done) = shell("trust-unlocked", &script) else {
        return;
    };
    // The run itself and the one inside; then the last alone.
    assert_eq!(done.text(), "kept\n2\n1\n", "{}", done.report());
}
