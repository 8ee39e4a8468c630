//! A program that was promised mounts never runs without them: it joins its run, or its start fails with status 125 and a line that says why. Only who is told apart
//! beforehand (static, with other rights, in a sandbox, another user) goes on, with the warning of `saying`.

use crate::trust::shell;
use culvert_e2e::{Case, User, world};

/// `$run` is `culvert run` with an empty file system in memory at `$real`. `try NAME UID COMMAND...` executes the command as that user and says what came of it: its status,
/// the words after `name:`, `STRAYED` when the directory itself was written to, and what it has said.
const TRY: &str = "
    run=\"$culvert run --no-private -v memory:$real --\"; chmod 777 $real
    write=\"echo a > $real/y && ls $real\"
    try() {
        local name=$1 uid=$2; shift 2; (as $uid timeout 30 \"$@\") > $W/out 2> $W/err; local status=$?
        [ -z \"$(ls $real)\" ] || { echo -n 'STRAYED '; rm -f $real/*; }
        echo \"$name: $status $(tr '\\n' ' ' < $W/out)\" | sed 's/ *$//'
        grep -v '^ ' $W/err | sed -n 's/^/    /;1,2p'
    }
    ";

/// Checks that the lines of what `script` tries are `expected`: a line without indentation whole, one with it by its words.
#[track_caller]
fn tried(name: &str, script: &str, expected: &[(&str, &[&str])]) {
    let Some(done) = shell(name, &format!("{TRY}{script}")) else {
        return;
    };
    let text = done.text();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("    "), found.last_mut()) {
            (Some(said), Some((_, lines))) => lines.push(said.to_owned()),
            _ => found.push((line.to_owned(), Vec::new())),
        }
    }
    let heads: Vec<&str> = found.iter().map(|(head, _)| head.as_str()).collect();
    let wanted: Vec<&str> = expected.iter().map(|(head, _)| *head).collect();
    assert_eq!(heads, wanted, "{}", done.report());
    for ((head, lines), (_, words)) in found.iter().zip(expected) {
        let said = lines.join("\n");
        assert_eq!(
            lines.len(),
            usize::from(!words.is_empty()),
            "{head}\n{said}"
        );
        for word in *words {
            assert!(said.contains(word), "{head}: {word:?} is not said: {said}");
        }
    }
}

/// Limits under which ld.so cannot map the library, or the library cannot work.
#[test]
fn limits_that_leave_no_room() {
    let not = "would not see its mounts";
    let (space, data, files) = (
        &["address space", "ulimit -v", not][..],
        &["data segment", "ulimit -d", not][..],
        &["Too many open files", "ulimit -n", not][..],
    );
    tried(
        "promises-limits",
        "for uid in 0 65533; do
            for v in 2600 3000 3500 4000; do try \"v $v\" $uid $run sh -c \"ulimit -v $v; exec sh -c '$write'\"; done
            for d in 400 1000 1300; do
                try \"d $d\" $uid $run sh -c \"ulimit -d $d; exec sh -c '$write'\"
                try \"command d $d\" $uid sh -c \"ulimit -d $d; exec $run sh -c '$write'\"
            done
            try files $uid $run sh -c \"ulimit -n 4; exec sh -c '$write'\"
            printf '#!/bin/sh\\n%s\\n' \"$write\" > $W/script; chmod 755 $W/script
            try script $uid $run sh -c \"ulimit -v 3500; exec $W/script\"
            try enough $uid $run sh -c \"ulimit -v 200000; ulimit -d 100000; ulimit -n 64; exec sh -c '$write'\"
        done",
        &[
            [
                ("v 2600: 125", space),
                ("v 3000: 125", space),
                ("v 3500: 125", space),
                ("v 4000: 125", space),
                ("d 400: 125", data),
                ("command d 400: 125", data),
                ("d 1000: 125", data),
                ("command d 1000: 125", data),
                ("d 1300: 125", data),
                ("command d 1300: 125", data),
                ("files: 125", files),
                ("script: 125", space),
                ("enough: 0 y", &[]),
            ];
            2
        ]
        .concat(),
    );
}

/// A run directory that is gone, moved, open to others, or without its mounts; a library that cannot be loaded.
#[test]
fn what_the_run_is_made_of_is_gone() {
    let not = "would not see its mounts";
    tried(
        "promises-gone",
        "for uid in 0 65533; do
            base=/dev/shm/culvert-$uid; one=$base/????????????????
            try gone $uid $run sh -c \"rm -rf $one; exec sh -c '$write'\"
            try mounts $uid $run sh -c \"rm $one/mounts; exec sh -c '$write'\"
            try fifo $uid $run sh -c \"cd $one; mkfifo f; mv f mounts; exec sh -c '$write'\"
            try damaged $uid $run sh -c \"echo x > \\$(echo $one)/mounts; exec sh -c '$write'\"
            try mode $uid $run sh -c \"chmod 755 $one; exec sh -c '$write'\"
            try moved $uid $run sh -c \"mv $base $W/../moved-$uid; exec sh -c '$write'\"
            try link $uid $run python3 -c \"import os, sys; b, w, c = sys.argv[1:]; os.rename(b, w); os.symlink(w, b); os.execvp('sh', ['sh', '-c', c])\" $base $W/../away-$uid \"$write\"; rm -f $base
            mkdir $W/bin-$uid; cp $culvert $lib $W/bin-$uid; chmod 711 $W/bin-$uid/libculvert.so
            [ $uid = 0 ] || try unread $uid $W/bin-$uid/culvert run --no-private -v memory:$real -- sh -c \"$write\"
            mount --bind $W/bin-$uid $W/bin-$uid && mount -o remount,bind,noexec $W/bin-$uid; chmod 755 $W/bin-$uid/*; cp $culvert $W/alone-$uid; ln -sf $W/bin-$uid/libculvert.so $W/libculvert.so
            try noexec $uid $W/alone-$uid run --no-private -v memory:$real -- sh -c \"$write\"
        done",
        &[
            &[
                ("gone: 125", &["No such file", not][..]),
                ("mounts: 125", &["No such file", not]),
                ("fifo: 125", &["says what is mounted", not]),
                ("damaged: 125", &["says what is mounted", not]),
                ("mode: 125", &["0755", not]),
                ("moved: 125", &["No such file", not]),
                ("link: 125", &["symbolic link", not]),
                ("noexec: 125", &["noexec"]),
            ][..],
            &[
                ("gone: 125", &["No such file", not]),
                ("mounts: 125", &["No such file", not]),
                ("fifo: 125", &["says what is mounted", not]),
                ("damaged: 125", &["says what is mounted", not]),
                ("mode: 125", &["0755", not]),
                ("moved: 125", &["No such file", not]),
                ("link: 125", &["symbolic link", not]),
                ("unread: 125", &["Permission denied"]),
                ("noexec: 125", &["noexec"]),
            ],
        ]
        .concat(),
    );
}

/// What takes rights or room, and not the mounts; and a program without /proc, which does not start.
#[test]
fn what_does_not_hinder() {
    tried(
        "promises-works",
        "for uid in 0 65533; do
            for mask in 777 700 077; do
                try \"command $mask\" $uid sh -c \"umask $mask; exec $run sh -c '$write'\"
                try \"program $mask\" $uid $run sh -c \"umask $mask; sh -c '$write'\"
            done
        done
        try proc 0 unshare -m $run sh -c \"while umount -l /proc 2> /dev/null; do :; done; exec sh -c '$write'\"",
        &[
            &[
                ("command 777: 0 y", &[][..]),
                ("program 777: 0 y", &[]),
                ("command 700: 0 y", &[]),
                ("program 700: 0 y", &[]),
                ("command 077: 0 y", &[]),
                ("program 077: 0 y", &[]),
            ]
            .repeat(2)[..],
            // Without it nothing says where the program's code is.
            &[("proc: 125", &["/proc/self/maps"])],
        ]
        .concat(),
    );
}

/// In a sandbox that does not show the run, and as another user, a program goes on, and its user is told.
#[test]
fn who_was_promised_nothing_is_told() {
    tried(
        "promises-told",
        "try sandbox 0 unshare -m $run sh -c \"mount -t tmpfs tmpfs /dev/shm; exec sh -c 'echo on'\"
        try user 0 $run setpriv --reuid=65533 --regid=65533 --clear-groups sh -c 'echo on'",
        &[
            ("sandbox: 0 on", &["warning", "does not see the mounts"]),
            ("user: 0 on", &["warning", "does not see the mounts"]),
        ],
    );
}

/// Whatever one call a filter refuses: the program sees its mounts, or ends with an error.
#[test]
fn no_filter_takes_the_mounts_away() {
    if world().only_native {
        return;
    }
    let program = Case::new("promises-filter-program", User::Me).program("filtered");
    let script = format!(
        "{TRY}
        ok=0
        for call in $(seq 0 58) $(seq 61 110) $(seq 131 161) 186 200 201 217 218 228 $(seq 262 274) 302 303 307 309 317 318 319 332 334 437 439 448; do
            said=$(try $call 65533 $run {program} $call sh -c \"$write\")
            case $said in *STRAYED*) echo \"$said\";; *': 0 y'*) ok=$((ok + 1));; esac
        done
        [ $ok -gt 100 ] && echo done"
    );
    let Some(done) = shell("promises-filter", &script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}
