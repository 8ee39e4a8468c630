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
    let script = script!("fault/a_bad_sector_is_what_programs_know_of_bad_disks.sh");
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
    let script = script!("fault/any_call_fails_with_any_errno.sh");
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
    let script = script!("fault/short_reads_do_not_matter_to_programs_that_are_right.sh");
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
    let script = script!("fault/short_writes_do_not_matter_to_programs_that_are_right.sh");
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
    let script = script!("fault/the_same_faults_come_every_time.sh");
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
    let script = script!("fault/each_process_counts_for_itself_unless_all_count_together.sh");
    let rule = "fault.rule=read+after=2+errno=EIO";
    says(under("count-process", rule, script), "hhhh\n");
    let together = format!("{rule},fault.count=run");
    says(under("count-run", &together, script), "hhxx\n");
}

#[test]
fn a_signal_ends_a_delay() {
    // The signal comes again until the read ends: the first one may be there before that begins.
    let python = script!("fault/a_signal_ends_a_delay-python.py");
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
