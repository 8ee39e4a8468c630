//! The layer `fault` over mounts, as programs meet it.

use crate::bad_input::refused;
use culvert_e2e::{Case, Driver, Finished, User, world};

fn case(name: &str, options: &str) -> Case {
    Case::new(&format!("fault::{name}"), User::Me).options(format!("layer=fault,{options}"))
}

/// Runs a script on the archive `odd` (see its tree) under `rules`.
fn under(name: &str, options: &str, script: &str) -> Option<Finished> {
    if world().only_native {
        return None;
    }
    let done = case(name, options)
        .odd()
        .through_culvert(&["bash", "-c", script]);
    Some(done)
}

#[track_caller]
fn says(done: Option<Finished>, want: &str) {
    if let Some(done) = done {
        let all = format!("{}{}", done.text(), done.errors());
        assert_eq!(all, want, "{}", done.report());
    }
}

#[test]
fn a_bad_sector_is_what_programs_know_of_bad_disks() {
    let script = "exec 2>&1; cd $M
        cat lines.txt | wc -c; cat <lines.txt | wc -c
        dd if=lines.txt of=/dev/null bs=1000 2>&1 | head -3
        dd if=lines.txt bs=1000 skip=3 2>/dev/null | wc -c
        cp lines.txt $W/copy 2>&1 | grep -c 'Input/output error'; stat -c %s $W/copy
        cat hello.txt";
    says(
        under(
            "bad_sector",
            "fault.rule=read+path=/lines.txt+offset=2500+errno=EIO",
            script,
        ),
        "cat: lines.txt: Input/output error\n2500\n\
         cat: -: Input/output error\n2500\n\
         dd: error reading 'lines.txt': Input/output error\n2+1 records in\n2+1 records out\n0\n\
         1\n2500\n\
         hello, world\n",
    );
}

/// What the kernel has of a FIFO is in another file system.
#[test]
fn syncfs_of_a_fifo_is_its_drivers() {
    says(
        under(
            "syncfs_fifo",
            "fault.rule=sync+errno=EDQUOT",
            "exec 2>&1; cd $M; sync -f special/fifo; sync -f dir; sync special/fifo",
        ),
        "sync: error syncing 'special/fifo': Disk quota exceeded\n\
         sync: error syncing 'dir': Disk quota exceeded\n\
         sync: error syncing 'special/fifo': Invalid argument\n",
    );
}

/// fsync and fdatasync of a directory, and the open of one, reach the driver with its errors.
#[test]
fn a_directory_is_opened_and_synced_by_its_driver() {
    let rules = "fault.rule=sync_directory+path=/dir+errno=EDQUOT,fault.rule=open_directory+path=/real+errno=ENOLINK";
    let script = "exec 2>&1; cd $M; mkdir -p dir real; sync dir; sync -d dir; sync . && ls real";
    let want = "sync: error syncing 'dir': Disk quota exceeded\n\
         sync: error syncing 'dir': Disk quota exceeded\n\
         ls: cannot open directory 'real': Link has been severed\n";
    for driver in [Driver::Driven, Driver::Memory] {
        if !world().only_native {
            let case = case(&format!("directory-{}", driver.name()), rules).directory(driver);
            says(Some(case.through_culvert(&["bash", "-c", script])), want);
        }
    }
}

#[test]
fn any_call_fails_with_any_errno() {
    let script = "exec 2>&1; cd $M; ls hello.txt; cat hello.txt; ls dir >/dev/null; stat -f . >/dev/null; cat lines.txt | wc -l";
    let rules = "fault.rule=lookup+path=/hello.txt+errno=EHOSTDOWN,fault.rule=read_directory+errno=ENETDOWN,\
                 fault.rule=statfs+errno=ESTALE,fault.rule=open+path=/l*+errno=ENFILE";
    says(
        under("any_call", rules, script),
        "ls: cannot access 'hello.txt': Host is down\ncat: hello.txt: Host is down\n\
         ls: reading directory 'dir': Network is down\n\
         stat: cannot read file system information for '.': Stale file handle\n\
         cat: lines.txt: Too many open files in system\n0\n",
    );
}

#[test]
fn short_reads_do_not_matter_to_programs_that_are_right() {
    // Not GNU tar, which takes a short read for a file that shrank.
    let script = "cd $M; cat lines.txt | md5sum; cp -r dir $W/copy; diff -r dir $W/copy; cmp hello.txt <(cat hello.txt)
        grep -c 9 lines.txt; sort -r lines.txt | head -2; gzip -c lines.txt | md5sum
        python3 -c 'print(len(open(\"lines.txt\").read()))'";
    for how in ["random", "1", "4095"] {
        case(
            &format!("short_reads-{how}"),
            &format!("fault.rule=read+short={how}"),
        )
        .odd()
        .good(script);
    }
}

#[test]
fn short_writes_do_not_matter_to_programs_that_are_right() {
    let script = r#"cd $M; seq 1 5000 > lines; md5sum lines; cp lines copy; cmp lines copy; cat lines >> copy; md5sum copy
        mkdir x; (cd /usr/share; tar c common-licenses) | tar x -C x; diff -r /usr/share/common-licenses x/common-licenses; dd if=lines of=blocks bs=777 2>/dev/null; cmp lines blocks
        python3 - <<'END'
import sqlite3
base = sqlite3.connect("base.db")
base.execute("create table t (n integer primary key, text)")
with base:
    base.executemany("insert into t values (?, ?)", ((n, str(n) * 50) for n in range(2000)))
with base:
    base.execute("delete from t where n % 3 = 0")
print(base.execute("select count(*), sum(length(text)) from t").fetchall(), base.execute("pragma integrity_check").fetchall())
END
        ls"#;
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        case(
            &format!("short_writes-{}", driver.name()),
            "fault.rule=read+write+short=random",
        )
        .directory(driver)
        .good(script);
    }
}

#[test]
fn the_same_faults_come_every_time() {
    let script = "cd $M; for i in $(seq 60); do echo; done | while read; do head -c 5 hello.txt 2>/dev/null || printf x; done";
    let count = "fault.count=run,fault.rule=read+probability=0.4+errno=EIO";
    let run = |name: &str, seed: &str| under(name, &format!("{count},fault.seed={seed}"), script);
    if let (Some(one), Some(two), Some(other)) =
        (run("same-1", "5"), run("same-2", "5"), run("same-3", "6"))
    {
        assert_eq!(one.text(), two.text());
        assert_ne!(one.text(), other.text());
        assert!(one.text().contains("hellox") && one.text().contains("xhello"));
    }
}

#[test]
fn each_process_counts_for_itself_unless_all_count_together() {
    let script =
        "cd $M; for i in 1 2 3 4; do head -c 1 hello.txt 2>/dev/null || printf x; done; echo";
    let rule = "fault.rule=read+after=2+errno=EIO";
    says(under("count-process", rule, script), "hhhh\n");
    let together = format!("{rule},fault.count=run");
    says(under("count-run", &together, script), "hhxx\n");
}

#[test]
fn a_signal_ends_a_delay() {
    // The signal comes again until the read ends: the first one may be there before that begins.
    let python = "import os, signal
handled = []
signal.signal(signal.SIGALRM, lambda *_: handled.append(1))
file = os.open(os.environ['M'] + '/hello.txt', os.O_RDONLY)
def read():
    handled.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    word = os.read(file, 5)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print('handled' if handled else 'not handled', word, sep='\\n')
read()
signal.siginterrupt(signal.SIGALRM, False)
read()
if os.fork() == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    os.read(file, 5)
print(os.waitstatus_to_exitcode(os.wait()[1]))";
    if world().only_native {
        return;
    }
    // Without the signals, an hour each.
    let done = case(
        "delay",
        "fault.rule=read+path=/hello.txt+every=2+delay=3600s",
    )
    .odd()
    .through_culvert(&["python3", "-c", python]);
    says(Some(done), "handled\nb'hello'\nhandled\nb', wor'\n-14\n");
}

#[test]
fn what_is_wrong_in_layers_and_rules_is_said() {
    let archive = world().tree("small", None).archive("tar");
    let mut wrong = Vec::new();
    for (number, (options, words)) in [
        (
            "layer=fualt",
            &["no layer \"fualt\"", "did you mean fault?"][..],
        ),
        (
            "fault.rule=read+errno=EIO",
            &["fault.rule", "no layer=fault stands before it"],
        ),
        (
            "layer=fault,fault.rul=x",
            &["layer fault has no option \"rul\"", "did you mean rule?"],
        ),
        (
            "layer=fault,fault.rule=reed+errno=EIO",
            &["no operation \"reed\"", "did you mean read?"],
        ),
        ("layer=fault,fault.rule=read+errno=EOI", &["errno=EOI"]),
        ("layer=fault,fault.rule=read", &["nothing is to happen"]),
        ("layer=fault,fault.count=all", &["process or run"]),
        ("layer=fault,fault.seed=-1", &["a number is needed"]),
    ]
    .into_iter()
    .enumerate()
    {
        let target = world().path("mnt");
        let volume = format!("{}:{}:{options}", archive.display(), target.display());
        refused(
            &mut wrong,
            &format!("fault::words-{number}"),
            &["-v", &volume],
            words,
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
