//! Every call that reads, as `programs/reading.c` makes them, each group in a process of its own.

use culvert_e2e::{Case, as_each_user};

fn group(case: Case, name: &str) {
    let case = case.odd();
    let reading = case.program("reading");
    case.good(&format!("cd $M && exec {reading} {name}"));
}

as_each_user! {
    read |case| group(case, "read");
    positioned_and_vectored_reads |case| group(case, "positioned");
    seek |case| group(case, "seek");
    directories |case| group(case, "directory");
    stat_and_its_family |case| group(case, "stat");
    mmap |case| group(case, "mmap");
    sendfile_splice_and_copies |case| group(case, "transfer");
    fcntl_dup_ioctl_and_locks |case| group(case, "control");
    poll_select_and_epoll |case| group(case, "wait");
    extended_attributes |case| group(case, "attributes");
    open_and_its_flags |case| group(case, "open");
    a_fifo_connects_two_processes |case| {
        let case = case.odd();
        case.good("(echo through > $M/special/fifo) & cat $M/special/fifo; wait; echo $?; stat -c %F $M/special/fifo");
    };
}

#[test]
fn inotify() {
    group(Case::new("inotify", culvert_e2e::User::Me), "watch");
}
