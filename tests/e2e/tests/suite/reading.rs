//! Every call that reads, as `programs/reading.c` and `programs/looking.c` make them, each group in
//! a process of its own.

use culvert_e2e::{Case, as_each_user};

fn group(case: Case, program: &str, name: &str) {
    let case = case.odd();
    let program = case.program(program);
    case.good(&format!("cd $M && exec {program} {name}"));
}

as_each_user! {
    read |case| group(case, "reading", "read");
    positioned_and_vectored_reads |case| group(case, "reading", "positioned");
    seek |case| group(case, "reading", "seek");
    directories |case| group(case, "looking", "directory");
    stat_and_its_family |case| group(case, "looking", "stat");
    mmap |case| group(case, "reading", "mmap");
    sendfile_splice_and_copies |case| group(case, "reading", "transfer");
    fcntl_dup_ioctl_and_locks |case| group(case, "reading", "control");
    poll_select_and_epoll |case| group(case, "reading", "wait");
    extended_attributes |case| group(case, "looking", "attributes");
    open_and_its_flags |case| group(case, "looking", "open");
    a_fifo_connects_two_processes |case| {
        let case = case.odd();
        case.good(script!("reading/a_fifo_connects_two_processes.sh"));
    };
}

#[test]
fn inotify() {
    group(
        Case::new("inotify", culvert_e2e::User::Me),
        "looking",
        "watch",
    );
}
